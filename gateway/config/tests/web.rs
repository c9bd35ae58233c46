//! Tests of `builtin.web` and `builtin.content`: validated values and mistakes.

use super::TestConfig;

#[test]
fn both_are_off_until_they_are_configured_and_have_careful_defaults() {
    let tools = TestConfig::yaml("{}").loaded().config.tools;
    assert!(tools.web.is_none() && tools.content.is_none());
    let web = TestConfig::yaml("builtin: { web: { hosts: [api.example.com] } }")
        .loaded()
        .config
        .tools
        .web
        .unwrap();
    assert_eq!(
        (web.hosts, web.any_host, web.schemes),
        (vec!["api.example.com".to_owned()], false, vec!["http".into(), "https".into()])
    );
    assert_eq!(
        (web.user_agent.as_str(), web.redirects, web.response_size),
        (concat!("lockgate/", env!("CARGO_PKG_VERSION")), 5, 1 << 20)
    );
    assert!(web.addresses.is_empty() && web.ports.is_empty() && web.proxy.is_none());
    assert_eq!(web.methods, ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]);
}

#[test]
fn a_proxy_takes_its_password_from_a_reference_and_never_shows_it() {
    let text = "builtin: { web: { any_host: true, methods: [HEAD, GET], addresses: [10.1.2.3/16], proxy: { url: 'http://proxy.example:3128', user: ada, password: 'file:secret' } } }";
    let given = TestConfig::files(&[("lockgate.yaml", text), ("secret", "hush-hush\n")]);
    let web = given.loaded().config.tools.web.unwrap();
    assert_eq!(
        (web.methods.clone(), web.addresses[0].as_str()),
        (vec!["GET".to_owned(), "HEAD".to_owned()], "10.1.2.3/16")
    );
    let proxy = web.proxy.as_ref().unwrap();
    assert_eq!(
        (proxy.user.as_deref(), proxy.password.as_deref()),
        (Some("ada"), Some("hush-hush"))
    );
    assert!(format!("{web:?}").contains("resolve: Gateway"));
    assert!(!format!("{web:?}").contains("hush"));
}

#[test]
fn mistakes_in_web_are_all_named() {
    let text = "builtin:\n  web:\n    hosts: ['*', 'https://a.example', 10.0.0.1]\n    schemes: [ftp]\n    addresses: [10.0.0.0/40]\n    methods: [TRACE]\n    \
                headers: [host]\n    user_agent: \"a\\nb\"\n    proxy: { url: 'https://u:p@proxy.example/x', password: secret }\n    ports: [0]\n";
    let said = TestConfig::yaml(text).messages().join("\n");
    assert!(said.contains("builtin.web.ports.0: must be from 1 to 65535"), "{said}");
    let said = TestConfig::yaml(&text.replace("    ports: [0]\n", "")).messages().join("\n");
    for place in [
        "hosts.0",
        "hosts.1",
        "hosts.2",
        "schemes",
        "addresses.0",
        "methods.0",
        "headers.0",
        "user_agent",
        "proxy.url",
        "proxy.user",
    ] {
        assert!(said.contains(&format!("builtin.web.{place}: ")), "{place} in {said}");
    }
    assert!(!said.contains("u:p@") && !said.contains("secret"), "{said}");
    assert!(
        TestConfig::yaml("builtin: { web: {} }")
            .messages()
            .join("")
            .contains("no host can be reached")
    );
}

#[test]
fn content_is_taken_over_and_its_mistakes_are_named() {
    let text = "builtin:\n  content:\n    folder: files\n    resources:\n      - { uri: 'a://b', name: b, file: b.md }\n      - { uri: 'a://c', name: c, base64: 'AQ\n ID' }\n    \
                templates:\n      - { template: 'a://t/{x}', name: t, text: 'on {{x}}', values: { x: [one, two] } }\n    prompts:\n      - name: p\n        \
                arguments: [{ name: n, type: integer, min: 1, default: '2' }]\n        messages: [{ text: '{{n}}' }]\n";
    let given = TestConfig::files(&[("lockgate.yaml", text), ("files/b.md", "")]);
    let content = given.loaded().config.tools.content.unwrap();
    assert_eq!(content.folder, Some(given.path().join("files")));
    let kinds: Vec<_> = content.resources.iter().map(|resource| resource.mime_type()).collect();
    assert_eq!(
        (kinds, content.templates.len(), content.prompts.len()),
        (vec!["text/markdown", "application/octet-stream"], 1, 1)
    );
    let wrong = "builtin:\n  content:\n    resources: [{ uri: 'a://b', name: b }, { uri: 'a://c', name: c, text: x, file: y }, { uri: nothing, name: '', text: x }]\n    \
                 templates: [{ template: 'a://{x**}', name: t, text: x }]\n    prompts: [{ name: p, messages: [{ text: '{{x}}' }] }]\n";
    let said = TestConfig::yaml(wrong).messages().join("\n");
    for place in [
        "resources.0",
        "resources.1",
        "resources.2.uri",
        "resources.2.name",
        "templates.0.template",
        "prompts.0.messages.0.text",
    ] {
        assert!(said.contains(&format!("builtin.content.{place}: ")), "{place} in {said}");
    }
}
