//! Tests of `ask` policies: required approvals, their approvers, and calls without approvals.

#![allow(clippy::needless_pass_by_value, reason = "JSON is written where it is used")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::cases::{Expect, Outcome};
use crate::{Annotations, Config, Document, Policy, PolicyEntry, Question, Target, TargetKind};

fn config(policies: Value) -> Config {
    let file: file::File = serde_json::from_value(json!({ "policies": policies })).unwrap();
    let policies = file.policies.into_iter();
    let entries = policies.map(|policy| PolicyEntry { policy, line: 1, source: Value::Null });
    let document = Document { name: "test.yaml".into(), policies: entries.collect() };
    Config { documents: vec![document], ..Config::default() }
}

fn compile(policies: Value) -> Policy {
    Policy::compile(&config(policies)).unwrap()
}

fn mistakes(policy: Value) -> Vec<String> {
    let found = Policy::compile(&config(json!([policy]))).unwrap_err();
    found.into_iter().map(|one| format!("{} {}", one.path.join("."), one.what)).collect()
}

const CALLER: Subject<'static> = Subject {
    key: 1,
    issuer: "key",
    subject: "ann",
    organisation: None,
    roles: &[],
    scopes: &[],
    agent: None,
    certificate: None,
};

fn target(own: &'static str) -> Target<'static> {
    let exposed = match own {
        "drop" => "db__drop",
        _ => "db__query",
    };
    let annotations = Annotations::default();
    Target {
        kind: TargetKind::Tool,
        server: "db",
        organisation: None,
        exposed,
        own,
        category: None,
        annotations,
    }
}

fn decide(policy: &Policy, own: &'static str, arguments: &str) -> Outcome {
    let target = target(own);
    let question = Question { subject: &CALLER, endpoint: "/mcp", target: &target };
    let explained = policy.explain(&question, Some(arguments.as_bytes()));
    let outcome = policy.answer(&question, Some(arguments.as_bytes()));
    assert_eq!(explained.decision, outcome.decision.as_str());
    assert_eq!(explained.rule, outcome.rule);
    outcome
}

fn allow() -> Value {
    json!({"name": "all", "effect": "allow"})
}

#[test]
fn asking_wins_over_allowing_and_denying_over_both() {
    let ask = json!({"name": "ask", "effect": "ask", "what": {"words": ["drop"]}});
    let deny = json!({"name": "not", "effect": "deny", "what": {"tools": ["db/drop"]}});
    let asking = compile(json!([allow(), ask]));
    let asked = decide(&asking, "drop", "{}");
    assert_eq!((asked.decision, asked.rule.as_str()), (Expect::Ask, "ask"));
    assert_eq!(asked.words.unwrap(), "policy ask needs an approval of the caller");
    let other = decide(&asking, "query", "{}");
    assert_eq!((other.decision, other.rule.as_str()), (Expect::Allow, "all"));
    assert_eq!(
        decide(&compile(json!([allow(), ask, deny])), "drop", "{}").decision,
        Expect::Hidden
    );
    // An `ask` policy grants nothing: without an `allow` policy the call is hidden.
    assert_eq!(decide(&compile(json!([ask])), "drop", "{}").decision, Expect::Hidden);
}

#[test]
fn arguments_of_a_policy_that_asks_are_what_needs_no_approval() {
    let ask = json!({"name": "more", "effect": "ask",
        "arguments": {"/amount": {"optional": true, "value": {"max": 100}}}});
    let policy = compile(json!([allow(), ask]));
    assert_eq!(decide(&policy, "query", r#"{"amount": 100}"#).decision, Expect::Allow);
    assert_eq!(decide(&policy, "query", r#"{"amount": 101}"#).decision, Expect::Ask);
    // A value that the rule cannot read needs an approval; unreadable arguments are refused.
    assert_eq!(decide(&policy, "query", r#"{"amount": "7"}"#).decision, Expect::Ask);
    assert_eq!(decide(&policy, "query", r#"{"amount": 1, "amount": 9}"#).decision, Expect::Deny);
}

#[test]
fn a_condition_says_when_it_asks_and_denies_where_it_cannot_tell() {
    let ask = json!({"name": "big", "effect": "ask", "when": "arguments.amount > 100"});
    let policy = compile(json!([allow(), ask]));
    assert_eq!(decide(&policy, "query", r#"{"amount": 5}"#).decision, Expect::Allow);
    assert_eq!(decide(&policy, "query", r#"{"amount": 500}"#).decision, Expect::Ask);
    assert_eq!(decide(&policy, "query", "{}").decision, Expect::Deny);
}

#[test]
fn what_is_put_in_by_others_is_what_is_asked_about_and_forwarded() {
    let allow = json!({"name": "set", "effect": "allow", "other_arguments": "allow",
        "arguments": {"/limit": {"set": {"to": 10}}}});
    let ask = json!({"name": "ask", "effect": "ask",
        "arguments": {"/limit": {"value": {"max": 5}}}});
    let outcome = decide(&compile(json!([allow, ask])), "query", r#"{"limit": 1}"#);
    assert_eq!(outcome.decision, Expect::Ask);
    assert_eq!(outcome.forwards, Some(json!({"limit": 10})));
}

#[test]
fn several_policies_that_ask_all_have_to_be_satisfied() {
    let first = json!({"name": "a", "effect": "ask"});
    let second = json!({"name": "b", "effect": "ask",
        "approval": {"by": {"roles": ["dba", "lead"]}, "approvals": 2, "expires": 60}});
    let policy = compile(json!([allow(), second, first]));
    let question = Question { subject: &CALLER, endpoint: "/mcp", target: &target("drop") };
    let verdict = policy.verdict(&policy.class(&CALLER, "/mcp"), &question);
    let passed = policy.evaluate(&verdict, &question, Some(b"{}")).unwrap();
    let [a, b] = passed.approvals.as_slice() else { panic!("{passed:?}") };
    assert!(a.is_for_caller() && !b.is_for_caller());
    assert_eq!((b.approvals, b.expires), (2, Some(Duration::from_secs(60))));
    assert_eq!(b.needs(), "policy b needs 2 approvals by roles dba, lead");
    let roles = ["dba".into()];
    assert!(b.accepts(&Subject { roles: &roles, ..CALLER }));
    assert!(!b.accepts(&CALLER) && !a.accepts(&CALLER));
}

#[test]
fn on_trial_it_asks_nobody_and_says_that_it_would() {
    let ask = json!({"name": "trial", "effect": "ask", "dry_run": true,
        "arguments": {"/n": {"optional": true, "value": {"max": 1}}}});
    let policy = compile(json!([allow(), ask]));
    let question = Question { subject: &CALLER, endpoint: "/mcp", target: &target("drop") };
    let verdict = policy.verdict(&policy.class(&CALLER, "/mcp"), &question);
    let pass = |text: &str| policy.evaluate(&verdict, &question, Some(text.as_bytes())).unwrap();
    let big = pass(r#"{"n": 2}"#);
    assert!(big.approvals.is_empty());
    assert_eq!(big.dry_run.unwrap().reason, crate::DenyReason::Unapproved);
    assert!(pass(r#"{"n": 1}"#).dry_run.is_none());
}

#[test]
fn it_is_about_tools_alone() {
    let ask = json!({"name": "ask", "effect": "ask"});
    let policy = compile(json!([allow(), ask]));
    let target = Target { kind: TargetKind::Prompt, ..target("drop") };
    let question = Question { subject: &CALLER, endpoint: "/mcp", target: &target };
    assert_eq!(policy.answer(&question, None).decision, Expect::Allow);
    let found = mistakes(json!({"name": "p", "effect": "ask", "what": {"prompts": ["db/*"]}}));
    assert!(found[0].starts_with("what.prompts is not allowed in an `ask` policy"), "{found:?}");
}

#[test]
fn an_approval_that_nobody_could_give_is_a_mistake() {
    let with = |effect: &str, approval: Value| {
        mistakes(json!({"name": "a", "effect": effect, "approval": approval}))
    };
    let by = json!({"roles": ["dba"]});
    for (found, wanted) in [
        (with("allow", json!({"by": by})), "approval is only for an `ask` policy"),
        (with("ask", json!({"approvals": 2})), "approval.approvals needs a `by`"),
        (with("ask", json!({"by": by, "approvals": 11})), "approval.approvals must be from 1"),
        (with("ask", json!({"by": by, "approvals": 0})), "approval.approvals must be from 1"),
        (with("ask", json!({"expires": 0})), "approval.expires must be from 1"),
        (with("ask", json!({"expires": 3601})), "approval.expires must be from 1"),
        (with("ask", json!({"by": {}})), "approval.by is empty: name the approvers"),
        (with("ask", json!({"by": {"roles": []}})), "approval.by.roles is empty"),
        (
            with("ask", json!({"by": {"roles": ["["]}})),
            "approval.by.roles.0 is not a valid pattern",
        ),
        (
            with("ask", json!({"by": {"principals": ["ann"]}})),
            "approval.by.principals.0 matches no",
        ),
        (with("ask", json!({"by": {"anonymous": true}})), "approval.by.anonymous cannot be true"),
    ] {
        assert!(found.iter().any(|one| one.starts_with(wanted)), "{found:?}, not {wanted}");
    }
    let set = json!({"name": "a", "effect": "ask", "arguments": {"/a": {"set": {"to": 1}}}});
    assert!(mistakes(set)[0].contains("is only for an `allow` policy"));
}

proptest! {
    /// More `ask` policies never allow a call that was denied before, and never allow a call
    /// without its approval.
    #[test]
    fn asking_only_ever_takes_away(
        effects in proptest::collection::vec(prop_oneof!["allow", "deny", "ask"], 0..8),
        limits in proptest::collection::vec(0..4_i64, 8),
        sent in 0..5_i64,
    ) {
        let mut all = Vec::new();
        for (at, effect) in effects.iter().enumerate() {
            let mut one = json!({"name": format!("p{at}"), "effect": effect});
            if limits[at] > 0 {
                one["arguments"] = json!({"/n": {"value": {"max": limits[at]}}});
            }
            all.push(one);
        }
        let arguments = json!({"n": sent}).to_string();
        let without: Vec<Value> = all.iter().filter(|one| one["effect"] != "ask").cloned().collect();
        let asks = |one: &Value| {
            let max = one["arguments"]["/n"]["value"]["max"].as_i64();
            one["effect"] == "ask" && max.is_none_or(|max| sent > max)
        };
        let before = decide(&compile(Value::Array(without)), "drop", &arguments).decision;
        let after = decide(&compile(Value::Array(all.clone())), "drop", &arguments).decision;
        let wanted = match before {
            Expect::Allow if all.iter().any(asks) => Expect::Ask,
            other => other,
        };
        prop_assert_eq!(after, wanted);
    }
}
