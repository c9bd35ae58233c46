//! Tests of `activity`.

use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use super::*;

fn heard(receiver: &mut watch::Receiver<u64>) -> bool {
    let has_changed = receiver.has_changed().unwrap();
    receiver.mark_unchanged();
    has_changed
}

#[test]
fn an_organisation_hears_of_its_own_and_operators_of_all() {
    let activity = Activity::default();
    activity.tell("acme");
    let mut acme = activity.listen(Some("acme"));
    let mut globex = activity.listen(Some("globex"));
    let mut all = activity.listen(None);
    assert!(!heard(&mut acme) && !heard(&mut globex) && !heard(&mut all));
    activity.tell("acme");
    activity.tell("acme");
    assert!(heard(&mut acme) && !heard(&mut globex) && heard(&mut all));
    activity.tell("globex");
    assert!(!heard(&mut acme) && heard(&mut globex) && heard(&mut all));
}

#[test]
fn nothing_is_kept_of_those_who_have_left() {
    let activity = Activity::default();
    drop(activity.listen(Some("acme")));
    let globex = activity.listen(Some("globex"));
    assert_eq!(activity.channels.lock().len(), 1);
    drop(globex);
    activity.tell("globex");
    assert!(activity.channels.lock().is_empty());
    assert!(!activity.is_heard.load(Ordering::Relaxed));
    let mut again = activity.listen(Some("globex"));
    activity.tell("globex");
    assert!(heard(&mut again));
}

#[test]
fn a_report_after_a_position_is_noticed_by_a_later_subscriber() {
    let activity = Activity::default();
    let before = activity.position(Some("acme"));
    assert!(before.is_new && before.told.is_none());
    assert!(!activity.position(Some("acme")).is_new);
    assert_eq!(*activity.listen(Some("acme")).borrow(), before.count, "nothing has happened");
    activity.tell("globex");
    assert_eq!(activity.position(Some("acme")).count, before.count, "of others");
    activity.tell("acme");
    assert_ne!(*activity.listen(Some("acme")).borrow(), before.count);
    assert!(activity.position(Some("acme")).told.is_some());
}

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
