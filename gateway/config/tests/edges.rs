//! Tests every number of the schema at both ends of its range, just inside and just outside.

use serde_json::{Value, json};

use super::TestConfig;
use crate::schema::tests::walk::{Key, keys};

fn document(key: &Key, value: Value) -> String {
    let mut document = json!({ "servers": { "a": { "command": "sh" } } });
    // These limits are compared with each other.
    match key.path.join(".").as_str() {
        "http.body_bytes" => {
            document["limits"] = json!({"bytes_in_flight": "16GiB", "memory": "64GiB"})
        }
        "limits.bytes_in_flight" => {
            document["http"]["body_bytes"] = json!(1024);
            document["limits"]["memory"] = json!("64GiB");
        }
        _ => {}
    }
    // Further required keys.
    if key.path.starts_with(&["builtin".into(), "web".into()]) {
        document["builtin"]["web"]["any_host"] = json!(true);
    }
    if key.path.starts_with(&["auth".into(), "issuers".into()]) {
        document["auth"]["issuers"]["a"]["issuer"] = json!("https://login.example.com");
        document["auth"]["issuers"]["a"]["audiences"] = json!(["https://mcp.example.com/mcp"]);
    }
    if key.path.ends_with(&["auth".into(), "waits".into()]) {
        document["servers"]["a"] = json!({"url": "https://a.test", "auth": {"type": "user"}});
    }
    if key.path.starts_with(&["builtin".into(), "file".into()]) {
        document["builtin"]["file"]["roots"] = json!([{ "path": "/usr" }]);
    }
    if key.path.starts_with(&["builtin".into(), "shell".into()]) {
        document["builtin"]["shell"]["roots"] = json!([{ "path": "/usr" }]);
        if key.path.ends_with(&["max_timeout".into()]) {
            document["builtin"]["shell"]["timeout"] = json!(1);
        }
    }
    if key.path.starts_with(&["tool_search".into(), "embeddings".into()]) {
        let server = json!({"url": "https://a.test/v1/embeddings", "model": "small"});
        document["tool_search"]["embeddings"] = server;
    }
    let mut at = &mut document;
    for name in &key.path {
        let name = if name == "NAME" { "a" } else { name };
        at = &mut at[name];
    }
    *at = value;
    document.to_string()
}

#[test]
fn every_number_is_taken_at_its_limits_and_refused_beyond() {
    let bounded: Vec<Key> = keys().into_iter().filter(|key| key.range.is_some()).collect();
    assert!(bounded.len() >= 37, "{} numbers", bounded.len());
    for key in bounded {
        let Some((min, max)) = key.range else { continue };
        let name = key.path.join(".").replace("NAME", "a");
        let messages = |value: Value| {
            TestConfig::files(&[("lockgate.json", &document(&key, value))]).messages()
        };
        for inside in [json!(min), json!(max), json!(max.to_string())] {
            assert_eq!(messages(inside.clone()), Vec::<String>::new(), "{name} = {inside}");
        }
        let below = i128::from(min) - 1;
        let below = i64::try_from(below).map(Value::from).unwrap();
        for outside in
            [below, json!(max + 1), json!(i64::MIN), json!(u64::MAX), json!(1.5), json!(true)]
        {
            let messages = messages(outside.clone());
            assert!(
                messages.len() == 1
                    && messages[0].contains(&format!(": {name}: must be "))
                    && messages[0].contains(" — "),
                "{name} = {outside}: {messages:?}"
            );
        }
    }
}

#[test]
fn names_and_ports_are_taken_at_their_limits_and_refused_beyond() {
    let longest = "a".repeat(64);
    let too_long = "a".repeat(65);
    let cases: &[(&str, String, bool)] = &[
        ("name", "a".into(), true),
        ("name", "0-9-z".into(), true),
        ("name", longest.clone(), true),
        ("name", too_long.clone(), false),
        ("name", String::new(), false),
        ("name", "A".into(), false),
        ("name", "a_b".into(), false),
        ("name", "ä".into(), false),
        ("listen", "127.0.0.1:1024".into(), true),
        ("listen", "127.0.0.1:65535".into(), true),
        ("listen", "[::1]:3001".into(), true),
        ("listen", "localhost:3001".into(), true),
        ("listen", "127.0.0.1:1023".into(), false),
        ("listen", "127.0.0.1:65536".into(), false),
        ("listen", "127.0.0.1:0".into(), false),
        ("listen", "127.0.0.1".into(), false),
        ("listen", "mcp.example.com:3001".into(), false),
        ("listen", "0.0.0.0:3001".into(), false),
        ("listen", "[::]:3001".into(), false),
        ("listen", "192.0.2.1:3001".into(), false),
        ("listen", "[::ffff:127.0.0.1]:3001".into(), true),
    ];
    for (key, value, valid) in cases {
        let given = TestConfig::files(&[("lockgate.json", &json!({ *key: value }).to_string())]);
        assert_eq!(given.load().is_ok(), *valid, "{key} = {value}: {:?}", given.messages());
    }
    for (slug, valid) in
        [(longest.as_str(), true), (too_long.as_str(), false), ("a.b", false), ("-", true)]
    {
        let text = json!({ "servers": { slug: { "command": "sh" } } }).to_string();
        assert_eq!(TestConfig::files(&[("lockgate.json", &text)]).load().is_ok(), valid, "{slug}");
    }
}

#[test]
fn privileged_ports_and_other_interfaces_have_to_be_asked_for() {
    let privileged = TestConfig::yaml("listen: 127.0.0.1:1\nhttp: { privileged_ports: true }\n");
    assert_eq!(privileged.loaded().config.listener.listen.port(), 1);
    let zero = TestConfig::yaml("listen: 127.0.0.1:0\nhttp: { privileged_ports: true }\n");
    assert!(zero.load().is_err());
    let open = TestConfig::yaml("listen: 0.0.0.0:3001\n").env("LOCKGATE_KEY", "0123456789abcdef");
    assert_eq!(open.loaded().config.listener.listen.to_string(), "0.0.0.0:3001");
    // Warnings only matter if the address is bound.
    let warned = open.messages();
    assert!(
        warned.len() == 2 && warned.iter().all(|line| line.starts_with("warning: ")),
        "{warned:?}"
    );
    let refused = TestConfig::yaml("listen: 0.0.0.0:3001\n").messages();
    assert!(refused.len() == 1 && refused[0].contains("without `auth.key`"), "{refused:?}");
    let any_port = TestConfig::files(&[])
        .flags(crate::Flags { listen: Some("127.0.0.1:0".into()), ..crate::Flags::default() });
    assert_eq!(any_port.loaded().config.listener.listen.port(), 0);
}

#[test]
fn files_are_bounded_in_size_and_nesting() {
    let large = format!("# {}\n", "x".repeat(1024 * 1024));
    assert_eq!(TestConfig::yaml(&large).messages(), ["lockgate.yaml: is larger than 1 MiB"]);
    let fits = format!("{{}} # {}\n", "x".repeat(1024 * 1024 - 6));
    assert_eq!(TestConfig::yaml(&fits).messages(), Vec::<String>::new());
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(200), close.repeat(200));
    for (name, text) in [
        ("lockgate.yaml", format!("name: {}", deep("[", "]"))),
        ("lockgate.json", format!("{{\"name\": {}}}", deep("[", "]"))),
        ("lockgate.toml", format!("name = {}", deep("[", "]"))),
    ] {
        let messages = TestConfig::files(&[(name, &text)]).messages();
        assert_eq!(messages.len(), 1, "{messages:?}");
    }
    let bomb = "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n\
                c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\n\
                e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]\nf: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e]\n\
                name: [*f, *f, *f, *f, *f, *f, *f, *f, *f]\n";
    let messages = TestConfig::yaml(bomb).messages();
    assert!(messages.len() == 1 && messages[0].contains("not valid YAML"), "{messages:?}");
}

#[test]
fn a_report_is_bounded() {
    let text: String = (0..1000).map(|n| format!("unknown{n}: 1\n")).collect();
    let messages = TestConfig::yaml(&text).messages();
    assert!((100..=201).contains(&messages.len()), "{}", messages.len());
}

#[test]
fn a_server_of_an_organisation_has_the_bounds_that_one_of_the_file_has_by_default() {
    let loaded = TestConfig::yaml("servers: { a: { url: 'https://a.example.com/mcp' } }").loaded();
    let of_file = &loaded.config.servers[0];
    let of_organisation = lockgate_upstream::Config::of_organisation(
        "acme".into(),
        "a".into(),
        of_file.transport.clone(),
        of_file.addresses,
    );
    let as_of_file =
        lockgate_upstream::Config { organisation: None, rests_after: None, ..of_organisation };
    assert_eq!(as_of_file, *of_file);
}

#[test]
fn organisations_reach_what_the_operator_allows_and_in_development_this_machine() {
    let reach = |text: &str| {
        let lockgate_egress::Policy::Organisation { private, loopback } =
            TestConfig::yaml(text).loaded().config.egress.organisations
        else {
            panic!("not of organisations: {text}")
        };
        (private, loopback)
    };
    let production = "profile: production\nauth: { key: 0123456789abcdef-0123456789-xyz }\n\
        policy: { tools: { allow: ['*'] } }\n";
    let private = "egress: { organisations: private }\n";
    let local = "egress: { organisations: local }\n";
    assert_eq!(reach("{}"), (false, true));
    assert_eq!(reach(private), (true, true));
    for behind_a_proxy in
        ["http: { hosts: [mcp.example.com] }", "http: { public_url: 'https://mcp.example.com' }"]
    {
        assert_eq!(reach(behind_a_proxy), (false, false), "{behind_a_proxy}");
    }
    assert_eq!(reach(production), (false, false));
    assert_eq!(reach(&format!("{production}{private}")), (true, false));
    assert_eq!(reach(&format!("{production}{local}")), (true, true));
}

/// Checks that an emptied file is a mistake, because it would remove all servers and rules.
#[test]
fn a_file_that_holds_nothing_is_a_mistake() {
    let blank = [
        ("lockgate.yaml", ""),
        ("lockgate.yaml", " \n"),
        ("lockgate.yaml", "# servers:\n"),
        ("lockgate.yaml", "---\n"),
        ("lockgate.yaml", "null\n"),
        ("lockgate.toml", "# servers\n"),
    ];
    for (name, text) in blank {
        let messages = TestConfig::files(&[(name, text)]).messages();
        assert_eq!(messages.len(), 1, "{name} {text:?}: {messages:?}");
        assert!(messages[0].starts_with(&format!("{name}: is empty — ")), "{messages:?}");
    }
    for (name, text) in
        [("lockgate.yaml", "{}"), ("lockgate.json", "{}"), ("lockgate.toml", "[servers]")]
    {
        assert_eq!(TestConfig::files(&[(name, text)]).messages(), Vec::<String>::new(), "{name}");
    }
}
