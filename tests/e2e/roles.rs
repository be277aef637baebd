//! Every role is refused what it must not do. For engines that check permissions; the others do as they are told.

use crate::{
    Suite,
    people::Person,
    processes::environment_of,
    stack::{Stack, sqs_config, until},
};
use aws_sdk_dynamodb::{
    config::Credentials,
    error::ProvideErrorMetadata,
    types::{AttributeValue, Put, TransactWriteItem},
};
use serde_json::json;
use shared::store::schema::Item;
use std::{collections::HashMap, sync::Arc};

pub(crate) fn add(suite: &mut Suite) {
    let is_checked = suite.stack.is_ministack;
    suite.test("every_role_is_refused_what_it_must_not_do", refused);
    let trial = suite.trials.pop().unwrap();
    suite.trials.push(trial.with_ignored_flag(!is_checked));
}

/// Something that a role must not do.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Read(&'static str),
    Put(&'static str),
    PutInTransaction(&'static str),
    Delete(&'static str),
    Send(&'static str),
    Encrypt,
    Decrypt,
}

/// What each role is refused.
const REFUSED: &[(&str, &[Deed])] = {
    use Deed::{Decrypt, Delete, Encrypt, Put, PutInTransaction, Read, Send};
    &[
        ("request", &[PutInTransaction("LedgerTable"), PutInTransaction("OutboxTable"), Put("CoreTable"), Decrypt]),
        ("authorize", &[Read("LedgerTable"), PutInTransaction("LedgerTable"), Encrypt]),
        ("confirm", &[Put("LedgerTable"), Read("LedgerTable"), Delete("CoreTable"), Put("OutboxTable"), Decrypt]),
        ("cancel", &[Read("LedgerTable"), PutInTransaction("LedgerTable"), Decrypt]),
        ("status", &[Put("CoreTable"), PutInTransaction("CoreTable"), Put("LedgerTable"), Decrypt]),
        ("enroll", &[Read("LedgerTable"), PutInTransaction("LedgerTable")]),
        ("accounts", &[Put("LedgerTable"), PutInTransaction("LedgerTable"), Put("CoreTable"), Decrypt]),
        ("relay", &[Read("CoreTable"), Read("OutboxTable"), Put("OutboxTable"), Read("LedgerTable")]),
        (
            "notifier",
            &[Read("LedgerTable"), Put("LedgerTable"), PutInTransaction("LedgerTable"), Send("EventsQueueUrl")],
        ),
        (
            "sweeper",
            &[
                Read("LedgerTable"),
                PutInTransaction("LedgerTable"),
                Put("OutboxTable"),
                Send("EventsDeadLetterQueueUrl"),
            ],
        ),
    ]
};

async fn refused(stack: Arc<Stack>) {
    let person = Person::new(&stack, "aoi", 1_000).await;
    wake(&stack, &person).await;
    for (function, deeds) in REFUSED {
        let name = format!("furikomi-{function}");
        let environment = until(&format!("a process of {function} runs"), async || environment_of(&name)).await;
        let environment: HashMap<String, String> = environment.into_iter().collect();
        let role = Role { stack: &stack, environment };
        for deed in *deeds {
            let code = role.code_of(*deed).await;
            let is_denied = code.as_deref().is_some_and(|code| code.contains("AccessDenied"));
            assert!(is_denied, "{function} and {deed:?}: {code:?}");
        }
    }
}

/// Calls every function behind the API, so that each has a process. The others run by themselves.
async fn wake(stack: &Stack, person: &Person) {
    let client = stack.login(person, "phone");
    let nobodys = format!("ti_{}", "a".repeat(32));
    client.get("/v1/accounts").await;
    client.request("short", &json!({})).await;
    client.authorize(&nobodys, "123456", "").await;
    client.confirm(&nobodys).await;
    client.cancel(&nobodys).await;
    client.status(&nobodys).await;
    client.post("/v1/totp/activation", &[], &json!({ "totp_code": "000000" })).await;
}

/// A function's own credentials.
struct Role<'a> {
    stack: &'a Stack,
    environment: HashMap<String, String>,
}

impl Role<'_> {
    fn variable(&self, name: &str) -> String {
        self.environment.get(name).cloned().unwrap_or_else(|| panic!("the function has no {name}"))
    }

    fn region(&self) -> String {
        self.variable("AWS_REGION")
    }

    /// The one type of credentials that all clients share.
    fn credentials(&self) -> Credentials {
        let [id, secret, token] =
            ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"].map(|name| self.variable(name));
        Credentials::new(id, secret, Some(token), None, "role")
    }

    /// The error code of doing it; none if it was done.
    async fn code_of(&self, deed: Deed) -> Option<String> {
        match deed {
            Deed::Send(queue) => {
                let config = sqs_config(&self.stack.endpoint, &self.region(), Some(self.credentials()));
                let send = aws_sdk_sqs::Client::from_conf(config).send_message();
                let sent = send.queue_url(self.stack.output(queue)).message_body("from a role").send().await;
                sent.err().and_then(|error| error.code().map(str::to_owned))
            }
            Deed::Encrypt | Deed::Decrypt => self.code_of_key(matches!(deed, Deed::Encrypt)).await,
            _ => self.code_of_item(deed).await,
        }
    }

    async fn code_of_item(&self, deed: Deed) -> Option<String> {
        let item: Item = ["pk", "sk"].map(|name| (name.to_owned(), AttributeValue::S("E2E#role".to_owned()))).into();
        let client = aws_sdk_dynamodb::Client::from_conf(self.dynamodb());
        let table = |name: &str| self.stack.output(name);
        match deed {
            Deed::Read(name) => code(client.get_item().table_name(table(name)).set_key(Some(item)).send().await),
            Deed::Delete(name) => code(client.delete_item().table_name(table(name)).set_key(Some(item)).send().await),
            Deed::PutInTransaction(name) => {
                let put = Put::builder().table_name(table(name)).set_item(Some(item)).build().unwrap();
                let write = TransactWriteItem::builder().put(put).build();
                code(client.transact_write_items().transact_items(write).send().await)
            }
            Deed::Put(name) => code(client.put_item().table_name(table(name)).set_item(Some(item)).send().await),
            _ => unreachable!("{deed:?} is about no item"),
        }
    }

    async fn code_of_key(&self, encrypts: bool) -> Option<String> {
        let config = aws_sdk_kms::Config::builder()
            .behavior_version(aws_sdk_kms::config::BehaviorVersion::latest())
            .region(aws_sdk_kms::config::Region::new(self.region()))
            .credentials_provider(self.credentials())
            .endpoint_url(&self.stack.endpoint)
            .build();
        let (client, key) = (aws_sdk_kms::Client::from_conf(config), self.stack.output("TotpKeyArn"));
        let bytes = aws_sdk_kms::primitives::Blob::new(b"from a role".to_vec());
        if encrypts {
            code(client.encrypt().key_id(key).plaintext(bytes).send().await)
        } else {
            code(client.decrypt().key_id(key).ciphertext_blob(bytes).send().await)
        }
    }

    fn dynamodb(&self) -> aws_sdk_dynamodb::Config {
        aws_sdk_dynamodb::Config::builder()
            .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::latest())
            .region(aws_sdk_dynamodb::config::Region::new(self.region()))
            .credentials_provider(self.credentials())
            .endpoint_url(&self.stack.endpoint)
            .build()
    }
}

/// The error's code; none if there was no error.
fn code<T, E: ProvideErrorMetadata>(outcome: Result<T, E>) -> Option<String> {
    outcome.err().map(|error| error.code().unwrap_or("an error without a code").to_owned())
}
