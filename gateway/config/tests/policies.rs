//! Policy files: found, read with places, and every mistake in them told at once.

use super::Given;

const GOOD: &str = "policies:\n  - name: a\n    effect: allow\n";

#[test]
fn files_folders_and_patterns_are_found_and_watched() {
    for files in ["policies", "policies/*.yaml", "[policies/a.yaml, policies/b.yaml]", "[policies, policies/a.yaml]"] {
        let config = format!("policy: {{ files: {files} }}");
        let b = GOOD.replace("name: a", "name: b");
        let given = Given::files(&[("lockgate.yaml", &config), ("policies/a.yaml", GOOD), ("policies/b.yaml", &b)]);
        let loaded = given.loaded();
        let names: Vec<&str> = loaded.config.policy.documents.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["policies/a.yaml", "policies/b.yaml"], "{files}");
        assert_eq!(loaded.config.policy.documents[0].policies[0].line, 2);
        assert!(loaded.files.contains(&given.path().join("policies/b.yaml")), "{:?}", loaded.files);
    }
}

#[test]
fn production_is_content_with_policy_files() {
    let config = "profile: production\nauth: { key: \"0123456789abcdef0\" }\npolicy: { files: [a.yaml] }";
    let given = Given::files(&[("lockgate.yaml", config), ("a.yaml", GOOD)]);
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
    let compiled = "policies:\n  - { name: c, effect: allow, when: subjekt.id == \"x\" }\n  - { name: c, effect: deny, what: { tools: [\"a{\"] } }\n";
    let config = |files: &str| format!("policy: {{ files: {files} }}\nlisten: nowhere\n");
    let given = Given::files(&[("lockgate.yaml", &config("[p, q.yaml]")), ("p/a.yaml", bad), ("p/b.yaml", other)]);
    let told = given.messages().join("\n");
    for line in [
        "lockgate.yaml:1:22: policy.files.1: there is no such file or folder",
        "lockgate.yaml:2:9: listen:",
        "p/a.yaml:3:5: policies.0.efect: there is no such key — did you mean `effect`?",
        "p/a.yaml:4:13: policies.0.effect: must be `allow` or `deny`",
        "p/a.yaml:5:5: policies.0.who: has no value",
        "p/a.yaml:6:13: policies.0.what.tols: there is no such key — did you mean `tools`?",
        "policies.0.what.tools: must be a list, not text",
        "p/b.yaml:6:22: policies.1.arguments./sql.sql.dialekt: there is no such key — did you mean `dialect`?",
    ] {
        assert!(told.contains(line), "{line}\n in \n{told}");
    }
    let given = Given::files(&[("lockgate.yaml", "policy: { files: [c.yaml] }"), ("c.yaml", compiled)]);
    let told = given.messages().join("\n");
    for line in [
        "c.yaml:2:37: policies.0.when: has no variable `subjekt`; did you mean `subject`?",
        "c.yaml:3:13: policies.1.name: is the name of another policy, at c.yaml:2",
        "policies.1.what.tools.0: is no pattern: unclosed",
    ] {
        assert!(told.contains(line), "{line}\n in \n{told}");
    }
}
