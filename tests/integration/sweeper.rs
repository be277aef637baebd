//! The sweeper's fences, and what it does about notifications that nobody holds any more.

use crate::{
    bank::{Bank, Person, soon},
    client::{Client, key, transfer},
};
use sweeper::Swept;

struct Setting {
    bank: Bank,
    aoi: Person,
    ren: Person,
    phone: Client,
}

async fn setting() -> Setting {
    let bank = Bank::new().await;
    let (aoi, ren) = (bank.person("aoi", 100).await, bank.person("ren", 0).await);
    let phone = bank.client(&aoi, "s1");
    Setting { bank, aoi, ren, phone }
}

/// Items that the due index of `table` holds.
async fn due(bank: &Bank, table: &str) -> usize {
    let client = aws_sdk_dynamodb::Client::from_conf(crate::bank::sdk_config(&bank.endpoint).build());
    let scan = client.scan().table_name(table).index_name("due").send().await.unwrap();
    scan.items().len()
}

fn expired(expired: u64) -> Swept {
    Swept { expired, ..Swept::default() }
}

#[tokio::test]
async fn an_open_instruction_is_fenced_exactly_a_minute_after_its_time() {
    let on = setting().await;
    let awaiting = on.phone.request(&key("awaiting"), &transfer(&on.aoi, &on.ren, 1)).await.id();
    let authorized = on.phone.authorized(&on.bank, &key("authorized"), &transfer(&on.aoi, &on.ren, 1)).await.id();
    assert_eq!(due(&on.bank, "core").await, 2);
    on.bank.advance_s(600);
    for id in [&awaiting, &authorized] {
        assert_eq!(on.phone.status(id).await.text("result"), "RESULT_UNKNOWN", "past its time and not fenced");
    }
    assert_eq!(on.bank.sweep().await, expired(0));
    on.bank.advance_ms(59_999);
    assert_eq!(on.bank.sweep().await, expired(0));
    on.bank.advance_ms(1);
    assert_eq!(on.bank.sweep().await, expired(2));
    for id in [&awaiting, &authorized] {
        let status = on.phone.status(id).await;
        assert_eq!((status.text("state"), status.text("result")), ("EXPIRED", "NO_POSTING_CONFIRMED"));
        let last = status.body["history"].as_array().unwrap().last().unwrap().clone();
        assert_eq!((last["step"].as_str(), last["at"].as_str()), (Some("EXPIRED"), Some("2026-12-01T03:11:00.000Z")));
        let confirmed = on.phone.confirm(id).await;
        assert_eq!((confirmed.status, confirmed.code()), (409, "TR010"));
        assert_eq!((confirmed.text("result"), &confirmed.body["money_moved"]), ("NO_POSTING_CONFIRMED", &false.into()));
    }
    assert_eq!(on.bank.sweep().await, expired(0));
    assert_eq!(due(&on.bank, "core").await, 0);
    on.bank.assert_transfers(0).await;
}

#[tokio::test]
async fn closed_instructions_leave_the_index_and_are_never_fenced() {
    let on = setting().await;
    let posted = on.phone.authorized(&on.bank, &key("posted"), &transfer(&on.aoi, &on.ren, 1)).await.id();
    assert_eq!(on.phone.confirm(&posted).await.status, 200);
    assert_eq!(due(&on.bank, "core").await, 0);
    on.bank.next_step();
    let failed = on.phone.authorized(&on.bank, &key("failed"), &transfer(&on.aoi, &on.ren, 1_000)).await.id();
    assert_eq!(due(&on.bank, "core").await, 1);
    assert_eq!(on.phone.confirm(&failed).await.status, 422);
    assert_eq!(due(&on.bank, "core").await, 0);
    let cancelled = on.phone.request(&key("cancelled"), &transfer(&on.aoi, &on.ren, 1)).await.id();
    assert_eq!(on.phone.cancel(&cancelled).await.status, 200);
    assert_eq!(due(&on.bank, "core").await, 0);
    let mut before = Vec::new();
    for id in [&posted, &failed, &cancelled] {
        before.push(on.phone.status(id).await.body);
    }
    on.bank.advance_s(100_000);
    assert_eq!(on.bank.sweep().await, expired(0));
    for (id, before) in [&posted, &failed, &cancelled].into_iter().zip(before) {
        assert_eq!(on.phone.status(id).await.body, before);
    }
    on.bank.assert_transfers(1).await;
}

#[tokio::test]
async fn many_instructions_in_every_shard_are_fenced_in_one_sweep() {
    let on = setting().await;
    let template = {
        let id = on.phone.request(&key("first"), &transfer(&on.aoi, &on.ren, 1)).await.id();
        let id = shared::domain::id::RequestId::parse(&id).unwrap();
        on.bank.app.store.instruction(&on.aoi.user, &id, soon()).await.unwrap().unwrap()
    };
    let mut shards = std::collections::BTreeSet::new();
    for index in 0..900 {
        on.bank.advance_ms(12_001);
        let name = shared::domain::idempotency::IdempotencyKey::from_canonical(&key(&index.to_string())).unwrap();
        let mut instruction = template.clone();
        instruction.request_id = shared::domain::id::RequestId::derive(&on.aoi.user, &name);
        instruction.created_at = on.bank.now();
        assert!(matches!(
            on.bank.app.store.admit(&instruction, soon()).await.unwrap(),
            shared::store::admit::Admission::Admitted
        ));
    }
    let client = aws_sdk_dynamodb::Client::from_conf(crate::bank::sdk_config(&on.bank.endpoint).build());
    let indexed = client.scan().table_name("core").index_name("due").send().await.unwrap();
    for item in indexed.items() {
        shards.insert(item["due_shard"].as_s().unwrap().clone());
    }
    assert_eq!((indexed.items().len(), shards.len()), (901, 8));
    assert_eq!(on.bank.sweep().await, expired(901));
    assert_eq!(due(&on.bank, "core").await, 0);
    on.bank.assert_transfers(0).await;
}

#[tokio::test]
async fn a_fence_and_a_confirm_at_the_last_moment_agree() {
    let on = setting().await;
    on.bank.advance_s(1);
    let id = on.phone.request(&key("one"), &transfer(&on.aoi, &on.ren, 1)).await;
    on.bank.advance_s(599);
    let code = on.bank.code(&on.aoi.user, 0);
    assert_eq!(on.phone.authorize(&id.id(), &code, id.text("content_hash")).await.status, 200);
    on.bank.advance_ms(999);
    let confirmed = on.phone.confirm(&id.id()).await;
    assert_eq!(confirmed.status, 200, "a millisecond before its time has passed");
    on.bank.advance_s(61);
    assert_eq!(on.bank.sweep().await, expired(0));
    on.bank.assert_transfers(1).await;

    let late = on.phone.authorized(&on.bank, &key("late"), &transfer(&on.aoi, &on.ren, 1)).await;
    on.bank.advance_s(600);
    let refused = on.phone.confirm(&late.id()).await;
    assert_eq!((refused.status, refused.code(), refused.text("result")), (409, "TR010", "RESULT_UNKNOWN"));
    assert_eq!(refused.text("money_moved"), "unknown");
    on.bank.assert_transfers(1).await;
}
