//! Tests of `usage`: takes, the bounds with the series beyond them, and trims.

use lockgate_authn::Identity;

use super::*;

fn caller(organisation: Option<&str>, subject: &str) -> Principal {
    Principal::new(Identity::new("key", subject).in_organisation(organisation))
}

fn call(usage: &Usage, caller: &Principal, slug: &str, tool: &str) {
    let series = usage.of_call(caller, (None, slug), tool);
    series.count(Outcome::Ok, false, Duration::from_millis(3));
}

#[test]
fn outcomes_are_counted_once_and_only_reached_servers_have_durations() {
    let usage = Usage::default();
    let ann = caller(Some("acme"), "ann");
    let own = (Some("acme"), "wiki");
    usage.of_call(&ann, own, "find").count(Outcome::Ok, false, Duration::from_millis(3));
    usage.of_call(&ann, own, "find").count(Outcome::Timeout, true, Duration::from_secs(60));
    usage.of_call(&ann, own, "find").count(Outcome::Unavailable, true, Duration::ZERO);
    usage.deny(&ann, "no-files", Denial::Policy);
    usage.deny(&ann, "no-files", Denial::Policy);
    let mut taken = usage.take();
    taken.sort_by(|a, b| a.kind.cmp(b.kind));
    let [calls, denials] = &taken[..] else { panic!("{taken:?}") };
    assert_eq!((calls.calls, calls.failed, calls.durations.iter().sum::<u64>()), (3, 2, 2));
    assert_eq!((calls.server.as_str(), calls.name.as_str()), ("acme/wiki", "find"));
    assert_eq!((calls.issuer.as_str(), calls.subject.as_str()), ("key", "ann"));
    assert_eq!((denials.kind, denials.name.as_str(), denials.calls), ("policy", "no-files", 2));
    assert_eq!(denials.organisation, "acme");
    assert_eq!(usage.take(), []);
}

#[test]
fn the_first_series_beyond_the_bound_is_counted_by_tool_and_then_by_server() {
    let usage = Usage::default();
    for at in 0..MAX_SERIES {
        call(&usage, &caller(None, &format!("caller {at}")), "time", "now");
    }
    call(&usage, &caller(None, "caller 0"), "time", "now");
    call(&usage, &caller(None, "late"), "time", "now");
    call(&usage, &caller(None, "later"), "time", "now");
    let taken = usage.take();
    assert_eq!(taken.len(), MAX_SERIES + 1);
    let others: Vec<_> = taken.iter().filter(|one| one.subject.is_empty()).collect();
    assert_eq!((others[0].name.as_str(), others[0].calls), ("now", 2));
    assert_eq!(taken.iter().map(|one| one.calls).sum::<u64>(), MAX_SERIES as u64 + 3);
    for at in 0..MAX_SERIES {
        call(&usage, &caller(None, "late"), "time", &format!("tool {at}"));
    }
    let taken = usage.take();
    let rest: Vec<_> = taken.iter().filter(|one| one.name.is_empty()).collect();
    assert_eq!((rest.len(), rest[0].calls), (1, 1), "one tool had no room");
    assert_eq!(taken.iter().map(|one| one.calls).sum::<u64>(), MAX_SERIES as u64);
}

#[test]
fn an_organisation_takes_an_eighth_of_the_series_and_the_default_all() {
    let usage = Usage::default();
    for at in 0..=MAX_SERIES / ORGANISATION_DIVISOR {
        call(&usage, &caller(Some("acme"), &format!("caller {at}")), "time", "now");
    }
    call(&usage, &caller(Some("other"), "ann"), "time", "now");
    let taken = usage.take();
    let together: Vec<_> = taken.iter().filter(|one| one.subject.is_empty()).collect();
    assert_eq!((together.len(), together[0].organisation.as_str()), (1, "acme"));
    assert_eq!(taken.len(), MAX_SERIES / ORGANISATION_DIVISOR + 2);
}

#[test]
fn a_trim_keeps_used_and_running_series_and_frees_the_rest() {
    let usage = Usage::default();
    let ann = caller(None, "ann");
    let running = usage.of_call(&ann, (None, "time"), "slow");
    call(&usage, &ann, "time", "now");
    usage.trim();
    assert_eq!(usage.take().len(), 1);
    usage.trim();
    usage.trim();
    assert_eq!(usage.table.read().series.len(), 1, "only the running call");
    running.count(Outcome::Ok, false, Duration::from_millis(1));
    drop(running);
    usage.trim();
    assert_eq!(usage.take()[0].name, "slow");
    usage.trim();
    usage.trim();
    assert!(usage.table.read().series.is_empty() && usage.table.read().of_organisation.is_empty());
}

#[test]
fn names_that_a_database_may_refuse_are_changed_and_long_callers_counted_together() {
    let usage = Usage::default();
    call(&usage, &caller(None, "a\0b"), "time", &"é".repeat(MAX_NAME));
    call(&usage, &caller(None, &"x".repeat(MAX_CALLER)), "time", "now");
    let mut taken = usage.take();
    taken.sort_by(|a, b| b.subject.cmp(&a.subject));
    assert_eq!(taken[0].subject, "a?b");
    assert_eq!(taken[0].name.len(), MAX_NAME);
    assert_eq!((taken[1].issuer.as_str(), taken[1].subject.as_str()), ("", ""));
}
