//! Tests of `servers.NAME.auth`: one source of credentials for each server, and messages without
//! secrets.

use lockgate_accounts::{Authentication, Listing, Method};

use super::TestConfig;

const URL: &str = "url: 'https://crm.test/mcp'";
const CLIENT: &str = "issuer: 'https://login.test', client_id: gate";
const SECRET: &str = "Tops3cret-canary";

fn given(server: &str, auth: &str) -> TestConfig {
    let text = format!("servers: {{ crm: {{ {server}, auth: {{ {auth} }} }} }}\n");
    TestConfig::files(&[("lockgate.yaml", &text), ("key.pem", "no key")]).env("SECRET", SECRET)
}

#[test]
fn a_server_has_accounts_of_users_or_one_of_the_gateway() {
    let loaded = given(URL, "type: user, discovery: first_user, scopes: [a, b]").loaded();
    let accounts = &loaded.config.accounts;
    assert_eq!(accounts.public_url.as_ref().unwrap().as_str(), "http://127.0.0.1:3001/");
    let crm = &accounts.servers["crm"];
    assert_eq!((crm.method, crm.listing), (Method::User, Listing::FirstUser));
    assert_eq!(crm.scopes.as_deref(), Some(&["a".to_owned(), "b".to_owned()][..]));
    assert_eq!((&crm.issuer, &crm.client), (&None, &None));
    assert!(loaded.config.servers[0].has_authorization);

    let auth = format!("type: client_credentials, {CLIENT}, client_secret: '${{SECRET}}'");
    let loaded = given(URL, &auth).loaded();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    assert!(!format!("{loaded:?}").contains(SECRET));
    let accounts = &loaded.config.accounts;
    let client = accounts.servers["crm"].client.as_ref().unwrap();
    assert_eq!(client.id, "gate");
    assert!(matches!(&client.authentication, Authentication::Secret(_)));
    let auth = "type: wif, issuer: 'https://login.test', token_file: run/token";
    let loaded = given(URL, auth).loaded();
    let crm = &loaded.config.accounts.servers["crm"];
    assert_eq!(crm.client.as_ref().map(|client| &*client.id), Some(""));
    // Relative to the configuration's folder.
    let file = crm.token_file.as_ref().unwrap();
    assert!(file.is_absolute() && file.ends_with("run/token"), "{file:?}");
    let none = TestConfig::yaml("servers: { crm: { url: 'https://crm.test' } }").loaded();
    assert!(none.config.accounts.servers.is_empty() && !none.config.servers[0].has_authorization);
}

#[test]
fn settings_that_contradict_each_other_do_not_load() {
    let own = "type: client_credentials";
    let wif = format!("type: wif, {CLIENT}, token_file: token");
    let with_secret = format!("{own}, {CLIENT}, client_secret: '${{SECRET}}'");
    for (server, auth, at, words) in [
        (URL, "", "auth.type", "is required"),
        (URL, "type: workload", "auth.type", "`user`"),
        (URL, &format!("type: wif, {CLIENT}"), "auth.token_file", "is required"),
        (URL, "type: wif, token_file: token", "auth.issuer", "is required"),
        (URL, &format!("{wif}, client_secret: '${{SECRET}}'"), "auth.client_secret", "only valid"),
        (URL, &format!("{wif}, client_key: 'file:key.pem'"), "auth.client_key", "only valid"),
        (URL, &format!("{wif}, discovery: static"), "auth.discovery", "is not used"),
        (URL, "type: user, token_file: token", "auth.token_file", "type: wif"),
        (URL, "type: user, grant: x", "auth", "grant"),
        (URL, "type: user, header: X-Key", "auth.header", "type: user_headers"),
        (URL, "type: user_headers, scopes: [a]", "auth.scopes", "is not used"),
        (URL, &format!("type: user_headers, {CLIENT}"), "auth.client_id", "is not used"),
        (URL, "type: user_headers, header: Host", "auth.header", "is not a header for keys"),
        ("command: 'true'", "type: user", "servers.crm.auth", "only valid with `url`"),
        ("url: 'http://crm.test'", "type: user", "servers.crm.auth", "plain http"),
        (URL, own, "servers.crm.auth", "requires `client_id`"),
        (URL, &format!("{own}, {CLIENT}"), "servers.crm.auth", "requires `client_id`"),
        (URL, "type: user, client_id: gate", "auth.issuer", "is required with `client_id`"),
        (URL, "type: user, issuer: 'http://login.test'", "auth.issuer", "must be an https://"),
        (URL, "type: user, issuer: nowhere", "auth.issuer", "must be an https://"),
        (URL, "type: user, client_secret: '${SECRET}'", "auth.client_secret", "requires `client_"),
        (URL, &format!("type: user, {CLIENT}, client_key_id: a"), "client_key_id", "requires"),
        (
            URL,
            &format!("{with_secret}, client_key: 'file:key.pem'"),
            "auth.client_key",
            "cannot be combined",
        ),
        (URL, &format!("{own}, {CLIENT}, client_key: 'file:key.pem'"), "client_key", "P-256"),
        (URL, &format!("{with_secret}, discovery: first_user"), "auth.discovery", "is not used"),
        (URL, &format!("{with_secret}, waits: 5"), "auth.waits", "type: user"),
        (URL, "type: user, audience: crm", "auth.audience", "type: exchange"),
        (URL, "type: user, discovery: client_credentials", "servers.crm.auth", "`client_id`"),
        (URL, "type: exchange", "servers.crm.auth", "requires `client_id`"),
        (URL, "type: exchange, discovery: first_user", "auth.discovery", "type: user"),
        (URL, "type: id_jag", "auth.provider", "is required"),
        (URL, "type: id_jag, provider: { issuer: x }", "auth.provider", "with https://"),
        (URL, "type: id_jag, provider: { issuer: 'https://i.test' }", "auth.provider", "client_"),
        (
            "url: 'https://crm.test', headers: { authorization: x }",
            &with_secret,
            "servers.crm.headers",
            "must not contain Authorization",
        ),
        (
            "url: 'https://crm.test', headers: { X-Key: x }",
            "type: user",
            "servers.crm.headers",
            "would be the same for all users",
        ),
    ] {
        let messages = given(server, auth).messages();
        let is_found = messages.iter().any(|line| line.contains(at) && line.contains(words));
        assert!(is_found, "{auth}: {messages:?}");
        assert!(!messages.join("\n").contains(SECRET), "{messages:?}");
    }
    let text = "listen: 0.0.0.0:3001\nauth: { anonymous: everywhere }\n\
        servers: { crm: { url: 'https://crm.test', auth: { type: user } } }";
    let messages = TestConfig::yaml(text).messages();
    assert!(messages.iter().any(|line| line.contains("http.public_url")), "{messages:?}");
}

/// Tokens of one provider's users are not sent to the authorization server of another's.
#[test]
fn tokens_of_several_issuers_are_not_exchanged_at_one() {
    let text = |issuers: &str| {
        format!(
            "auth: {{ issuers: {{ {issuers} }} }}\nservers: {{ crm: {{ {URL}, auth: {{ type: \
             exchange, {CLIENT}, client_secret: '${{SECRET}}', discovery: client_credentials }} }} }}"
        )
    };
    let one = "a: { issuer: 'https://a.test' }";
    let two = format!("{one}, b: {{ issuer: 'https://b.test' }}");
    for (issuers, is_refused) in [(one, false), (&*two, true)] {
        let messages = TestConfig::yaml(&text(issuers)).env("SECRET", SECRET).messages();
        let found = messages.iter().any(|line| line.contains("all `auth.issuers`"));
        assert_eq!(found, is_refused, "{messages:?}");
    }
}
