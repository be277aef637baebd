//! `POST /v1/transfers/{request_id}/confirmation`.

use crate::{
    bank::Bank,
    client::{key, transfer},
};

#[tokio::test]
async fn a_confirmed_transfer_moves_the_money_once() {
    let bank = Bank::new().await;
    let (aoi, ren) = (bank.person("aoi", 70_000).await, bank.person("ren", 0).await);
    let phone = bank.client(&aoi, "s1");
    let authorized = phone.authorized(&bank, &key("one"), &transfer(&aoi, &ren, 40_000)).await;

    let confirmed = phone.confirm(&authorized.id()).await;

    assert_eq!(confirmed.status, 200, "{:?}", confirmed.body);
    assert_eq!(confirmed.text("result"), "FINANCIAL_COMMITTED");
    assert_eq!((bank.balance(&aoi).await, bank.balance(&ren).await), (30_000, 40_000));
    bank.assert_transfers(1).await;

    let again = phone.confirm(&authorized.id()).await;
    assert_eq!(again.status, 200);
    assert!(again.is_replayed() && !confirmed.is_replayed());
    assert_eq!(again.body, confirmed.body);
    assert_eq!((bank.balance(&aoi).await, bank.balance(&ren).await), (30_000, 40_000));
    bank.assert_transfers(1).await;
}
