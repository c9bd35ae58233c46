//! Tests of `authn`.

use std::time::Duration;

use super::*;

pub(crate) fn connector() -> Arc<Connector> {
    let config = lockgate_egress::Config {
        connect_timeout: Duration::from_secs(5),
        idle_connections: 1,
        idle_timeout: Duration::from_secs(5),
        ..lockgate_egress::Config::default()
    };
    Arc::new(Connector::new(&config).unwrap())
}

async fn ask(config: &Config, peer: Peer, bearer: Option<&str>) -> Result<String, AuthnError> {
    let authenticator = Authenticator::start(config, &connector(), None).unwrap();
    let credentials = Credentials { peer, bearer: bearer.map(Into::into), certificate: None };
    authenticator
        .authenticate(&credentials, Resource::All)
        .await
        .map(|p| p.issuer.to_string())
        .map_err(|refused| refused.why)
}

fn at(address: &str) -> Peer {
    Peer::Address(address.parse().unwrap())
}

fn with_key() -> Config {
    Config { key: Some("a-long-enough-key-0123".into()), ..Config::default() }
}

const OTHERS: [&str; 5] = ["10.0.0.1", "192.168.1.2", "::", "::ffff:10.0.0.1", "fe80::1"];
const HERE: [&str; 4] = ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"];

#[tokio::test]
async fn holders_of_keys_have_what_their_keys_have_now() {
    let (mut key, text) = key::Key::mint(0).unwrap();
    key.roles = vec!["boss".into()];
    let start = |keys: &[&key::Key]| {
        let config =
            Config { keys: Some(keys.iter().map(|&key| key.clone()).collect()), ..with_key() };
        Authenticator::start(&config, &connector(), None).unwrap()
    };
    let credentials = |bearer: &str| Credentials {
        peer: at("10.0.0.1"),
        bearer: Some(bearer.into()),
        certificate: None,
    };
    let before = start(&[&key]);
    let caller = before.authenticate(&credentials(&text), Resource::All).await.unwrap();
    assert_eq!(before.current(&caller).unwrap().roles, caller.roles);
    let with = |change: &dyn Fn(&mut key::Key)| {
        let mut key = key.clone();
        change(&mut key);
        start(&[&key]).current(&caller)
    };
    let demoted = with(&|key| key.roles = vec!["other".into()]).unwrap();
    assert!(demoted == caller && *demoted.roles[0] == *"other");
    assert_eq!(with(&|key| key.revoked = Some(1)), None);
    assert_eq!(with(&|key| key.expires = Some(1)), None);
    assert_eq!(start(&[]).current(&caller), None);

    let single =
        before.authenticate(&credentials("a-long-enough-key-0123"), Resource::All).await.unwrap();
    assert_eq!(start(&[]).current(&single), Some(single.clone()));
    let none = Authenticator::start(&Config::default(), &connector(), None).unwrap();
    assert_eq!(none.current(&single), None);
    let local = none.authenticate(
        &Credentials { peer: Peer::Stdio, bearer: None, certificate: None },
        Resource::All,
    );
    let local = local.await.unwrap();
    assert_eq!(before.current(&local), Some(local));
}

#[tokio::test]
async fn without_any_credential_only_this_machine_may_call() {
    let config = Config::default();
    for loopback in HERE {
        assert_eq!(ask(&config, at(loopback), None).await.unwrap(), "local", "{loopback}");
    }
    for other in OTHERS {
        assert_eq!(ask(&config, at(other), None).await, Err(AuthnError::Missing), "{other}");
        assert_eq!(
            ask(&config, at(other), Some("anything")).await,
            Err(AuthnError::Missing),
            "{other}"
        );
    }
    assert_eq!(ask(&config, Peer::Stdio, None).await.unwrap(), "local");
}

#[tokio::test]
async fn with_a_key_everybody_over_tcp_needs_it() {
    let config = with_key();
    assert_eq!(ask(&config, at("127.0.0.1"), None).await, Err(AuthnError::Missing));
    assert_eq!(ask(&config, at("127.0.0.1"), Some("wrong")).await, Err(AuthnError::Invalid));
    assert_eq!(ask(&config, at("10.0.0.1"), config.key.as_deref()).await.unwrap(), "key");
    assert_eq!(ask(&config, at("127.0.0.1"), Some("")).await, Err(AuthnError::Invalid));
    assert_eq!(ask(&config, Peer::Stdio, None).await.unwrap(), "local");
}

#[tokio::test]
async fn who_comes_without_a_credential_is_configured() {
    let config = |anonymous| Config { anonymous, ..with_key() };
    for (anonymous, here, elsewhere) in [
        (Anonymous::Default, Err(AuthnError::Missing), Err(AuthnError::Missing)),
        (Anonymous::Never, Err(AuthnError::Missing), Err(AuthnError::Missing)),
        (Anonymous::Loopback, Ok("local".to_owned()), Err(AuthnError::Missing)),
        (Anonymous::Everywhere, Ok("local".to_owned()), Ok("anonymous".to_owned())),
    ] {
        let config = config(anonymous);
        assert_eq!(ask(&config, at(HERE[0]), None).await, here, "{anonymous:?}");
        assert_eq!(ask(&config, at(OTHERS[0]), None).await, elsewhere, "{anonymous:?}");
        // An invalid credential is not ignored.
        assert_eq!(
            ask(&config, at(HERE[0]), Some("wrong")).await,
            Err(AuthnError::Invalid),
            "{anonymous:?}"
        );
    }
    let never = Config { anonymous: Anonymous::Never, ..Config::default() };
    assert_eq!(ask(&never, at(HERE[0]), None).await, Err(AuthnError::Missing));
}

#[tokio::test]
async fn keys_of_the_file_are_principals_of_their_own() {
    let ((mut one, first), (two, second)) =
        (key::Key::mint(0).unwrap(), key::Key::mint(0).unwrap());
    one.scopes = vec!["wide".into()];
    let mut config = Config { keys: Some(vec![one, two]), ..with_key() };
    config.scopes.implies.insert("wide".into(), vec!["narrow".into()]);
    let authenticator = Authenticator::start(&config, &connector(), None).unwrap();
    let who = async |bearer: &str| {
        let credentials =
            Credentials { peer: at(OTHERS[0]), bearer: Some(bearer.into()), certificate: None };
        authenticator.authenticate(&credentials, Resource::All).await.map_err(|refused| refused.why)
    };
    let (first, second) = (who(&first).await.unwrap(), who(&second).await.unwrap());
    let single = who("a-long-enough-key-0123").await.unwrap();
    assert!(first != second && first != single && second != single);
    assert!(first.has_scope("narrow") && !second.has_scope("narrow"));
    assert_eq!(who("lg_0123456789abcdef_00").await, Err(AuthnError::Invalid));
    assert_eq!(who("a.b.c").await, Err(AuthnError::Invalid));
}

/// The principal in a refusal is that of a verified credential; a guess has none.
#[tokio::test]
async fn a_refusal_says_whose_good_secret_it_was() {
    let (mut one, first) = key::Key::mint(0).unwrap();
    let (mut two, second) = key::Key::mint(0).unwrap();
    one.revoked = Some(1);
    two.expires = Some(1);
    let ids = [one.id.clone(), two.id.clone()];
    let mut config = Config { keys: Some(vec![one, two]), ..with_key() };
    config.scopes.required = vec!["mcp:call".into()];
    let authenticator = Authenticator::start(&config, &connector(), None).unwrap();
    let who = async |bearer: &str| {
        let credentials =
            Credentials { peer: at(OTHERS[0]), bearer: Some(bearer.into()), certificate: None };
        let refused = authenticator.authenticate(&credentials, Resource::All).await.unwrap_err();
        (refused.why, refused.who.map(|who| format!("{}:{}", who.issuer, who.subject)))
    };
    assert_eq!(who(&first).await, (AuthnError::Revoked, Some(format!("key:{}", ids[0]))));
    assert_eq!(who(&second).await, (AuthnError::Expired, Some(format!("key:{}", ids[1]))));
    assert_eq!(
        who("a-long-enough-key-0123").await,
        (AuthnError::Scope, Some("key:default".into()))
    );
    let guess = format!("lg_{}_{}", ids[0], "0".repeat(64));
    assert_eq!(who(&guess).await, (AuthnError::Invalid, None));
}

#[tokio::test]
async fn scopes_that_every_request_needs_are_asked_of_everybody_but_the_local_user() {
    let (key, text) = key::Key::mint(0).unwrap();
    let mut config =
        Config { keys: Some(vec![key]), anonymous: Anonymous::Loopback, ..Config::default() };
    config.scopes.required = vec!["mcp:call".into()];
    assert_eq!(ask(&config, at(HERE[0]), Some(&text)).await, Err(AuthnError::Scope));
    assert_eq!(ask(&config, at(HERE[0]), None).await.unwrap(), "local");
    config.keys.as_mut().unwrap()[0].scopes = config.scopes.required.clone();
    assert_eq!(ask(&config, at(HERE[0]), Some(&text)).await.unwrap(), "key");
}

/// Clients do not authenticate after a 403.
#[tokio::test]
async fn who_has_shown_nothing_is_asked_to_sign_in_and_not_for_more_scopes() {
    let open = Config { anonymous: Anonymous::Everywhere, ..with_key() };
    let mut required = open.clone();
    required.scopes.required = vec!["mcp:call".into()];
    assert_eq!(ask(&required, at(OTHERS[0]), None).await, Err(AuthnError::Missing));
    assert_eq!(
        ask(&required, at(OTHERS[0]), required.key.as_deref()).await,
        Err(AuthnError::Scope)
    );
    let mut tools = open;
    tools.scopes.tools =
        vec![ToolScopes { tools: vec!["a/*".into()], scopes: vec!["wide".into()] }];
    let call = |config: &Config, issuer: &str| {
        let authenticator = Authenticator::start(config, &connector(), None).unwrap();
        authenticator.may_call(&Principal::new(Identity::new(issuer, "x")), "a", "t", Resource::All)
    };
    assert_eq!(
        call(&tools, ANONYMOUS),
        Err((AuthnError::Missing, "Bearer scope=\"wide\"".to_owned()))
    );
    let (why, challenge) = call(&tools, KEY).unwrap_err();
    assert!(why == AuthnError::Scope && challenge.contains("insufficient_scope"), "{challenge}");
    tools.public_url = Some("https://gw.test".parse().unwrap());
    tools.issuers = [("a".to_owned(), token::tests::issuer("http://127.0.0.1:1"))].into();
    let (why, challenge) = call(&tools, ANONYMOUS).unwrap_err();
    assert!(why == AuthnError::Missing && !challenge.contains("error"), "{challenge}");
    assert!(
        challenge.contains("scope=\"wide\"") && challenge.contains("resource_metadata="),
        "{challenge}"
    );
}

#[tokio::test]
async fn a_certificate_is_a_principal_where_it_is_asked_for() {
    let mut params = rcgen::CertificateParams::new(vec!["ci.test".into()]).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, "ci");
    let made = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
    let certificate = Arc::new(Certificate::read(made.der()).unwrap());
    let who = async |config: &Config, bearer: Option<&str>| {
        let authenticator = Authenticator::start(config, &connector(), None).unwrap();
        let certificate = Some(Arc::clone(&certificate));
        let credentials =
            Credentials { peer: at(OTHERS[0]), bearer: bearer.map(Into::into), certificate };
        authenticator.authenticate(&credentials, Resource::All).await.map_err(|refused| refused.why)
    };
    let config = Config { certificates: true, ..with_key() };
    let principal = who(&config, None).await.unwrap();
    assert!(principal.issuer.starts_with(CERTIFICATE));
    assert_eq!(&*principal.subject, "dns:ci.test");
    let holder = who(&config, config.key.as_deref()).await.unwrap();
    assert_eq!(&*holder.issuer, KEY);
    assert_eq!(holder.certificate().unwrap().fingerprint, certificate.fingerprint);
    assert_eq!(who(&config, Some("wrong")).await, Err(AuthnError::Invalid));
    assert_eq!(who(&config, Some("")).await, Err(AuthnError::Invalid));
    let certificates_alone =
        Config { certificates: true, anonymous: Anonymous::Everywhere, ..Config::default() };
    assert!(who(&certificates_alone, None).await.is_ok());
    assert_eq!(who(&certificates_alone, Some("anything")).await, Err(AuthnError::Invalid));
    assert_eq!(who(&with_key(), None).await, Err(AuthnError::Missing));
}

/// TLS checks the dates once; connections and resumed sessions last longer.
#[tokio::test]
async fn a_certificate_that_is_out_of_date_is_never_overlooked() {
    let made = |from: i32, to: i32| {
        let mut params = rcgen::CertificateParams::new(vec!["ci.test".into()]).unwrap();
        (params.not_before, params.not_after) =
            (rcgen::date_time_ymd(from, 1, 1), rcgen::date_time_ymd(to, 1, 1));
        let made = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        Arc::new(Certificate::read(made.der()).unwrap())
    };
    let open = Config { certificates: true, anonymous: Anonymous::Everywhere, ..with_key() };
    let authenticator = Authenticator::start(&open, &connector(), None).unwrap();
    for (certificate, good) in
        [(made(1990, 9000), true), (made(1990, 2001), false), (made(8000, 9000), false)]
    {
        for (peer, bearer) in [(HERE[0], None), (OTHERS[0], None), (OTHERS[0], open.key.clone())] {
            let credentials =
                Credentials { peer: at(peer), bearer, certificate: Some(Arc::clone(&certificate)) };
            let refused = authenticator.authenticate(&credentials, Resource::All).await.err();
            assert_eq!(refused.is_none(), good, "{credentials:?}");
            if let Some(refused) = refused {
                assert_eq!(
                    (refused.why, &*refused.who.unwrap().subject),
                    (AuthnError::Expired, "dns:ci.test")
                );
            }
        }
    }
}

#[tokio::test]
async fn without_tokens_a_challenge_is_plain() {
    let authenticator = Authenticator::start(&with_key(), &connector(), None).unwrap();
    assert_eq!(authenticator.challenge(AuthnError::Missing, Resource::All), "Bearer");
    let invalid = authenticator.challenge(AuthnError::Invalid, Resource::All);
    assert_eq!(
        invalid,
        "Bearer error=\"invalid_token\", error_description=\"the bearer credential is not valid\""
    );
    assert_eq!(authenticator.metadata(&format!("{WELL_KNOWN}/mcp")), None);
}

#[test]
fn debug_output_shows_no_secret() {
    let credentials =
        Credentials { peer: Peer::Stdio, bearer: Some("s3cret-value".into()), certificate: None };
    let config = Config { key: Some("s3cret-value".into()), ..Config::default() };
    assert!(!format!("{credentials:?}{config:?}").contains("s3cret"));
}
