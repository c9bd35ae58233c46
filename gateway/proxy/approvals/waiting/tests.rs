//! Eligibility and number of approvers, and votes that arrive too late.

use std::time::Duration;

use lockgate_authn::Identity;
use lockgate_policy::{
    Config, Document, Policy, PolicyEntry, Question, Subject, Target, TargetKind, file,
};

use super::*;

fn limits(approvals: usize) -> Limits {
    Limits { approvals, approvals_per_principal: 2, ..Limits::default() }
}

fn principal(name: &str, roles: &[&str]) -> Principal {
    let mut identity = Identity::new("key", name);
    identity.roles = roles.iter().map(|role| Arc::from(*role)).collect();
    Principal::new(identity)
}

fn user(principal: &Principal) -> Approver<'_> {
    Approver { principal, is_operator: false }
}

/// Returns the approval rules of policies with these approvals.
fn rules(approvals: &[Value]) -> Vec<Arc<ApprovalRule>> {
    let mut policies = vec![json!({"name": "all", "effect": "allow"})];
    for (at, approval) in approvals.iter().enumerate() {
        let name = format!("p{at}");
        policies.push(json!({"name": name, "effect": "ask", "approval": approval}));
    }
    let file: file::File = serde_json::from_value(json!({ "policies": policies })).unwrap();
    let entries = file.policies.into_iter();
    let entries = entries.map(|policy| PolicyEntry { policy, line: 0, source: Value::Null });
    let document = Document { name: "p.yaml".into(), policies: entries.collect() };
    let config = Config { documents: vec![document], ..Config::default() };
    let policy = Policy::compile(&config).unwrap();
    let caller = Subject::default();
    let target = Target {
        kind: TargetKind::Tool,
        server: "a",
        organisation: None,
        exposed: "a__b",
        own: "b",
        category: None,
        annotations: Default::default(),
    };
    let question = Question { subject: &caller, endpoint: "/mcp", target: &target };
    let verdict = policy.verdict(&policy.class(&caller, "/mcp"), &question);
    policy.evaluate(&verdict, &question, None).unwrap().approvals
}

fn call(
    id: &str,
    requester: &Principal,
    rules: Vec<Arc<ApprovalRule>>,
) -> (WaitingCall, oneshot::Receiver<Ending>) {
    let expires = SystemTime::now() + Duration::from_secs(60);
    WaitingCall::new(id.into(), requester.clone(), json!({"tool": "a__b"}), rules, expires)
}

#[test]
fn every_policy_gets_its_number_of_different_people() {
    let needed = rules(&[
        json!({"by": {"roles": ["dba"]}, "approvals": 2}),
        json!({"by": {"roles": ["lead"]}}),
    ]);
    let ann = principal("ann", &["dba", "lead"]);
    let calls = WaitingCalls::default();
    let (waiting, mut receiver) = call("1", &ann, needed);
    let _permit = calls.hold(waiting, &limits(3)).unwrap();
    let vote = |who: &Principal, approve: bool| calls.vote("1", user(who), approve, &|_| Ok(()));
    let bob = principal("bob", &["dba"]);
    let eve = principal("eve", &["dba"]);
    let joe = principal("joe", &["lead"]);
    assert_eq!(vote(&ann, true).err(), Some(ApproverError::Own));
    assert_eq!(vote(&ann, false).err(), Some(ApproverError::Own));
    assert_eq!(vote(&principal("sue", &["other"]), false).err(), Some(ApproverError::Unknown));
    assert_eq!(vote(&bob, true).unwrap().1["state"], "waiting");
    assert_eq!(vote(&bob, true).err(), Some(ApproverError::Twice));
    // Identity does not depend on roles.
    assert_eq!(vote(&principal("bob", &["lead"]), true).err(), Some(ApproverError::Twice));
    assert_eq!(vote(&joe, true).unwrap().1["state"], "waiting");
    let listed = calls.list(user(&eve));
    let wanted = json!([
        {"policy": "p0", "approvals": 1, "needed": 2},
        {"policy": "p1", "approvals": 1, "needed": 1},
    ]);
    assert_eq!((listed.len(), &listed[0].1["policies"]), (1, &wanted));
    assert!(calls.list(user(&ann)).is_empty());
    assert!(receiver.try_recv().is_err());
    assert_eq!(vote(&eve, true).unwrap().1["state"], "approved");
    assert_eq!(receiver.try_recv(), Ok(Ending::Approved(vec![bob, joe, eve.clone()])));
    assert_eq!(vote(&eve, false).err(), Some(ApproverError::Unknown), "it is over");
}

#[test]
fn one_who_denies_is_enough_also_after_having_approved() {
    let needed = || rules(&[json!({"by": {"roles": ["dba"]}, "approvals": 2})]);
    let ann = principal("ann", &[]);
    let bob = principal("bob", &["dba"]);
    let calls = WaitingCalls::default();
    let (waiting, mut receiver) = call("1", &ann, needed());
    let permit = calls.hold(waiting, &limits(3)).unwrap();
    calls.vote("1", user(&bob), true, &|_| Ok(())).unwrap();
    assert_eq!(calls.vote("1", user(&bob), false, &|_| Ok(())).unwrap().1["state"], "denied");
    assert_eq!(receiver.try_recv(), Ok(Ending::Denied(bob.clone())));
    drop(permit);
    assert_eq!(calls.len(), 0);
    // The caller has gone, so a vote is refused.
    let (waiting, receiver) = call("2", &ann, needed());
    let _permit = calls.hold(waiting, &limits(3)).unwrap();
    drop(receiver);
    assert_eq!(calls.vote("2", user(&bob), false, &|_| Ok(())).err(), Some(ApproverError::Unknown));
}

#[test]
fn as_many_wait_as_may() {
    let needed = || rules(&[json!({"by": {"roles": ["dba"]}})]);
    let ann = principal("ann", &[]);
    let bob = principal("bob", &[]);
    let calls = WaitingCalls::default();
    let hold = |id: &str, who: &Principal| calls.hold(call(id, who, needed()).0, &limits(3));
    let one = hold("1", &ann).unwrap();
    let _two = hold("2", &ann).unwrap();
    assert_eq!(hold("3", &ann).err(), Some(Exhausted::Principal));
    let _three = hold("3", &bob).unwrap();
    assert_eq!(hold("4", &bob).err(), Some(Exhausted::All));
    drop(one);
    let _four = hold("4", &bob).unwrap();
}

#[test]
fn an_approval_that_is_not_recorded_does_not_count() {
    let needed = rules(&[json!({"by": {"roles": ["dba"]}, "approvals": 2})]);
    let ann = principal("ann", &[]);
    let bob = principal("bob", &["dba"]);
    let calls = WaitingCalls::default();
    let (waiting, _receiver) = call("1", &ann, needed);
    let _permit = calls.hold(waiting, &limits(3)).unwrap();
    let vote = |record: RecordVote<'_>| calls.vote("1", user(&bob), true, record);
    let unrecorded = vote(&|_| Err(ApproverError::Unrecorded));
    assert_eq!(unrecorded.err(), Some(ApproverError::Unrecorded));
    assert_eq!(vote(&|_| Ok(())).unwrap().1["policies"][0]["approvals"], 1);
}

#[test]
fn approvers_are_of_the_organisation_unless_they_run_the_gateway_or_are_named() {
    let in_acme = |name: &str, organisation: &str, roles: &[&str]| {
        let mut identity = Identity::new("key", name).in_organisation(Some(organisation));
        identity.roles = roles.iter().map(|role| Arc::from(*role)).collect();
        Principal::new(identity)
    };
    let requester = in_acme("ann", "acme", &[]);
    let by_role = rules(&[json!({"by": {"roles": ["dba"]}})]);
    let by_name = rules(&[json!({"by": {"organisations": ["security"]}})]);
    let seen = |approver: Approver<'_>, rules: &[Arc<ApprovalRule>]| {
        let (call, _receiver) = call("1", &requester, rules.to_vec());
        let calls = WaitingCalls::default();
        let _permit = calls.hold(call, &limits(3)).unwrap();
        calls.list(approver).len()
    };
    for (approver, is_operator, of_role, of_name) in [
        (in_acme("bob", "acme", &["dba"]), false, 1, 0),
        (in_acme("bob", "other", &["dba"]), false, 0, 0),
        (in_acme("bob", "other", &["dba", "operator"]), false, 0, 0),
        (in_acme("bob", "other", &["dba"]), true, 1, 0),
        (in_acme("bob", "security", &[]), false, 0, 1),
        (in_acme("ann", "acme", &["dba"]), false, 0, 0),
        (in_acme("ann", "other", &["dba"]), true, 0, 0),
    ] {
        let who = Approver { principal: &approver, is_operator };
        let seen = (seen(who, &by_role), seen(who, &by_name));
        assert_eq!(seen, (of_role, of_name), "{approver:?} {is_operator}");
    }
}

#[test]
fn an_organisation_with_many_keys_leaves_half_of_the_approvals_to_others() {
    let limits = limits(8);
    let waiting = WaitingCalls::default();
    let hold = |number: usize, organisation: &str| {
        let identity = Identity::new("key", &format!("key {}", number / 2));
        let requester = Principal::new(identity.in_organisation(Some(organisation)));
        let (call, _) = call(&format!("{organisation} {number}"), &requester, Vec::new());
        waiting.hold(call, &limits)
    };
    let mut held: Vec<_> = (0..4).map(|number| hold(number, "acme").unwrap()).collect();
    assert_eq!(hold(4, "acme").err(), Some(Exhausted::Organisation));
    let others: Vec<_> = (0..4).map(|number| hold(number, "other").unwrap()).collect();
    assert_eq!(hold(0, "third").err(), Some(Exhausted::All));
    held.pop();
    held.push(hold(5, "acme").unwrap());
    drop((held, others));
    assert_eq!((waiting.len(), waiting.shares.holders()), (0, 0), "nothing is left behind");
}
