//! Tests of drafts: they pass their own check, keep clients' settings, and contain no secret.

use super::{Draft, draft};
use crate::tests::TestConfig;

const CLAUDE: &str = r#"{
  "mcpServers": {
    "Git Hub": {
      "command": "docker",
      "args": ["run", "-i", "-e", "GITHUB_TOKEN", "-e", "API_KEY=kKeyDocker", "ghcr.io/github/github-mcp-server"],
      "env": { "GITHUB_TOKEN": "ghp_kKey1", "LOG_LEVEL": "debug", "PORT": 8080, "EMPTY_KEY": "" }
    },
    "remote": {
      "command": "npx",
      "args": ["-y", "mcp-remote@0.1.2", "https://mcp.example.com/s/kKey0123456789abcdef0123/mcp", "--header",
               "Authorization: Bearer kKey2", "--api-key", "kKey3", "--token=kKey4", "@scope/server-everything"]
    },
    "pg": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-postgres", "postgresql://me:kKey5@db/app"],
      "env": { "GITHUB_TOKEN": "kKey6", "MCP_TOKEN": "kKey7", "yes": "no: \"quoted\" #x", "ID": "kKeyb2c3d4e5f67890abcd", "UUID": "a1b2c3d4-e5f6-7890-abcd-ef1234567890" }
    },
    "gate": { "command": "lockgate", "args": ["stdio"] }
  }
}"#;
const VSCODE: &str = r#"{
  // As VS Code writes it.
  "inputs": [{ "type": "promptString", "id": "search-key", "password": true }],
  "servers": {
    "search": {
      "type": "http", "url": "https://search.example.com/mcp?key=kKey9&lang=en",
      "headers": { "X-Key": "${input:search-key}", "Authorization": "Bearer ${env:SEARCH_TOKEN}", "Accept": "a/b", "User-Agent": "me" }
    },
    "files": { "command": "node", "args": ["${workspaceFolder}/server.js", "${userHome}/x", "a$b"], "cwd": "${workspaceFolder}", "disabled": true },
    "remote": { "url": "http://127.0.0.1:9/mcp" }
  }
}"#;

fn make(given: &TestConfig, files: &[&str]) -> Draft {
    let files: Vec<_> = files.iter().map(|file| given.path().join(file)).collect();
    draft(&files, &[], "/home/me", given.path()).unwrap_or_else(|report| panic!("{report}"))
}

#[test]
fn a_file_without_servers_passes_its_check() {
    let given = TestConfig::files(&[]);
    let made = make(&given, &[]);
    assert!(made.servers.is_empty() && made.variables.is_empty() && made.notes.is_empty());
    std::fs::write(given.path().join("lockgate.yaml"), &made.text).unwrap();
    let loaded = given.loaded();
    assert_eq!(loaded.warnings, []);
    assert!(loaded.config.tools.names().any(|name| name == "example"));
}

/// Checks the commented-out lines too, because users will remove the `#`.
#[test]
fn the_file_passes_its_check_with_every_comment_taken_for_real() {
    let given = TestConfig::files(&[("teams/a.yaml", "{}"), ("shared/a", "")])
        .env("LOCKGATE_KEY", "0123456789abcdef")
        .env("DOCS_TOKEN", "t");
    let mut real = String::new();
    for line in make(&given, &[]).text.lines() {
        let bare = line.strip_prefix("# ").unwrap_or(line);
        let below = line.strip_prefix("#   ").map(|rest| format!("  {rest}"));
        let is_key = |text: &str| {
            text.split(':').next().is_some_and(|key| {
                !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_')
            })
        };
        match below {
            Some(below) if is_key(below.trim_start()) => real.push_str(&below),
            _ if is_key(bare) && bare.contains(':') => real.push_str(bare),
            _ => real.push_str(line),
        }
        real.push('\n');
    }
    assert!(real.contains("\nservers:\n  time:") && real.contains("\ninclude: [teams"), "{real}");
    std::fs::write(given.path().join("lockgate.yaml"), &real).unwrap();
    let loaded = given.loaded();
    assert_eq!(loaded.config.servers.len(), 2, "{real}");
}

#[test]
fn servers_of_clients_are_taken_over_without_their_secrets() {
    let given = TestConfig::files(&[("claude.json", CLAUDE), (".vscode/mcp.json", VSCODE)]);
    let made = make(&given, &["claude.json", ".vscode/mcp.json"]);
    assert_eq!(made.servers, ["files", "git-hub", "pg", "remote", "search"]);
    assert!(!made.text.contains("kKey"), "{}", made.text);
    let names: Vec<&str> = made.variables.iter().map(|wanted| wanted.name.as_str()).collect();
    let expected = [
        "API_KEY",
        "GITHUB_TOKEN",
        "ID",
        "PG_GITHUB_TOKEN",
        "PG_MCP_TOKEN",
        "PG_URL",
        "REMOTE_TOKEN",
        "REMOTE_URL",
        "SEARCH_KEY",
        "SEARCH_KEY_2",
        "SEARCH_TOKEN",
        "TOKEN",
        "UUID",
    ];
    for name in expected {
        assert!(names.contains(&name), "{name} is missing: {names:?}");
    }
    for line in [
        "      LOG_LEVEL: debug",
        "      PORT: \"8080\"",
        "      EMPTY_KEY: \"\"",
        "      GITHUB_TOKEN: \"${GITHUB_TOKEN}\"",
        "      \"yes\": \"no: \\\"quoted\\\" #x\"",
        "      - \"Authorization: Bearer ${REMOTE_TOKEN}\"",
        "      - \"--token=${TOKEN}\"",
        "      authorization: \"Bearer ${SEARCH_TOKEN}\"",
        "      user-agent: me",
        "      x-key: \"${SEARCH_KEY_2}\"",
        "    enabled: false",
        "  # From .vscode/mcp.json",
    ] {
        assert!(made.text.lines().any(|found| found == line), "{line} in\n{}", made.text);
    }
    let token = made.variables.iter().find(|wanted| wanted.name == "GITHUB_TOKEN").unwrap();
    assert_eq!(token.key, "servers.git-hub.env.GITHUB_TOKEN");
    assert!(token.place.to_string().starts_with("claude.json:6:"), "{}", token.place);
    let notes: Vec<String> = made.notes.iter().map(ToString::to_string).collect();
    let left = |what: &str| notes.iter().any(|note| note.contains(what));
    assert!(
        left("this entry starts Lockgate itself") && left("another server with this name is at")
    );
    // With the listed variables set, it is a valid configuration.
    std::fs::write(given.path().join("lockgate.yaml"), &made.text).unwrap();
    let mut given = given;
    for wanted in &made.variables {
        given = given.env(&wanted.name, "https://example.com/x");
    }
    let loaded = given.loaded();
    assert_eq!(loaded.config.servers.len(), 5);
    let lockgate_upstream::Transport::Stdio { args, cwd, .. } = &loaded.config.servers[0].transport
    else {
        panic!("a child process");
    };
    let workspace = given.path().display().to_string();
    assert_eq!(args, &[format!("{workspace}/server.js"), "/home/me/x".into(), "a$b".into()]);
    assert_eq!(cwd.as_deref(), Some(given.path()));
}

#[test]
fn a_variable_that_is_referred_to_is_no_name_for_another_secret() {
    let first = r#"{"mcpServers": {"a": {"command": "x", "env": {"API_KEY": "kKey1"}}}}"#;
    let second = r#"{"mcpServers": {"b": {"command": "y", "env": {"K": "${env:API_KEY}"}}}}"#;
    let given = TestConfig::files(&[("a.json", first), ("b.json", second)]);
    let text = make(&given, &["a.json", "b.json"]).text;
    assert!(
        text.contains("API_KEY: \"${A_API_KEY}\"") && text.contains("K: \"${API_KEY}\""),
        "{text}"
    );
}

#[test]
fn addresses_of_sse_inputs_and_services_with_oauth_are_told_apart() {
    let file = r#"{
  "servers": {
    "linear": { "url": "https://mcp.linear.app/sse" },
    "sentry": { "type": "http", "url": "https://mcp.sentry.dev/mcp/sse?team=a" },
    "github": { "url": "https://api.githubcopilot.com/mcp/",
                "headers": { "Authorization": "Bearer ${input:GitHub-Token_id}" } }
  }
}"#;
    let given = TestConfig::files(&[("mcp.json", file)]);
    let made = make(&given, &["mcp.json"]);
    let text = &made.text;
    assert_eq!(text.matches("transport: sse").count(), 1, "{text}");
    assert!(text.contains("linear.app/sse\n    transport: sse"), "{text}");
    assert!(text.contains("    # ${GITHUB_TOKEN_ID} was ${input:GitHub-Token_id}\n"), "{text}");
    let notes: Vec<String> = made.notes.iter().map(ToString::to_string).collect();
    let told =
        |host: &str| notes.iter().any(|note| note.contains(&format!("{host} requires OAuth")));
    assert!(told("mcp.linear.app") && told("mcp.sentry.dev"), "{notes:?}");
    assert!(!told("api.githubcopilot.com"), "it has a token: {notes:?}");
    std::fs::write(given.path().join("lockgate.yaml"), text).unwrap();
    let given = given.env("GITHUB_TOKEN_ID", "t");
    let loaded = given.loaded();
    assert_eq!(loaded.config.servers.len(), 3);
}
