//! Precedence of defaults, imports, file, `MCP_…`, `LOCKGATE_…` and flags, and their lookup.

use super::TestConfig;
use crate::{Flags, Transport};

#[test]
fn each_source_wins_over_the_ones_before_it() {
    let level = |given: &TestConfig| given.loaded().config.telemetry.level;
    let given = TestConfig::files(&[]);
    assert_eq!(level(&given), "info");
    let given = TestConfig::yaml("log: { level: warn }\n");
    assert_eq!(level(&given), "warn");
    let given = given.env("MCP_LOG_LEVEL", "WARNING").env("MCP_SERVER_NAME", "mcp");
    assert_eq!((level(&given), given.loaded().config.proxy.name), ("warn".into(), "mcp".into()));
    let given = given.env("MCP_LOG_LEVEL", "emergency");
    assert_eq!(level(&given), "error");
    let given = given.env("LOCKGATE_LOG__LEVEL", "debug");
    assert_eq!(level(&given), "debug");
    let given = given.flags(Flags { log_level: Some("trace".into()), ..Flags::default() });
    assert_eq!(level(&given), "trace");
}

#[test]
fn host_and_port_can_be_set_alone_or_together() {
    let key = "0123456789abcdef";
    type Case = (&'static str, &'static [(&'static str, &'static str)], &'static str);
    let cases: &[Case] = &[
        ("{}", &[], "127.0.0.1:3001"),
        ("{}", &[("MCP_PORT", "4000")], "127.0.0.1:4000"),
        ("{}", &[("MCP_HOST", "0.0.0.0")], "0.0.0.0:3001"),
        ("{}", &[("MCP_HOST", "::1"), ("MCP_PORT", "4000")], "[::1]:4000"),
        ("listen: '[::1]:5000'\n", &[("MCP_PORT", "4000")], "[::1]:4000"),
        ("listen: 127.0.0.2:5000\n", &[("MCP_HOST", "localhost")], "127.0.0.1:5000"),
        ("{}", &[("MCP_PORT", "4000"), ("LOCKGATE_LISTEN", "127.0.0.1:4001")], "127.0.0.1:4001"),
        ("{}", &[("MCP_PORT", ""), ("LOCKGATE_LISTEN", "")], "127.0.0.1:3001"),
    ];
    for (text, env, expected) in cases {
        let mut given = TestConfig::yaml(text).env("LOCKGATE_KEY", key);
        for (name, value) in *env {
            given = given.env(name, value);
        }
        assert_eq!(given.loaded().config.listener.listen.to_string(), *expected, "{env:?}");
    }
}

#[test]
fn mistakes_in_variables_and_flags_name_them() {
    let cases: &[(&str, &str, &[&str])] = &[
        (
            "LOCKGATE_LGO__LEVEL",
            "x",
            &["environment LOCKGATE_LGO__LEVEL: lgo: there is no such key — did you mean `log`?"],
        ),
        (
            "LOCKGATE_LOG__LEVLE",
            "x",
            &[
                "environment LOCKGATE_LOG__LEVLE: log.levle: there is no such key — did you mean `level`?",
            ],
        ),
        (
            "LOCKGATE_LIMITS__DEPTH",
            "1",
            &[
                "environment LOCKGATE_LIMITS__DEPTH: limits.depth: must be from 8 to 128 (it is `1`) — the default is 64",
            ],
        ),
        (
            "LOCKGATE_LOG",
            "x",
            &[
                "environment LOCKGATE_LOG: log: must be a section (keys and values), not text — put its keys under it",
            ],
        ),
        (
            "LOCKGATE_",
            "x",
            &[
                "environment LOCKGATE_: contains no key — write LOCKGATE_SECTION__KEY, such as LOCKGATE_LOG__LEVEL",
            ],
        ),
        (
            "LOCKGATE_PROFILE",
            "prod",
            &[
                "environment LOCKGATE_PROFILE: profile: must be `development` or `production` (it is `prod`) — did you mean `production`?",
            ],
        ),
        (
            "MCP_PORT",
            "80",
            &[
                "environment MCP_PORT: listen: the port must be from 1024 to 65535 (it is `127.0.0.1:80`) — use a higher port, or set `http.privileged_ports: true`",
            ],
        ),
        (
            "MCP_PORT",
            "http",
            &[
                "environment MCP_PORT: listen: must be a port from 1024 to 65535 (it is `http`) — write a number",
            ],
        ),
        (
            "MCP_SERVER_NAME",
            "My Server",
            &[
                "environment MCP_SERVER_NAME: name: must be 1 to 64 of a-z, 0-9 and - (it is `My Server`) — set the display name in `title`",
            ],
        ),
        (
            "MCP_TRANSPORT",
            "sse",
            &[
                "environment MCP_TRANSPORT: must be `stdio` or `http` (it is `sse`) — `http` serves HTTP+SSE too with `http.sse: true`",
            ],
        ),
        (
            "MCP_TRANSPORT",
            "stido",
            &[
                "environment MCP_TRANSPORT: must be `stdio` or `http` (it is `stido`) — did you mean `stdio`?",
            ],
        ),
        ("LOCKGATE_CONFIG", "gone.yaml", &["gone.yaml: cannot be read: there is no such file"]),
    ];
    for (name, value, expected) in cases {
        assert_eq!(TestConfig::files(&[]).env(name, value).messages(), *expected, "{name}={value}");
    }
    let given =
        TestConfig::files(&[]).flags(Flags { listen: Some("3001".into()), ..Flags::default() });
    let hint = "such as 127.0.0.1:3001, [::1]:3001, or 0.0.0.0:3001 for every interface";
    assert_eq!(
        given.messages(),
        [format!("flag --listen: listen: must be ADDRESS:PORT (it is `3001`) — {hint}")]
    );
}

#[test]
fn variables_reach_every_kind_of_value() {
    let given = TestConfig::yaml("servers: { my-time: { command: sh, env: { A: file } } }\n")
        .env("LOCKGATE_SERVERS__MY_TIME__TIMEOUT", "2m")
        .env("LOCKGATE_SERVERS__MY_TIME__ENV__Tz_Name", "UTC")
        .env("LOCKGATE_SERVERS__MY_TIME__ARGS", r#"["-c", "true"]"#)
        .env("LOCKGATE_SERVERS__OTHER__URL", "https://a.example/mcp")
        .env("LOCKGATE_SERVERS__OTHER__HEADERS__X_API_KEY", "k")
        .env("LOCKGATE_HTTP__HOSTS", "a.example, b.example")
        .env("LOCKGATE_POLICY__TOOLS__ALLOW", "{a,b}__*,c__*")
        .env("LOCKGATE_HTTP__SSE", "true")
        .env("LOCKGATE_HTTP__BODY_BYTES", "1MiB");
    let config = given.loaded().config;
    assert_eq!(config.listener.http.hosts, ["a.example", "b.example"]);
    assert_eq!(config.policy.lists.tools.allow.unwrap(), ["{a,b}__*", "c__*"]);
    assert!(config.listener.http.sse);
    assert_eq!(config.listener.http.body_bytes, 1 << 20);
    let [time, other] = &config.servers[..] else { panic!() };
    assert_eq!(time.call_timeout.as_secs(), 120);
    let lockgate_upstream::Transport::Stdio { args, env, .. } = &time.transport else { panic!() };
    assert_eq!(args, &["-c", "true"]);
    assert_eq!((env["A"].as_str(), env["Tz_Name"].as_str()), ("file", "UTC"));
    let lockgate_upstream::Transport::Http { headers, .. } = &other.transport else { panic!() };
    assert_eq!(headers["x-api-key"], "k");
}

#[test]
fn the_file_is_found_by_flag_then_variable_then_name() {
    let name = |given: &TestConfig| given.loaded().config.proxy.name;
    let files: [(&str, &str); 3] = [
        ("a.toml", "name = 'by-flag'"),
        ("b.json", "{ // a comment\n \"name\": \"by-variable\", }"),
        ("lockgate.yml", "name: by-name"),
    ];
    let given = TestConfig::files(&files);
    assert_eq!(name(&given), "by-name");
    let mut given = given.env("LOCKGATE_CONFIG", "b.json");
    assert_eq!(name(&given), "by-variable");
    given.sources.config = Some("a.toml".into());
    assert_eq!(name(&given), "by-flag");
    assert_eq!(given.loaded().files, [given.path().join("a.toml")]);
    let two = TestConfig::files(&[("lockgate.yaml", "{}"), ("lockgate.json", "{}")]);
    let expected =
        "lockgate.yaml: lockgate.json exists too — keep one of them, or select one with --config";
    assert_eq!(two.messages(), [expected]);
    assert_eq!(
        TestConfig::files(&[("a.ini", "")]).env("LOCKGATE_CONFIG", "a.ini").messages().len(),
        1
    );
}

#[test]
fn the_transport_is_what_mcp_transport_says() {
    let transport =
        |word: &str| TestConfig::files(&[]).env("MCP_TRANSPORT", word).loaded().transport;
    assert_eq!(transport("stdio"), Some(Transport::Stdio));
    assert_eq!(transport("HTTP"), Some(Transport::Http));
    assert_eq!(transport("streamable-http"), Some(Transport::Http));
    assert_eq!(TestConfig::files(&[]).loaded().transport, None);
}

#[test]
fn the_key_variable_sets_the_key_unless_the_file_does() {
    let (a, b) = ("0123456789abcdef-a", "0123456789abcdef-b");
    let key = |given: TestConfig| given.loaded().config.authn.key.unwrap();
    assert_eq!(key(TestConfig::files(&[]).env("LOCKGATE_KEY", a)), a);
    assert_eq!(
        key(TestConfig::yaml("auth: { key: '${B}' }").env("LOCKGATE_KEY", a).env("B", b)),
        b
    );
    let given = TestConfig::yaml("auth: { key: '${LOCKGATE_KEY}' }").env("LOCKGATE_KEY", a);
    assert_eq!(key(given.env("LOCKGATE_AUTH__KEY", b)), b);
}

#[test]
fn profiles_change_what_is_not_said() {
    let config = TestConfig::files(&[]).loaded().config;
    assert!(config.tools.system && config.tools.runs("example") && !config.production);
    assert_eq!(config.telemetry.format, lockgate_telemetry::Format::Text);
    assert_eq!(config.policy.lists.tools.allow, None);
    let with_server = TestConfig::yaml("servers: { a: { command: sh } }").loaded().config;
    assert!(!with_server.tools.runs("example"));
    for (other, wanted) in [
        ("file: { roots: [{ path: /usr/share }] }", false),
        ("web: { hosts: [api.example.com] }", false),
        ("content: {}", false),
        ("file: { roots: [{ path: /usr/share }] }, example: true", true),
        ("system: false", true),
        ("example: false", false),
    ] {
        let config = TestConfig::yaml(&format!("builtin: {{ {other} }}")).loaded().config;
        assert_eq!(config.tools.runs("example"), wanted, "{other}");
    }
    let config = TestConfig::yaml("profile: production\npolicy: { tools: { allow: [] } }")
        .env("LOCKGATE_KEY", "0123456789abcdef")
        .loaded()
        .config;
    assert!(config.production && config.tools.system && !config.tools.runs("example"));
    assert_eq!(config.telemetry.format, lockgate_telemetry::Format::Json);
    assert_eq!(config.policy.lists.tools.allow, Some(Vec::new()));
    assert_eq!(config.policy.lists.servers.allow, None);
}

#[test]
fn one_key_in_two_spellings_is_one_key() {
    let given =
        TestConfig::yaml("servers: { a: { url: 'https://a.example/', type: sse, headers: { Authorization: file } } }")
            .env("LOCKGATE_SERVERS__A__TRANSPORT", "http")
            .env("LOCKGATE_SERVERS__A__HEADERS__AUTHORIZATION", "variable");
    let loaded = given.loaded();
    let lockgate_upstream::Transport::Http { headers, .. } = &loaded.config.servers[0].transport
    else {
        panic!()
    };
    assert_eq!((headers.len(), headers["authorization"].as_str()), (1, "variable"));
}

#[test]
fn a_file_that_was_found_is_named_so_that_it_has_to_stay() {
    let mut given = TestConfig::yaml("log: { level: warn }\n");
    let file = given.loaded().file.unwrap();
    assert_eq!(file, given.path().join("lockgate.yaml"));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(given.loaded().file, None);
    given.sources.config = Some(file);
    assert!(given.messages()[0].starts_with("lockgate.yaml: "), "{:?}", given.messages());
}

/// Checks that configuration overrides OpenTelemetry variables, and that variables for other
/// programs are never mistakes.
#[test]
fn variables_of_open_telemetry_are_the_weakest_source() {
    let given = TestConfig::yaml("{}\n")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/")
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-team=a%20b, x-key=c,nothing")
        .env("OTEL_TRACES_SAMPLER", "traceidratio")
        .env("OTEL_TRACES_SAMPLER_ARG", "0.0001");
    let telemetry = |given: &TestConfig| given.loaded().config.telemetry;
    let found = telemetry(&given);
    assert_eq!(found.export.otlp.unwrap().as_str(), "http://127.0.0.1:4318/v1/traces");
    assert_eq!(found.export.headers["x-team"], "a b");
    assert_eq!((found.export.headers.len(), found.export.sampled), (2, 1));
    let given = given
        .env("LOCKGATE_TELEMETRY__OTLP", "http://127.0.0.1:9/traces")
        .env("LOCKGATE_TELEMETRY__SAMPLES_PER_THOUSAND", "500");
    let found = telemetry(&given);
    assert_eq!(found.export.otlp.unwrap().as_str(), "http://127.0.0.1:9/traces");
    assert_eq!(found.export.sampled, 500);
    let given = TestConfig::yaml("{}\n")
        .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4317")
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    assert_eq!(telemetry(&given).export.otlp, None);
    let given = TestConfig::yaml("{}\n")
        .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4317/own")
        .env("OTEL_SDK_DISABLED", "true");
    assert_eq!(telemetry(&given).export.otlp, None);
}

/// Checks the specification: one address serves all signals, and each may have its own.
#[test]
fn variables_of_open_telemetry_lead_logs_to_their_collector() {
    const ALL: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/");
    const OWN: (&str, &str) = ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://127.0.0.1:9/own");
    const TRACES: &str = "http://127.0.0.1:4318/v1/traces";
    const LOGS: &str = "http://127.0.0.1:4318/v1/logs";
    // Variables, addresses of traces and logs, the first warning, and the first header.
    type Row<'a> = (&'a [(&'a str, &'a str)], [&'a str; 2], &'a str, &'a str);
    let rows: [Row<'_>; 9] = [
        (&[ALL], [TRACES, LOGS], "", ""),
        (&[OWN], ["", OWN.1], "", ""),
        (&[ALL, OWN], [TRACES, OWN.1], "", ""),
        (&[ALL, ("OTEL_LOGS_EXPORTER", "none")], [TRACES, ""], "", ""),
        (&[ALL, ("OTEL_TRACES_EXPORTER", "none")], ["", LOGS], "", ""),
        (&[ALL, ("OTEL_SDK_DISABLED", "true")], ["", ""], "", ""),
        (
            &[ALL, ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "grpc")],
            [TRACES, ""],
            "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL: telemetry.otlp_logs: is not supported",
            "",
        ),
        (
            &[ALL, ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-key=t")],
            [TRACES, ""],
            "OTEL_EXPORTER_OTLP_ENDPOINT: telemetry.otlp_logs: differ from the headers of traces",
            "t",
        ),
        (&[OWN, ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "x-key=l")], ["", OWN.1], "", "l"),
    ];
    for (variables, addresses, warning, header) in rows {
        let mut given = TestConfig::yaml("{}\n");
        for (name, value) in variables {
            given = given.env(name, value);
        }
        let loaded = given.loaded();
        let found = loaded.config.telemetry;
        let shown = [found.export.otlp, found.export.otlp_logs].map(Option::unwrap_or_default);
        assert_eq!(shown, addresses, "{variables:?}");
        let first = loaded.warnings.first().map(ToString::to_string).unwrap_or_default();
        assert!(first.contains(warning) && first.is_empty() == warning.is_empty(), "{first}");
        let headers = found.export.headers;
        assert_eq!(headers.get("x-key").map_or("", String::as_str), header, "{variables:?}");
    }
    let given =
        TestConfig::yaml("telemetry: { otlp_logs: 'http://127.0.0.1:1/l' }\n").env(ALL.0, ALL.1);
    let found = given.loaded().config.telemetry;
    assert_eq!(found.export.otlp, None);
    assert_eq!(found.export.otlp_logs.unwrap().as_str(), "http://127.0.0.1:1/l");
}
