//! Tests of `log`.

#![allow(clippy::unwrap_used)]

use super::*;

fn text(bytes: usize) -> Bytes {
    Bytes::from(vec![b'x'; bytes])
}

fn log(bytes: usize) -> (Arc<Budget>, Arc<Log>) {
    let budget = Arc::new(Budget::new(bytes));
    (Arc::clone(&budget), Arc::new(Log::new(1, 100, budget)))
}

#[tokio::test]
async fn what_waits_counts_and_what_can_be_done_without_gives_way() {
    let (budget, log) = log(100);
    log.push(text(30));
    log.push(text(30));
    assert_eq!(budget.used(), 30, "notes take half of the memory at most");
    log.push_awaited(text(60)).unwrap();
    assert_eq!((log.push_awaited(text(11)), budget.used()), (Err(Full), 90));
    log.finish(Some(text(50)), || text(5));
    assert_eq!(budget.used(), 95, "words in place of an answer that does not fit");
    let mut reader = log.read(0);
    let mut sizes = Vec::new();
    while let Some(event) = reader.next().await {
        sizes.push(event.data.len());
    }
    assert_eq!(sizes, [30, 60, 5]);
    // While memory is scarce, what was delivered is not kept for a client that resumes.
    assert_eq!(budget.used(), 5);
    drop((reader, log));
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn what_was_delivered_is_kept_while_there_is_room() {
    let (budget, log) = log(1000);
    log.push(text(30));
    assert_eq!(log.read(0).next().await.unwrap().data.len(), 30);
    assert_eq!(log.read(0).next().await.unwrap().data.len(), 30, "resumed");
    assert_eq!(budget.used(), 30);
}
