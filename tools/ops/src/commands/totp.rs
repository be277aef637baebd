//! `ops totp`.

use crate::{
    answer::{Answer, Fault},
    cli::Totp,
    ops::Ops,
};
use serde_json::json;
use shared::{
    domain::{
        id::UserId,
        totp::{SECRET_BYTES, SecretFault, TotpSecret},
    },
    random,
    store::{orders, totp::Sealed},
};
use zeroize::Zeroizing;

/// Does what `command` says.
///
/// # Errors
/// [`Fault`].
pub async fn run(ops: &Ops, command: Totp) -> Result<Answer, Fault> {
    match command {
        Totp::Reset { user } => reset(ops, &user).await,
        Totp::Enroll { user, .. } => enroll(ops, &user).await,
    }
}

async fn reset(ops: &Ops, user: &UserId) -> Result<Answer, Fault> {
    let (record, said) = match ops.store.order_totp_reset(user, &ops.order("totp reset")?, ops.deadline()).await? {
        orders::Answer::Done { after, .. } => (after, "done"),
        orders::Answer::Unchanged(record) => (record, "unchanged: there is no secret"),
        orders::Answer::Refused(why) => return Err(Fault::Refused(why)),
        orders::Answer::Missing => return Err(Fault::Refused(format!("{user} never enrolled"))),
    };
    let locked_for_s = record.locked_for_s(ops.now());
    let lock = locked_for_s.map_or_else(String::new, |left| format!("\nlocked for {left} s more"));
    let text = format!("{said}\n{user} has to enrol anew, in the app{lock}");
    let json = json!({
        "user_id": user.as_str(),
        "changed": said == "done",
        "enrolled": false,
        "failures": record.failures,
        "locked_for_s": locked_for_s,
    });
    Ok(Answer::good(json, text))
}

/// An operator who knows a customer's secret could pay in the customer's name: so only where nothing is real.
async fn enroll(ops: &Ops, user: &UserId) -> Result<Answer, Fault> {
    if !ops.is_local {
        return Err(Fault::Usage(
            "totp enroll is for a stack on this machine: AWS_ENDPOINT_URL does not name one".to_owned(),
        ));
    }
    let cipher = ops.cipher.as_ref();
    let cipher = cipher.ok_or_else(|| Fault::Usage("FURIKOMI_KMS_KEY or FURIKOMI_LOCAL_KEY is missing".to_owned()))?;
    let unusable = |fault: SecretFault| Fault::Usage(fault.to_string());
    let bytes = Zeroizing::new(random::bytes::<SECRET_BYTES>());
    let secret = TotpSecret::new(bytes.as_slice(), &ops.totp_issuer, user.as_str()).map_err(unusable)?;
    let (uri, base32) = (secret.otpauth_uri().map_err(unusable)?, secret.to_base32());
    let sealed = Sealed { ciphertext: cipher.seal(user, secret.as_bytes()).await?, version: random::name() };
    let order = ops.order("totp enroll")?;
    match ops.store.order_totp_enrolment(user, &sealed, &order, ops.deadline()).await? {
        orders::Answer::Done { .. } | orders::Answer::Unchanged(()) => {}
        orders::Answer::Refused(why) => return Err(Fault::Refused(why)),
        orders::Answer::Missing => return Err(Fault::Refused(format!("there is no {user}"))),
    }
    let json = json!({
        "user_id": user.as_str(),
        "totp_secret_base32": base32.as_str(),
        "otpauth_uri": uri.as_str(),
    });
    let text = format!("in force; it is not shown again\nsecret        {}\n{}", base32.as_str(), uri.as_str());
    Ok(Answer::good(json, text))
}
