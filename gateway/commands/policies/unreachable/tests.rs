//! Tests of `unreachable`: patterns that cannot match are reported, others are not.
#![allow(clippy::disallowed_methods, reason = "makes its own files")]

use super::*;
use crate::commands::policies::Configured;
use lockgate_policy::cases::Caller;

const ID: &str = "3f6c0e9a17d2b458";

/// Returns a gateway with built-in files, two servers, an approved tool of the first, and a keys
/// file with the key `ci`.
fn configured(auth: &str, policies: &str) -> (Configured, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let pin = |tool: &[u8]| lockgate_policy::pin::Pin::of(tool).unwrap();
    let mut lock = lockgate_policy::pin::Lock::default();
    lock.approve(
        "db",
        "query",
        pin(br#"{"name":"query","inputSchema":{"type":"object","properties":{"sql":{}}}}"#),
    );
    lock.approve("db", "open", pin(br#"{"name":"open","inputSchema":{"type":"object"}}"#));
    file("pins.json", &lock.write());
    let hash = "0".repeat(64);
    file(
        "keys.yaml",
        &format!(
            "keys:\n  - {{ id: {ID}, hash: 'blake3:{hash}', name: ci, created: 2026-01-01, organisation: acme, roles: [dev], scopes: [write], agent: bot }}\n"
        ),
    );
    std::fs::create_dir(folder.path().join("data")).unwrap();
    file("p.yaml", &format!("policies:\n{policies}"));
    file(
        "lockgate.yaml",
        &format!(
            "builtin: {{ file: {{ roots: [{{ path: data, write: true }}] }} }}\npins: {{ file: pins.json }}\npolicy: {{ files: [p.yaml] }}\nservers: {{ db: {{ url: 'http://127.0.0.1:1/mcp' }}, notes: {{ url: 'http://127.0.0.1:1/mcp' }} }}\n{auth}\n"
        ),
    );
    let sources = lockgate_config::Sources {
        cwd: folder.path().to_path_buf(),
        ..lockgate_config::Sources::default()
    };
    (lockgate_config::load(&sources).unwrap().into(), folder)
}

const KEYS: &str = "auth: { keys_file: keys.yaml, scopes: { implies: { write: [read] } } }";

fn told(auth: &str, policies: &str) -> Vec<String> {
    let (configured, _folder) = configured(auth, policies);
    warnings(&configured.config.documents, &configured.context)
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn about(part: &str, key: &str, item: &str) -> String {
    format!("  - {{ name: a, effect: deny, {part}: {{ {key}: ['{item}'] }} }}\n")
}

#[test]
fn a_caller_that_nobody_can_be_is_told() {
    let of = |auth: &str, who: &str| told(auth, &about("who", "principals", who)).join("\n");
    for good in [
        &format!("key|{ID}"),
        "key|*",
        "key|3f*",
        "local|user",
        "*",
        "{key|ci,local|user}",
        "anonymous|anyone",
    ] {
        assert_eq!(of(KEYS, good), "", "{good}");
    }
    let gone = of(KEYS, "key|0123456789abcdef");
    assert!(gone.contains("the keys file has no key `0123456789abcdef`"), "{gone}");
    let named = of(KEYS, "key|ci");
    assert!(
        named.contains(
            "policies.0.who.principals.0: matches no key: the subject of a key is its id, not `ci`"
        ),
        "{named}"
    );
    assert!(
        named.starts_with("warning: p.yaml:2: ")
            && named.ends_with(&format!("the key with this name is key|{ID}")),
        "{named}"
    );
    assert!(of(KEYS, "key|ann").ends_with("`lockgate keys list` shows it"));
    for (auth, who, hint) in [
        ("", "key|*", "set `auth.keys_file`"),
        (KEYS, "key|default", "set `auth.key`"),
        (KEYS, "certificate:CA|*", "set `http.tls.client_ca`"),
        (KEYS, "https://login.example.com|*", "add it to `auth.issuers`"),
    ] {
        let told = of(auth, who);
        assert!(
            told.contains("no caller can have this issuer") && told.contains(hint),
            "{who}: {told}"
        );
    }
    let issuer = "auth: { issuers: { company: { issuer: 'https://login.example.com' } } }";
    assert_eq!(of(issuer, "https://login.example.com|*"), "");
    assert_eq!(of("auth: { key: 0123456789abcdef0 }", "key|default"), "");
}

#[test]
fn a_tool_that_is_not_there_is_told() {
    let of = |tool: &str| told(KEYS, &about("what", "tools", tool)).join("\n");
    for good in [
        "db/query",
        "db__query",
        "db/*",
        "*",
        "*/get_*",
        "d*",
        "notes/anything",
        "file/read",
        "{db,x}/y",
        "[a-z]*",
    ] {
        assert_eq!(of(good), "", "{good}");
    }
    for (tool, words) in [
        (
            "admin_wipe",
            "contains no server name — write it as server/tool or server__tool; there are db, ",
        ),
        ("db.admin_wipe", "contains no server name — did you mean `db/admin_wipe`?"),
        ("db:admin_wipe", "contains no server name — did you mean `db/admin_wipe`?"),
        ("dbb/query", "there is no server `dbb`"),
        ("dbb/*", "there is no server `dbb`"),
        ("dbb__*", "there is no server `dbb`"),
        ("admin*", "contains no server name"),
        ("db/querry", "server `db` has no known tool `querry` — there are open, query"),
        ("file/none", "server `file` has no known tool `none`"),
        ("shell/execute", "there is no server `shell`"),
    ] {
        let told = of(tool);
        assert!(
            told.contains(words)
                && told.starts_with("warning: p.yaml:2: policies.0.what.tools.0: "),
            "{tool}: {told}"
        );
    }
    assert!(told(KEYS, &about("what", "servers", "dbb"))[0].contains("there is no server `dbb`"));
    assert!(told(KEYS, &about("what", "servers", "d*")).is_empty());
}

#[test]
fn an_argument_that_no_tool_has_is_told() {
    let of = |tools: &str, pointer: &str, rule: &str| {
        let rule = format!("arguments: {{ {pointer}: {{ {rule}: true }} }}");
        told(
            KEYS,
            &format!("  - {{ name: a, effect: allow, what: {{ tools: {tools} }}, {rule} }}\n"),
        )
        .join("\n")
    };
    let told = of("[file/read]", "/filename", "require");
    assert!(
        told.contains(
            "policies.0.arguments./filename: none of these tools has such an argument — there are "
        ),
        "{told}"
    );
    assert!(told.contains("path"), "{told}");
    assert!(of("[db/query]", "/statement", "require").contains("there are sql"));
    for (tools, pointer, rule) in [
        ("[file/read]", "/path", "require"),
        ("[file/read]", "/filename", "forbid"),
        ("[db/query, file/read]", "/sql", "optional"),
        ("['file/*']", "/filename", "require"),
        ("[db/open]", "/anything", "require"),
        ("[db/open, file/read]", "/anything", "optional"),
        ("[notes/x]", "/anything", "require"),
    ] {
        assert_eq!(of(tools, pointer, rule), "", "{tools} {pointer}");
    }
}

#[test]
fn without_a_configuration_nothing_is_told() {
    let (configured, _folder) = configured(KEYS, &about("what", "tools", "admin_wipe"));
    assert!(warnings(&configured.config.documents, &LintContext::default()).is_empty());
}

#[test]
fn the_holder_of_a_key_has_what_the_keys_file_says() {
    let (configured, _folder) = configured(KEYS, &about("what", "tools", "*"));
    let known = |words: &str| configured.context.known(Caller::parse(words).unwrap()).unwrap();
    let holder = known(&format!("key|{ID}"));
    let said = (
        holder.organisation.as_deref(),
        holder.agent.as_deref(),
        holder.roles.concat(),
        holder.scopes.join(" "),
    );
    assert_eq!(said, (Some("acme"), Some("bot"), "dev".into(), "read write".into()));
    for named in ["ci", "key|ci"] {
        let holder = known(named);
        assert_eq!((&*holder.subject, holder.roles.concat()), (ID, "dev".into()), "{named}");
    }
    assert_eq!(known(&format!("key|{ID} role=ops")).roles.concat(), "ops");
    assert_eq!(known(&format!("key|{ID} role=ops")).organisation, None);
    assert!(
        known("key|0000000000000000").roles.is_empty()
            && known(&format!("x|{ID}")).roles.is_empty()
    );
}
