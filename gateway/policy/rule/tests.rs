//! Tests of `rule`: each key of `who` and `what` alone, in pairs, and against each caller and
//! target, through the index and by the policy alone.

#![allow(clippy::needless_pass_by_value, reason = "JSON is written where it is used")]

use serde_json::{Value, json};

use super::*;
use crate::cases::Expect;
use crate::file::File;
use crate::{ANONYMOUS, Certificate, Config, Document, Policy, PolicyEntry, Question};

fn policy(policies: Value) -> Policy {
    let file: File = serde_json::from_value(json!({ "policies": policies })).unwrap();
    let entry = |policy| PolicyEntry { policy, line: 1, source: Value::Null };
    let document = Document {
        name: "test.yaml".into(),
        policies: file.policies.into_iter().map(entry).collect(),
    };
    Policy::compile(&Config { documents: vec![document], ..Config::default() }).unwrap()
}

/// Returns whether a policy with these keys applies, checked through the index and by the policy
/// alone, for both effects.
fn is_about(keys: Value, subject: &Subject<'_>, endpoint: &str, target: &Target<'_>) -> bool {
    let with = |effect: &str| {
        let mut one = json!({"name": "one", "effect": effect});
        one.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        one
    };
    let question = Question { subject, endpoint, target };
    let allowing = policy(json!([with("allow")]));
    let denying = policy(json!([with("deny"), {"name": "open", "effect": "allow"}]));
    let about = allowing.rules[0].misfits(subject, endpoint, target).is_empty();
    let visible =
        |policy: &Policy| policy.verdict(&policy.class(subject, endpoint), &question).is_visible();
    assert_eq!((visible(&allowing), visible(&denying)), (about, !about), "{keys}");
    // Completions of a hidden prompt are hidden, regardless of `completion`.
    if !matches!(target.kind, TargetKind::PromptCompletion | TargetKind::ResourceCompletion) {
        assert_eq!(allowing.explain(&question, None).decision == "allow", about, "{keys}");
        assert_eq!(denying.explain(&question, None).decision == "hidden", about, "{keys}");
    }
    about
}

const TOOL: Target<'static> = Target {
    kind: TargetKind::Tool,
    server: "db",
    organisation: None,
    exposed: "db__query",
    own: "query",
    category: Some("database"),
    annotations: Annotations {
        read_only: true,
        destructive: false,
        idempotent: true,
        open_world: false,
    },
};

/// Each key with a pattern that matches the caller below, and with another that does not.
const WHO: [(&str, &str, &str); 8] = [
    ("principals", "key|ci", "key|cd"),
    ("roles", "operator", "editor"),
    ("organisations", "acme", "other"),
    ("scopes", "db:read", "db:write"),
    ("agents", "ide/*", "other"),
    ("certificates", "dns:ci.example.com", "dns:cd.example.com"),
    ("certificates", "uri:spiffe://a/ci", "email:ci@example.com"),
    ("certificates", "sha256:ab12", "sha256:cd34"),
];

fn known(ask: impl Fn(&Subject<'_>)) {
    let names = ["dns:ci.example.com".into(), "uri:spiffe://a/ci".into()];
    let (roles, scopes) = (["reader".into(), "operator".into()], ["db:read".into()]);
    ask(&Subject {
        key: 1,
        issuer: "key",
        subject: "ci",
        organisation: Some("acme"),
        roles: &roles,
        scopes: &scopes,
        agent: Some("ide/2"),
        certificate: Some(Certificate { names: &names, fingerprint: "ab12" }),
    });
}

#[test]
fn each_key_of_who_has_to_fit() {
    let nobody = Subject { issuer: ANONYMOUS, subject: "anyone", ..Subject::default() };
    for (key, fits, other) in WHO {
        known(|subject| {
            assert!(is_about(json!({"who": {key: [fits]}}), subject, "/mcp", &TOOL), "{key}");
            assert!(
                is_about(json!({"who": {key: [other, fits]}}), subject, "/mcp", &TOOL),
                "{key}"
            );
            assert!(!is_about(json!({"who": {key: [other]}}), subject, "/mcp", &TOOL), "{key}");
            for (beside, fitting, misfit) in WHO.into_iter().filter(|(beside, ..)| *beside != key) {
                for (keys, about) in [
                    (json!({key: [fits], beside: [fitting]}), true),
                    (json!({key: [fits], beside: [misfit]}), false),
                    (json!({key: [other], beside: [misfit]}), false),
                    (json!({key: [fits], beside: [fitting], "anonymous": true}), false),
                    (json!({key: [fits], beside: [fitting], "anonymous": false}), true),
                ] {
                    assert_eq!(
                        is_about(json!({ "who": keys }), subject, "/mcp", &TOOL),
                        about,
                        "{keys}"
                    );
                }
            }
        });
        assert!(!is_about(json!({"who": {key: [fits]}}), &nobody, "/mcp", &TOOL), "{key}");
    }
    assert!(is_about(json!({"who": {"principals": ["anonymous|anyone"]}}), &nobody, "/mcp", &TOOL));
}

#[test]
fn who_is_anonymous_is_told_from_who_is_not() {
    let nobody = Subject { issuer: ANONYMOUS, subject: "anyone", ..Subject::default() };
    let somebody = Subject { issuer: "key", subject: ANONYMOUS, ..Subject::default() };
    assert!(
        nobody.is_anonymous() && !somebody.is_anonymous() && !Subject::default().is_anonymous()
    );
    assert_eq!(
        (nobody.principal(), somebody.principal()),
        ("anonymous|anyone".into(), "key|anonymous".into())
    );
    for (who, anonymous) in [(&nobody, true), (&somebody, false)] {
        for wanted in [true, false] {
            let about = is_about(json!({"who": {"anonymous": wanted}}), who, "/mcp", &TOOL);
            assert_eq!(about, wanted == anonymous, "{wanted} {anonymous}");
        }
        let condition =
            policy(json!([{"name": "one", "effect": "allow", "when": "subject.anonymous"}]));
        let answer =
            condition.answer(&Question { subject: who, endpoint: "/mcp", target: &TOOL }, None);
        assert_eq!(answer.decision == Expect::Allow, anonymous);
    }
}

#[test]
fn a_certificate_goes_by_its_names_and_its_fingerprint_alone() {
    let names = ["dns:a.example".into(), "cn:a".into()];
    let held = Some(Certificate { names: &names, fingerprint: "00ff" });
    let subject = Subject { certificate: held, ..Subject::default() };
    assert_eq!(subject.certificates(), ["dns:a.example", "cn:a", "sha256:00ff"]);
    assert!(Subject::default().certificates().is_empty());
}

#[test]
fn each_key_of_what_has_to_fit() {
    const WHAT: [(&str, &str, &str); 8] = [
        ("tools", "db__query", "db__other"),
        ("tools", "db/que*", "other/query"),
        ("words", "query", "que"),
        ("not_words", "que", "query"),
        ("servers", "d?", "web"),
        ("not_servers", "web", "db"),
        ("categories", "database", "web"),
        ("endpoints", "/mcp", "/servers/db/mcp"),
    ];
    known(|subject| {
        for (key, fits, other) in WHAT {
            assert!(is_about(json!({"what": {key: [fits]}}), subject, "/mcp", &TOOL), "{key}");
            assert!(!is_about(json!({"what": {key: [other]}}), subject, "/mcp", &TOOL), "{key}");
            for (beside, fitting, misfit) in WHAT.into_iter().filter(|(beside, ..)| *beside != key)
            {
                assert!(is_about(
                    json!({"what": {key: [fits], beside: [fitting]}}),
                    subject,
                    "/mcp",
                    &TOOL
                ));
                assert!(!is_about(
                    json!({"what": {key: [fits], beside: [misfit]}}),
                    subject,
                    "/mcp",
                    &TOOL
                ));
            }
            assert!(!is_about(
                json!({"who": {"roles": ["x"]}, "what": {key: [fits]}}),
                subject,
                "/mcp",
                &TOOL
            ));
        }
        let plain = Target { category: None, ..TOOL };
        assert!(!is_about(json!({"what": {"categories": ["database"]}}), subject, "/mcp", &plain));
        assert!(is_about(
            json!({"what": {"endpoints": ["/servers/*"]}}),
            subject,
            "/servers/db/mcp",
            &TOOL
        ));
    });
}

#[test]
fn each_hint_of_a_tool_has_to_be_as_it_is_wanted() {
    let hints = ["read_only", "destructive", "idempotent", "open_world"];
    let has = |bits: usize| Annotations {
        read_only: bits & 1 > 0,
        destructive: bits & 2 > 0,
        idempotent: bits & 4 > 0,
        open_world: bits & 8 > 0,
    };
    known(|subject| {
        for bits in 0..16 {
            let target = Target { annotations: has(bits), ..TOOL };
            for (at, hint) in hints.into_iter().enumerate() {
                for wanted in [true, false] {
                    let keys = json!({"what": {"annotations": {hint: wanted}}});
                    assert_eq!(
                        is_about(keys, subject, "/mcp", &target),
                        (bits >> at & 1 > 0) == wanted,
                        "{hint} {bits}"
                    );
                }
            }
            for wanted in 0..16 {
                let all: Value = hints
                    .into_iter()
                    .enumerate()
                    .map(|(at, hint)| (hint, wanted >> at & 1 > 0))
                    .collect();
                assert_eq!(
                    is_about(json!({"what": {"annotations": all}}), subject, "/mcp", &target),
                    wanted == bits
                );
            }
        }
        let prompt = Target { kind: TargetKind::Prompt, ..TOOL };
        assert!(!is_about(
            json!({"what": {"annotations": {"read_only": true}}}),
            subject,
            "/mcp",
            &prompt
        ));
    });
}

/// Words match every spelling of a tool's own name, and no other kind of item.
#[test]
fn words_fit_a_tool_however_its_name_is_spelled() {
    let about = |what: Value, own: &str, kind: TargetKind| {
        let exposed = format!("drop-box__{own}");
        let target = Target { kind, server: "drop-box", exposed: &exposed, own, ..TOOL };
        is_about(json!({ "what": what }), &Subject::default(), "/mcp", &target)
    };
    let final_words = || json!({"words": ["delete", "drop", "force push"]});
    for own in ["delete_all", "fileDelete", "DELETE", "dropTable2", "a-drop", "gitForcePush"] {
        assert!(about(final_words(), own, TargetKind::Tool), "{own}");
        assert!(
            !about(json!({"not_words": ["delete", "drop", "force push"]}), own, TargetKind::Tool),
            "{own}"
        );
        assert!(!about(
            json!({"words": ["delete", "drop"], "not_words": ["^delete", "{drop,push}*", "file"]}),
            own,
            TargetKind::Tool
        ));
    }
    for own in ["undelete", "list", "dropdown", "push_force"] {
        assert!(!about(final_words(), own, TargetKind::Tool), "{own}");
        assert!(
            about(json!({"not_words": ["delete", "drop", "force push"]}), own, TargetKind::Tool),
            "{own}"
        );
    }
    assert!(about(json!({"tools": ["drop-box/*"], "words": ["get"]}), "get_x", TargetKind::Tool));
    assert!(!about(json!({"tools": ["other/*"], "words": ["get"]}), "get_x", TargetKind::Tool));
    for kind in [
        TargetKind::Prompt,
        TargetKind::Resource,
        TargetKind::PromptCompletion,
        TargetKind::ResourceCompletion,
    ] {
        assert!(
            !about(json!({"words": ["delete"]}), "delete", kind)
                && !about(json!({"not_words": ["x"]}), "delete", kind)
        );
    }
}

/// A server with unknown tools is visible if words may match one of them, or if words deny only
/// some.
#[test]
fn a_server_is_there_where_words_may_fit() {
    let reaches = |policies: Value| {
        let policy = policy(policies);
        policy.reaches(&policy.class(&Subject::default(), "/mcp"), "db")
    };
    let named = |effect: &str, what: Value| json!({"name": effect, "effect": effect, "what": what});
    assert!(reaches(json!([named("allow", json!({"words": ["get"]}))])));
    assert!(reaches(json!([named("allow", json!({})), named("deny", json!({"words": ["get"]}))])));
    assert!(!reaches(json!([named("allow", json!({"prompts": ["other/*"], "words": ["get"]}))])));
    let whole = named("deny", json!({"servers": ["db"]}));
    let mut limits = whole.clone();
    limits["response"] = json!({"max_bytes": 100});
    assert!(!reaches(json!([named("allow", json!({})), whole])));
    assert!(reaches(json!([named("allow", json!({})), limits])), "it only limits responses");
}

#[test]
fn resources_are_hidden_unless_all_are_allowed() {
    let hides_none = |policies: Value| {
        let policy = policy(policies);
        policy.hides_no_resource(&policy.class(&Subject::default(), "/mcp"), "db")
    };
    let named = |effect: &str, what: Value| json!({"name": effect, "effect": effect, "what": what});
    let all = || named("allow", json!({}));
    for others in [
        vec![],
        vec![named("deny", json!({"tools": ["x"]}))],
        vec![named("deny", json!({"words": ["delete"]}))],
        vec![named("deny", json!({"resources": ["*"], "servers": ["other"]}))],
    ] {
        let policies = [vec![all()], others].concat();
        assert!(hides_none(json!(policies)), "{policies:?}");
    }
    assert!(hides_none(json!([named("allow", json!({"resources": ["*"]}))])));
    for policies in [
        json!([]),
        json!([named("allow", json!({"resources": ["db+x://*"]}))]),
        json!([named("allow", json!({"tools": ["*"]}))]),
        json!([all(), named("deny", json!({"resources": ["other+x://a"]}))]),
        json!([all(), named("deny", json!({"categories": ["file"]}))]),
        json!([{"name": "a", "effect": "allow", "what": {}, "when": "target.name.endsWith('.key')"}]),
    ] {
        assert!(!hides_none(policies.clone()), "{policies}");
    }
}

/// A list of one kind covers no other. A completion follows its item, unless it is named itself.
#[test]
fn each_kind_has_its_own_list() {
    let kinds = [
        TargetKind::Tool,
        TargetKind::Prompt,
        TargetKind::Resource,
        TargetKind::PromptCompletion,
        TargetKind::ResourceCompletion,
    ];
    known(|subject| {
        for kind in kinds {
            let target = Target { kind, exposed: "db+note://a", own: "note://a", ..TOOL };
            for (list, followed) in [
                ("tools", [true, false, false, false, false]),
                ("prompts", [false, true, false, true, false]),
                ("resources", [false, false, true, false, true]),
                ("completion", [false, false, false, true, true]),
            ] {
                let at = kinds.iter().position(|other| *other == kind).unwrap();
                let about = is_about(json!({"what": {list: ["*"]}}), subject, "/mcp", &target);
                assert_eq!(about, followed[at], "{list} {}", kind.as_str());
            }
            assert!(is_about(json!({"what": {"servers": ["db"]}}), subject, "/mcp", &target));
            let named =
                json!({"what": {"prompts": ["*"], "resources": ["*"], "completion": ["nothing"]}});
            let plain = matches!(kind, TargetKind::Prompt | TargetKind::Resource);
            assert_eq!(is_about(named, subject, "/mcp", &target), plain, "{}", kind.as_str());
        }
    });
}

/// The argument rules of a `deny` policy are checked; a policy with only a rate makes no decision.
#[test]
fn what_only_limits_decides_nothing() {
    let decide = |one: Value| {
        let policy = policy(json!([one, {"name": "open", "effect": "allow"}]));
        policy
            .answer(
                &Question { subject: &Subject::default(), endpoint: "/mcp", target: &TOOL },
                Some(b"{}"),
            )
            .decision
    };
    let rate = json!({"per_minute": 5});
    assert_eq!(decide(json!({"name": "one", "effect": "deny", "rate": rate})), Expect::Allow);
    assert_eq!(
        decide(json!({"name": "one", "effect": "deny", "response": {"max_bytes": 5}})),
        Expect::Allow
    );
    assert_eq!(decide(json!({"name": "one", "effect": "deny"})), Expect::Hidden);
    let required = json!({"/a": {"require": true}});
    assert_eq!(
        decide(json!({"name": "one", "effect": "deny", "rate": rate, "arguments": required})),
        Expect::Deny
    );
    assert_eq!(
        decide(json!({"name": "one", "effect": "deny", "arguments": required})),
        Expect::Deny
    );
}
