//! Tests of policy files: found, read with places, and every mistake reported at once.

use super::TestConfig;

const GOOD: &str = "policies:\n  - name: a\n    effect: allow\n";

#[test]
fn files_folders_and_patterns_are_found_and_watched() {
    for files in [
        "policies",
        "policies/*.yaml",
        "[policies/a.yaml, policies/b.yaml]",
        "[policies, policies/a.yaml]",
    ] {
        let config = format!("policy: {{ files: {files} }}");
        let b = GOOD.replace("name: a", "name: b");
        let given = TestConfig::files(&[
            ("lockgate.yaml", &config),
            ("policies/a.yaml", GOOD),
            ("policies/b.yaml", &b),
        ]);
        let loaded = given.loaded();
        let names: Vec<&str> =
            loaded.config.policy.documents.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["policies/a.yaml", "policies/b.yaml"], "{files}");
        assert_eq!(loaded.config.policy.documents[0].policies[0].line, 2);
        assert!(loaded.files.contains(&given.path().join("policies/b.yaml")), "{:?}", loaded.files);
    }
}

/// Checks that a matching but unreadable file is a mistake, because its policy would be missing.
/// Names with a leading dot are editors' files.
#[test]
fn a_policy_that_cannot_be_reached_is_a_mistake() {
    for named in ["p", "'p/*.yaml'"] {
        let config = format!("policy: {{ files: [{named}] }}");
        let draft = GOOD.replace("name: a", "name: draft");
        let given = TestConfig::files(&[
            ("lockgate.yaml", &config),
            ("p/a.yaml", GOOD),
            ("p/.draft.yaml", &draft),
        ]);
        let path = |name: &str| given.path().join(name);
        std::os::unix::fs::symlink("ann@host.123", path("p/.#a.yaml")).unwrap();
        let names = |given: &TestConfig| {
            let documents = given.loaded().config.policy.documents;
            documents.into_iter().map(|file| file.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&given), ["p/a.yaml"]);

        std::fs::write(path("target"), GOOD.replace("name: a", "name: b")).unwrap();
        std::os::unix::fs::symlink("../target", path("p/deny.yaml")).unwrap();
        assert_eq!(names(&given), ["p/a.yaml", "p/deny.yaml"]);
        std::fs::rename(path("target"), path("away")).unwrap();
        std::fs::create_dir(path("p/deny2.yaml")).unwrap();
        let alone = crate::policies::load(&["p".into()], given.path()).unwrap_err();
        for told in [given.messages(), alone.problems.iter().map(ToString::to_string).collect()] {
            assert_eq!(told.len(), 1, "{told:?}");
            let mistakes = "`deny.yaml` is a broken link; `deny2.yaml` is not a file";
            assert!(told[0].contains(mistakes), "{told:?}");
        }
    }
    // A pattern may request such names.
    let given = TestConfig::files(&[
        ("lockgate.yaml", "policy: { files: ['p/.a*'] }"),
        ("p/.a.yaml", GOOD),
    ]);
    assert_eq!(given.loaded().config.policy.documents.len(), 1);
}

#[test]
fn production_is_content_with_policy_files() {
    let config =
        "profile: production\nauth: { key: \"0123456789abcdef0\" }\npolicy: { files: [a.yaml] }";
    let given = TestConfig::files(&[("lockgate.yaml", config), ("a.yaml", GOOD)]);
    assert!(given.loaded().config.production);
}

#[test]
fn every_mistake_in_policy_files_has_a_place_and_a_hint() {
    let bad = "\
policies:
  - name: a
    efect: allow
    effect: alow
    who:
    what: { tols: [x], tools: x }
";
    let other = "\
policies:
  - { name: b, effect: allow, what: { tools: [\"a{\"] }, when: subjekt.id == \"x\" }
  - name: b
    effect: deny
    arguments:
      /sql: { sql: { dialekt: mysql } }
";
    let odd =
        "policies:\n  - { name: d }\n  - { name: e, effect: deny, rate: { per_minute: -1 } }\n";
    let compiled = "policies:\n  - { name: c, effect: allow, when: subjekt.id == \"x\" }\n  - { name: c, effect: deny, what: { tools: [\"a{\"] } }\n";
    let config = |files: &str| format!("policy: {{ files: {files} }}\nlisten: nowhere\n");
    let given = TestConfig::files(&[
        ("lockgate.yaml", &config("[p, q.yaml]")),
        ("p/a.yaml", bad),
        ("p/b.yaml", other),
        ("p/c.yaml", odd),
    ]);
    let told = given.messages().join("\n");
    assert!(!told.contains("p/a.yaml:2:5"), "{told}");
    for line in [
        "lockgate.yaml:1:22: policy.files.1: there is no such file or folder",
        "lockgate.yaml:2:9: listen:",
        "p/a.yaml:3:5: policies.0.efect: there is no such key — did you mean `effect`?",
        "p/a.yaml:4:13: policies.0.effect: must be `allow`, `ask` or `deny`",
        "p/a.yaml:5:5: policies.0.who: has no value",
        "p/a.yaml:6:13: policies.0.what.tols: there is no such key — did you mean `tools`?",
        "policies.0.what.tools: must be a list, not text",
        "p/c.yaml:2:5: policies.0: lacks `effect`",
        "p/c.yaml:3:50: policies.1.rate.per_minute: must be a whole number from 0 to",
        "not a negative number",
        "p/b.yaml:6:22: policies.1.arguments./sql.sql.dialekt: there is no such key — did you mean `dialect`?",
    ] {
        assert!(told.contains(line), "{line}\n in \n{told}");
    }
    let given = TestConfig::files(&[
        ("lockgate.yaml", "policy: { files: [c.yaml] }"),
        ("c.yaml", compiled),
    ]);
    let told = given.messages().join("\n");
    for line in [
        "c.yaml:2:37: policies.0.when: has no variable `subjekt`; did you mean `subject`?",
        "c.yaml:3:13: policies.1.name: is the name of another policy, at c.yaml:2",
        "policies.1.what.tools.0: is not a valid pattern: unclosed",
    ] {
        assert!(told.contains(line), "{line}\n in \n{told}");
    }
}

#[test]
fn a_mistake_of_form_hides_no_mistake_of_meaning() {
    let form = "\
policies:
  - { name: a, effect: alow }
  - { name: b, efect: deny, effect: deny, rate: { per_minute: 0 } }
  - { name: twice }
  - { name: c, effect: deny, rate: { per_minute: 0 } }
  - { name: a, effect: deny }
  - { name: 'd d', effect: deny, who: }
  - just text
  - { name: b, effect: deny, what: { tools: [\"a{\"] } }
";
    let meaning = "\
policies:
  - { name: twice, effect: allow, who: { principals: [ann] } }
  - { name: e, effect: allow, when: subjekt.id == \"x\" }
";
    let broken = "policies:\n  - name: f\n   effect: allow\n";
    let files = [
        ("lockgate.yaml", "policy: { files: [p] }"),
        ("p/a.yaml", form),
        ("p/b.yaml", meaning),
        ("p/c.yaml", broken),
    ];
    let given = TestConfig::files(&files);
    let alone = crate::policies::load(&["p".into()], given.path()).unwrap_err();
    let alone: Vec<String> = alone.problems.iter().map(ToString::to_string).collect();
    for told in [given.messages(), alone] {
        let mut expected = vec![
            "p/a.yaml:2:24: policies.0.effect: must be `allow`, `ask` or `deny`",
            "p/a.yaml:3:16: policies.1.efect: there is no such key",
            "p/a.yaml:4:5: policies.2: lacks `effect`",
            "p/a.yaml:5:50: policies.3.rate.per_minute: must be from 1 to 1000000",
            "p/a.yaml:6:13: policies.4.name: is the name of another policy, at p/a.yaml:2",
            "p/a.yaml:7:34: policies.5.who: has no value",
            "p/a.yaml:7:13: policies.5.name: must be 1 to 64 letters",
            "p/a.yaml:8:5: policies.6: must be a section",
            "p/a.yaml:9:13: policies.7.name: is the name of another policy, at p/a.yaml:3",
            "p/a.yaml:9:46: policies.7.what.tools.0: is not a valid pattern: unclosed",
            "p/b.yaml:2:13: policies.0.name: is the name of another policy, at p/a.yaml:4",
            "p/b.yaml:2:55: policies.0.who.principals.0: ",
            "p/b.yaml:3:37: policies.1.when: has no variable `subjekt`; did you mean `subject`?",
            "p/c.yaml:3:",
        ];
        expected.retain(|line| !told.iter().any(|told| told.contains(line)));
        assert!(expected.is_empty(), "{expected:#?} not in {told:#?}");
        // No mistake is reported twice, or only because of a removed value.
        assert_eq!(told.len(), 14, "{told:#?}");
        assert!(told.iter().all(|line| line.contains(" — ")), "{told:#?}");
    }
}

#[test]
fn policies_for_what_nobody_can_carry_are_warned_of() {
    let policies = "\
policies:
  - { name: a, effect: allow, who: { roles: [admin], principals: ['local|user'] } }
  - { name: b, effect: allow, who: { roles: [dev], certificates: ['dns:ci'] } }
  - { name: c, effect: deny, who: { scopes: [x], agents: [y] } }
  - { name: d, effect: allow, who: { organisations: [z], anonymous: false } }
";
    let warned = |config: &str| {
        let config = format!("policy: {{ files: [p.yaml] }}\n{config}");
        let given = TestConfig::files(&[
            ("lockgate.yaml", &config),
            ("p.yaml", policies),
            ("keys.yaml", "keys: []\n"),
        ]);
        let warnings = given.loaded().warnings;
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let never = "no caller can have any, so this policy never matches";
    let granted = "set `auth.keys_file` or `auth.issuers`, or remove it";
    let certificates = format!(
        "warning: p.yaml:3:52: policies.1.who.certificates: {never} — set `http.tls.client_ca`, or remove it"
    );
    assert_eq!(
        warned(""),
        [
            format!(
                "warning: p.yaml:2:38: policies.0.who.roles: no caller can have any, so this policy and 1 more in this file \
                 never match — {granted}"
            ),
            certificates.clone(),
            format!("warning: p.yaml:4:37: policies.2.who.scopes: {never} — {granted}"),
            format!("warning: p.yaml:4:50: policies.2.who.agents: {never} — {granted}"),
            format!("warning: p.yaml:5:38: policies.3.who.organisations: {never} — {granted}"),
        ]
    );
    assert_eq!(warned("auth: { keys_file: keys.yaml }"), [certificates]);
}

/// Checks that a truncated file does not silently lose its denies.
#[test]
fn a_file_that_lost_its_policies_is_a_mistake() {
    let hint =
        "write `policies: []` for an empty file: a file without it may have lost its content";
    for (text, place) in [
        ("", "p.yaml"),
        ("# only words\n", "p.yaml"),
        ("$schema: x\n", "p.yaml:1:1"),
        ("---\n", "p.yaml"),
    ] {
        let given = TestConfig::files(&[
            ("lockgate.yaml", "policy: { files: [p.yaml] }"),
            ("p.yaml", text),
        ]);
        let alone = crate::policies::load(&["p.yaml".into()], given.path()).unwrap_err();
        let alone: Vec<String> = alone.problems.iter().map(ToString::to_string).collect();
        assert_eq!(given.messages(), [format!("{place}: lacks `policies` — {hint}")], "{text:?}");
        assert_eq!(alone, given.messages(), "{text:?}");
        let cases = crate::policies::cases("p.yaml".as_ref(), given.path()).unwrap_err();
        assert!(
            cases.problems[0].to_string().contains("lacks `cases` — write `cases: []`"),
            "{cases}"
        );
    }
    for text in ["policies:\n", "policies: {}\n", "polices: []\n"] {
        let given = TestConfig::files(&[
            ("lockgate.yaml", "policy: { files: [p.yaml] }"),
            ("p.yaml", text),
        ]);
        let told = given.messages();
        assert!((1..=2).contains(&told.len()), "{told:?}");
    }
    let given = TestConfig::files(&[
        ("lockgate.yaml", "policy: { files: [p.yaml] }"),
        ("p.yaml", "policies: []\n"),
    ]);
    assert_eq!(given.loaded().config.policy.documents.len(), 1);
}

/// Checks the hint for patterns and conditions that need quotes in YAML.
#[test]
fn a_value_that_needs_quotes_is_told_to() {
    let told = |what: &str| {
        let text = format!("policies:\n  - name: a\n    effect: allow\n    {what}\n");
        TestConfig::files(&[("lockgate.yaml", "policy: { files: [p.yaml] }"), ("p.yaml", &text)])
            .messages()
            .join("\n")
    };
    for bad in [
        "what: { tools: [*] }",
        "what: { tools: [a/b, */read] }",
        "what:\n      tools:\n        - *",
        "when: !(\"x\" in subject.roles)",
        "when: \"oncall\" in subject.roles && target.server == \"db\"",
        "what: { tools: [{a,b}/x] }",
        "when: {a} in b",
    ] {
        let told = told(bad);
        assert!(told.contains("put the whole value in quotes"), "{bad}: {told}");
    }
    let other = "the mistake is here or just before";
    for bad in [
        "what: { tools: [\"a\" }",
        "what: { tools: [x/y]",
        "\"effect\": deny",
        "description: see: this",
    ] {
        let told = told(bad);
        assert!(told.contains(other), "{bad}: {told}");
    }
}

#[test]
fn each_kind_of_file_has_its_own_reference() {
    let policy = "policies:\n  - { name: a, effect: allow, dry_run: 'yes' }\n  - { name: b }\n";
    let cases = "cases:\n  - { name: a, expect: allow, as: { roles: x } }\n  - { name: b, expect: allow, says: [x] }\n  - { name: c }\n";
    let config = "policy: { files: [p.yaml] }\nnames: { max_length: x }\n";
    let given =
        TestConfig::files(&[("lockgate.yaml", config), ("p.yaml", policy), ("c.yaml", cases)]);
    let told = given.messages().join("\n");
    assert!(
        told.contains("not text — `lockgate schema --policy` lists the valid values"),
        "{told}"
    );
    assert!(told.contains("it is required; `lockgate schema --policy` lists all keys"), "{told}");
    let told = crate::policies::cases("c.yaml".as_ref(), given.path()).unwrap_err().to_string();
    assert!(told.contains("it is required; `lockgate schema --cases` lists all keys"), "{told}");
}

#[test]
fn lists_that_name_no_server_are_warned_of() {
    let config = "servers: { time: { command: sh } }\npolicy:\n  files: [p.yaml]\n  servers: { \
        allow: [time, tiem] }\n  tools: { allow: ['tiem__*', 'time/*', 'ti*', '*', 'time_', \
        '{a,b}__c', system__servers], deny: ['tiem/x'] }\n";
    let policy = "policies:\n  - { name: a, effect: deny, what: { servers: [tiem] } }\n  - { name: \
        b, effect: deny, what: { servers: [tiem, 'ti*'] } }\n  - { name: c, effect: allow, what: { \
        tools: ['tiem/x'] } }\n";
    let messages = TestConfig::files(&[("lockgate.yaml", config), ("p.yaml", policy)]).messages();
    let about: Vec<&str> = messages
        .iter()
        .filter_map(|message| message.strip_prefix("warning: "))
        .filter_map(|message| message.split_once(" — ").map(|(what, _)| what))
        .collect();
    assert_eq!(
        about,
        [
            "lockgate.yaml:4:28: policy.servers.allow.1: matches no server of this configuration (it is `tiem`)",
            "lockgate.yaml:5:20: policy.tools.allow.0: matches no server of this configuration (it is `tiem__*`)",
            "lockgate.yaml:5:99: policy.tools.deny.0: matches no server of this configuration (it is `tiem/x`)",
            "p.yaml:2:38: policies.0.what.servers: matches no server of this configuration",
        ]
    );
}
