//! Tests of `activity`.

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
