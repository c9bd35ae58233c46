//! Tests of `builtin.shell`, and of the denied files in `builtin.file`: validated values and
//! mistakes.

use super::{TestConfig, certificate};

fn shell(text: &str) -> TestConfig {
    TestConfig::files(&[("lockgate.yaml", text), ("project/a.txt", "")])
}

#[test]
fn it_is_off_until_it_has_roots_and_then_has_defaults() {
    assert!(TestConfig::yaml("name: gate").loaded().config.tools.shell.is_none());
    let given = shell("builtin: { shell: { roots: [{ path: project }] } }");
    let made = given.loaded().config.tools.shell.unwrap();
    assert_eq!(made.roots[0].path, given.path().join("project"));
    assert!(!made.roots[0].write && made.allow_code_execution.is_empty());
    assert_eq!((made.rule().programs.len(), made.timeout.as_secs()), (16, 30));
    assert_eq!(made.landlock, lockgate_tools::Landlock::Required);
}

#[test]
fn programs_models_and_variables_are_taken() {
    let text = "builtin: { shell: { roots: [{ path: project, write: true }], programs: [ls, jq, node], allow_code_execution: [node], \
                models: { jq: { flags: [-r], operands: [text, path...] } }, environment: { TZ: UTC }, caller_environment: [LC_ALL], landlock: best-effort } }";
    let made = shell(text).loaded().config.tools.shell.unwrap();
    assert_eq!((made.roots[0].write, made.models["jq"].flags.len()), (true, 1));
    assert_eq!(made.caller_environment, ["LC_ALL"]);
    assert_eq!(
        (made.environment["TZ"].as_str(), made.landlock),
        ("UTC", lockgate_tools::Landlock::BestEffort)
    );
}

#[test]
fn mistakes_are_told() {
    for (keys, words) in [
        ("timeout: 5", "builtin.shell.roots: requires 1 to 64 folders"),
        ("roots: [{ path: ../nothing-is-here }]", "without `..`"),
        ("roots: [{ path: nowhere }]", "there is no such folder"),
        ("roots: [{ path: project }], programs: [jq]", "`jq` has no built-in model"),
        ("roots: [{ path: project }], allow_code_execution: [bash]", "`bash` is not in `programs`"),
        ("roots: [{ path: project }], models: { ls: { flags: [-all] } }", "`-all` is not a flag"),
        (
            "roots: [{ path: project }], environment: { LD_PRELOAD: x }",
            "would change which code programs run or load",
        ),
        (
            "roots: [{ path: project }], environment: { GIT_PAGER: x }",
            "would change which code programs run or load",
        ),
        ("roots: [{ path: project }], environment: { 'A-B': x }", "is not a variable name"),
        (
            "roots: [{ path: project }], caller_environment: [TZ, LD_PRELOAD]",
            "would change which code programs run or load",
        ),
        ("roots: [{ path: project }], search: [bin]", "must be an absolute path"),
        (
            "roots: [{ path: project }], timeout: 60, max_timeout: 30",
            "must not be more than `max_timeout`",
        ),
        ("roots: [{ path: project }], timeout: 301", "must be from 1 s to 300 s"),
        ("roots: [{ path: project }], shell: bash", "shell"),
    ] {
        let found = shell(&format!("builtin: {{ shell: {{ {keys} }} }}")).messages().join("\n");
        assert!(found.contains(words), "{keys}: {found}");
    }
}

#[test]
fn folders_of_tools_hold_nothing_of_the_gateway() {
    let (cert, key) = certificate();
    let files = |config: &str| {
        let given = [
            ("gate/lockgate.yaml", config),
            ("gate/policies/a.yaml", "policies: [{ name: a, effect: allow }]\n"),
            ("gate/project/notes.md", ""),
            ("gate/data/ca.pem", &*cert),
            ("gate/c.pem", &*cert),
            ("gate/k.pem", &*key),
        ];
        let mut given = TestConfig::files(&given);
        given.sources.cwd.push("gate");
        given.messages().join("\n")
    };
    for (config, place) in [
        (
            "builtin: { file: { roots: [{ path: . }] } }",
            "lockgate.yaml:1:36: builtin.file.roots.0.path: contains the gateway's own `lockgate.yaml`, which",
        ),
        (
            "builtin: { file: { roots: [{ path: project }, { path: policies }] } }\npolicy: { files: [policies] }",
            "builtin.file.roots.1.path: ",
        ),
        ("builtin: { shell: { roots: [{ path: . }] } }", "builtin.shell.roots.0.path: "),
        (
            "policy: { files: [policies] }\nbuiltin: { file: { roots: [{ path: policies }] } }",
            "builtin.file.roots.0.path: ",
        ),
        (
            "auth: { keys_file: data/keys.yaml }\nbuiltin: { file: { roots: [{ path: data }] } }",
            "data/keys.yaml",
        ),
        (
            "audit: { file: data/audit.jsonl }\nbuiltin: { file: { roots: [{ path: data }] } }",
            "data/audit.jsonl",
        ),
        (
            "http: { tls: { cert: c.pem, key: k.pem, client_ca: data/ca.pem } }\nbuiltin: { file: { roots: [{ path: data }] } }",
            "data/ca.pem",
        ),
        (
            "egress: { ca_file: data/ca.pem }\nbuiltin: { file: { roots: [{ path: data }] } }",
            "data/ca.pem",
        ),
        (
            "builtin: { database: { embedded: { folder: data } }, shell: { roots: [{ path: data }] } }",
            "builtin.shell.roots.0.path: ",
        ),
    ] {
        let told = files(config);
        assert!(told.contains(place) && told.contains("use another folder"), "{config}: {told}");
    }
    assert_eq!(
        files(
            "builtin: { file: { roots: [{ path: project, write: true }] }, shell: { roots: [{ path: project }] } }"
        ),
        ""
    );
}

/// Checks that a glob that cannot match any file in the roots is a mistake.
#[test]
fn what_is_denied_of_files_is_in_a_root() {
    let given = |deny: &str| {
        TestConfig::yaml(&format!(
            "builtin: {{ file: {{ roots: [{{ path: /srv/project }}], deny: [{deny}] }} }}"
        ))
    };
    let said = given("/etc/*").messages().join("\n");
    assert!(said.contains("builtin.file.deny: deny: \"/etc/*\" is outside of all roots"), "{said}");
    assert!(given("/srv/project/keys/, secrets/").loaded().config.tools.file.is_some());
}
