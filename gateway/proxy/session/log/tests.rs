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
    let (budget, log) = log(100_000);
    log.push(text(30_000));
    log.push(text(30_000));
    assert_eq!(budget.used(), 30_000, "notes take half of the memory at most");
    log.push_awaited(text(60_000)).unwrap();
    assert_eq!((log.push_awaited(text(10_001)), budget.used()), (Err(Full), 90_000));
    log.finish(Some(text(50_000)), text(5));
    assert_eq!(budget.used(), 90_005, "words in place of an answer that does not fit");
    let mut reader = log.read(0);
    let mut sizes = Vec::new();
    while let Some(event) = reader.next().await {
        sizes.push(event.data.len());
    }
    assert_eq!(sizes, [30_000, 60_000, 5]);
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

#[tokio::test]
async fn who_resumes_learns_of_an_answer_that_was_let_go() {
    let (budget, log) = log(100_000);
    let mut others = Hold::none(Arc::clone(&budget));
    others.grow(40_000).unwrap();
    log.push_awaited(text(10)).unwrap();
    let mut reader = log.read(0);
    log.finish(Some(text(20_000)), text(7));
    assert_eq!(reader.next().await.unwrap().data.len(), 10);
    assert_eq!(reader.next().await.unwrap().data.len(), 20_000);
    assert_eq!(budget.used(), 40_017, "memory was scarce");
    let mut again = log.read(1);
    assert_eq!(again.next().await.unwrap().data.len(), 7);
    assert!(again.next().await.is_none());
    assert_eq!(log.read(0).next().await.unwrap().data.len(), 10, "what is small is kept");
}

#[tokio::test]
async fn an_answer_that_nobody_reads_leaves_half() {
    let (budget, log) = log(100_000);
    log.finish(Some(text(60_000)), text(7));
    assert_eq!(budget.used(), 7);
}
