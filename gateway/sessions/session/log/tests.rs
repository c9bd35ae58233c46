//! Tests of `log`.

#![allow(clippy::unwrap_used)]

use super::*;

fn said(words: &'static str) -> Text {
    Bytes::from(words).into()
}

fn text(bytes: usize) -> Text {
    Text::from(vec![b'x'; bytes])
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
    // Delivered messages are not kept for resumption while memory is scarce.
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

#[tokio::test]
async fn progress_that_nobody_has_read_gives_way_to_newer() {
    let (budget, log) = log(100_000);
    for step in ["1", "2", "3"] {
        log.push_progress(step.into());
    }
    log.push(said("note"));
    log.push_progress("4".into());
    log.push_progress("5".into());
    assert_eq!(budget.used(), "3note5".len());
    let mut reader = log.read(0);
    assert_eq!(reader.next().await.unwrap().data.into_bytes(), "3");
    assert_eq!(reader.next().await.unwrap().data.into_bytes(), "note");
    assert_eq!(reader.next().await.unwrap().data.into_bytes(), "5");
    log.push_progress("6".into());
    log.push_progress("7".into());
    assert_eq!(
        reader.next().await.unwrap().data.into_bytes(),
        "7",
        "what was read stays, and numbers go on"
    );
    log.finish(Some(said("answer")), said("words"));
    assert_eq!(reader.next().await.unwrap().data.into_bytes(), "answer");
    let mut again = log.read(0);
    assert_eq!(again.next().await.unwrap().data.into_bytes(), "3", "for a client that resumes");
}

#[tokio::test]
async fn the_same_news_is_told_once_until_it_is_read() {
    let (_, log) = log(100_000);
    for _ in 0..1000 {
        log.push_once("changed".into()).unwrap();
    }
    let mut reader = log.read(0);
    assert_eq!(reader.next().await.unwrap().data.into_bytes(), "changed");
    log.push_once("changed".into()).unwrap();
    assert_eq!(reader.next().await.unwrap().data.into_bytes(), "changed");
    log.finish(None, Text::default());
    assert!(reader.next().await.is_none());
}
