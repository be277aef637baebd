//! What the server prints at its start.

use jiff::Timestamp;
use std::net::SocketAddr;

/// The address, how to get a token and a code, a transfer that can be pasted into a shell, and the `variables` by which
/// `ops` finds the tables.
pub(crate) fn welcome(
    address: SocketAddr,
    now: Timestamp,
    offset_ms: i64,
    variables: &[(&'static str, String)],
) -> String {
    let base = format!("http://{address}");
    let clock = if offset_ms == 0 {
        String::new()
    } else {
        format!("The clock was set: it shows {now:.0}. POST /dev/clock sets it again.\n")
    };
    let walk = walk(&base);
    let exports: String = variables.iter().map(|(name, value)| format!("export {name}={value}\n")).collect();
    format!(
        "furikomi listens on {base}\n\
         {clock}\n\
         Aoi (user aoi) has 70,000 yen to begin with, Ren (user ren) has none.\n\
         \n\
         A token:      curl -s {base}/dev/token -d '{{\"user_id\":\"aoi\",\"session_id\":\"phone\"}}'\n\
         A TOTP code:  curl -s '{base}/dev/totp?user_id=aoi'\n\
         The secrets:  curl -s {base}/dev/users     (totp_secret_base32 goes into any authenticator app)\n\
         \n\
         One transfer of 1,000 yen from Aoi to Ren, from the token to the mail. Paste it into a shell:\n\
         \n\
         {walk}\n\
         For operators, in a shell of their own as long as this server runs (cargo run -p ops -- verify):\n\
         \n\
         {exports}\n\
         A code is good for one approval: after two in a row it is one per 30 seconds. Stop with Ctrl-C."
    )
}

/// A transfer in POSIX shell, with curl and sed alone. It has no comments: an interactive zsh would run them.
pub(crate) fn walk(base: &str) -> String {
    WALK.replace("@BASE@", base)
}

const WALK: &str = r#"API=@BASE@
field() { sed -n 's/.*"'"$1"'":"\([^"]*\)".*/\1/p'; }
TOKEN=$(curl -s $API/dev/token -d '{"user_id":"aoi","session_id":"phone"}' | field token)
FROM=$(curl -s $API/v1/accounts -H "Authorization: Bearer $TOKEN" | field account_id)
TO=$(curl -s $API/dev/users | tr '{' '\n' | grep '"user_id":"ren"' | field account_id)
ASKED=$(curl -s $API/v1/transfers -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \
  -H "Idempotency-Key: walk-$(date +%Y%m%d%H%M%S)-$$" \
  -d '{"source_account_id":"'$FROM'","destination_account_id":"'$TO'","amount_minor":1000,"currency":"JPY","requester_name":"Aoi","memo":"lunch"}')
echo "$ASKED"
ID=$(echo "$ASKED" | field request_id)
HASH=$(echo "$ASKED" | field content_hash)
SHOWN=$(curl -s "$API/dev/totp?user_id=aoi")
echo "$SHOWN"
CODE=$(echo "$SHOWN" | field totp_code)
curl -s $API/v1/transfers/$ID/authorization -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \
  -d '{"totp_code":"'$CODE'","content_hash":"'$HASH'"}'; echo
curl -s -X POST $API/v1/transfers/$ID/confirmation -H "Authorization: Bearer $TOKEN"; echo
curl -s $API/v1/transfers/$ID -H "Authorization: Bearer $TOKEN"; echo
sleep 1; curl -s $API/dev/notifications; echo
"#;
