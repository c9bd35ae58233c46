//! Tests of documentation: the reference lists every key with default and range, and all examples
//! load.

use std::path::{Path, PathBuf};

use super::{TestConfig, certificate};
use crate::schema::tests::walk::{Key, keys};
use crate::{Sources, load};

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Formats `| key | default | description |` as in the reference.
fn row(key: &Key) -> String {
    let default = match &key.default {
        Some(serde_json::Value::String(text)) => format!("`{text}`"),
        Some(value) => format!("`{value}`"),
        None => String::new(),
    };
    format!("| `{}` | {default} | {} |", key.path.join("."), key.description)
}

/// Prefixes of variables with their own rows.
const VARIABLES: [&str; 3] = ["LOCKGATE_", "MCP_", "OTEL_"];

#[test]
fn the_reference_has_a_row_for_every_key() {
    let text = std::fs::read_to_string(root().join("docs/configuration.md")).unwrap();
    let rows = keys()
        .into_iter()
        .filter(|key| !key.section && !key.description.is_empty())
        .map(|key| row(&key));
    let missing: Vec<String> = rows.filter(|row| !text.contains(row)).collect();
    assert!(missing.is_empty(), "docs/configuration.md lacks\n{}", missing.join("\n"));
    let known: Vec<String> =
        keys().iter().map(|key| format!("| `{}` |", key.path.join("."))).collect();
    for line in text.lines().filter(|line| line.starts_with("| `") && line.contains('.')) {
        let is_key = line
            .split('|')
            .nth(1)
            .is_some_and(|cell| !VARIABLES.iter().any(|prefix| cell.contains(prefix)));
        assert!(!is_key || known.iter().any(|key| line.starts_with(key)), "no such key: {line}");
    }
}

#[test]
fn the_page_lists_the_basic_settings() {
    let text = std::fs::read_to_string(root().join("docs/configuration.md")).unwrap();
    let (_, section) = text.split_once("## The 20 settings most people use").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut listed: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    let all = keys();
    let basic = all.iter().filter(|key| key.is_basic).map(|key| key.path.join("."));
    let mut basic: Vec<String> = basic.collect();
    listed.sort_unstable();
    basic.sort_unstable();
    assert_eq!(listed, basic);
    assert_eq!(listed.len(), 20);
}

#[test]
fn every_yaml_block_of_the_reference_is_valid() {
    let text = std::fs::read_to_string(root().join("docs/configuration.md")).unwrap();
    let blocks: Vec<&str> =
        text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 4, "blocks of YAML");
    let (cert, key) = certificate();
    for block in blocks {
        let given = TestConfig::files(&[
            ("lockgate.yaml", block),
            (
                "claude_desktop_config.json",
                r#"{ "mcpServers": { "memory": { "command": "npx" } } }"#,
            ),
            ("cert.pem", &cert),
            ("key.pem", &key),
            ("teams/time.yaml", "servers: { time: { command: uvx } }"),
        ]);
        let given = given.env("LOCKGATE_KEY", "0123456789abcdef").env("TOKEN", "t");
        assert!(given.load().is_ok(), "{:?} in\n{block}", given.messages());
    }
}

#[test]
fn the_policies_of_the_reference_are_valid() {
    let text = std::fs::read_to_string(root().join("docs/policy.md")).unwrap();
    let blocks: Vec<&str> =
        text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 2, "blocks of YAML");
    for block in blocks {
        let given = TestConfig::files(&[
            ("lockgate.yaml", "policy: { files: [p.yaml] }"),
            ("p.yaml", block),
        ]);
        assert!(given.load().is_ok(), "{:?} in\n{block}", given.messages());
    }
}

/// Folder, configuration file, number of servers.
const EXAMPLES: [(&str, &str, usize); 10] = [
    ("database", "lockgate.yaml", 0),
    ("five-servers", "lockgate.yaml", 5),
    ("desktop-client", "lockgate.yaml", 2),
    ("remote-servers", "lockgate.yaml", 3),
    ("remote-servers", "lockgate.toml", 1),
    ("auth", "lockgate.yaml", 2),
    ("web", "lockgate.yaml", 0),
    ("content", "lockgate.yaml", 0),
    ("shell", "lockgate.yaml", 0),
    ("files", "lockgate.yaml", 0),
];

#[test]
fn every_example_loads_and_has_a_readme() {
    let mut seen = 0;
    let (cert, key) = certificate();
    let pems = tempfile::tempdir().unwrap();
    let (cert_file, key_file) = (pems.path().join("cert.pem"), pems.path().join("key.pem"));
    std::fs::write(&cert_file, cert).unwrap();
    std::fs::write(&key_file, key).unwrap();
    for (folder, file, servers) in EXAMPLES {
        let folder = root().join("examples").join(folder).canonicalize().unwrap();
        assert!(folder.join("README.md").is_file(), "{}", folder.display());
        let sources = Sources {
            config: Some(file.into()),
            cwd: folder.clone(),
            env: [
                ("LOCKGATE_KEY", "0123456789abcdef"),
                ("LOCKGATE_SECRET", "0123456789abcdef0123456789abcdef"),
                ("GITHUB_TOKEN", "token"),
                ("SEARCH_TOKEN", "token"),
                ("TLS_CERT", cert_file.to_str().unwrap()),
                ("TLS_KEY", key_file.to_str().unwrap()),
            ]
            .iter()
            // A common bearer key contradicts separate keys.
            .filter(|(name, _)| *name != "LOCKGATE_KEY" || !folder.ends_with("auth"))
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect(),
            ..Sources::default()
        };
        let loaded =
            load(&sources).unwrap_or_else(|report| panic!("{}: {report}", folder.display()));
        assert_eq!(loaded.config.servers.len(), servers, "{}", folder.display());
        seen += 1;
    }
    let folders = std::fs::read_dir(root().join("examples")).unwrap().filter_map(Result::ok);
    let configs = folders
        .filter(|entry| entry.path().is_dir())
        .flat_map(|entry| std::fs::read_dir(entry.path()).unwrap().filter_map(Result::ok))
        .filter(|file| file.file_name().to_string_lossy().starts_with("lockgate."))
        .count();
    assert_eq!(seen, configs, "configurations below examples/");
}
