//! Measures the authentication of a request with a known credential: an API key, and a recently
//! verified token. `cargo run --release -p lockgate-authn --example authn_cost [N]` prints
//! nanoseconds per request, the best of many rounds of N. Run it under valgrind with two different
//! N to count allocations.

#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lockgate_authn::{
    Algorithm, Authenticator, Claims, Config, Credentials, Issuer, Outside, Peer, Resource, key,
};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The best of many short rounds was not interrupted.
const ROUNDS: usize = 200;
/// Bytes of additional claims, as issuers often include.
const PADDING: usize = 400;

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let n: u32 = std::env::args().nth(1).map_or(Ok(10_000), |n| n.parse())?;
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)?;
    let url = issuer(&pair).await?;
    let token = token(&pair, &url)?;
    let (own, text) = key::Key::mint(0)?;
    let authenticator = authenticator(url, own)?;
    println!("token of {} bytes, key of {} bytes, {n} requests", token.len(), text.len());
    for (name, bearer) in [("API key", text), ("token", token)] {
        let credentials = Credentials {
            peer: Peer::Address([127, 0, 0, 1].into()),
            bearer: Some(bearer),
            certificate: None,
        };
        let began = Instant::now();
        authenticator
            .authenticate(&credentials, Resource::All)
            .await
            .map_err(|refused| refused.why)?;
        let first = began.elapsed();
        let mut best = Duration::MAX;
        for _ in 0..ROUNDS {
            let began = Instant::now();
            for _ in 0..n {
                let caller = authenticator.authenticate(&credentials, Resource::All).await;
                std::hint::black_box(caller.map_err(|refused| refused.why)?);
            }
            best = best.min(began.elapsed());
        }
        println!("{name}: {} ns, the first time {first:?}", best.as_nanos() / u128::from(n));
    }
    Ok(())
}

/// Sends the key set in response to every request.
async fn issuer(pair: &EcdsaKeyPair) -> Outcome<String> {
    let (x, y) = pair.public_key().as_ref().get(1..).unwrap_or_default().split_at(32);
    let keys = json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "a", "x": encode(x), "y": encode(y)}]}).to_string();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let _ = socket.read(&mut [0; 4096]).await;
            let head = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                keys.len()
            );
            let _ = socket.write_all(format!("{head}{keys}").as_bytes()).await;
        }
    });
    Ok(url)
}

fn token(pair: &EcdsaKeyPair, url: &str) -> Outcome<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let claims = json!({
        "iss": url, "sub": "ada", "aud": "https://gw.example/mcp", "exp": now + 3600, "scope": "mcp:call",
        "padding": "x".repeat(PADDING),
    });
    let header = json!({"alg": "ES256", "typ": "at+jwt", "kid": "a"});
    let signed = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
    let signature = pair.sign(&SystemRandom::new(), signed.as_bytes())?;
    Ok(format!("{signed}.{}", encode(signature)))
}

fn authenticator(url: String, own: key::Key) -> Outcome<Authenticator> {
    let mut keys: Vec<key::Key> =
        (0..1000).map(|_| Ok(key::Key::mint(0)?.0)).collect::<Outcome<_>>()?;
    keys.push(own);
    let issuer = Issuer {
        jwks: Some(format!("{url}/keys").parse()?),
        issuer: url,
        audiences: Vec::new(),
        algorithms: vec![Algorithm::ES256],
        claims: Claims::default(),
        refresh: Duration::from_secs(300),
        cooldown: Duration::from_secs(30),
        stale: Duration::from_secs(3600),
        skew: Duration::from_secs(30),
    };
    let config = Config {
        keys: Some(keys),
        issuers: vec![issuer],
        token_cache: 1000,
        public_url: Some("https://gw.example".parse()?),
        ..Config::default()
    };
    let egress = lockgate_egress::Config {
        ca_file: None,
        from_environment: false,
        route: None,
        connect_timeout: Duration::from_secs(5),
        idle_connections: 1,
        idle_timeout: Duration::from_secs(5),
        organisations: lockgate_egress::Policy::Public,
    };
    let connector = Arc::new(lockgate_egress::Connector::new(&egress)?);
    Ok(Authenticator::start(&config, &Outside { connector, config: egress }, None)?)
}
