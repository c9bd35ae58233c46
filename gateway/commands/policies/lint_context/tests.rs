//! Tests of `lint_context`: names in cases resolve as in the gateway.
#![allow(clippy::disallowed_methods, reason = "makes its own files")]

use super::*;

/// Returns a gateway with built-in files, an external server and an approved tool of that server.
fn context() -> (LintContext, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let pin = lockgate_policy::pin::Pin::of(
        br#"{"name":"look","annotations":{"readOnlyHint":true},"inputSchema":{}}"#,
    );
    let mut lock = lockgate_policy::pin::Lock::default();
    lock.approve("db", "look", pin.unwrap());
    std::fs::write(here.join("pins.json"), lock.write()).unwrap();
    std::fs::create_dir(here.join("data")).unwrap();
    let config = "builtin: { file: { roots: [{ path: data, write: true }] } }\npins: { file: pins.json }\nservers: { db: { url: 'http://127.0.0.1:1/mcp' }, web: { url: 'http://127.0.0.1:1/mcp' } }\n";
    std::fs::write(here.join("lockgate.yaml"), config).unwrap();
    let sources =
        lockgate_config::Sources { cwd: here.to_path_buf(), ..lockgate_config::Sources::default() };
    (LintContext::new(Some(Box::new(lockgate_config::load(&sources).unwrap().config))), folder)
}

fn tool(context: &LintContext, name: &str) -> (Option<String>, Option<bool>) {
    let asked = context.asked(TargetKind::Tool, name, "/mcp").unwrap();
    (asked.category, asked.annotations.map(|annotations| annotations.read_only))
}

#[test]
fn tools_have_the_category_and_the_annotations_of_the_gateway() {
    let (context, _folder) = context();
    assert_eq!(tool(&context, "file/read"), (Some("file".into()), Some(true)));
    assert_eq!(tool(&context, "file__write"), (Some("file".into()), Some(false)));
    assert_eq!(tool(&context, "file/none"), (Some("file".into()), None));
    // A disabled built-in server, and a built-in name used by another server.
    assert_eq!(tool(&context, "shell/execute"), (Some("shell".into()), None));
    assert_eq!(tool(&context, "web/fetch"), (None, None));
    assert_eq!(tool(&context, "db/look"), (None, Some(true)));
    assert_eq!(tool(&context, "db/other"), (None, None));
    assert_eq!(tool(&LintContext::default(), "shell/execute"), (Some("shell".into()), None));
}

#[test]
fn a_case_about_a_built_in_tool_is_decided_as_in_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        std::fs::create_dir_all(folder.path().join("cases")).unwrap();
        std::fs::write(folder.path().join(name), text).unwrap();
    };
    file(
        "p.yaml",
        "policies:\n  - { name: shells, effect: allow, what: { categories: [shell] } }\n",
    );
    file("cases/p.yaml", "cases:\n  - { name: shell, call: shell/execute, expect: hidden }\n");
    let tried = super::super::run(
        &folder.path().join("cases/p.yaml"),
        folder.path(),
        &LintContext::default(),
    );
    assert_eq!(tried.unwrap()[0].differences, ["expected hidden, got allow"]);
}

#[test]
fn a_resource_is_found_by_each_of_its_uris() {
    let context = LintContext::default();
    let asked = |name: &str, at: &str| {
        let asked = context.asked(TargetKind::Resource, name, at)?;
        Ok::<_, String>([asked.server, asked.own, asked.exposed].join(" "))
    };
    for (name, at, wanted) in [
        ("db+notes://public/a", "/mcp", "db notes://public/a db+notes://public/a"),
        ("db/notes://public/a", "/mcp", "db notes://public/a db+notes://public/a"),
        ("notes://public/a", "/servers/db/mcp", "db notes://public/a db+notes://public/a"),
        ("db/notes://public/a", "/servers/db/mcp", "db notes://public/a db+notes://public/a"),
        ("ui://a+panel/main", "/mcp", "a ui://panel/main ui://a+panel/main"),
        ("x-1a+file:///b", "/mcp", "1a file:///b x-1a+file:///b"),
        ("docs/https://example.com/a", "/mcp", "docs https://example.com/a https://example.com/a"),
    ] {
        assert_eq!(asked(name, at).as_deref(), Ok(wanted), "{name} at {at}");
    }
    let told = asked("notes://public/a", "/mcp").unwrap_err();
    assert!(
        told.contains("write server/notes://public/a, or its URI at /mcp, server+notes://public/a"),
        "{told}"
    );
    let told = asked("https://example.com/a", "/mcp").unwrap_err();
    assert!(told.ends_with("write server/https://example.com/a"), "{told}");
}
