//! Tests that secrets appear in no `Debug`, message or JSON, regardless of other mistakes.

use super::TestConfig;
use crate::Report;
use crate::problem::{Problems, ValuePlace};
use crate::source::node::Node;

const SECRET: &str = "Tops3cret-0123456789-abcdefghijkl-mn";

/// Formats every problem in every form.
fn said(given: &TestConfig) -> String {
    let report =
        given.load().map_or_else(|report| report, |loaded| Report { problems: loaded.warnings });
    format!("{report}\n{report:?}\n{}", serde_json::to_string(&report).unwrap())
}

fn holds_no_secret(given: &TestConfig, what: &str) {
    let said = said(given);
    assert!(!said.contains("Tops3cret"), "{what}:\n{said}");
}

const WHOLE: &str = "
auth: { key: '${S}' }
secret: file:secret.txt
servers:
  a: { command: sh, args: ['--token=${S}', LITERAL], env: { A: '${S}', B: '${file:secret.txt}', C: LITERAL } }
  b: { url: 'https://b.example/mcp?key=LITERAL', headers: { Authorization: 'Bearer ${S}', X-Key: file:secret.txt } }
  c: { url: 'https://c.example/${S}', transport: sse, headers: { X: LITERAL } }
";

#[test]
fn a_valid_configuration_shows_none_of_its_secrets() {
    let text = WHOLE.replace("LITERAL", SECRET);
    let given =
        TestConfig::files(&[("lockgate.yaml", &text), ("secret.txt", &format!("{SECRET}\n"))])
            .env("S", SECRET);
    let loaded = given.loaded();
    assert_eq!(loaded.config.authn.key.as_deref(), Some(SECRET));
    assert_eq!(loaded.config.proxy.secret.as_deref(), Some(SECRET));
    let lockgate_upstream::Transport::Stdio { args, env, .. } = &loaded.config.servers[0].transport
    else {
        panic!()
    };
    assert_eq!(
        (args[0].as_str(), env["B"].as_str()),
        (format!("--token={SECRET}").as_str(), SECRET)
    );
    let lockgate_upstream::Transport::Http { headers, .. } = &loaded.config.servers[1].transport
    else {
        panic!()
    };
    assert_eq!(
        (headers["authorization"].as_str(), headers["x-key"].as_str()),
        (format!("Bearer {SECRET}").as_str(), SECRET)
    );
    assert_eq!(loaded.files, [given.path().join("lockgate.yaml"), given.path().join("secret.txt")]);
    holds_no_secret(&given, "a valid configuration");
    let shown = format!("{loaded:?}\n{loaded:#?}");
    assert!(!shown.contains("Tops3cret"), "{shown}");
}

#[test]
fn no_mistake_shows_a_secret_that_a_reference_gave() {
    for key in crate::schema::tests::walk::keys() {
        for value in
            ["${S}", "x ${S}", "${file:secret.txt}", "${NONE:-Tops3cret}", "file:secret.txt"]
        {
            let mut document = serde_json::json!(value);
            for name in key.path.iter().rev() {
                let name = if name == "NAME" { "a" } else { name };
                document = serde_json::json!({ name: document });
            }
            let text = document.to_string();
            let given = TestConfig::files(&[("lockgate.json", &text), ("secret.txt", SECRET)])
                .env("S", SECRET);
            holds_no_secret(&given, &text);
        }
    }
}

#[test]
fn no_mistake_shows_a_secret_written_where_secrets_go() {
    let texts = [
        "auth: { key: 'Tops3cret' }",
        "auth: { key: [Tops3cret] }",
        "auth: Tops3cret",
        "auth: { key: 'Tops3cret with blanks in it' }",
        "auth: { kye: Tops3cret }",
        "secret: Tops3cret",
        "secret: { a: Tops3cret }",
        "secret: 'Tops3cret",
        "auth: { key: Tops3cret",
        "auth: key: Tops3cret",
        "auth:\n  key: Tops3cret\n bad: x",
        "auth:\n\tkey: Tops3cret",
        "auth: { key: *Tops3cret }",
        "auth: { key: !!int Tops3cret }",
        "secret: \"Tops3cret\\q\"",
        "servers: { a: { url: 'https://u:Tops3cret@a/mcp' } }",
        "servers: { a: { url: 'Tops3cret' } }",
        "servers: { a: { url: [Tops3cret] } }",
        "servers: { a: { url: 'https://a/mcp', headers: { A: \"Tops3cret\\n\" } } }",
        "servers: { a: { url: 'https://a/mcp', headers: { A: [Tops3cret] } } }",
        "servers: { a: { url: 'https://a/mcp', headers: Tops3cret } }",
        "servers: { a: { command: sh, env: Tops3cret, args: Tops3cret } }",
        "servers: { a: { command: 'x --key Tops3cret' } }",
        "telemetry: { otlp: 'https://u:Tops3cret@a/' }",
        "telemetry: { otlp_logs: 'https://u:Tops3cret@a/' }",
    ];
    for text in texts {
        holds_no_secret(&TestConfig::yaml(text), text);
    }
    let json = [
        "{\"secret\": \"Tops3cret",
        "{\"secret\": Tops3cret}",
        "{\"secret\": \"a\", \"secret\": \"Tops3cret\"}",
    ];
    for text in json {
        holds_no_secret(&TestConfig::files(&[("lockgate.json", text)]), text);
    }
    for text in [
        "secret = 'Tops3cret",
        "secret = Tops3cret",
        "secret = 'Tops3cret'\nsecret = 'Tops3cret'",
        "[auth]\nkey = \"Tops3cret\\q\"",
    ] {
        holds_no_secret(&TestConfig::files(&[("lockgate.toml", text)]), text);
    }
    for name in [
        "LOCKGATE_AUTH__KEY",
        "LOCKGATE_KEY",
        "LOCKGATE_SECRET",
        "LOCKGATE_SERVERS__A__HEADERS__X",
        "LOCKGATE_AUTH__KYE",
    ] {
        for value in ["Tops3cret", "[\"Tops3cret\"]", "{\"Tops3cret\": 1}", "${Tops3cret"] {
            holds_no_secret(&TestConfig::files(&[]).env(name, value), name);
        }
    }
    let import = r#"{ "mcpServers": { "a": { "command": "sh", "env": { "T": ["Tops3cret"] }, "token": "Tops3cret" } } }"#;
    holds_no_secret(&TestConfig::files(&[("c.json", import)]).mcp_servers("c.json"), import);
}

#[test]
fn headers_for_receivers_come_from_files_too() {
    let text = "
telemetry: { otlp: 'https://c.example/v1/traces', headers: { X-Key: file:secret.txt } }
audit:
  file: a.jsonl
  webhook: { url: 'https://siem.example', secret: '${W}', headers: { X-Key: file:secret.txt } }
tool_search: { embeddings: { url: 'https://e.example', model: m, headers: { X-Key: file:secret.txt } } }
";
    let whsec = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let given =
        TestConfig::files(&[("lockgate.yaml", text), ("secret.txt", SECRET)]).env("W", whsec);
    let telemetry = given.loaded().config.telemetry;
    assert_eq!(telemetry.export.headers["x-key"], SECRET);
    let audit = telemetry.audit.as_ref().unwrap();
    assert_eq!(audit.webhook.as_ref().unwrap().headers["x-key"], SECRET);
    let embeddings = given.loaded().config.proxy.tool_search.embeddings.unwrap();
    assert_eq!(embeddings.headers["x-key"], SECRET);
    holds_no_secret(&given, "headers for receivers");
    assert!(!format!("{telemetry:?}").contains("Tops3cret"));
}

#[test]
fn there_are_at_most_32_headers_for_a_receiver() {
    for (count, is_good) in [(32, true), (33, false)] {
        let headers: Vec<String> = (0..count).map(|at| format!("X-{at}: a")).collect();
        let headers = headers.join(", ");
        let text = format!("telemetry: {{ otlp: 'http://127.0.0.1', headers: {{ {headers} }} }}");
        let said = said(&TestConfig::yaml(&text));
        assert_eq!(!said.contains("must not have more than 32 entries"), is_good, "{said}");
    }
}

#[test]
fn references_are_expanded_once_and_can_be_escaped() {
    let given = |text: &str| {
        TestConfig::yaml(&format!("title: '{text}'\n")).env("A", "${B}").env("B", "b").env("E", "")
    };
    let cases = [
        ("${A}", "${B}"),
        ("x${B}y${B}z", "xbybz"),
        ("${N:-d}", "d"),
        ("${N:-}", ""),
        ("${E:-d}", "d"),
        ("${E}", ""),
        ("$${B}", "${B}"),
        ("$B $ {B}", "$B $ {B}"),
        ("file:x", "file:x"),
    ];
    for (text, expected) in cases {
        assert_eq!(given(text).loaded().config.proxy.title.as_deref(), Some(expected), "{text}");
    }
    for text in ["${", "${}", "${1}", "${B", "${a b}", "${B:x}", "${file:none}"] {
        assert_eq!(given(text).messages().len(), 1, "{text}");
    }
}

/// Checks that an issued key is not used as the gateway's own, which revocation cannot reach.
#[test]
fn an_issued_key_is_no_key_of_the_gateway() {
    let issued = format!("lg_{}_{}", "0123456789abcdef", "0123456789abcdef".repeat(4));
    let text = "auth: { keys_file: keys.yaml }\n";
    let given = TestConfig::files(&[("lockgate.yaml", text), ("keys.yaml", "keys: []\n")]);
    let given = given.env("LOCKGATE_CLIENT_KEY", &issued);
    assert!(given.loaded().config.authn.key.is_none(), "it is for commands alone");
    let given = given.env("LOCKGATE_KEY", &issued);
    let messages = given.messages().join("\n");
    assert!(messages.contains("auth.key: is a key of `lockgate keys create`"), "{messages}");
    assert!(messages.contains("LOCKGATE_CLIENT_KEY") && !messages.contains(&issued), "{messages}");
}

/// Checks that documented references are resolved at every key, and that similar texts are not
/// taken for the secret itself.
#[test]
fn every_key_that_is_documented_as_a_reference_takes_one() {
    let given = TestConfig::files(&[("secret.txt", SECRET)]);
    let mut count = 0;
    for key in crate::schema::tests::walk::keys() {
        if !key.description.contains("A reference: ") {
            continue;
        }
        count += 1;
        for (text, expected) in [
            ("file:secret.txt", Some(SECRET)),
            ("${SECRET}", Some("from the environment")),
            ("$SECRET", None),
            ("env:SECRET", None),
            ("Bearer file:secret.txt", None),
        ] {
            let mut root = Node::map(ValuePlace::Nowhere);
            root.put(&key.path, Node::text(text, ValuePlace::Nowhere));
            let mut problems = Problems::default();
            let mut expand = crate::expand::Expand {
                env: &[("SECRET".to_owned(), "from the environment".to_owned())].into(),
                base: given.path(),
                editor: false,
                files: Vec::new(),
            };
            expand.expand_values(&mut root, &mut problems);
            let value = root.find_usable(&key.path).and_then(Node::as_text);
            assert_eq!(value, expected, "{}: {text}", key.path.join("."));
            assert_eq!(problems.finish().is_err(), expected.is_none(), "{text}");
        }
    }
    assert!(count >= 11, "{count}");
}
