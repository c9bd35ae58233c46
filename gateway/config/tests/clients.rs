//! Original files of Claude Desktop, Cursor and VS Code, through `import` and `--mcp-servers`.

use lockgate_upstream::Transport;

use super::TestConfig;

const CLAUDE: &str = r#"{
  "globalShortcut": "Ctrl+Space",
  "mcpServers": {
    "filesystem": {
      "command": "sh",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"],
      "env": { "PORT": 8080, "DEBUG": true, "EMPTY": "" }
    }
  }
}"#;

const CURSOR: &str = r#"{
  "mcpServers": {
    "My Server.v2": { "url": "https://a.example/mcp", "headers": { "Authorization": "Bearer ${env:TOKEN}" }, "disabled": true },
    "local": { "command": "sh", "args": ["${workspaceFolder}/x", "${userHome}"], "alwaysAllow": ["a"], "timeout": 5 }
  }
}"#;

const VSCODE: &str = r#"{
  // the inputs are asked for by the editor
  "inputs": [{ "type": "promptString", "id": "key", "password": true }],
  "servers": {
    "web": { "type": "http", "url": "https://b.example/mcp" },
    "old": { "type": "sse", "url": "https://c.example/sse" },
    "tool": { "type": "stdio", "command": "sh", "args": [], },
  },
}"#;

#[test]
fn a_claude_desktop_file_works_as_it_is() {
    let given = TestConfig::files(&[("claude.json", CLAUDE)]).mcp_servers("claude.json");
    let loaded = given.loaded();
    assert_eq!(loaded.warnings, []);
    let [server] = &loaded.config.servers[..] else { panic!() };
    assert_eq!((server.slug.as_str(), server.enabled), ("filesystem", true));
    let Transport::Stdio { command, args, env, .. } = &server.transport else { panic!() };
    assert_eq!((command.as_str(), args.len()), ("sh", 3));
    assert_eq!(
        (env["PORT"].as_str(), env["DEBUG"].as_str(), env["EMPTY"].as_str()),
        ("8080", "true", "")
    );
    assert_eq!(loaded.files, [given.path().join("claude.json")]);
    assert!(!loaded.config.tools.runs("example"));
}

#[test]
fn a_cursor_file_works_with_its_variables_and_new_names_are_told() {
    let given = TestConfig::files(&[
        ("ws/.cursor/mcp.json", CURSOR),
        ("lockgate.yaml", "import: ws/.cursor/mcp.json\n"),
    ]);
    let given = given.env("TOKEN", "t").env("HOME", "/home/u");
    let loaded = given.loaded();
    let [local, server] = &loaded.config.servers[..] else { panic!() };
    assert_eq!((server.slug.as_str(), server.enabled), ("my-server-v2", false));
    let Transport::Http { headers, .. } = &server.transport else { panic!() };
    assert_eq!(headers["authorization"], "Bearer t");
    let Transport::Stdio { args, .. } = &local.transport else { panic!() };
    assert_eq!(args[0], given.path().join("ws/x").display().to_string());
    assert_eq!(args[1], "/home/u");
    assert_eq!(
        given.messages(),
        [
            "warning: ws/.cursor/mcp.json:3:5: mcpServers.My Server.v2: the server is named `my-server-v2` here \
             — names are a-z, 0-9 and -",
            "warning: ws/.cursor/mcp.json:4:104: mcpServers.local.timeout: only the client supports this; it is omitted \
             — configure it under `servers` of Lockgate's own file",
        ]
    );
    assert_eq!(loaded.files.len(), 2);
}

#[test]
fn a_vs_code_file_works_with_comments_and_types() {
    for text in [VSCODE.to_string(), format!("{{ \"mcp\": {VSCODE} }}")] {
        let loaded = TestConfig::files(&[("mcp.json", &text)]).mcp_servers("mcp.json").loaded();
        assert_eq!(loaded.warnings, []);
        let [old, tool, web] = &loaded.config.servers[..] else { panic!() };
        assert!(matches!(old.transport, Transport::Sse { .. }));
        assert!(matches!(tool.transport, Transport::Stdio { .. }));
        assert!(matches!(web.transport, Transport::Http { .. }));
    }
}

#[test]
fn what_only_an_editor_can_ask_for_is_a_mistake_with_a_way_out() {
    let text = r#"{ "servers": { "a": { "url": "https://a.example/mcp", "headers": { "X": "${input:key}" } } } }"#;
    let messages = TestConfig::files(&[("mcp.json", text)]).mcp_servers("mcp.json").messages();
    let expected = "mcp.json:1:73: servers.a.headers.x: `${input:key}` is a prompt that only the editor can show \
                    — write ${NAME} and set that environment variable";
    assert_eq!(messages, [expected]);
}

#[test]
fn settings_can_be_added_to_an_imported_server() {
    let file = "import: claude.json\nservers: { filesystem: { timeout: 120, enabled: false } }\n";
    let loaded = TestConfig::files(&[("claude.json", CLAUDE), ("lockgate.yaml", file)]).loaded();
    let [server] = &loaded.config.servers[..] else { panic!() };
    assert_eq!((server.call_timeout.as_secs(), server.enabled), (120, false));
    assert!(matches!(&server.transport, Transport::Stdio { command, .. } if command == "sh"));
}

#[test]
fn one_name_for_two_servers_names_both_places_and_one_server_twice_is_fine() {
    let file = |command: &str| format!("servers:\n  a: {{ command: {command} }}\n");
    let import = r#"{ "mcpServers": { "a": { "command": "sh", "args": [] } } }"#;
    let given = |command: &str| {
        TestConfig::files(&[("lockgate.yaml", &file(command)), ("c.json", import)])
            .mcp_servers("c.json")
    };
    assert_eq!(given("sh").messages(), Vec::<String>::new());
    let expected = "lockgate.yaml:2:3: servers.a: another server with this name is defined at c.json:1:19 \
                    — rename one of them, or omit `command` and `url` here to only add settings";
    assert_eq!(given("ls").messages(), [expected]);
    let twice = r#"{ "mcpServers": { "a b": { "command": "sh" }, "a_b": { "command": "sh" } } }"#;
    let messages = TestConfig::files(&[("c.json", twice)]).mcp_servers("c.json").messages();
    assert!(
        messages[0].ends_with("`a b` and `a_b` both become `a-b` — rename one of them"),
        "{messages:?}"
    );
}

#[test]
fn files_that_hold_no_servers_or_are_not_there_are_mistakes() {
    let message = |text: &str| {
        TestConfig::files(&[("c.json", text)]).mcp_servers("c.json").messages().join("\n")
    };
    assert!(
        message("{}").starts_with("c.json:1:1: has neither `mcpServers` nor `servers` — "),
        "{}",
        message("{}")
    );
    assert!(message("[]").starts_with("c.json: must contain keys and values, not a list"));
    assert!(message(r#"{"mcpServers": []}"#).contains("mcpServers: must be a section"));
    assert!(message(r#"{"mcpServers": {"a": 1}}"#).contains("mcpServers.a: must be a section"));
    assert!(
        message(r#"{"mcpServers": {"a": {}}}"#).contains("servers.a: requires `command` or `url`")
    );
    assert!(
        message(r#"{"mcpServers": {"ü": {"command": "sh"}}}"#)
            .contains("cannot be converted to a server name")
    );
    let missing = TestConfig::files(&[]).mcp_servers("c.json").messages();
    assert_eq!(
        missing,
        [
            "flag --mcp-servers: import: there is no file c.json — the path is relative to the file that contains it"
        ]
    );
}

#[test]
fn the_entry_that_starts_lockgate_is_not_imported() {
    for command in ["lockgate", "/usr/local/bin/lockgate", "C:\\\\bin\\\\lockgate.exe"] {
        let text = format!(
            r#"{{ "mcpServers": {{ "gate": {{ "command": "{command}" }}, "a": {{ "command": "sh" }} }} }}"#
        );
        let loaded = TestConfig::files(&[("c.json", &text)]).mcp_servers("c.json").loaded();
        assert_eq!(loaded.config.servers.len(), 1, "{command}");
        let warning = loaded.warnings[0].to_string();
        assert!(
            warning.contains("mcpServers.gate: this entry starts Lockgate itself; it is omitted"),
            "{warning}"
        );
    }
}
