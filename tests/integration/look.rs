//! The database seen from outside of the code under test, and what tests ask of answers.

use crate::{
    bank::{Bank, Person, sdk_config, tables},
    client::{Answer, Client, key, transfer},
};
use aws_sdk_dynamodb::{Client as DynamoDb, types::AttributeValue};
use shared::store::schema::Item;
use std::collections::{BTreeMap, HashMap};

/// Every item of every table, by table and key.
pub(crate) type Snapshot = BTreeMap<(String, String, String), Item>;

/// The text of an attribute.
pub(crate) fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

/// The number of an attribute.
pub(crate) fn number(value: i64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

fn item_key(pk: &str, sk: &str) -> Item {
    HashMap::from([("pk".to_owned(), text(pk)), ("sk".to_owned(), text(sk))])
}

impl Bank {
    fn dynamodb(&self) -> DynamoDb {
        DynamoDb::from_conf(sdk_config(&self.endpoint).build())
    }

    /// Everything that is stored, for telling whether a call changed anything.
    pub(crate) async fn snapshot(&self) -> Snapshot {
        let (tables, mut snapshot) = (tables(), Snapshot::new());
        for table in [tables.core, tables.ledger, tables.outbox, tables.notifications] {
            for item in self.app.store.scan(&table).await.unwrap() {
                let part = |name: &str| item[name].as_s().unwrap().clone();
                snapshot.insert((table.clone(), part("pk"), part("sk")), item);
            }
        }
        snapshot
    }

    /// Asserts that nothing was written since `before`.
    pub(crate) async fn assert_unchanged(&self, before: &Snapshot, context: &str) {
        let after = self.snapshot().await;
        let changed: Vec<_> = after.iter().filter(|(key, item)| before.get(*key) != Some(item)).collect();
        assert!(changed.is_empty() && before.len() == after.len(), "{context}: {changed:?}");
    }

    /// The item at a key, read by nobody's code.
    pub(crate) async fn item(&self, table: &str, pk: &str, sk: &str) -> Item {
        let get = self.dynamodb().get_item().table_name(table).set_key(Some(item_key(pk, sk)));
        get.consistent_read(true).send().await.unwrap().item.unwrap()
    }

    /// Puts an item, whatever the code under test thinks of it.
    pub(crate) async fn put_item(&self, table: &str, item: Item) {
        self.dynamodb().put_item().table_name(table).set_item(Some(item)).send().await.unwrap();
    }

    /// Removes an item.
    pub(crate) async fn remove_item(&self, table: &str, pk: &str, sk: &str) {
        let delete = self.dynamodb().delete_item().table_name(table).set_key(Some(item_key(pk, sk)));
        delete.send().await.unwrap();
    }

    /// Sets one attribute of an item.
    pub(crate) async fn set_attribute(&self, table: &str, pk: &str, sk: &str, name: &str, value: AttributeValue) {
        let mut item = self.item(table, pk, sk).await;
        item.insert(name.to_owned(), value);
        self.put_item(table, item).await;
    }

    /// Takes one attribute out of an item.
    pub(crate) async fn remove_attribute(&self, table: &str, pk: &str, sk: &str, name: &str) {
        let mut item = self.item(table, pk, sk).await;
        item.remove(name).unwrap();
        self.put_item(table, item).await;
    }

    /// The attribute of a user's TOTP record as a number.
    pub(crate) async fn totp_number(&self, person: &Person, name: &str) -> i64 {
        let item = self.item("core", &format!("USER#{}", person.user), "TOTP").await;
        item.get(name).map_or(0, |value| value.as_n().unwrap().parse().unwrap())
    }

    /// Up to five instructions of `client`, authorized and usable all at once, each by a code of its own. The clock is
    /// turned on by a minute for five, and the admission window is used up.
    pub(crate) async fn ready(&self, client: &Client, bodies: &[serde_json::Value], name: &str) -> Vec<String> {
        let mut ids = Vec::new();
        for (index, body) in bodies.iter().enumerate() {
            // Codes of the last, this and the next step, then of the next one after each turn.
            let offset = match index {
                0 => -1,
                1 => 0,
                2 => 1,
                _ => {
                    self.next_step();
                    1
                }
            };
            let requested = client.request(&key(&format!("{name}-{index}")), body).await;
            assert_eq!(requested.status, 201, "{:?}", requested.body);
            let code = self.code(&client.user, offset);
            let authorized = client.authorize(&requested.id(), &code, requested.text("content_hash")).await;
            assert_eq!(authorized.status, 200, "{:?}", authorized.body);
            ids.push(requested.id());
        }
        ids
    }
}

/// A bank where Aoi has `balance_minor` and Ren has nothing, and Aoi's device.
pub(crate) async fn aoi_and_ren(balance_minor: i64) -> (Bank, Person, Person, Client) {
    let bank = Bank::new().await;
    let (aoi, ren) = (bank.person("aoi", balance_minor).await, bank.person("ren", 0).await);
    let phone = bank.client(&aoi, "s1");
    (bank, aoi, ren, phone)
}

/// An instruction of Aoi's that waits for its authorization.
pub(crate) async fn requested(phone: &Client, aoi: &Person, ren: &Person, amount_minor: i64) -> Answer {
    let answer = phone.request(&key(&format!("of-{amount_minor}")), &transfer(aoi, ren, amount_minor)).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    answer
}

impl Answer {
    /// Status and code of a problem.
    pub(crate) fn problem(&self) -> (u16, &str) {
        (self.status, self.code())
    }

    /// A header's value; empty if it is not there.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Where the faults of a TR003 are: JSON pointers, `?parameters` and header names.
    pub(crate) fn places(&self) -> Vec<String> {
        let place = |error: &serde_json::Value| {
            let word = |name: &str| error[name].as_str().map(str::to_owned);
            word("pointer").or_else(|| word("header")).or_else(|| word("parameter").map(|p| format!("?{p}"))).unwrap()
        };
        self.body["errors"].as_array().map_or_else(Vec::new, |errors| errors.iter().map(place).collect())
    }

    /// Asserts that this is a problem as RFC 9457 and the contract have it.
    pub(crate) fn assert_problem(&self, status: u16, code: &str, context: &str) {
        assert_eq!(self.problem(), (status, code), "{context}: {}", self.body);
        assert_eq!(self.header("content-type"), "application/problem+json", "{context}");
        assert_eq!(self.header("cache-control"), "no-store", "{context}");
        assert_eq!(self.body["status"], status, "{context}");
        assert!(self.text("type").starts_with("/problems/"), "{context}: {}", self.body);
        for member in ["title", "trace_id", "retry_with"] {
            assert!(!self.text(member).is_empty(), "{context} lacks {member}: {}", self.body);
        }
        assert!(!self.body["money_moved"].is_null(), "{context}: {}", self.body);
        let wait = self.body["retry_after_s"].as_i64().map_or(String::new(), |seconds| seconds.to_string());
        assert_eq!(self.header("retry-after"), wait, "{context}");
    }
}
