//! An account that is closed while money is on its way to it.

use crate::{
    bank::{Bank, Person, soon},
    client::{key, transfer},
    faults::{TRANSACTION, setting, wire::Fault},
};
use shared::{
    domain::{
        account::{Account, AccountStatus},
        id::{AccountId, TransferId},
        money::Amount,
    },
    store::{
        accounts::AccountChange,
        orders::{Answer, Funding, Order},
    },
};

fn order(bank: &Bank, command: &str) -> Order {
    Order::new("mio", command, bank.now(), &bank.app.zone)
}

/// Orders that the account be closed if it is empty, as `ops accounts close` does.
async fn close(bank: &Bank, person: &Person) -> Answer<Account> {
    let decide = |read: &Account| match read.balance_minor {
        0 => Ok(AccountChange { status: Some(AccountStatus::Closed), ..AccountChange::default() }),
        balance => Err(format!("has {balance}")),
    };
    let store = &bank.app.store;
    store.order_change(&person.account, decide, &order(bank, "accounts close"), soon()).await.unwrap()
}

/// Orders a deposit of 500 from the bank's own account.
async fn deposit(bank: &Bank, person: &Person) -> Funding {
    let store = &bank.app.store;
    let internal = AccountId::parse("internal-JPY").unwrap();
    let (internal, customer) = (store.account(&internal, soon()).await.unwrap().unwrap(), bank.account(person).await);
    let transfer = TransferId::of_deposit(&customer.id, "a-deposit");
    let amount = Amount::parse(500).unwrap();
    store.order_deposit(transfer, (&internal, &customer), amount, &order(bank, "deposit"), soon()).await.unwrap()
}

#[tokio::test]
async fn an_account_that_money_reaches_while_it_is_closed_stays_open() {
    for by_deposit in [true, false] {
        let on = setting().await;
        let phone = on.bank.client(&on.aoi, "s1");
        let id = phone.authorized(&on.bank, &key("one"), &transfer(&on.aoi, &on.ren, 500)).await.id();
        on.wire.always(TRANSACTION, Fault::Gate);
        let (closed, ()) = tokio::join!(close(&on.there, &on.ren), async {
            on.wire.held().await;
            if by_deposit {
                assert!(matches!(deposit(&on.bank, &on.ren).await, Funding::Posted(_)));
            } else {
                assert_eq!(phone.confirm(&id).await.status, 200);
            }
            on.wire.open_gate();
        });
        assert_eq!(closed, Answer::Refused("has 500".to_owned()));
        let account = on.bank.account(&on.ren).await;
        assert_eq!((account.status, account.balance_minor), (AccountStatus::Active, 500));
        let deposits = on.bank.books().await.journals.iter().filter(|journal| journal.request_id.is_none()).count();
        assert_eq!(deposits, if by_deposit { 2 } else { 1 }, "Aoi's funds, and this deposit");
        on.bank.assert_transfers(usize::from(!by_deposit)).await;
    }
}

#[tokio::test]
async fn money_that_is_on_its_way_to_an_account_that_is_closed_does_not_arrive() {
    for by_deposit in [true, false] {
        let on = setting().await;
        let phone = on.there.client(&on.aoi, "s1");
        let id = phone.authorized(&on.bank, &key("one"), &transfer(&on.aoi, &on.ren, 500)).await.id();
        on.wire.always(TRANSACTION, Fault::Gate);
        let closing = async {
            on.wire.held().await;
            assert!(matches!(close(&on.bank, &on.ren).await, Answer::Done { .. }));
            on.wire.open_gate();
        };
        if by_deposit {
            let (funding, ()) = tokio::join!(deposit(&on.there, &on.ren), closing);
            assert_eq!(funding, Funding::Refused("ac_ren is CLOSED".to_owned()));
        } else {
            let (answer, ()) = tokio::join!(phone.confirm(&id), closing);
            assert_eq!((answer.status, answer.code()), (422, "TR005"), "{}", answer.body);
        }
        let account = on.bank.account(&on.ren).await;
        assert_eq!((account.status, account.balance_minor), (AccountStatus::Closed, 0));
        assert_eq!(on.bank.balance(&on.aoi).await, 900_000);
        on.bank.assert_transfers(0).await;
    }
}
