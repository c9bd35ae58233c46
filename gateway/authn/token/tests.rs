//! Tests of `token`: real keys, real signatures, and attacks on them.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use jsonwebtoken::Algorithm;
use serde_json::json;

use super::parts::MAX_TOKEN;
use super::*;
use crate::config::{Config, Issuer as Named, Scopes};

const ONE_SERVER: Resource<'static> = Resource::Named { kind: "servers", name: "one" };

pub(crate) fn issuer(url: &str) -> Named {
    Named {
        issuer: url.into(),
        algorithms: vec![Algorithm::ES256, Algorithm::RS256, Algorithm::EdDSA],
        stale: Duration::from_secs(3600),
        ..Named::default()
    }
}

pub(crate) enum Pair {
    Ec(EcdsaKeyPair),
    Rsa(RsaKeyPair),
    Ed(Ed25519KeyPair),
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Pair {
    pub(crate) fn ec() -> Self {
        Self::Ec(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    fn rsa() -> Self {
        Self::Rsa(RsaKeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap())
    }

    fn ed() -> Self {
        Self::Ed(Ed25519KeyPair::generate().unwrap())
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Ec(_) => "ES256",
            Self::Rsa(_) => "RS256",
            Self::Ed(_) => "EdDSA",
        }
    }

    pub(crate) fn jwk(&self, kid: &str) -> Value {
        match self {
            Self::Ec(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({"kty": "EC", "crv": "P-256", "kid": kid, "use": "sig", "x": encode(x), "y": encode(y)})
            }
            Self::Rsa(pair) => {
                let (n, e) = (pair.public_key().modulus(), pair.public_key().exponent());
                let n = encode(n.big_endian_without_leading_zero());
                json!({"kty": "RSA", "kid": kid, "alg": "RS256", "n": n, "e": encode(e.big_endian_without_leading_zero())})
            }
            Self::Ed(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": encode(pair.public_key())})
            }
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Ec(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Ed(pair) => pair.sign(message).as_ref().to_vec(),
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
                signature
            }
        }
    }

    pub(crate) fn token(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        format!("{signed}.{}", encode(self.sign(signed.as_bytes())))
    }

    pub(crate) fn good(&self, kid: &str, edit: impl FnOnce(&mut Value)) -> String {
        let mut claims = claims();
        edit(&mut claims);
        self.token(&json!({"alg": self.algorithm(), "typ": "at+jwt", "kid": kid}), &claims)
    }
}

pub(crate) const ISSUER: &str = "https://issuer.test";

pub(crate) fn claims() -> Value {
    json!({"iss": ISSUER, "sub": "ada", "aud": "https://gw.test/mcp", "exp": now() + 600, "scope": "mcp:call"})
}

/// Creates the state of issuers with these keys, without background tasks.
pub(crate) fn tokens(issuers: &[(&str, Value)]) -> Tokens {
    let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
    let named: Vec<Named> = issuers.iter().map(|(url, _)| issuer(url)).collect();
    let config = Config {
        public_url: Some("https://gw.test".parse().unwrap()),
        issuers: named.iter().map(|one| (one.issuer.clone(), one.clone())).collect(),
        ..Config::default()
    };
    let made = named
        .into_iter()
        .zip(issuers)
        .map(|(named, (_, keys))| Issuer::with_keys(named, keys.clone()));
    Tokens::with(made.collect(), Names::new(&config).unwrap(), 100)
}

async fn ask(tokens: &Tokens, token: &str, at: Resource<'_>) -> Result<Principal, AuthnError> {
    ask_on(tokens, token, Shown { resource: at, certificate: None }).await
}

async fn ask_on(tokens: &Tokens, token: &str, shown: Shown<'_>) -> Result<Principal, AuthnError> {
    let needs = Needs::compile(&Scopes::default()).unwrap();
    tokens
        .holder(token, blake3::hash(token.as_bytes()).as_bytes(), &needs, shown)
        .await
        .map_err(|refused| refused.why)
}

async fn refusal(tokens: &Tokens, token: &str) -> AuthnError {
    ask(tokens, token, Resource::All).await.expect_err(token)
}

pub(crate) fn set(keys: &[Value]) -> Value {
    json!({"keys": keys})
}

#[tokio::test]
async fn good_tokens_of_every_kind_of_key_are_taken() {
    for pair in [Pair::ec(), Pair::rsa(), Pair::ed()] {
        let tokens = tokens(&[(ISSUER, set(&[pair.jwk("a"), json!({"kty": "future"})]))]);
        let token = pair.good("a", |_| {});
        for _ in 0..2 {
            let principal = ask(&tokens, &token, Resource::All).await.unwrap();
            assert_eq!((&*principal.issuer, &*principal.subject), (ISSUER, "ada"));
            assert!(principal.has_scope("mcp:call"));
        }
        let nameless = pair.token(&json!({"alg": pair.algorithm()}), &claims());
        assert!(ask(&tokens, &nameless, Resource::All).await.is_ok(), "the only key needs no name");
        let list = pair
            .good("a", |claims| claims["aud"] = json!(["x", "https://gw.test/servers/one/mcp"]));
        assert!(ask(&tokens, &list, ONE_SERVER).await.is_ok());
    }
}

#[tokio::test]
async fn an_endpoint_takes_only_tokens_that_are_meant_for_it() {
    let pair = Pair::ec();
    let tokens = tokens(&[(ISSUER, set(&[pair.jwk("a")]))]);
    let token = pair.good("a", |_| {});
    assert!(ask(&tokens, &token, Resource::All).await.is_ok());
    // Also from the cache.
    assert_eq!(ask(&tokens, &token, ONE_SERVER).await, Err(AuthnError::Audience));
    for aud in [
        json!("https://other.test/mcp"),
        json!("https://gx.test/mcp"),
        json!("http:///gw.test/mcp"),
        json!([]),
        json!(null),
        json!(7),
        json!(["x", 7]),
        json!({"a": 1}),
    ] {
        let token = pair.good("a", |claims| claims["aud"] = aud.clone());
        assert_eq!(refusal(&tokens, &token).await, AuthnError::Audience, "{aud}");
    }
    let none = pair.good("a", |claims| drop(claims.as_object_mut().unwrap().remove("aud")));
    assert_eq!(refusal(&tokens, &none).await, AuthnError::Audience);
    let many: Vec<String> = (0..=MAX_AUDIENCES).map(|n| n.to_string()).collect();
    let many = pair.good("a", |claims| claims["aud"] = json!(many));
    assert_eq!(refusal(&tokens, &many).await, AuthnError::Audience);
}

#[tokio::test]
async fn times_are_required_and_checked() {
    let pair = Pair::ec();
    let tokens = tokens(&[(ISSUER, set(&[pair.jwk("a")]))]);
    let edits: [(&str, Value, Option<AuthnError>); 10] = [
        ("exp", json!(now() - 31), Some(AuthnError::Expired)),
        ("exp", json!(now() - 10), None),
        ("exp", json!(0), Some(AuthnError::Expired)),
        ("exp", json!("soon"), Some(AuthnError::Invalid)),
        ("exp", json!(-1), Some(AuthnError::Invalid)),
        ("exp", json!(null), Some(AuthnError::Invalid)),
        ("nbf", json!(now() + 60), Some(AuthnError::Invalid)),
        ("nbf", json!(now() + 10), None),
        ("nbf", json!("later"), Some(AuthnError::Invalid)),
        ("iat", json!(now() + 3600), Some(AuthnError::Invalid)),
    ];
    for (claim, value, refused) in edits {
        let token = pair.good("a", |claims| claims[claim] = value.clone());
        assert_eq!(ask(&tokens, &token, Resource::All).await.err(), refused, "{claim} {value}");
    }
    let none = pair.good("a", |claims| drop(claims.as_object_mut().unwrap().remove("exp")));
    assert_eq!(refusal(&tokens, &none).await, AuthnError::Invalid);
}

#[tokio::test]
async fn forged_signatures_and_algorithms_are_refused() {
    let (pair, rsa, stranger) = (Pair::ec(), Pair::rsa(), Pair::ec());
    let tokens = tokens(&[(ISSUER, set(&[pair.jwk("a"), rsa.jwk("r")]))]);
    let good = pair.good("a", |_| {});
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let body =
        |header: Value| format!("{}.{}", encode(header.to_string()), encode(claims().to_string()));
    let mac = |header: Value, secret: &[u8]| {
        let signed = body(header);
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret);
        format!("{signed}.{}", encode(aws_lc_rs::hmac::sign(&key, signed.as_bytes())))
    };
    let Pair::Rsa(public) = &rsa else { unreachable!() };
    let public = public.public_key().as_ref().to_vec();
    let jwk = rsa.jwk("r").to_string();
    let other = encode(
        json!({"iss": ISSUER, "sub": "root", "aud": "https://gw.test/mcp", "exp": now() + 9})
            .to_string(),
    );
    let head = good.split('.').next().unwrap();
    let none = |alg: &str| format!("{}.", body(json!({"alg": alg, "kid": "a"})));
    let cases = [
        none("none"),
        none("None"),
        format!("{}{signature}", none("none")),
        format!("{signed}."),
        signed.to_owned(),
        mac(json!({"alg": "HS256", "kid": "r"}), &public),
        mac(json!({"alg": "HS256", "kid": "r"}), jwk.as_bytes()),
        mac(json!({"alg": "HS256", "kid": "a"}), b""),
        mac(json!({"alg": "RS256", "kid": "r"}), &public),
        format!("{head}.{other}.{signature}"),
        stranger.good("a", |_| {}),
        pair.token(&json!({"alg": "RS256", "kid": "a"}), &claims()),
        pair.token(&json!({"alg": "ES256", "kid": "r"}), &claims()),
        pair.token(&json!({"alg": "ES384", "kid": "a"}), &claims()),
        rsa.token(&json!({"alg": "RS512", "kid": "r"}), &claims()),
        rsa.token(&json!({"alg": "PS256", "kid": "r"}), &claims()),
    ];
    for case in cases {
        assert_eq!(refusal(&tokens, &case).await, AuthnError::Invalid, "{case}");
    }
    assert!(ask(&tokens, &good, Resource::All).await.is_ok());
}

#[tokio::test]
async fn keys_that_a_token_brings_along_are_not_looked_at() {
    let (pair, evil) = (Pair::ec(), Pair::ec());
    let tokens = tokens(&[(ISSUER, set(&[pair.jwk("a")]))]);
    let headers = [
        json!({"alg": "ES256", "kid": "a", "jwk": evil.jwk("a")}),
        json!({"alg": "ES256", "jwk": evil.jwk("a")}),
        json!({"alg": "ES256", "kid": "a", "jku": "http://127.0.0.1:1/jwks"}),
        json!({"alg": "ES256", "kid": "a", "x5u": "http://127.0.0.1:1/cert", "x5c": ["AAAA"]}),
        json!({"alg": "ES256", "kid": "../../etc/passwd"}),
        json!({"alg": "ES256", "kid": "a' OR '1'='1"}),
        json!({"alg": "ES256", "kid": "a\u{0}"}),
        json!({"alg": "ES256", "kid": ""}),
        json!({"alg": "ES256", "kid": ["a"]}),
    ];
    for header in headers {
        assert_eq!(
            refusal(&tokens, &evil.token(&header, &claims())).await,
            AuthnError::Invalid,
            "{header}"
        );
    }
    // A valid signature with such members in the header is still verified with our key alone.
    let token =
        pair.token(&json!({"alg": "ES256", "kid": "a", "jku": "http://127.0.0.1:1/"}), &claims());
    assert!(ask(&tokens, &token, Resource::All).await.is_ok());
}

#[tokio::test]
async fn keys_of_one_name_are_all_tried() {
    let (pairs, stranger) = ([(); 5].map(|()| Pair::ec()), Pair::ec());
    let keys: Vec<Value> = pairs.iter().map(|pair| pair.jwk("a")).collect();
    let tokens = tokens(&[(ISSUER, set(&keys))]);
    for (n, pair) in pairs.iter().enumerate() {
        // At most four keys are tried.
        assert_eq!(
            ask(&tokens, &pair.good("a", |_| {}), Resource::All).await.is_ok(),
            n < 4,
            "{n}"
        );
        // Without a key id the choice would be a guess.
        assert_eq!(
            refusal(&tokens, &pair.token(&json!({"alg": "ES256"}), &claims())).await,
            AuthnError::Invalid
        );
    }
    assert_eq!(refusal(&tokens, &stranger.good("a", |_| {})).await, AuthnError::Invalid);
}

#[tokio::test]
async fn headers_that_change_the_meaning_are_refused() {
    let pair = Pair::ec();
    let tokens = tokens(&[(ISSUER, set(&[pair.jwk("a")]))]);
    let more = [
        json!({"crit": ["exp"]}),
        json!({"crit": []}),
        json!({"b64": false}),
        json!({"zip": "DEF"}),
        json!({"enc": "A256GCM"}),
        json!({"crit": null}),
        json!({"b64": null}),
        json!({"zip": null}),
        json!({"enc": null}),
        json!({"typ": null}),
        json!({"kid": null}),
        json!({"typ": "oauth-id-jag+jwt"}),
        json!({"typ": "dpop+jwt"}),
        json!({"typ": "logout+jwt"}),
        json!({"typ": ""}),
    ];
    for more in more {
        let mut header = json!({"alg": "ES256", "kid": "a"});
        header.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(
            refusal(&tokens, &pair.token(&header, &claims())).await,
            AuthnError::Invalid,
            "{header}"
        );
    }
    for typ in ["JWT", "jwt", "at+jwt", "application/at+jwt", "Application/JWT"] {
        let token = pair.token(&json!({"alg": "ES256", "kid": "a", "typ": typ}), &claims());
        assert!(ask(&tokens, &token, Resource::All).await.is_ok(), "{typ}");
    }
    // Parsers disagree about duplicate members, so they are rejected regardless of their values.
    let header = |text: &str| format!("{{\"alg\":\"ES256\",\"kid\":\"a\"{text}}}");
    let claims = |text: &str| claims().to_string().replacen('{', &format!("{{{text}"), 1);
    for (head, body, good) in [
        (header(""), claims(""), true),
        (header(",\"kid\":\"a\""), claims(""), false),
        (header(",\"x\":1,\"x\":1"), claims(""), false),
        (header(""), claims("\"sub\":\"root\","), false),
        (header(""), claims("\"exp\":9999999999,"), false),
        (header(""), claims("\"x\":{\"y\":1,\"y\":2},"), false),
    ] {
        let signed = format!("{}.{}", encode(&head), encode(&body));
        let token = format!("{signed}.{}", encode(pair.sign(signed.as_bytes())));
        assert_eq!(ask(&tokens, &token, Resource::All).await.is_ok(), good, "{head} {body}");
    }
}

/// RFC 8705, section 3: a stolen token is of no use without its certificate.
#[tokio::test]
async fn a_token_that_is_bound_to_a_certificate_is_good_on_its_connections_alone() {
    let pair = Pair::ec();
    let tokens = tokens(&[(ISSUER, set(&[pair.jwk("a")]))]);
    let certificate = || {
        let params = rcgen::CertificateParams::new(vec!["ci.test".into()]).unwrap();
        let made = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        Certificate::read(made.der()).unwrap()
    };
    let (own, other) = (certificate(), certificate());
    let on = |certificate| Shown { resource: Resource::All, certificate };
    let bound = |cnf: Value| pair.good("a", |claims| claims["cnf"] = cnf);
    let thumbprint = encode(own.digest);
    let token = bound(json!({"x5t#S256": thumbprint}));
    // The second time from the cache.
    for _ in 0..2 {
        assert!(ask_on(&tokens, &token, on(Some(&own))).await.is_ok());
        assert_eq!(ask_on(&tokens, &token, on(Some(&other))).await, Err(AuthnError::Invalid));
        assert_eq!(ask_on(&tokens, &token, on(None)).await, Err(AuthnError::Invalid));
    }
    // A confirmation method that cannot be checked rejects the token.
    for cnf in [
        json!({"jkt": thumbprint}),
        json!({"x5t#S256": thumbprint, "jkt": thumbprint}),
        json!({"x5t#S256": "AAAA"}),
        json!({"x5t#S256": null}),
        json!({"x5t#S256": [thumbprint]}),
        json!({"X5T#S256": thumbprint}),
        json!({"jwk": {"kty": "EC"}}),
        json!({}),
        json!(null),
        json!(thumbprint),
    ] {
        assert_eq!(
            ask_on(&tokens, &bound(cnf.clone()), on(Some(&own))).await,
            Err(AuthnError::Invalid),
            "{cnf}"
        );
    }
}

#[tokio::test]
async fn issuers_do_not_share_key_ids() {
    let (one, two) = (Pair::ec(), Pair::ec());
    let tokens =
        tokens(&[(ISSUER, set(&[one.jwk("same")])), ("https://two.test", set(&[two.jwk("same")]))]);
    let of = |issuer: &str| {
        let issuer = issuer.to_owned();
        move |claims: &mut Value| claims["iss"] = json!(issuer)
    };
    let first = ask(&tokens, &one.good("same", |_| {}), Resource::All).await.unwrap();
    let second =
        ask(&tokens, &two.good("same", of("https://two.test")), Resource::All).await.unwrap();
    assert_ne!(first, second, "the same subject of two issuers");
    for (pair, named) in [(&two, ISSUER), (&one, "https://two.test")] {
        assert_eq!(
            refusal(&tokens, &pair.good("same", of(named))).await,
            AuthnError::Invalid,
            "{named}"
        );
    }
    for iss in
        ["https://issuer.test/", "HTTPS://issuer.test", "https://three.test", "", "local", "key"]
    {
        assert_eq!(
            refusal(&tokens, &one.good("same", of(iss))).await,
            AuthnError::Invalid,
            "{iss}"
        );
    }
    let list = one.good("same", |claims| claims["iss"] = json!([ISSUER]));
    assert_eq!(refusal(&tokens, &list).await, AuthnError::Invalid);
}

#[tokio::test]
async fn garbage_and_huge_tokens_are_refused() {
    let pair = Pair::ec();
    let tokens = tokens(&[(ISSUER, set(&[pair.jwk("a")]))]);
    let huge = pair.good("a", |claims| claims["pad"] = json!("x".repeat(MAX_TOKEN)));
    let deep = format!("{}{}", "[".repeat(6000), "]".repeat(6000));
    let deep =
        format!("{}.{}.AAAA", encode("{\"alg\":\"ES256\"}"), encode(format!("{{\"iss\":{deep}}}")));
    for case in [
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        "a.b.c.d",
        "e30.e30.e30",
        &huge,
        &deep,
        &"A".repeat(1 << 20),
    ] {
        assert_eq!(refusal(&tokens, case).await, AuthnError::Invalid);
    }
    let good = pair.good("a", |_| {});
    for at in 0..good.len() {
        let mut bytes = good.clone().into_bytes();
        bytes[at] = if bytes[at] == b'!' { b'"' } else { b'!' };
        let altered = String::from_utf8(bytes).unwrap();
        assert_eq!(refusal(&tokens, &altered).await, AuthnError::Invalid, "{at}");
    }
}

#[tokio::test]
async fn what_was_verified_with_a_key_that_is_gone_is_forgotten() {
    let (old, new) = (Pair::ec(), Pair::ec());
    let tokens = tokens(&[(ISSUER, set(&[old.jwk("a")]))]);
    let token = old.good("a", |_| {});
    assert!(ask(&tokens, &token, Resource::All).await.is_ok());
    tokens.issuers[0].put(set(&[old.jwk("a"), new.jwk("b")]));
    assert!(ask(&tokens, &token, Resource::All).await.is_ok());
    assert!(ask(&tokens, &new.good("b", |_| {}), Resource::All).await.is_ok());
    tokens.issuers[0].put(set(&[new.jwk("b")]));
    assert_eq!(refusal(&tokens, &token).await, AuthnError::Invalid);
}

#[tokio::test]
async fn tokens_are_remembered_no_longer_than_they_are_good() {
    let pair = Pair::ec();
    let tokens = tokens(&[(ISSUER, set(&[pair.jwk("a")]))]);
    let needs = Needs::compile(&Scopes::default()).unwrap();
    let remembered = |exp: u64| {
        let token = pair.good("a", |claims| claims["exp"] = json!(exp));
        let (tokens, needs) = (&tokens, &needs);
        async move {
            let verified = Arc::new(tokens.verify(&token, needs).await.unwrap());
            UntilExpiry.expire_after_create(&[0; 32], &verified, Instant::now()).unwrap()
        }
    };
    assert_eq!(remembered(now() + 3600).await, MAX_CACHE_LIFETIME);
    assert!(remembered(now() + 5).await <= Duration::from_secs(5));
    assert_eq!(remembered(now() - 5).await, Duration::ZERO);
}
