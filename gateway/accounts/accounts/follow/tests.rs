//! Many changes at once.

use lockgate_egress::Connector;

use super::*;
use crate::account::tests::{egress, storage};
use crate::holder::{Holder, new_record, record_id};

#[tokio::test]
async fn a_burst_of_changes_reaches_their_receivers() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(folder.path());
    let connector = Arc::new(Connector::new(&egress()).unwrap());
    let accounts = Accounts::new(connector, Some(storage.clone()));
    let mut changes = accounts.changes();
    let burst = MAX_CHANGES + 1;
    for number in 0..burst {
        let holder = Holder::new("acme", "keys", &format!("user{number}"));
        let record = new_record(&record_id(&holder, "a"), &holder, "a");
        storage.store.write_grant(&record, None, None).await.unwrap();
    }
    let received = tokio::spawn(async move {
        for number in 0..burst {
            let change = changes.recv().await.expect("no change is lost");
            assert_eq!(*change.holder.subject, *format!("user{number}"));
        }
    });
    accounts.read_changes(&storage, &mut Some(0)).await.unwrap();
    received.await.unwrap();
    // A receiver that does not go on loses changes, and delays others once.
    let mut stuck = accounts.changes();
    let began = tokio::time::Instant::now();
    accounts.read_changes(&storage, &mut Some(0)).await.unwrap();
    assert!(began.elapsed() < RECEIVE_TIMEOUT * 5, "{:?}", began.elapsed());
    assert!(stuck.recv().await.is_err());
}
