//! A look that falls between a posting's parts, as a batch read can: it is not of one moment.

use crate::{
    client::{key, transfer},
    faults::{BATCH_READ, setting, wire::Fault},
};

#[tokio::test]
async fn a_look_torn_between_instruction_and_journal_is_made_once_more() {
    // The table whose part comes later: the other's is of before the posting, or after it.
    for later in ["ledger", "core"] {
        let on = setting().await;
        let phone = on.there.client(&on.aoi, "s1");
        let elsewhere = on.bank.client(&on.aoi, "s1");
        let id = phone.authorized(&on.there, &key("one"), &transfer(&on.aoi, &on.ren, 40_000)).await.id();
        on.wire.take(BATCH_READ);
        on.wire.next(BATCH_READ, [Fault::Unprocessed(later), Fault::Gate]);
        let (status, ()) = tokio::join!(phone.status(&id), async {
            on.wire.held().await;
            assert_eq!(elsewhere.confirm(&id).await.status, 200);
            on.wire.open_gate();
        });
        // An open instruction with a journal, or a completed one without: neither is what is answered.
        assert_eq!((status.status, status.text("result")), (200, "FINANCIAL_COMMITTED"), "{later}");
        assert_eq!(status.text("state"), "COMPLETED");
        assert!(on.wire.take(BATCH_READ).len() >= 3, "the pair was read anew");
        on.bank.assert_transfers(1).await;
    }
}
