//! Tests of several files merged into a configuration, with a place for every mistake.

use super::TestConfig;
use crate::effective;

fn names(given: &TestConfig) -> Vec<String> {
    let servers = given.loaded().config.servers;
    servers.into_iter().map(|server| server.slug).collect()
}

#[test]
fn teams_have_files_and_folders_of_their_own() {
    let given = TestConfig::files(&[
        ("lockgate.yaml", "include: [teams/a.yaml, more]\npolicy: { tools: { allow: [c__*] } }\n"),
        (
            "teams/a.yaml",
            "servers:\n  a:\n    command: ./bin/a\n    env: { T: '${file:a.txt}' }\n    cwd: .\n\
             policy: { tools: { allow: [a__*] }, files: rules.yaml }\n",
        ),
        ("teams/a.txt", "secret-of-a\n"),
        (
            "teams/rules.yaml",
            "policies:\n- name: r\n  effect: deny\n  what: { tools: [\"b__*\"] }\n",
        ),
        (
            "more/b.yaml",
            "servers: { b: { url: 'http://127.0.0.1:1/mcp' } }\nlog: { level: warn }\n",
        ),
    ]);
    assert_eq!(names(&given), ["a", "b"]);
    let loaded = given.loaded();
    assert_eq!(loaded.config.policy.lists.tools.allow, Some(vec!["c__*".into(), "a__*".into()]));
    assert_eq!(loaded.config.telemetry.level, "warn");
    let lockgate_upstream::Transport::Stdio { command, env, cwd, .. } =
        &loaded.config.servers[0].transport
    else {
        panic!("a child process");
    };
    let teams = given.path().join("teams");
    assert_eq!(command, &teams.join("bin/a").display().to_string());
    assert_eq!((env["T"].as_str(), cwd.as_deref()), ("secret-of-a", Some(&*teams)));
    for file in ["teams/a.yaml", "teams/a.txt", "teams/rules.yaml", "more/b.yaml"] {
        assert!(loaded.files.contains(&given.path().join(file)), "{file} is watched");
    }
    assert_eq!(
        loaded.file,
        Some(given.path().join("lockgate.yaml")),
        "the first file stays the one"
    );
    let shown = effective(&given.sources).unwrap_or_else(|report| panic!("{report}"));
    let level = shown.settings.iter().find(|setting| setting.key == "log.level").unwrap();
    assert_eq!(level.origin.to_string(), "more/b.yaml:2:15");
}

#[test]
fn what_two_files_say_differently_names_both_places() {
    let given = TestConfig::files(&[
        ("lockgate.yaml", "include: [a.yaml, b.yaml]\nlisten: 127.0.0.1:4000\n"),
        ("a.yaml", "servers:\n  time: { command: sh, timeout: 5 }\nname: same\n"),
        (
            "b.yaml",
            "servers:\n  time: { command: ls }\nname: same\nlisten: 127.0.0.1:4001\nhttp: 5\n",
        ),
    ]);
    assert_eq!(
        given.messages(),
        [
            "b.yaml:2:9: servers.time: another server with this name is defined at a.yaml:2:9 — \
             rename one of them",
            "b.yaml:4:9: listen: a different value is set at lockgate.yaml:2:9 — keep it in one of \
             the files",
            "b.yaml:5:7: http: must be a section (keys and values), not a number — put its keys \
             under it",
        ]
    );
    let given = TestConfig::files(&[
        ("lockgate.yaml", "include: b.yaml\nservers: { time: { timeout: 7 } }\n"),
        ("b.yaml", "servers: { time: { command: ls } }\n"),
    ]);
    assert_eq!(given.loaded().config.servers[0].call_timeout.as_secs(), 7, "settings are added");
}

#[test]
fn a_mistake_is_told_at_its_file_and_line() {
    let given = TestConfig::files(&[
        ("lockgate.yaml", "include: teams/a.yaml\n"),
        (
            "teams/a.yaml",
            "log:\n  levle: info\nservers:\n  a: { command: sh, env: { K: '${NO}' } }\n",
        ),
    ]);
    let messages = given.messages();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(messages[0].starts_with("teams/a.yaml:2:3: log.levle: there is no such key"));
    assert!(
        messages[1].starts_with("teams/a.yaml:4:31: servers.a.env.K: the environment variable")
    );
}

#[test]
fn what_cannot_be_included_says_why() {
    let cases: &[(&[(&str, &str)], &str)] = &[
        (
            &[("lockgate.yaml", "include: [gone.yaml]")],
            "lockgate.yaml:1:11: include: `gone.yaml`: \
            there is no such file or folder",
        ),
        (
            &[("lockgate.yaml", "include: teams/*.yaml"), ("teams/a.txt", "")],
            "lockgate.yaml:1:10: include: `teams/*.yaml`: no file matches",
        ),
        (
            &[("lockgate.yaml", "include: ../other.yaml")],
            "lockgate.yaml:1:10: include: \
            `../other.yaml`: is outside the folder of the including file",
        ),
        (
            &[("lockgate.yaml", "include: /etc/hostname")],
            "lockgate.yaml:1:10: include: \
            `/etc/hostname`: is outside the folder",
        ),
        (
            &[("lockgate.yaml", "include: lockgate.yaml")],
            "lockgate.yaml:1:10: include: the files \
            include each other: lockgate.yaml → lockgate.yaml",
        ),
        (
            &[
                ("lockgate.yaml", "include: a.yaml"),
                ("a.yaml", "include: t/b.yaml"),
                ("t/b.yaml", "include: c.yaml"),
                ("t/c.yaml", "include: c.yaml"),
            ],
            "t/c.yaml:1:10: include: the files include each other: t/c.yaml → t/c.yaml",
        ),
        (
            &[
                ("lockgate.yaml", "include: [a.yaml, b.yaml]"),
                ("a.yaml", "include: b.yaml"),
                ("b.yaml", "{}"),
            ],
            "lockgate.yaml:1:19: include: b.yaml is included twice; the other \
            place is a.yaml:1:10",
        ),
        (
            &[("lockgate.yaml", "include: ['*.yaml', b.yaml]"), ("b.yaml", "{}")],
            "lockgate.yaml:1:21: include: b.yaml is included twice; the other place is \
            lockgate.yaml:1:11",
        ),
    ];
    for (files, expected) in cases {
        let messages = TestConfig::files(files).messages();
        assert!(messages.iter().any(|m| m.starts_with(expected)), "{expected}: {messages:?}");
        assert_eq!(messages.len(), 1, "{messages:?}");
    }
    let variable = TestConfig::files(&[("a.yaml", "{}")]).env("LOCKGATE_INCLUDE", "a.yaml");
    assert_eq!(
        variable.messages(),
        ["environment LOCKGATE_INCLUDE: include: only a file can \
        include others — specify the first file with --config or LOCKGATE_CONFIG"]
    );
    let many: Vec<(String, String)> =
        (0..70).map(|n| (format!("many/{n:02}.yaml"), "{}".to_string())).collect();
    let mut files = vec![("lockgate.yaml", "include: many")];
    files.extend(many.iter().map(|(name, text)| (name.as_str(), text.as_str())));
    let messages = TestConfig::files(&files).messages();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].contains("at most 64 files"), "{messages:?}");
}

#[test]
fn a_circle_through_several_files_is_told_whole() {
    let given = TestConfig::files(&[
        ("lockgate.yaml", "include: a/one.yaml\n"),
        ("a/one.yaml", "include: two.yaml\n"),
        ("a/two.yaml", "include: back.yaml\n"),
    ]);
    std::os::unix::fs::symlink("one.yaml", given.path().join("a/back.yaml")).unwrap();
    let expected = "a/two.yaml:1:10: include: the files include each other: a/one.yaml → \
        a/two.yaml → a/one.yaml";
    let messages = given.messages();
    assert!(messages.len() == 1 && messages[0].starts_with(expected), "{messages:?}");
}

#[test]
fn an_emptied_file_is_a_mistake_wherever_it_is_included() {
    let given = TestConfig::files(&[("lockgate.yaml", "include: a.yaml\n"), ("a.yaml", "\n")]);
    let messages = given.messages();
    assert!(messages.len() == 1 && messages[0].starts_with("a.yaml: is empty"), "{messages:?}");
}

#[test]
fn no_link_leads_out_of_the_folder() {
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("a.yaml"), "log: { level: warn }\n").unwrap();
    let given = TestConfig::files(&[
        ("lockgate.yaml", "include: [teams/*.yaml, in.yaml, more]\n"),
        ("real/in.yaml", "listen: 127.0.0.1:4000\n"),
        ("teams/a.txt", ""),
    ]);
    let link = |to: &std::path::Path, name: &str| {
        std::os::unix::fs::symlink(to, given.path().join(name)).unwrap();
    };
    link(&elsewhere.path().join("a.yaml"), "teams/a.yaml");
    link(&given.path().join("real/in.yaml"), "in.yaml");
    link(elsewhere.path(), "more");
    let what = "is a link out of the folder of the including file";
    let messages = given.messages();
    assert_eq!(messages.len(), 2, "{messages:?}");
    for (message, name) in
        messages.iter().zip(["1:11: include: `teams/*.yaml`", "1:34: include: `more`"])
    {
        assert!(message.starts_with(&format!("lockgate.yaml:{name}: {what}")), "{message}");
    }
}
