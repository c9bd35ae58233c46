//! Tests of `policy`: lists, deny overrides, conditions, arguments and rates, and the decisions of
//! the index compared with those of each policy alone.

#![allow(clippy::needless_pass_by_value, reason = "JSON is written where it is used")]

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::cases::Expect;
use super::*;

fn config(policies: Value) -> Config {
    let file: file::File = serde_json::from_value(json!({ "policies": policies })).unwrap();
    let entries = file.policies.into_iter().map(|policy| PolicyEntry {
        policy,
        line: 1,
        source: Value::Null,
    });
    let document = Document { name: "test.yaml".into(), policies: entries.collect() };
    Config { documents: vec![document], ..Config::default() }
}

fn policy(policies: Value) -> Policy {
    Policy::compile(&config(policies)).unwrap()
}

fn mistakes(policies: Value) -> Vec<(String, String)> {
    let found = Policy::compile(&config(policies)).unwrap_err();
    found.into_iter().map(|mistake| (mistake.path.join("."), mistake.what)).collect()
}

fn tool(name: &str) -> Target<'_> {
    let (server, own) = name.split_once("__").unwrap();
    Target {
        kind: TargetKind::Tool,
        server,
        organisation: None,
        exposed: name,
        own,
        category: None,
        annotations: Annotations::default(),
    }
}

fn ask(policy: &Policy, subject: &Subject<'_>, name: &str, arguments: Value) -> cases::Outcome {
    let target = tool(name);
    let question = Question { subject, endpoint: "/mcp", target: &target };
    policy.answer(&question, Some(arguments.to_string().as_bytes()))
}

const SOMEBODY: Subject<'static> = Subject {
    key: 1,
    issuer: "key",
    subject: "ci",
    organisation: Some("acme"),
    roles: &[],
    scopes: &[],
    agent: None,
    certificate: None,
};

/// Returns whether a policy hides a resource of the server `one`.
fn is_hidden(policy: &Policy, own: &str) -> bool {
    let exposed = match own.strip_prefix("ui://") {
        Some(rest) => format!("ui://one+{rest}"),
        None if own.starts_with("https://") => own.to_owned(),
        None => format!("one+{own}"),
    };
    let target = Target {
        kind: TargetKind::Resource,
        server: "one",
        organisation: None,
        exposed: &exposed,
        own,
        category: None,
        annotations: Annotations::default(),
    };
    let question = Question { subject: &SOMEBODY, endpoint: "/mcp", target: &target };
    let explained = policy.explain(&question, None);
    assert_eq!(explained.decision, policy.answer(&question, None).decision.as_str(), "{own}");
    let is_denied = explained.policies.iter().any(|step| step.says.starts_with("denies it"));
    assert_eq!(is_denied, explained.decision == "hidden", "{own}");
    is_denied
}

#[test]
fn a_resource_that_is_denied_is_denied_in_every_form() {
    let allow = json!({"name": "one", "effect": "allow", "what": {"servers": ["one"]}});
    let denied = [
        "one+file:///srv/secret.txt",
        "https://example.com/*private*",
        "one+note://private/*",
        "one+note://h/pl%c3%a4n",
        "one+note://h/a%2Ab",
        "ui://one+app/secret",
        "one+urn:secret:1",
    ];
    let deny = json!({"name": "not", "effect": "deny", "what": {"resources": denied}});
    let when = json!({"name": "when", "effect": "deny", "when": "target.name.endsWith('.key')"});
    let policy = policy(json!([allow, deny, when]));
    for denied in [
        "file:///srv/secret.txt",
        "file:///srv%2Fsecret.txt",
        "file:///srv/secret.txt?x=1",
        "file:///srv/secret.txt%3Fx",
        "file:///srv/secret.txt#part",
        "file:///srv/secret.txt/",
        "file:/srv/secret.txt",
        "file:srv/secret.txt",
        "FILE:///srv/secret.txt",
        "https://example.com/a/private",
        "https://example.com/a/private%2Fb",
        "https://EXAMPLE.com/a/private?x#y",
        "https://u@example.com:8443/a/private",
        "note://private/a",
        "note://PRIVATE/a/",
        "note://x:y@private:80/a",
        "note://x%40private:80:90/a",
        "note:///private/a",
        "note:/private/a",
        "note:private/a?b",
        "note://h/pl%C3%A4n",
        "note://h/pl\u{e4}n",
        "note://h/a*b",
        "ui://app/secret",
        "ui://x@app/secret",
        "urn:secret:1?x",
        "urn:secret%3A1",
        "x:a.key",
        "x:a%20b.key?b",
    ] {
        assert!(is_hidden(&policy, denied), "{denied}");
    }
    for allowed in [
        "file:///srv/secret.txt.asc",
        "file:///srv/%C3%A9t%C3%A9%",
        "file:///SRV/secret.txt",
        "x:keys",
        "note://public/private/a",
        "note://[::1]:80/private/a",
        "note://h/axb",
        "ui://other/secret",
        "urn:isbn:1",
        "urn:secret:1:2",
    ] {
        assert!(!is_hidden(&policy, allowed), "{allowed}");
    }
}

/// Returns the decision on reading a resource.
fn decide_on(policy: &Policy, uri: &str) -> Expect {
    let target = Target {
        kind: TargetKind::Resource,
        server: "any",
        organisation: None,
        exposed: uri,
        own: uri,
        category: None,
        annotations: Annotations::default(),
    };
    let question = Question { subject: &SOMEBODY, endpoint: "/mcp", target: &target };
    policy.answer(&question, None).decision
}

#[test]
fn a_pattern_with_a_query_denies_wherever_the_host_stands() {
    let policy = policy(json!([
        {"name": "open", "effect": "allow"},
        {"name": "closed", "effect": "deny", "what": {"resources": ["note://private/a?id=1", "note://h/folder/"]}},
    ]));
    for denied in [
        "note://private/a?id=1",
        "note://x@private/a?id=1",
        "note://private:80/a?id=1",
        "note:///private/a?id=1",
        "note:private/a?id=1",
        "note://h/folder/?x",
        "note://x@h/folder/?x",
        "note://h:1/folder/#x",
    ] {
        assert_eq!(decide_on(&policy, denied), Expect::Hidden, "{denied}");
    }
    for allowed in
        ["note://private/a?id=2", "note://private/a", "note://h/folder", "note://h/folder/a"]
    {
        assert_eq!(decide_on(&policy, allowed), Expect::Allow, "{allowed}");
    }
}

#[test]
fn lists_allow_and_deny_as_before() {
    let list = |allow: &[&str], deny: &[&str]| Allow {
        allow: Some(allow.iter().map(|&g| g.to_owned()).collect()),
        deny: deny.iter().map(|&g| g.to_owned()).collect(),
    };
    let lists = Lists {
        servers: list(&["*"], &["secret"]),
        tools: list(&["git__*", "time/now"], &["git__push*"]),
        ..Lists::default()
    };
    let policy = Policy::compile(&Config { lists, documents: vec![] }).unwrap();
    let rule = |name: &str| ask(&policy, &SOMEBODY, name, json!({})).rule;
    let decided = [
        ("git__log", "policy.tools.allow"),
        ("git__push_force", "policy.tools.deny"),
        ("time__now", "policy.tools.allow"),
        ("time__zones", DEFAULT),
        ("secret__now", "policy.servers.deny"),
    ];
    for (name, wanted) in decided {
        assert_eq!(rule(name), wanted, "{name}");
    }
    assert!(policy.everybody().is_some());
    let class = policy.class(&SOMEBODY, "/mcp");
    assert!(policy.reaches(&class, "git") && !policy.reaches(&class, "secret"));
}

#[test]
fn without_files_silence_allows_and_with_them_it_denies() {
    let none = Policy::compile(&Config::default()).unwrap();
    assert_eq!(ask(&none, &SOMEBODY, "a__b", json!({})).decision, Expect::Allow);
    assert_eq!(ask(&policy(json!([])), &SOMEBODY, "a__b", json!({})).decision, Expect::Hidden);
}

#[test]
fn a_condition_that_cannot_be_evaluated_denies_with_either_effect() {
    for effect in ["allow", "deny"] {
        let policy = policy(json!([
            {"name": "all", "effect": "allow"},
            {"name": "late", "effect": effect, "what": {"tools": ["a__*"]}, "when": "arguments.amount > 100"},
        ]));
        if effect == "deny" {
            assert_eq!(ask(&policy, &SOMEBODY, "a__b", json!({})).decision, Expect::Deny);
            assert_eq!(
                ask(&policy, &SOMEBODY, "a__b", json!({"amount": "x"})).decision,
                Expect::Deny
            );
            assert_eq!(ask(&policy, &SOMEBODY, "a__b", json!({"amount": 200})).rule, "late");
        }
        assert_eq!(
            ask(&policy, &SOMEBODY, "a__b", json!({"amount": 1})).decision,
            Expect::Allow,
            "{effect}"
        );
    }
    let early = policy(json!([
        {"name": "all", "effect": "allow"},
        {"name": "early", "effect": "deny", "when": "size(subject.roles) > 1 && subject.roles[2] == 'x'"},
    ]));
    let roles: [Arc<str>; 2] = ["a".into(), "b".into()];
    let outcome = ask(&early, &Subject { roles: &roles, ..SOMEBODY }, "a__b", json!({}));
    assert_eq!((outcome.decision, outcome.rule.as_str()), (Expect::Hidden, "early"));
    assert_eq!(ask(&early, &SOMEBODY, "a__b", json!({})).decision, Expect::Allow);
}

#[test]
fn conditions_are_checked_when_they_are_loaded() {
    let bad = [
        ("subjekt.id == 'a'", "did you mean `subject`"),
        ("subject.rols == []", "did you mean `roles`"),
        ("target.annotations.readonly", "did you mean `read_only`"),
        ("subject.id", "its result is a string"),
        ("subject.id > 5", "have no order"),
        ("subject.id + 5 == 'x'", "cannot be evaluated"),
        ("subject.id.matches(endpoint)", "pattern written in quotes"),
        ("subject.id.matches('(')", "not a valid regular expression"),
        ("now() > 5", "has no function `now`"),
        (
            "subject.roles.all(a, subject.roles.all(b, subject.roles.all(c, true)))",
            "nested more than 2",
        ),
        ("1 +", "is not a valid condition"),
        (
            "subject.roles == 'guest'",
            "compares a list with text, which are never equal: use `in` to search a list",
        ),
        ("subject.roles != 'guest'", "compares a list with text"),
        ("'a' == subject['scopes']", "compares text with a list"),
        ("target.annotations.read_only == 'x'", "compares true or false with text"),
        ("target.kind == 'tol'", "never matches: the kinds are tool, prompt"),
        ("target.kind in ['tool', 'promt']", "\"promt\", which never matches"),
        ("target.category == 'files'", "never matches: the categories are content"),
        ("endpoint == 'mcp'", "never matches: the endpoints are /mcp"),
        ("endpoint != '/servers/*'", "never matches"),
        ("subject.principal == 'ci'", "written issuer|subject"),
        ("'ci.example' in subject.certificates", "names of certificates begin with cn:"),
        ("5 in subject.roles", "compares a number with text"),
        ("subject.id in [5, 6]", "compares text with a number"),
        ("subject.id in ['a', 6]", "compares text with a number"),
        ("'a' in subject.id", "needs a list"),
        ("subject.agent == null", "compares text with null"),
        ("has(subject.agent)", "which is always true"),
        ("subject['rolse'] == []", "has no member `rolse`"),
        ("size(subject.roles) == '1'", "compares a number with text"),
        ("subject.anonymous || (target.kind == 'prompt' && subject.id > 5)", "have no order"),
    ];
    for (when, words) in bad {
        let found = mistakes(json!([{"name": "a", "effect": "deny", "when": when}]));
        assert!(found[0].0 == "when" && found[0].1.contains(words), "{when}: {found:?}");
    }
    let good = [
        "subject.principal.matches('^key[|]')",
        "'admin' in subject.roles || target.annotations.read_only",
        "has(arguments.a) && arguments.a.b.exists(x, x > 5)",
        "endpoint.startsWith('/servers/')",
        "endpoint == '/servers/db/mcp' || endpoint == '/mcp'",
        "subject.roles == ['guest'] || size(subject.roles) > 1.5",
        "target.kind in ['tool', 'completion'] && target.category in ['', 'file'] && target['server'] != 'x'",
        "arguments.a == 'x' || arguments.a == 5 || arguments.b in [1, 'x'] || 'x' in arguments.c || has(arguments.c.d)",
        "subject.roles.map(r, r + '!').exists(r, r == 'x!') || subject.roles.exists_one(r, r == 'a')",
        "subject.roles.filter(r, r != 'a') == [] || ['a', 'b'].exists(r, r in subject.roles)",
        "subject.principal == 'key|ci' || 'dns:ci.example' in subject.certificates || subject.agent == ''",
        "{'a': 1}.all(k, k == 'a') && 'read_only' in target.annotations && dyn(subject.roles) != 'x'",
        "arguments.list.all(x, x == 'a' || x == subject.id)",
    ];
    for when in good {
        assert!(
            Policy::compile(&config(json!([{"name": "a", "effect": "deny", "when": when}])))
                .is_ok(),
            "{when}"
        );
    }
}

#[test]
fn loops_over_large_arguments_are_refused_not_run() {
    let policy = policy(
        json!([{"name": "a", "effect": "allow", "when": "arguments.l.all(x, arguments.l.all(y, x + y > 0))"}]),
    );
    let began = std::time::Instant::now();
    let long: Vec<u32> = (1..50_000).collect();
    assert_eq!(ask(&policy, &SOMEBODY, "a__b", json!({"l": long})).decision, Expect::Deny);
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(ask(&policy, &SOMEBODY, "a__b", json!({"l": [1, 2]})).decision, Expect::Allow);
}

#[test]
fn all_mistakes_are_found_at_once() {
    let found = mistakes(json!([
        {"name": "a b", "effect": "allow", "what": {"tools": ["a{"]}, "when": "x", "rate": {"burst": 1}},
        {"name": "twice", "effect": "allow", "arguments": {"x": {"require": true}, "/y": {}, "/z": {"value": {"pattern": "a)|(b"}}}},
        {"name": "twice", "effect": "deny", "arguments": {"/x": {"set": {"to": 1}}}},
        {"name": "m", "effect": "allow", "what": {"methods": ["tools/lst"]}},
        {"name": "n", "effect": "deny", "who": {"principals": ["key|ci", "ci"], "roles": [], "certificates": ["ci.example"]},
            "what": {"categories": ["nonsense"], "endpoints": ["mcp"], "not_servers": []}},
        {"name": "r", "effect": "deny", "rate": {"per_minute": 0, "per_hour": 1, "per_day": 1, "burst": 0, "concurrency": 0},
            "response": {"max_bytes": 0, "redact": [{"pattern": "x"}, {"pattern": "("}, {"pattern": ""}], "link_schemes": ["https", "a b"]}},
    ]));
    let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
    let wanted = [
        "name",
        "what.tools.0",
        "when",
        "rate.per_minute",
        "arguments./y",
        "arguments./z.value",
        "arguments.x",
        "arguments./x.set",
        "name",
        "what.methods.0",
        "what.methods",
        "who.principals.1",
        "who.roles",
        "who.certificates.0",
        "what.not_servers",
        "what.categories.0",
        "what.endpoints.0",
        "rate.per_hour",
        "rate.per_day",
        "rate.per_minute",
        "rate.burst",
        "rate.concurrency",
        "response.max_bytes",
        "response.redact.1.pattern",
        "response.redact.2.pattern",
        "response.link_schemes.1",
    ];
    assert_eq!(paths, wanted, "{found:?}");
}

#[test]
fn arguments_are_read_once_and_strictly() {
    let policy = policy(json!([{"name": "a", "effect": "allow", "arguments": {
        "/n": {"value": {"min": 1, "max": 10}}, "/o": {"optional": true}, "/f": {"set": {"to": true}}, "/d/x": {"optional": true},
    }}]));
    let target = tool("a__b");
    let question = Question { subject: &SOMEBODY, endpoint: "/mcp", target: &target };
    let refused = [
        r#"{"n": 0}"#,
        r#"{"n": 1e2}"#,
        r#"{"n": "5"}"#,
        r#"{"n": 5, "n": 5}"#,
        r#"{"n": 5, "N": 50}"#,
        r#"{"n": 5, "x": 1}"#,
        r#"{"n": 5, "o": {"a": 1, "A": 2}}"#,
        r#"{"n": 5, "\u017f": 1}"#,
        r#"{"n": 5, "o\u0000": 1}"#,
        r#"{"n": 5, "d": 3}"#,
        r#"{"N": 5}"#,
        "[]",
        r#"{"n": 5"#,
    ];
    for text in refused {
        assert_eq!(
            policy.answer(&question, Some(text.as_bytes())).decision,
            Expect::Deny,
            "{text}"
        );
    }
    assert_eq!(policy.answer(&question, None).decision, Expect::Deny);
    // Values that are not set keep the text that was sent.
    let class = policy.class(&SOMEBODY, "/mcp");
    let verdict = policy.verdict(&class, &question);
    let text = br#"{ "n" : 5, "f":false,"o": [12345678901234567890123, 1.10, "\u0041"]}"#;
    let passed = policy.evaluate(&verdict, &question, Some(text)).unwrap();
    let sent = String::from_utf8(passed.arguments.unwrap()).unwrap();
    assert_eq!(sent, r#"{"n":5,"f":true,"o":[12345678901234567890123, 1.10, "\u0041"]}"#);
}

#[test]
fn a_deny_policy_with_arguments_denies_what_does_not_keep_to_them() {
    let policy = policy(json!([
        {"name": "all", "effect": "allow"},
        {"name": "guard", "effect": "deny", "arguments": {"/force": {"forbid": true}, "/to/*": {"optional": true, "value": {"pattern": "[a-z]+@acme[.]example"}}}},
    ]));
    let decided = |arguments: Value| ask(&policy, &SOMEBODY, "mail__send", arguments).decision;
    assert_eq!(decided(json!({"text": "hi", "to": ["ann@acme.example"]})), Expect::Allow);
    assert_eq!(decided(json!({"to": ["ann@acme.example", "eve@evil.example"]})), Expect::Deny);
    assert_eq!(decided(json!({"force": false})), Expect::Deny);
    assert_eq!(decided(json!({"Force": true})), Expect::Deny);
    assert_eq!(decided(json!({"to": "eve@evil.example"})), Expect::Deny);
}

/// By default, an `allow` policy closes the arguments that it names, and a `deny` policy leaves
/// them open.
#[test]
fn other_arguments_are_refused_where_a_policy_says_so() {
    for (effect, others, passes) in [
        ("allow", json!(null), false),
        ("allow", json!("refuse"), false),
        ("allow", json!("allow"), true),
        ("deny", json!(null), true),
        ("deny", json!("refuse"), false),
        ("deny", json!("allow"), true),
    ] {
        let mut one =
            json!({"name": "one", "effect": effect, "arguments": {"/a": {"optional": true}}});
        if !others.is_null() {
            one["other_arguments"] = others.clone();
        }
        let all = json!({"name": "all", "effect": "allow"});
        let policy = policy(if effect == "deny" { json!([all, one]) } else { json!([one]) });
        let decided =
            |arguments: Value| ask(&policy, &SOMEBODY, "a__b", arguments).decision == Expect::Allow;
        assert!(decided(json!({"a": 1})) && decided(json!({})), "{effect} {others}");
        assert_eq!(decided(json!({"a": 1, "b": 2})), passes, "{effect} {others}");
    }
}

/// An incomplete item does not affect the others, and no rule is skipped because a value has
/// another form.
#[test]
fn every_item_is_judged_whatever_others_lack() {
    let policy = policy(json!([
        {"name": "all", "effect": "allow"},
        {"name": "guard", "effect": "deny", "arguments": {
            "/files/*/path": {"optional": true, "path": {"roots": ["/"], "deny": [".env*"]}},
            "/items/*/force": {"forbid": true},
            "/paths/*": {"optional": true, "path": {"roots": ["/srv"]}},
            "/o/force": {"forbid": true},
            "/o/0/deep": {"forbid": true},
            "/a/*/b/*/c": {"optional": true, "value": {"equals": 1}},
        }},
    ]));
    let decided = |arguments: &Value| ask(&policy, &SOMEBODY, "a__b", arguments.clone()).decision;
    let refused = [
        json!({"files": [{"x": 1}, {"path": "/a/.env"}]}),
        json!({"files": [{"path": "/a/.env"}, {"x": 1}]}),
        json!({"files": [{"x": 1}, {"Path": "/a/b"}]}),
        json!({"items": [{}, {"force": true}]}),
        json!({"items": [{"force": true}, {}]}),
        json!({"paths": {"/etc/passwd": 1}}),
        json!({"paths": {"*": "/srv/a"}}),
        json!({"paths": "/srv/a"}),
        json!({"o": [{"force": true}]}),
        json!({"o": [{"x": 1}, {"deep": true}, 3]}),
        json!({"o": [{"deep": true}]}),
        json!({"a": [{}, {"b": []}, {"b": [{}, {"c": 1}, {"c": 2}]}]}),
    ];
    for arguments in refused {
        assert_eq!(decided(&arguments), Expect::Deny, "{arguments}");
    }
    let passing = [
        json!({}),
        json!({"files": [{"x": 1}, {"path": "/a/b"}], "items": [{}, {}], "paths": ["/srv/a"], "o": {"x": 1}}),
        json!({"files": [], "items": [], "paths": []}),
        json!({"a": [{}, {"b": []}, {"b": [{}, {"c": 1}]}]}),
    ];
    for arguments in passing {
        assert_eq!(decided(&arguments), Expect::Allow, "{arguments}");
    }
}

#[test]
fn an_item_without_a_wanted_argument_is_refused() {
    let policy = policy(json!([{"name": "a", "effect": "allow", "arguments": {
        "/files/*/path": {"path": {"roots": ["/srv"]}}, "/files/*/x": {"optional": true}, "/n/0": {"optional": true, "value": {"max": 5}},
    }}]));
    let decided = |arguments: Value| ask(&policy, &SOMEBODY, "a__b", arguments).decision;
    assert_eq!(
        decided(json!({"files": [{"path": "/srv/a"}, {"path": "/srv/b", "x": 1}], "n": [1]})),
        Expect::Allow
    );
    assert_eq!(decided(json!({"files": [{"path": "/srv/a"}, {"x": 1}]})), Expect::Deny);
    assert_eq!(decided(json!({"files": [{"path": "/srv/a"}], "n": []})), Expect::Allow);
    assert_eq!(decided(json!({"files": [{"path": "/srv/a"}], "n": [7]})), Expect::Deny);
    assert_eq!(decided(json!({"files": [{"path": "/srv/a"}], "n": {"0": 7}})), Expect::Deny);
}

#[test]
fn dry_run_changes_nothing_and_is_told() {
    let policy = policy(json!([
        {"name": "all", "effect": "allow"},
        {"name": "later", "effect": "deny", "dry_run": true, "what": {"tools": ["a__*"]}},
    ]));
    let target = tool("a__b");
    let question = Question { subject: &SOMEBODY, endpoint: "/mcp", target: &target };
    let verdict = policy.verdict(&policy.class(&SOMEBODY, "/mcp"), &question);
    let passed = policy.evaluate(&verdict, &question, None).unwrap();
    assert_eq!((&*passed.rule, &*passed.dry_run.unwrap().rule), ("all", "later"));
}

/// Arguments are evaluated once. Dry runs see the arguments that the server would receive, without
/// the changes of other dry runs.
#[test]
fn dry_run_judges_the_arguments_that_are_sent_on() {
    let policy = policy(json!([
        {"name": "a-dry", "effect": "allow", "dry_run": true, "arguments": {"/n": {"set": {"to": 100}}}},
        {"name": "b-real", "effect": "allow", "arguments": {"/n": {"set": {"to": 5}}, "/s": {"optional": true}}},
        {"name": "c-dry", "effect": "deny", "dry_run": true, "arguments": {"/n": {"value": {"max": 10}}, "/s": {"forbid": true}}},
        {"name": "d-dry", "effect": "deny", "dry_run": true, "response": {"max_bytes": 10}},
    ]));
    let target = tool("a__b");
    let question = Question { subject: &SOMEBODY, endpoint: "/mcp", target: &target };
    let verdict = policy.verdict(&policy.class(&SOMEBODY, "/mcp"), &question);
    let judged = |text: &str| policy.evaluate(&verdict, &question, Some(text.as_bytes()));
    let passed = judged("{}").unwrap();
    assert_eq!(
        (passed.arguments.as_deref(), passed.dry_run),
        (Some(b"{\"n\":5}".as_slice()), None)
    );
    let passed = judged(r#"{"n": 7, "s": 1}"#).unwrap();
    let dry_run = passed.dry_run.unwrap();
    assert!(
        &*dry_run.rule == "c-dry" && matches!(dry_run.reason, DenyReason::Arguments(_)),
        "{dry_run:?}"
    );
    // The refusal is enforced, so there is no result of a dry run.
    assert!(judged(r#"{"other": 1}"#).is_err());
}

/// A call that depends on no arguments stays allowed beside a dry run that reads them. Unreadable
/// arguments concern only the dry run.
#[test]
fn dry_run_alone_reads_arguments_of_an_open_call() {
    let policy = policy(json!([
        {"name": "all", "effect": "allow"},
        {"name": "later", "effect": "deny", "dry_run": true, "arguments": {"/s": {"forbid": true}}},
    ]));
    let target = tool("a__b");
    let question = Question { subject: &SOMEBODY, endpoint: "/mcp", target: &target };
    let verdict = policy.verdict(&policy.class(&SOMEBODY, "/mcp"), &question);
    assert!(verdict.reads_arguments());
    let dry_run =
        |text: &str| policy.evaluate(&verdict, &question, Some(text.as_bytes())).unwrap().dry_run;
    assert_eq!(dry_run(r#"{"t": 1}"#), None);
    for text in [r#"{"s": 1}"#, r#"{"t": 1, "t": 2}"#] {
        assert_eq!(&*dry_run(text).unwrap().rule, "later", "{text}");
    }
}

#[test]
fn rates_are_kept_by_what_they_say() {
    let policy = policy(json!([
        {"name": "all", "effect": "allow"},
        {"name": "by", "effect": "deny", "what": {"tools": ["*"]}, "rate": {"per_minute": 2, "by": ["principal", "tool"]}},
        {"name": "places", "effect": "deny", "what": {"tools": ["slow__*"]}, "rate": {"concurrency": 1, "by": []}},
        {"name": "lists", "effect": "deny", "what": {"methods": ["*/list"]}, "rate": {"per_minute": 1}},
    ]));
    let limiter = Local::new();
    let other = Subject { subject: "other", ..SOMEBODY };
    let call = |subject: &Subject<'_>, name: &str| {
        let target = tool(name);
        let class = policy.class(subject, "/mcp");
        let verdict =
            policy.verdict(&class, &Question { subject, endpoint: "/mcp", target: &target });
        policy.limit(&limiter, &class, "tools/call", subject, Some((&verdict, &target)))
    };
    assert!(call(&SOMEBODY, "a__b").is_ok() && call(&SOMEBODY, "a__b").is_ok());
    let limited = call(&SOMEBODY, "a__b").unwrap_err();
    let Reached::Rate(wait) = limited.reached else { panic!("{limited:?}") };
    assert!(wait > Duration::from_secs(20) && wait <= Duration::from_secs(30), "{wait:?}");
    assert!(call(&SOMEBODY, "a__c").is_ok() && call(&other, "a__b").is_ok());
    let held = call(&SOMEBODY, "slow__b").unwrap();
    let limited = call(&other, "slow__c").unwrap_err();
    assert!(matches!(limited.reached, Reached::Concurrency(_)), "{limited:?}");
    drop(held);
    assert!(call(&other, "slow__c").is_ok());
    let class = policy.class(&SOMEBODY, "/mcp");
    let list = |method| policy.limit(&limiter, &class, method, &SOMEBODY, None);
    assert!(
        list("tools/list").is_ok()
            && list("prompts/list").is_err()
            && list("server/discover").is_ok()
    );
}

#[test]
fn servers_of_the_same_slug_in_two_organisations_share_no_allowance() {
    for by in ["server", "tool"] {
        let rate = json!({"per_hour": 1, "by": [by]});
        let policy = policy(json!([
            {"name": "all", "effect": "allow"},
            {"name": "m", "effect": "deny", "what": {"tools": ["*"]}, "rate": rate},
        ]));
        let limiter = Local::new();
        let passes = |organisation: Option<&str>| {
            let target = Target { organisation, ..tool("a__b") };
            let class = policy.class(&SOMEBODY, "/mcp");
            let question = Question { subject: &SOMEBODY, endpoint: "/mcp", target: &target };
            let verdict = policy.verdict(&class, &question);
            let about = Some((&verdict, &target));
            policy.limit(&limiter, &class, "tools/call", &SOMEBODY, about).is_ok()
        };
        for organisation in [None, Some("acme"), Some("other")] {
            assert!(passes(organisation) && !passes(organisation), "{by} {organisation:?}");
        }
    }
}

#[test]
fn principals_of_two_organisations_share_no_allowance() {
    let rate = json!({"per_hour": 1});
    let policy = policy(json!([
        {"name": "all", "effect": "allow"},
        {"name": "m", "effect": "deny", "what": {"tools": ["*"]}, "rate": rate},
    ]));
    let limiter = Local::new();
    let target = tool("a__b");
    for organisation in [None, Some("acme"), Some("other")] {
        let subject = Subject { organisation, ..SOMEBODY };
        let class = policy.class(&subject, "/mcp");
        let question = Question { subject: &subject, endpoint: "/mcp", target: &target };
        let verdict = policy.verdict(&class, &question);
        let about = Some((&verdict, &target));
        let ask = || policy.limit(&limiter, &class, "tools/call", &subject, about).is_ok();
        assert!(ask() && !ask(), "{organisation:?}");
    }
}

#[test]
fn what_one_allowance_refuses_is_taken_from_none() {
    let rate = |name: &str, rate: Value| json!({"name": name, "effect": "deny", "what": {"tools": ["*"]}, "rate": rate});
    let policy = policy(json!([
        {"name": "all", "effect": "allow"},
        rate("org-quota", json!({"per_day": 20, "by": ["organisation"]})),
        rate("per-caller", json!({"per_hour": 2, "by": ["principal"]})),
        rate("zz-all", json!({"per_day": 9, "by": []})),
        {"name": "asks", "effect": "deny", "what": {"methods": ["tools/call"]}, "rate": {"per_day": 10, "by": []}},
    ]));
    let limiter = Local::new();
    let passes = |subject: &'static str, calls: usize| {
        let subject = &Subject { subject, ..SOMEBODY };
        let (target, class) = (tool("a__b"), policy.class(subject, "/mcp"));
        let verdict =
            policy.verdict(&class, &Question { subject, endpoint: "/mcp", target: &target });
        let about = Some((&verdict, &target));
        (0..calls)
            .filter(|_| policy.limit(&limiter, &class, "tools/call", subject, about).is_ok())
            .count()
    };
    assert_eq!(
        (passes("ann", 25), passes("bob", 25), passes("cid", 1), passes("dan", 9)),
        (2, 2, 1, 2)
    );
    // `zz-all` has two requests left, then none: its refusals are not charged to callers either.
    assert_eq!((passes("eve", 25), passes("fay", 25)), (2, 0));
}

/// Returns how many of the calls to `a__b` each set of policies lets through, in order.
fn let_through(sets: &[(Value, usize)]) -> Vec<usize> {
    let limiter = Local::new();
    let target = tool("a__b");
    let passes = |policy: &Policy| {
        let class = policy.class(&SOMEBODY, "/mcp");
        let verdict = policy
            .verdict(&class, &Question { subject: &SOMEBODY, endpoint: "/mcp", target: &target });
        policy.limit(&limiter, &class, "tools/call", &SOMEBODY, Some((&verdict, &target))).is_ok()
    };
    let set = |(policies, calls): &(Value, usize)| {
        let policy = policy(policies.clone());
        (0..*calls).filter(|_| passes(&policy)).count()
    };
    sets.iter().map(set).collect()
}

#[test]
fn a_reload_gives_nobody_a_fresh_allowance() {
    let all = json!({"name": "all", "effect": "allow"});
    let rate = |rate: Value| json!({"name": "m", "effect": "deny", "what": {"tools": ["*"]}, "rate": rate});
    let other = |name: &str| json!({"name": name, "effect": "deny", "what": {"tools": ["x__*"]}, "rate": {"per_hour": 1}});
    let m = rate(json!({"per_hour": 3}));
    // Unchanged, between other policies, without them, and in another order; removed, and restored.
    let sets = [
        json!([all, m]),
        json!([other("a"), m, other("z"), all]),
        json!([m, all]),
        json!([all]),
        json!([all, m]),
    ];
    let [one, two, three, out, back] = sets.map(|set| (set, 2));
    assert_eq!(let_through(&[one, two, three, out, back]), [2, 1, 0, 2, 0]);
    // Raised: the difference is left. Lowered: usage is subtracted. Period or burst: usage is kept.
    let after =
        |rate_of: Value| let_through(&[(json!([all, m]), 2), (json!([all, rate(rate_of)]), 20)])[1];
    assert_eq!(after(json!({"per_hour": 10})), 8);
    assert_eq!(after(json!({"per_hour": 2})), 0);
    assert_eq!(after(json!({"per_day": 6})), 4);
    assert_eq!(after(json!({"per_hour": 3, "burst": 4})), 2);
    assert_eq!(after(json!({"per_hour": 3, "concurrency": 5})), 1);
    // Changed twice: another number and back, the rate removed and restored.
    let twice = |between: Value| {
        let sets = [(json!([all, m]), 3), (json!([all, rate(between)]), 1), (json!([all, m]), 3)];
        let_through(&sets)[2]
    };
    assert_eq!(twice(json!({"per_hour": 100})), 0);
    assert_eq!(twice(json!({"per_hour": 1})), 0);
    assert_eq!(twice(json!({"concurrency": 9})), 0);
    // Counts by different keys are independent.
    let by_agent = rate(json!({"per_hour": 3, "by": ["organisation"]}));
    assert_eq!(
        let_through(&[(json!([all, m]), 3), (json!([all, by_agent]), 5), (json!([all, m]), 3)]),
        [3, 3, 0]
    );
}

#[test]
fn what_is_explained_is_what_is_decided_also_where_a_value_is_put_in() {
    let deny = |name: &str, max: u32| {
        let rules = json!({"/limit": {"value": {"max": max}}});
        json!({"name": name, "effect": "deny", "arguments": rules})
    };
    let allow =
        json!({"name": "allow", "effect": "allow", "arguments": {"/limit": {"set": {"to": 10}}}});
    let mut dry = deny("dry", 50);
    dry["dry_run"] = json!(true);
    let explained = |most: u32| {
        let policy = policy(json!([allow, deny("most", most), dry]));
        let target = tool("a__b");
        let question = Question { subject: &SOMEBODY, endpoint: "/mcp", target: &target };
        let told = policy.explain(&question, Some(br#"{"limit": 1000}"#));
        let said = told.policies.iter().map(|step| step.says.clone()).collect::<Vec<_>>();
        (told.decision, said.join("; "))
    };
    let nothing = "does not deny these arguments";
    let (decision, said) = explained(100);
    assert_eq!(
        (decision, said),
        ("allow", format!("allows it with these arguments; {nothing}; {nothing}"))
    );
    let (decision, said) = explained(5);
    assert!(
        decision == "deny"
            && said
                .contains("denies it with these arguments: the argument /limit: must be at most 5"),
        "{said}"
    );
}

#[test]
fn a_set_that_another_policy_gets_past_is_told() {
    let sets = |what: Value| json!({"name": "sets", "effect": "allow", "what": what, "arguments": {"/limit": {"set": {"to": 10}}}});
    let told = |mut other: Value, what: Value| {
        other["name"] = json!("other");
        other["effect"] = json!("allow");
        policy(json!([other, sets(what), {"name": "deny", "effect": "deny"}])).overlaps().len()
    };
    let echo = || json!({"tools": ["x/echo"]});
    for other in [
        json!({}),
        json!({"what": {"tools": ["x/*"]}}),
        json!({"what": {"tools": ["x__echo"]}}),
        json!({"what": {"servers": ["x", "y"]}}),
        json!({"what": {"words": ["echo"]}}),
        json!({"what": {"tools": ["x/*"], "not_words": ["other"]}}),
    ] {
        assert_eq!(told(other.clone(), echo()), 1, "{other}");
        assert_eq!(told(other.clone(), json!({"servers": ["x"]})), 1, "{other}");
    }
    for other in [
        json!({"what": {"tools": ["x/other"]}}),
        json!({"what": {"tools": ["y/*"]}}),
        json!({"what": {"prompts": ["x/*"]}}),
        json!({"what": {"servers": ["y"]}}),
        json!({"what": {"words": ["other"]}}),
        json!({"what": {"not_words": ["echo"]}}),
        json!({"dry_run": true}),
        json!({"who": {"roles": ["admin"]}}),
        json!({"when": "subject.agent == 'ops'"}),
        json!({"arguments": {"/limit": {"value": {"max": 5}}}}),
    ] {
        assert_eq!(told(other.clone(), echo()), 0, "{other}");
    }
}

#[test]
fn a_pointer_stands_for_so_many_values() {
    let policy = policy(
        json!([{"name": "all", "effect": "allow", "arguments": {"/x/*": {"schema": {"type": "string"}}}}]),
    );
    let ask = |many: usize| ask(&policy, &SOMEBODY, "a__b", json!({"x": vec!["SELECT 1"; many]}));
    assert_eq!(ask(1000).decision, Expect::Allow);
    let words = "the argument /x/* matches more than 1000 values: send fewer in one call";
    assert_eq!(ask(1001).words.as_deref(), Some(words));
}

/// Each statement alone is within the time limit, and all together exceed it.
#[test]
fn statements_of_a_call_share_the_time_of_the_parser() {
    let policy = policy(
        json!([{"name": "reads", "effect": "allow", "arguments": {"/list/*": {"sql": {}}}}]),
    );
    let refused = |many: usize| {
        let list = vec![format!("SELECT {}1", "a, ".repeat(5000)); many];
        let words = ask(&policy, &SOMEBODY, "a__b", json!({"list": list})).words;
        words.is_some_and(|words| words.contains("takes too long to parse"))
    };
    assert!(!refused(1));
    let began = std::time::Instant::now();
    assert!(refused(1000));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn a_rate_is_not_on_trial() {
    let found = mistakes(
        json!([{"name": "r", "effect": "deny", "dry_run": true, "rate": {"per_hour": 5}}]),
    );
    assert!(
        found.len() == 1 && found[0].0 == "dry_run" && found[0].1.contains("`rate`"),
        "{found:?}"
    );
}

#[test]
fn a_condition_is_not_evaded_by_other_letters() {
    let all = json!({"name": "all", "effect": "allow"});
    let decided = |effect: &str, when: &str, arguments: Value| {
        let one = json!({"name": "one", "effect": effect, "when": when});
        let policies = if effect == "deny" { json!([all, one]) } else { json!([one]) };
        let policy = policy(policies);
        let outcome = ask(&policy, &SOMEBODY, "a__b", arguments.clone());
        let target = tool("a__b");
        let question = Question { subject: &SOMEBODY, endpoint: "/mcp", target: &target };
        let told = policy.explain(&question, Some(arguments.to_string().as_bytes()));
        assert_eq!((told.decision, &told.words), (outcome.decision.as_str(), &outcome.words));
        if outcome.words.is_some() {
            assert!(told.policies.iter().any(|step| step.policy == "one"), "{told:?}");
        }
        (outcome.decision, outcome.words.unwrap_or_default())
    };
    let exactly =
        |at: &str| (Expect::Deny, format!("the argument {at} must be written exactly like this"));
    for (when, at, bad, good) in [
        (
            r#"has(arguments.method) && arguments.method == "delete""#,
            "/method",
            json!({"Method": "delete"}),
            json!({"x": 1}),
        ),
        (
            r#""method" in arguments && arguments["method"] == "delete""#,
            "/method",
            json!({"METHOD": 1}),
            json!({}),
        ),
        (
            "has(arguments.a) && has(arguments.a.force)",
            "/a/force",
            json!({"a": {"Force": true}}),
            json!({"a": {"x": 1}}),
        ),
        (
            "has(arguments.l) && arguments.l.exists(i, has(i.rm) && i.rm)",
            "/l/*/rm",
            json!({"l": [{}, {"Rm": true}]}),
            json!({"l": [{}]}),
        ),
        (
            r#"has(arguments.l) && has(arguments.l[0].rm)"#,
            "/l/*/rm",
            json!({"l": [{"rM": true}]}),
            json!({"l": [{}]}),
        ),
        (
            r#"has(arguments.x) && arguments["a/b"].c == 1"#,
            "/a~1b",
            json!({"A/b": {"c": 1}}),
            json!({"y": 1}),
        ),
    ] {
        assert_eq!(decided("deny", when, bad), exactly(at), "{when}");
        assert_eq!(decided("deny", when, good).0, Expect::Allow, "{when}");
    }
    // A name that must be absent must not appear in other letters either.
    let safe = "!has(arguments.force)";
    assert_eq!(decided("allow", safe, json!({"FORCE": true})), exactly("/force"));
    assert_eq!(decided("allow", safe, json!({"x": 1})).0, Expect::Allow);
}

/// Lenient servers read `["delete"]` as "delete", and "true" as true.
#[test]
fn a_condition_is_not_evaded_by_other_types() {
    let all = json!({"name": "all", "effect": "allow"});
    let decided = |effect: &str, when: &str, arguments: &Value| {
        let one = json!({"name": "one", "effect": effect, "when": when});
        let policies = if effect == "deny" { json!([all, one]) } else { json!([one]) };
        let outcome = ask(&policy(policies), &SOMEBODY, "a__b", arguments.clone());
        (outcome.decision, outcome.words.unwrap_or_default())
    };
    for (when, said, bad) in [
        (
            r#"has(arguments.mode) && arguments.mode == "delete""#,
            "/mode must be text",
            json!({"mode": ["delete"]}),
        ),
        (r#""delete" == arguments["mode"]"#, "/mode must be text", json!({"mode": {"x": 1}})),
        (
            "has(arguments.force) && arguments.force == true",
            "/force must be true or false",
            json!({"force": "true"}),
        ),
        ("has(arguments.n) && arguments.n == 3", "/n must be a number", json!({"n": "3"})),
        (r#"arguments.m in ["drop", "delete"]"#, "/m must be text", json!({"m": ["drop"]})),
        (r#"arguments.l.exists(x, x == "rm")"#, "/l/* must be text", json!({"l": ["a", ["rm"]]})),
        (r#"arguments.l[0] == "rm""#, "/l/* must be text", json!({"l": [["rm"]]})),
        (
            r#"arguments.m == "a" || arguments.m == 1"#,
            "/m must be text or a number",
            json!({"m": true}),
        ),
    ] {
        let (decision, words) = decided("deny", when, &bad);
        assert!(decision == Expect::Deny && words.contains(said), "{when}: {words}");
    }
    // `!=` is true for a value of another type.
    let allow = r#"arguments.mode != "delete""#;
    assert_eq!(decided("allow", allow, &json!({"mode": ["delete"]})).0, Expect::Deny);
    for (when, good) in [
        (r#"has(arguments.mode) && arguments.mode == "delete""#, json!({"mode": "list"})),
        (r#"has(arguments.mode) && arguments.mode == "delete""#, json!({"mode": null})),
        (r#"has(arguments.mode) && arguments.mode == "delete""#, json!({})),
        (r#"type(arguments.m) == type([]) || arguments.m == "delete""#, json!({"m": 1})),
        (r#"arguments.m == "a" || arguments.m == 1"#, json!({"m": 2})),
        ("arguments.n == 3", json!({"n": 3.5})),
    ] {
        assert_eq!(decided("deny", when, &good).0, Expect::Allow, "{when} {good}");
    }
}

#[test]
fn a_caller_with_other_rights_is_another_class() {
    let policy = policy(json!([{"name": "a", "effect": "allow", "who": {"roles": ["admin"]}}]));
    let admin: [Arc<str>; 1] = ["admin".into()];
    let with = Subject { roles: &admin, ..SOMEBODY };
    assert_eq!(ask(&policy, &with, "a__b", json!({})).decision, Expect::Allow);
    assert_eq!(ask(&policy, &SOMEBODY, "a__b", json!({})).decision, Expect::Hidden);
    assert_ne!(policy.class(&with, "/mcp").mark(), policy.class(&SOMEBODY, "/mcp").mark());
}

/// A misspelled keyword would be ignored, and everything would pass.
#[test]
fn a_schema_has_keywords_that_there_are() {
    let rule = |schema: Value| {
        mistakes(json!([{"name": "a", "effect": "allow", "arguments": {"/x": {"schema": schema}}}]))
            [0]
        .1
        .clone()
    };
    let deep = json!({"properties": {"pattern": {"items": {"anyOf": [{"propertis": {}}]}}}});
    for (schema, words) in [
        (
            json!({"minLenght": 5}),
            "has the keyword `minLenght`, which JSON Schema 2020-12 does not have; did you mean `minLength`?",
        ),
        (deep, "`propertis`"),
        (json!({"if": {"dependencies": {}}}), "`dependencies`"),
        (json!({"nullable": true}), "`nullable`"),
        (json!({"type": "string", "format": "emial"}), "emial"),
        (json!({"type": "strin"}), "is not a valid schema"),
    ] {
        let said = rule(schema.clone());
        assert!(said.contains(words), "{schema}: {said}");
    }
    // Members may have any name, and constants any form.
    policy(json!([{"name": "a", "effect": "allow", "arguments": {"/x": {"schema": {
        "$defs": {"minLenght": {"type": "string", "format": "email"}}, "properties": {"foo": {"$ref": "#/$defs/minLenght"}},
        "const": {"minLenght": 1}, "enum": [{"propertis": 1}], "dependentRequired": {"foo": ["bar"]},
    }}}}]));
}

/// Closes the members of an argument as described in docs/policy.md.
#[test]
fn members_of_an_argument_are_open_until_a_schema_closes_them() {
    let open = json!({"/options/path": {"path": {"roots": ["/srv"]}}});
    let mut closed = open.clone();
    closed["/options"] = json!({"schema": {"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": false}});
    let decided = |rules: &Value| {
        let policy = policy(json!([{"name": "a", "effect": "allow", "arguments": rules}]));
        let sent = json!({"options": {"path": "/srv/a", "exec": "rm"}});
        let wanted =
            ask(&policy, &SOMEBODY, "a__b", json!({"options": {"path": "/srv/a"}})).decision;
        assert_eq!(wanted, Expect::Allow);
        ask(&policy, &SOMEBODY, "a__b", sent).decision
    };
    assert_eq!((decided(&open), decided(&closed)), (Expect::Allow, Expect::Deny));
}

#[test]
fn statements_of_others_are_system_tables() {
    let rule = |system: bool| {
        policy(json!([{"name": "a", "effect": "allow", "arguments": {
            "/sql": {"sql": {"dialect": "mysql", "system_tables": system, "default_schema": "information_schema"}},
        }}]))
    };
    let decided = |system, sql: &str| {
        ask(&rule(system), &SOMEBODY, "db__query", json!({ "sql": sql })).decision
    };
    for table in [
        "information_schema.processlist",
        "INFORMATION_SCHEMA.PROCESSLIST",
        "processlist",
        "information_schema.innodb_trx",
    ] {
        let sql = format!("SELECT * FROM {table}");
        assert_eq!(decided(false, &sql), Expect::Deny, "{sql}");
        assert_eq!(decided(true, &sql), Expect::Allow, "{sql}");
    }
    assert_eq!(decided(false, "SELECT table_name FROM information_schema.tables"), Expect::Allow);
}

#[test]
fn any_host_means_no_host_of_a_cluster() {
    let policy = policy(
        json!([{"name": "a", "effect": "allow", "arguments": {"/url": {"url": {"any_host": true}}}}]),
    );
    let decided = |host: &str| {
        ask(&policy, &SOMEBODY, "web__get", json!({"url": format!("https://{host}/")})).decision
    };
    for host in [
        "kubernetes.default.svc",
        "kubernetes.default",
        "a.docker",
        "a.svc.cluster.local",
        "me.tailnet.ts.net",
    ] {
        assert_eq!(decided(host), Expect::Deny, "{host}");
    }
    for host in ["docs.example.com", "svc.example.com", "docker.com", "default.example.org"] {
        assert_eq!(decided(host), Expect::Allow, "{host}");
    }
}

#[test]
fn a_caller_is_read_from_words_with_quotes_around_blanks() {
    let read = |text: &str| cases::Caller::parse(text);
    let caller =
        read(r#""certificate:My CA|cn:alice" role=ops organisation='Acme "Ltd"' role="on call""#)
            .unwrap();
    assert_eq!((&*caller.issuer, &*caller.subject), ("certificate:My CA", "cn:alice"));
    assert_eq!(caller.organisation.as_deref(), Some(r#"Acme "Ltd""#));
    assert_eq!(caller.roles, ["ops".into(), "on call".into()]);
    let plain = read("key|ci  scope=a agent=b").unwrap();
    assert_eq!((&*plain.subject, plain.agent.as_deref()), ("ci", Some("b")));
    for bad in ["certificate:My CA|cn:alice", "\"key|ci", "''", "name=ci"] {
        assert!(read(bad).is_err(), "{bad}");
    }
    let named = read("ci role=ops").unwrap();
    assert_eq!((&*named.issuer, &*named.subject), ("key", "ci"));
}

#[test]
fn differences_are_told_by_policy() {
    let entry = |name: &str, effect: &str| {
        let source = json!({"name": name, "effect": effect});
        PolicyEntry { policy: serde_json::from_value(source.clone()).unwrap(), line: 3, source }
    };
    let with = |policies| Config {
        documents: vec![Document { name: "p.yaml".into(), policies }],
        ..Config::default()
    };
    let (old, new) = (
        with(vec![entry("a", "allow"), entry("b", "allow")]),
        with(vec![entry("a", "deny"), entry("c", "allow")]),
    );
    assert_eq!(
        differences(&old, &new),
        ["~ a (p.yaml:3): effect \"allow\" -> \"deny\"", "+ c (p.yaml:3)", "- b (p.yaml)"]
    );
    let rate = |rate: &str| {
        let source =
            json!({"name": "a", "effect": "deny", "rate": {"per_minute": 5}, "description": rate});
        with(vec![PolicyEntry {
            policy: serde_json::from_value(source.clone()).unwrap(),
            line: 3,
            source,
        }])
    };
    let told = differences(&with(vec![entry("a", "deny")]), &rate(&"x".repeat(1000)));
    assert!(
        told[0].ends_with(r#", rate none -> {"per_minute":5}"#) && told[0].chars().count() < 300,
        "{told:?}"
    );
    let mut listed = old.clone();
    listed.lists.tools.deny = vec!["a__b".into()];
    listed.lists.calls_per_minute = Some(3);
    let told = differences(&old, &listed);
    assert_eq!(
        told,
        [
            "~ policy.tools of the configuration file: none -> deny [\"a__b\"]",
            "~ policy.calls_per_minute of the configuration file: none -> 3",
        ]
    );
    assert!(differences(&old, &old).is_empty());
}

fn patterns(words: &'static [&'static str]) -> impl Strategy<Value = Option<Vec<String>>> {
    proptest::option::weighted(
        0.4,
        proptest::collection::vec(proptest::sample::select(words), 1..3),
    )
    .prop_map(|list| list.map(|all| all.into_iter().map(str::to_owned).collect()))
}

fn written() -> impl Strategy<Value = Value> {
    const WORDS: &[&str] =
        &["a", "b", "a__x", "a/x", "*", "a*", "*x", "{a,b}*", "[ab]__y", "b/?", "key|*", "acme"];
    const CALLERS: &[&str] = &["*", "key|*", "key|ci", "a|*", "{key,a}|c?", "*ci", "anonymous|*"];
    const ENDPOINTS: &[&str] = &["*", "/mcp", "/servers/*", "/servers/a/mcp", "/servers/[bc]/mcp"];
    let words = || patterns(WORDS);
    let who = (patterns(CALLERS), words(), words(), proptest::option::weighted(0.1, any::<bool>()));
    const NAMED: &[&str] = &["x", "y", "^x", "y$", "{x,y}", "x*", "z", "xy"];
    let what = (words(), words(), words(), words(), patterns(ENDPOINTS));
    let what = (what, patterns(NAMED), patterns(NAMED));
    (any::<bool>(), who, what, proptest::option::weighted(0.2, any::<bool>())).prop_map(|(allow, who, what, hint)| {
        let (what, named, unnamed) = what;
        json!({
            "effect": if allow { "allow" } else { "deny" },
            "who": {"principals": who.0, "roles": who.1, "organisations": who.2, "anonymous": who.3},
            "what": {"tools": what.0, "prompts": what.1, "servers": what.2, "not_servers": what.3, "endpoints": what.4,
                "words": named, "not_words": unnamed,
                "annotations": hint.map(|read_only| json!({"read_only": read_only}))},
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_index_decides_as_each_policy_would(
        all in proptest::collection::vec(written(), 0..70),
        roles in proptest::sample::subsequence(vec!["a", "b", "x"], 0..3),
        server in proptest::sample::select(vec!["a", "b"]),
        own in proptest::sample::select(vec!["x", "y", "x_y", "yX"]),
        prompt in any::<bool>(),
        endpoint in proptest::sample::select(vec!["/mcp", "/servers/a/mcp"]),
        anonymous in any::<bool>(),
    ) {
        let named: Vec<Value> = all.into_iter().enumerate().map(|(n, mut one)| {
            one["name"] = format!("p{n}").into();
            one
        }).collect();
        let policy = policy(Value::Array(named));
        let roles: Vec<Arc<str>> = roles.into_iter().map(Into::into).collect();
        let issuer = if anonymous { ANONYMOUS } else { "key" };
        let subject = Subject { issuer, roles: &roles, ..SOMEBODY };
        let exposed = format!("{server}__{own}");
        let kind = if prompt { TargetKind::Prompt } else { TargetKind::Tool };
        let target = Target { kind, server, organisation: None, exposed: &exposed, own, category: None, annotations: Annotations::default() };
        let question = Question { subject: &subject, endpoint, target: &target };
        let about: Vec<&rule::Rule> =
            policy.rules.iter().filter(|rule| rule.misfits(&subject, endpoint, &target).is_empty()).collect();
        let denied = about.iter().any(|rule| rule.effect == file::Effect::Deny);
        let allowed = about.iter().any(|rule| rule.effect == file::Effect::Allow) && !denied;
        let verdict = policy.verdict(&policy.class(&subject, endpoint), &question);
        prop_assert_eq!(verdict.is_visible(), allowed);
        prop_assert_eq!(policy.evaluate(&verdict, &question, None).is_ok(), allowed);
    }

    /// No text makes parsing fail other than by a refusal, and the forwarded arguments are those
    /// that were parsed.
    #[test]
    fn arguments_never_panic(text in "[{}\\[\\]:,\"a-cA-C0-9.e\\\\ -]{0,60}") {
        let policy = policy(json!([{"name": "a", "effect": "allow", "other_arguments": "allow",
            "arguments": {"/a": {"optional": true, "value": {"max": 5}}, "/b/*": {"optional": true, "value": {"max_length": 2}}, "/c": {"set": {"default": 1}}}}]));
        let target = tool("a__b");
        let question = Question { subject: &SOMEBODY, endpoint: "/mcp", target: &target };
        let verdict = policy.verdict(&policy.class(&SOMEBODY, "/mcp"), &question);
        if let Ok(passed) = policy.evaluate(&verdict, &question, Some(text.as_bytes())) {
            let sent: Value = serde_json::from_slice(passed.arguments.as_deref().unwrap_or(text.as_bytes())).unwrap();
            let read: Value = serde_json::from_str(&text).unwrap();
            for (key, value) in read.as_object().unwrap() {
                prop_assert_eq!(&sent[key], value);
            }
        }
    }
}

#[test]
fn patterns_find_the_same_together_and_alone() {
    let patterns = [
        "a__b", "a__*", "a/*", "*", "*__b", "a_?b", "[ab]__b", "{a,c}__b", "a\\*", "", "é*",
        "a__b*", "**",
    ];
    let globs: Vec<_> = patterns.iter().filter_map(|text| pattern::compile(text).ok()).collect();
    let lists = || globs.iter().map(std::slice::from_ref).enumerate();
    let index = pattern::GlobIndex::new(&globs, |one| Some(std::slice::from_ref(one))).unwrap();
    for name in ["a__b", "a__bc", "a/b/c", "b__b", "c__b", "a*", "é__b", "", "a"] {
        let together: Vec<usize> = index.fits([name].iter()).iter().collect();
        let alone = lists().filter(|(_, one)| pattern::any(one, &[name])).map(|(at, _)| at);
        assert_eq!(together, alone.collect::<Vec<_>>(), "{name:?}");
    }
}

/// An argument belongs to the caller: a model that receives its name can send it.
#[test]
fn a_condition_that_fails_for_an_argument_names_it() {
    let policy = policy(json!([
        {"name": "pay", "effect": "allow", "when": "arguments.amount <= 100 && arguments.to.iban.startsWith('DE')"},
    ]));
    let reason = |arguments: Value| {
        let target = tool("bank__pay");
        let question = Question { subject: &SOMEBODY, endpoint: "/mcp", target: &target };
        let verdict = policy.verdict(&policy.class(&SOMEBODY, "/mcp"), &question);
        policy
            .evaluate(&verdict, &question, Some(arguments.to_string().as_bytes()))
            .unwrap_err()
            .reason
    };
    for (arguments, wanted) in [
        (json!({"to": {"iban": "DE"}}), "/amount is missing"),
        (json!({"amount": 1}), "/to is missing"),
        (json!({"amount": 1, "to": {}}), "/to/iban is missing"),
        (
            json!({"amount": "x", "to": {"iban": "DE"}}),
            "an argument has the wrong type: /amount is text, /to/iban is text",
        ),
    ] {
        match reason(arguments.clone()) {
            DenyReason::Unjudged(log, argument) => {
                assert!(
                    argument.0 == wanted && log.starts_with("policy pay: "),
                    "{arguments}: {log}, {argument}"
                );
            }
            other => panic!("{arguments}: {other:?}"),
        }
    }
    let large = reason(json!({"amount": 1, "to": {"iban": "DE"}, "x": vec![0; 100_001]}));
    assert!(matches!(large, DenyReason::Failure(_)), "{large:?}");
}

#[test]
fn names_that_stand_for_something_else_are_refused() {
    for name in ["default", "pins", "policy.tools.deny", "policy.x"] {
        let found = mistakes(json!([{"name": name, "effect": "allow"}]));
        assert!(
            found.len() == 1 && found[0].0 == "name" && found[0].1.contains("is reserved"),
            "{found:?}"
        );
    }
    policy(json!([{"name": "defaults", "effect": "allow"}, {"name": "policy", "effect": "deny"}]));
}

/// A rate in an `allow` policy is meant as a bound and not as permission for everything.
#[test]
fn an_allow_policy_with_a_bound_says_what_it_allows() {
    let bounds = [("rate", json!({"per_minute": 6})), ("response", json!({"secrets": true}))];
    for (key, bound) in bounds {
        let policy = |effect: &str| json!({"name": "a", "effect": effect, "who": {"roles": ["ci"]}, key: bound});
        let found = mistakes(json!([policy("allow")]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].0 == "effect" && found[0].1.contains("allows everything"), "{found:?}");
        self::policy(json!([policy("deny")]));
        let mut narrow = policy("allow");
        narrow["what"] = json!({"servers": ["*"]});
        self::policy(json!([narrow]));
        let mut conditional = policy("allow");
        conditional["when"] = json!("target.server == 'a'");
        self::policy(json!([conditional]));
    }
}

#[test]
fn what_can_never_be_fulfilled_is_a_mistake() {
    let argument = |rule: Value| json!({"name": "a", "effect": "allow", "arguments": {"/x": rule}});
    for (policy, path) in [
        (argument(json!({"value": {"one_of": []}})), "arguments./x.value"),
        (argument(json!({"value": {"equals": 1, "one_of": [2, 3]}})), "arguments./x.value"),
        (argument(json!({"value": {"equals": 1, "none_of": [1.0]}})), "arguments./x.value"),
        (
            argument(json!({"value": {"min": 9007199254740993_u64, "max": 9007199254740992_u64}})),
            "arguments./x.value",
        ),
        (argument(json!({"command": {"programs": []}})), "arguments./x.command"),
        (argument(json!({"url": {}})), "arguments./x.url"),
        (json!({"name": "a", "effect": "deny", "response": {}}), "response"),
        (json!({"name": "a", "effect": "allow", "when": "false"}), "when"),
        (json!({"name": "a", "effect": "deny", "when": "1 > 2 || \"a\" == \"b\""}), "when"),
    ] {
        let found = mistakes(json!([policy]));
        assert!(found.len() == 1 && found[0].0 == path, "{policy}: {found:?}");
    }
    policy(json!([
        argument(json!({"value": {"equals": 1, "one_of": [1.0, 2]}})),
        {"name": "b", "effect": "allow", "when": "true"},
        {"name": "c", "effect": "allow", "arguments": {"/x": {"url": {"any_host": true}}, "/y": {"command": {}}}},
    ]));
}

/// Adjacent large integers are the same float.
#[test]
fn whole_numbers_are_compared_exactly() {
    let passes = |rule: Value, sent: &str| {
        let policy =
            policy(json!([{"name": "a", "effect": "allow", "arguments": {"/x": {"value": rule}}}]));
        let (target, text) = (tool("a__t"), format!("{{\"x\": {sent}}}"));
        let question = Question { subject: &SOMEBODY, endpoint: "/mcp", target: &target };
        policy.answer(&question, Some(text.as_bytes())).decision == Expect::Allow
    };
    let max = || json!({"max": 9007199254740992_u64});
    for good in ["9007199254740992", "1", "-5", "1.5", "9007199254740991.0"] {
        assert!(passes(max(), good), "{good}");
    }
    for bad in [
        "9007199254740993",
        "9007199254740993.0",
        "9007199254740992.0",
        "1e300",
        "18446744073709551617",
    ] {
        assert!(!passes(max(), bad), "{bad}");
    }
    let one = || json!({"one_of": [1234567890123456789_u64, {"a": 9007199254740993_u64}]});
    assert!(passes(one(), "1234567890123456789") && passes(one(), "{\"a\": 9007199254740993}"));
    for bad in [
        "1234567890123456788.0",
        "1234567890123456789.0",
        "{\"a\": 9007199254740992}",
        "{\"a\": 9007199254740993.0}",
    ] {
        assert!(!passes(one(), bad), "{bad}");
    }
    let none = || json!({"none_of": [1234567890123456789_u64]});
    assert!(passes(none(), "1234567890123456788") && !passes(none(), "1234567890123456788.0"));
    let fraction = || json!({"min": 0.5, "max": 1e20});
    for good in ["1", "0.5", "100000000000000000000", "1e19", "18446744073709551615"] {
        assert!(passes(fraction(), good), "{good}");
    }
    for bad in ["0", "0.25", "1e21", "-1"] {
        assert!(!passes(fraction(), bad), "{bad}");
    }
    assert!(
        passes(json!({"equals": 1}), "1.0")
            && passes(json!({"min": -3}), "-2.5")
            && !passes(json!({"min": -2}), "-2.5")
    );
}

#[test]
fn an_explanation_says_what_a_policy_limits() {
    let policy = policy(json!([
        {"name": "all", "effect": "allow"},
        {"name": "back", "effect": "deny", "response": {"secrets": true}},
        {"name": "both", "effect": "deny", "response": {"secrets": true}, "rate": {"per_minute": 1}},
        {"name": "often", "effect": "deny", "rate": {"per_minute": 1}},
    ]));
    let target = tool("a__t");
    let explained =
        policy.explain(&Question { subject: &SOMEBODY, endpoint: "/mcp", target: &target }, None);
    let says: Vec<&str> = explained.policies.iter().map(|step| step.says.as_str()).collect();
    let wanted = ["limits the response", "limits the rate and the response", "limits the rate"];
    assert_eq!(says[1..], wanted, "{says:?}");
}

/// A file server without annotations on its tools, except for one read-only tool.
#[test]
fn a_path_that_goes_up_is_sent_as_where_it_leads() {
    let deny = json!({"roots": ["/srv"], "deny": ["private"]});
    let policy = policy(json!([
        {"name": "open", "effect": "allow", "what": {"tools": ["fs__*"]}},
        {"name": "never", "effect": "deny", "arguments": {
            "/path": {"optional": true, "path": deny}, "/paths/*": {"optional": true, "path": deny},
        }},
    ]));
    let forwarded = |arguments: Value| {
        let outcome = ask(&policy, &SOMEBODY, "fs__write", arguments);
        (outcome.decision, outcome.forwards)
    };
    let up = forwarded(json!({"path": "/srv/a/../b", "paths": ["/srv/c", "/srv/d/e/../../f"]}));
    assert_eq!(up, (Expect::Allow, Some(json!({"path": "/srv/b", "paths": ["/srv/c", "/srv/f"]}))));
    assert_eq!(forwarded(json!({"path": "/srv/a/b"})).0, Expect::Allow);
    for refused in ["/srv/a/../private/x", "/srv/a/../../etc/passwd", "/srv", "/srv/a/.."] {
        assert_eq!(forwarded(json!({"path": refused})).0, Expect::Deny, "{refused}");
    }
    let target = Target {
        annotations: Annotations { read_only: true, ..Annotations::default() },
        ..tool("fs__list")
    };
    let question = Question { subject: &SOMEBODY, endpoint: "/mcp", target: &target };
    assert_eq!(policy.answer(&question, Some(br#"{"path": "/srv"}"#)).decision, Expect::Allow);
}

#[test]
fn words_that_are_none_are_mistakes_and_an_explanation_says_which_word_it_was() {
    let what = |what: Value| json!([{"name": "a", "effect": "deny", "what": what}]);
    for (key, written, path, words) in [
        ("words", json!(["delete", "dr*p"]), "what.words.1", "it has `*`"),
        ("not_words", json!(["[a]"]), "what.not_words.0", "it has `[`"),
        ("words", json!([]), "what.words", "is empty"),
        ("words", json!(["{a,b}".repeat(13), "{a,b}".repeat(13)]), "what.words", "more than 10000"),
    ] {
        let found = mistakes(what(json!({ key: written })));
        assert!(
            found.iter().any(|(at, said)| at == path && said.contains(words)),
            "{path}: {found:?}"
        );
    }
    let explained = |name: &str| {
        let policy = policy(json!([
            {"name": "all", "effect": "allow"},
            {"name": "final", "effect": "deny", "what": {"words": ["delete", "{force, soft} push"], "not_words": ["draft"]}},
        ]));
        let question = Question { subject: &SOMEBODY, endpoint: "/mcp", target: &tool(name) };
        serde_json::to_string(&policy.explain(&question, None)).unwrap()
    };
    let said = explained("x__deleteAll");
    assert!(
        said.contains("denies it for the word `delete`") && said.contains(r#""decision":"hidden""#),
        "{said}"
    );
    let said = explained("x__git_force_push");
    assert!(said.contains("denies it for the word `force push`"), "{said}");
    let said = explained("x__list");
    assert!(said.contains("if this matched: what.words: delete, force push, soft push"), "{said}");
    let said = explained("x__delete_draft");
    assert!(said.contains("if this matched: what.not_words: draft"), "{said}");
}
