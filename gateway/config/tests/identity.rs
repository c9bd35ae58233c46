//! Tests of `identity`: signing keys, servers' audiences, and that messages reveal no key.

use super::TestConfig;

const SERVERS: &str = "servers:\n  crm:\n    url: https://crm.test/mcp\n    \
    identity: { audience: https://crm.test/mcp }\n";

fn pem() -> String {
    rcgen::KeyPair::generate().unwrap().serialize_pem()
}

fn given(text: &str, key: &str) -> TestConfig {
    TestConfig::files(&[("lockgate.yaml", text), ("identity.pem", key)]).env("KEY", key)
}

#[test]
fn a_server_is_told_who_calls_where_a_key_signs() {
    assert!(TestConfig::yaml("title: a").loaded().config.authn.signer.is_none());
    let key = pem();
    let text = format!("{SERVERS}identity: {{ keys: ['file:identity.pem'] }}\n");
    let loaded = given(&text, &key).loaded();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    assert!(loaded.files.iter().any(|file| file.ends_with("identity.pem")), "it is followed");
    let shown = format!("{loaded:?}");
    assert!(!shown.contains(key.lines().nth(1).unwrap()), "{shown}");
    let signer = loaded.config.authn.signer.unwrap();
    assert_eq!((signer.public_url.as_str(), signer.keys.len()), ("http://127.0.0.1:3001/", 1));
    let [server] = &loaded.config.servers[..] else { panic!("one server") };
    assert_eq!(server.identity.as_deref(), Some("https://crm.test/mcp"));
    let public = format!(
        "{SERVERS}http: {{ public_url: https://gate.test/x }}\nidentity: {{ keys: ['${{KEY}}'] }}"
    );
    let signer = given(&public, &key).loaded().config.authn.signer.unwrap();
    assert_eq!(signer.public_url.as_str(), "https://gate.test/x");
}

#[test]
fn what_cannot_be_signed_is_said_without_the_key() {
    let key = pem();
    let line = key.lines().nth(1).unwrap();
    let public = "http: { public_url: https://gate.test }\n";
    let other = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    let with_key = "identity: { keys: ['${KEY}'] }\n";
    let server = |more: &str| format!("servers: {{ a: {{ {more} }} }}\n{with_key}");
    let twice = "identity: { keys: ['${KEY}', 'file:identity.pem'] }".to_owned();
    let many = format!("identity: {{ keys: [{}] }}", ["'${KEY}'"; 9].join(","));
    let outside = "listen: 0.0.0.0:3001\nauth: { anonymous: everywhere }\n";
    let same = "a: { url: 'https://a.test', identity: { audience: x } }, b: { url: \
        'https://b.test', identity: { audience: x } }";
    for (text, key, at, words) in [
        (SERVERS.into(), &*key, "servers.crm.identity", "openssl genpkey -algorithm EC"),
        (with_key.into(), "no-key-Tops3cret", "identity.keys.0", "not a private key in PEM"),
        (with_key.into(), &other.serialize_pem(), "identity.keys.0", "not a P-256 private key"),
        (twice, &key, "identity.keys.1", "is listed twice"),
        (many, &key, "identity.keys", "more than 8"),
        (format!("{outside}{with_key}"), &key, "http.public_url", "is required"),
        (server("url: 'https://a.test', identity: {}"), &key, "identity.audience", "`aud`"),
        (
            server("url: 'https://a.test', identity: { audience: 'a b' }"),
            &key,
            "servers.a.identity.audience",
            "ASCII characters without blanks",
        ),
        (
            server("url: 'https://a.test', identity: { audience: '' }"),
            &key,
            "servers.a.identity.audience",
            "1 to 1024",
        ),
        (
            server("command: 'true', identity: { audience: a }"),
            &key,
            "servers.a.identity",
            "is only valid with `url`",
        ),
        (
            server("url: 'https://a.test', headers: { Lockgate-Identity: me }"),
            &key,
            "servers.a.headers.lockgate-identity",
            "sets this header itself",
        ),
        (
            format!("servers: {{ {same} }}\n{with_key}"),
            &key,
            "servers.b.identity.audience",
            "equals that of `servers.a`",
        ),
        (
            format!("{public}identity: {{ keys: [\"{}\"] }}", key.replace('\n', "\\n")),
            &key,
            "identity.keys.0",
            "written in plain text",
        ),
    ] {
        let messages = given(&text, key).messages();
        assert!(
            messages.iter().any(|said| said.contains(at) && said.contains(words)),
            "{text}: {messages:#?}"
        );
        let said = messages.join("\n");
        assert!(!said.contains(line) && !said.contains("Tops3cret"), "{said}");
    }
}
