//! Changes of limits that a posting overtakes.

use super::{Fault, UPDATE, setting};
use crate::{
    bank::{Bank, Person},
    client::{key, transfer},
};
use shared::store::accounts::AccountChange;

async fn pay(bank: &Bank, from: &Person, to: &Person) {
    bank.next_step();
    let phone = bank.client(from, "s1");
    let authorized = phone.authorized(bank, &key(from.user.as_str()), &transfer(from, to, 10)).await;
    assert_eq!(phone.confirm(&authorized.id()).await.status, 200);
}

#[tokio::test]
async fn a_day_that_begins_while_a_limit_is_changed_moves_with_it_though_the_balance_is_back() {
    let on = setting().await;
    on.wire.next(UPDATE, [Fault::Gate]);
    let lowered = AccountChange { daily_amount_minor: Some(400_000), ..AccountChange::default() };
    tokio::join!(on.there.change(&on.aoi, lowered), async {
        on.wire.held().await;
        // There and back: the day has begun, and the balance is what it was.
        pay(&on.bank, &on.aoi, &on.ren).await;
        pay(&on.bank, &on.ren, &on.aoi).await;
        on.wire.open_gate();
    });
    let account = on.bank.account(&on.aoi).await;
    assert_eq!(account.balance_minor, 900_000);
    let left = account.left_on(on.bank.app.zone.day(on.bank.now()));
    assert_eq!((left.amount_minor, left.count), (399_990, 99));
    on.bank.assert_transfers(2).await;
}
