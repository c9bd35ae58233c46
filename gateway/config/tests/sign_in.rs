//! Tests of `admin.sign_in`: a known provider, a client, and an address independent of requests.

use super::TestConfig;

const ISSUERS: &str = "auth: { issuers: { company: { issuer: 'https://login.example.com' } } }";
const SIGN_IN: &str = "issuer: company, client_id: console, client_secret: '${SECRET}'";
const SECRET: &str = "n0t-to-be-seen";

fn given(sign_in: &str, more: &str) -> TestConfig {
    let text = format!("{ISSUERS}\nadmin: {{ sign_in: {{ {sign_in} }} }}\n{more}");
    TestConfig::yaml(&text).env("SECRET", SECRET)
}

fn redirect(given: &TestConfig) -> String {
    given.loaded().config.authn.sign_in.unwrap().redirect.to_string()
}

#[test]
fn people_come_back_to_where_the_console_is() {
    assert!(TestConfig::yaml("title: a").loaded().config.authn.sign_in.is_none());
    let public = "http: { public_url: 'https://gate.example.com' }";
    let callback = "https://gate.example.com/console/sign-in/callback";
    assert_eq!(redirect(&given(SIGN_IN, public)), callback);
    let local = "http://127.0.0.1:3001/console/sign-in/callback";
    assert_eq!(redirect(&given(SIGN_IN, "")), local);
    let own = format!("{SIGN_IN}, console_url: 'https://console.example.com'");
    let callback = "https://console.example.com/console/sign-in/callback";
    assert_eq!(redirect(&given(&own, public)), callback);
}

#[test]
fn a_client_is_read_and_its_secret_is_not_shown() {
    let scopes = format!("{SIGN_IN}, scopes: [openid, groups]");
    let loaded = given(&scopes, "").loaded();
    let shown = format!("{:?}", loaded.config.authn);
    assert!(shown.contains("login.example.com") && !shown.contains(SECRET), "{shown}");
    let sign_in = loaded.config.authn.sign_in.unwrap();
    assert_eq!(sign_in.issuer, "https://login.example.com");
    assert_eq!(sign_in.client_secret.as_deref(), Some(SECRET));
    assert_eq!(sign_in.scopes, ["openid", "groups"]);
    let public = given("issuer: company, client_id: console", "").loaded().config.authn;
    let public = public.sign_in.unwrap();
    assert_eq!((public.client_secret, public.scopes), (None, vec!["openid".to_owned()]));
    let file = "issuer: company, client_id: console, client_secret: 'file:secret'";
    let file = format!("{ISSUERS}\nadmin: {{ sign_in: {{ {file} }} }}");
    let file = TestConfig::files(&[("lockgate.yaml", &file), ("secret", "of a file\n")]).loaded();
    let secret = file.config.authn.sign_in.unwrap().client_secret;
    assert_eq!(secret.as_deref(), Some("of a file"));
}

#[test]
fn what_cannot_work_is_said_without_the_secret() {
    let with = |more: &str| format!("{SIGN_IN}, {more}");
    for (sign_in, more, key, words) in [
        ("client_id: c".to_owned(), "", "admin.sign_in.issuer", "is required"),
        ("issuer: company".to_owned(), "", "admin.sign_in.client_id", "is required"),
        (
            "issuer: compny, client_id: c".to_owned(),
            "",
            "admin.sign_in.issuer",
            "is not a name in `auth.issuers`",
        ),
        (
            "issuer: company, client_id: ''".to_owned(),
            "",
            "admin.sign_in.client_id",
            "is not a valid client id",
        ),
        (
            "issuer: company, client_id: c, client_secret: n0t-to-be-seen".to_owned(),
            "",
            "admin.sign_in.client_secret",
            "written in plain text",
        ),
        (with("scopes: [profile]"), "", "admin.sign_in.scopes", "must contain `openid`"),
        (with("scopes: ['openid', 'a b']"), "", "admin.sign_in.scopes.1", "is not a scope"),
        (
            with("console_url: 'http://console.example.com'"),
            "",
            "admin.sign_in.console_url",
            "must be https",
        ),
        (
            with("console_url: 'https://console.example.com/team'"),
            "",
            "admin.sign_in.console_url",
            "must have no path",
        ),
        (
            with("console_url: 'console.example.com'"),
            "",
            "admin.sign_in.console_url",
            "must be an https:// address",
        ),
        (
            SIGN_IN.to_owned(),
            "http: { public_url: 'https://gate.example.com/team' }",
            "admin.sign_in.console_url",
            "is required",
        ),
        (with("secret: x"), "", "admin.sign_in.secret", "client_secret"),
    ] {
        let messages = given(&sign_in, more).messages();
        let found = messages.iter().any(|one| one.contains(key) && one.contains(words));
        assert!(found, "{sign_in}: {messages:?}");
        assert!(!format!("{messages:?}").contains(SECRET), "{messages:?}");
    }
}
