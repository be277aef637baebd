//! People of the tests' own: an account, a phone with an authenticator, and ways to be told.

use crate::stack::Stack;
use data_encoding::{BASE32_NOPAD, BASE64URL_NOPAD};
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use shared::{
    domain::{
        id::{AccountId, UserId},
        totp::{STEP_S, TotpSecret, step_at},
    },
    random,
};
use tokio::sync::Mutex;

/// A customer.
pub(crate) struct Person {
    pub(crate) user: UserId,
    pub(crate) account: AccountId,
    pub(crate) name: String,
    pub(crate) email: String,
    pub(crate) push: String,
    secret: TotpSecret,
    /// The last step whose code was used.
    last_step: Mutex<i64>,
}

impl Person {
    /// Opens an account with a balance, a verified identity, both channels and an authenticator, all by `ops`.
    pub(crate) async fn new(stack: &Stack, name: &str, balance_minor: i64) -> Self {
        let number = letters(10);
        let user = UserId::parse(&format!("{name}-{number}")).unwrap();
        let account = AccountId::parse(&format!("ac_{name}_{number}")).unwrap();
        let holder = format!("{name} {}", letters(12));
        let (email, push) = (format!("{user}@example.com"), phone(stack, &user).await);
        let (user_arg, account_arg) = (user.as_str(), account.as_str());
        let open = ["accounts", "open", account_arg, "--owner", user_arg, "--name", &holder, "--currency", "JPY"];
        stack.order(&open).await;
        stack.order(&["identity", "verify", account_arg]).await;
        if balance_minor > 0 {
            let amount = balance_minor.to_string();
            stack.order(&["deposit", account_arg, &amount, "--reference", "opening"]).await;
        }
        let contact = ["contacts", "set", user_arg, "--locale", "en", "--email", &email, "--push", &push];
        stack.order(&contact).await;
        let shown = stack.order(&["totp", "enroll", user_arg, "--show"]).await;
        let secret = secret_of(shown["totp_secret_base32"].as_str().unwrap());
        let person = Self { user, account, name: holder, email, push, secret, last_step: Mutex::default() };
        stack.keep_secret(&person.name);
        stack.keep_secret(&person.secret.to_base32());
        person
    }

    /// A code that was not used yet. Three follow each other at once; then it is one per 30 seconds.
    pub(crate) async fn code(&self, stack: &Stack) -> String {
        let mut last = self.last_step.lock().await;
        loop {
            let now = step_at(Timestamp::now());
            // The oldest is taken only if it cannot grow too old on its way.
            let is_early = Timestamp::now().as_second().rem_euclid(STEP_S) < STEP_S / 2;
            let step = (*last + 1).max(if is_early { now - 1 } else { now });
            if step <= now + 1 {
                *last = step;
                let code = self.secret.code_at(step).to_string();
                stack.keep_secret(&code);
                return code;
            }
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        }
    }
}

/// A secret from its base-32 form.
pub(crate) fn secret_of(base32: &str) -> TotpSecret {
    TotpSecret::new(&BASE32_NOPAD.decode(base32.as_bytes()).unwrap(), "furikomi", "somebody").unwrap()
}

/// Random letters, to tell the runs on one stack apart.
pub(crate) fn letters(count: usize) -> String {
    random::name().chars().filter(char::is_ascii_alphanumeric).take(count).collect::<String>().to_lowercase()
}

/// A phone that push messages go to.
async fn phone(stack: &Stack, user: &UserId) -> String {
    let application = stack.sns.create_platform_application().name("furikomi").platform("GCM");
    let application = application.attributes("PlatformCredential", "e2e").send().await.unwrap();
    let endpoint = stack.sns.create_platform_endpoint();
    let endpoint = endpoint.platform_application_arn(application.platform_application_arn().unwrap());
    endpoint.token(format!("phone-of-{user}")).send().await.unwrap().endpoint_arn.unwrap()
}

/// The claims of a token, unverified.
///
/// # Errors
/// If it is none.
pub(crate) fn token_claims(token: &str) -> Result<Value, String> {
    let payload = token.split('.').nth(1).ok_or("infra/stack token printed no token")?;
    let payload = BASE64URL_NOPAD.decode(payload.as_bytes()).map_err(|error| error.to_string())?;
    serde_json::from_slice(&payload).map_err(|error| error.to_string())
}

impl Stack {
    /// The claims of a good token.
    pub(crate) fn claims(&self, user: &UserId, session: &str) -> Value {
        let (now, (_, _, good)) = (Timestamp::now().as_second(), &self.issuer);
        json!({ "iss": good["iss"], "aud": good["aud"], "sub": user.as_str(), "sid": session, "iat": now, "exp": now + 3600 })
    }

    /// A token with these claims, signed by the issuer.
    pub(crate) fn sign(&self, claims: &Value) -> String {
        let (key, id, _) = &self.issuer;
        self.sign_as(Algorithm::ES256, Some(id.clone()), key, claims)
    }

    /// A token with these claims, signed as told.
    pub(crate) fn sign_as(
        &self,
        algorithm: Algorithm,
        kid: Option<String>,
        key: &EncodingKey,
        claims: &Value,
    ) -> String {
        let token = jsonwebtoken::encode(&Header { kid, ..Header::new(algorithm) }, claims, key).unwrap();
        self.keep_secret(&token);
        token
    }
}
