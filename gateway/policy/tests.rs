//! Tests of `policy`.

use std::time::Duration;

use super::*;

fn lists(allow: &[&str], deny: &[&str]) -> Allow {
    let own = |globs: &[&str]| globs.iter().map(|&g| g.to_owned()).collect();
    Allow { allow: own(allow), deny: own(deny) }
}

fn config(servers: Allow, tools: Allow) -> Config {
    let all = || lists(&["*"], &[]);
    Config { servers, tools, prompts: all(), resources: all(), calls_per_minute: Some(2), completions_per_minute: 1 }
}

#[test]
fn deny_overrides_allow_and_nothing_is_allowed_by_silence() {
    let policy =
        Policy::compile(&config(lists(&["*"], &["secret"]), lists(&["git__*", "time/now"], &["git__push*"]))).unwrap();
    let allowed = |slug: &str, own: &str| policy.tool(slug, &format!("{slug}__{own}"), own);
    assert_eq!(allowed("git", "log"), Decision::Allow);
    assert_eq!(allowed("git", "push_force"), Decision::Deny("policy.tools.deny"));
    assert_eq!(allowed("time", "now"), Decision::Allow);
    assert_eq!(allowed("time", "zones"), Decision::Deny("policy.tools.allow"));
    assert_eq!(allowed("secret", "now"), Decision::Deny("policy.servers.deny"));
    assert_eq!(policy.resource("secret", "secret+file:///a", "file:///a"), Decision::Deny("policy.servers.deny"));
    let none = Policy::compile(&config(lists(&[], &[]), lists(&["*"], &[]))).unwrap();
    assert_eq!(none.tool("a", "a__b", "b"), Decision::Deny("policy.servers.allow"));
}

#[test]
fn a_glob_that_does_not_compile_is_named() {
    let error = Policy::compile(&config(lists(&["*"], &[]), lists(&["a{"], &[]))).unwrap_err();
    assert_eq!((error.setting.as_str(), error.glob.as_str()), ("policy.tools.allow", "a{"));
}

#[test]
fn rates_stop_at_the_edge_for_each_caller_alone() {
    let rates = Rates::new(&config(lists(&["*"], &[]), lists(&["*"], &[])));
    assert!(rates.call(1).is_ok() && rates.call(1).is_ok());
    let wait = rates.call(1).unwrap_err();
    assert!(wait > Duration::from_secs(20) && wait <= Duration::from_secs(30), "{wait:?}");
    assert!(rates.call(2).is_ok());
    assert!(rates.completion(1).is_ok() && rates.completion(1).is_err());
}
