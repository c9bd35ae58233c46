//! An issuer of access tokens on loopback with a real key: serves its metadata and key set, and
//! counts the fetches.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

pub struct Signer {
    pub id: String,
    pair: EcdsaKeyPair,
}

pub struct Issuer {
    pub url: String,
    keys: Arc<Mutex<Value>>,
    asked: Arc<AtomicUsize>,
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

impl Signer {
    pub fn new(id: &str) -> Self {
        Self {
            id: id.into(),
            pair: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
        }
    }

    pub fn jwk(&self) -> Value {
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        json!({"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": self.id, "x": encode(x), "y": encode(y)})
    }

    /// Signs a token with these claims.
    pub fn sign(&self, claims: &Value) -> String {
        self.sign_as(&json!({"alg": "ES256", "typ": "at+jwt", "kid": self.id}), claims)
    }

    /// Signs a token with an arbitrary header.
    pub fn sign_as(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", encode(signature))
    }
}

impl Issuer {
    pub async fn start(keys: &[&Signer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let issuer = Self { url: url.clone(), keys: Arc::default(), asked: Arc::default() };
        issuer.publish(keys);
        let (keys, asked) = (Arc::clone(&issuer.keys), Arc::clone(&issuer.asked));
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut head = vec![0; 8192];
                let read = socket.read(&mut head).await.unwrap_or(0);
                let head = String::from_utf8_lossy(&head[..read]).into_owned();
                let path = head.split(' ').nth(1).unwrap_or_default();
                let (status, body) = match path {
                    "/.well-known/openid-configuration" => {
                        ("200 OK", json!({"issuer": url, "jwks_uri": format!("{url}/keys")}))
                    }
                    "/keys" => {
                        asked.fetch_add(1, Ordering::SeqCst);
                        ("200 OK", keys.lock().unwrap().clone())
                    }
                    _ => ("404 Not Found", json!({})),
                };
                let body = body.to_string();
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
                );
                let _ = socket.write_all(answer.as_bytes()).await;
            }
        });
        issuer
    }

    pub fn publish(&self, keys: &[&Signer]) {
        let keys: Vec<Value> = keys.iter().map(|key| key.jwk()).collect();
        *self.keys.lock().unwrap() = json!({"keys": keys});
    }

    /// Returns how often the keys were fetched.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Returns valid claims of a subject for an audience.
    pub fn claims(&self, subject: &str, audience: &str, scope: &str) -> Value {
        json!({"iss": self.url, "sub": subject, "aud": audience, "exp": now() + 300, "scope": scope})
    }
}
