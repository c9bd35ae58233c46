//! Tests of `tool_news`.

use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use super::*;

fn call(number: u64) -> EndedCall {
    EndedCall {
        caller: number,
        issuer: "key".into(),
        subject: "one".into(),
        server: "docs".into(),
        tool: "docs__t".into(),
        outcome: Outcome::Ok,
        duration: Duration::from_millis(1),
    }
}

#[tokio::test]
async fn calls_are_told_in_the_organisation_of_their_caller_alone() {
    let news = ToolNews::default();
    news.tell_call("acme", || panic!("nobody listens"));
    let mut acme = news.calls("acme");
    let mut other = news.calls("other");
    news.tell_call("acme", || Some(call(1)));
    news.tell_call("third", || panic!("nobody listens there"));
    assert_eq!(acme.recv().await.unwrap().caller, 1);
    assert_eq!(other.try_recv().unwrap_err(), TryRecvError::Empty);
    drop(acme);
    news.tell_call("acme", || panic!("nobody listens any more"));
    assert_eq!(news.calls.lock().len(), 1, "what nobody listens to is let go");
    drop(other);
    news.tell_call("other", || panic!("nobody listens any more"));
    assert!(!news.is_heard.load(Ordering::Relaxed));
}

#[tokio::test]
async fn a_slow_listener_is_told_that_it_lost_calls_and_the_others_lose_none() {
    let news = ToolNews::default();
    let mut slow = news.calls("acme");
    let mut quick = news.calls("acme");
    let most = MAX_BUFFERED_CALLS as u64 + 44;
    for number in 0..most {
        news.tell_call("acme", || Some(call(number)));
        assert_eq!(quick.recv().await.unwrap().caller, number);
    }
    assert!(matches!(slow.recv().await, Err(RecvError::Lagged(44))), "the oldest are lost");
    assert_eq!(slow.recv().await.unwrap().caller, 44, "and it goes on with the next");
}
