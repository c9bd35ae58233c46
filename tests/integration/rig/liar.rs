//! A scriptable OpenID provider on loopback, which records the requests to its token endpoint.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::issuer::Signer;

pub struct Liar {
    pub url: String,
    pub signer: Signer,
    says: Arc<Mutex<Says>>,
}

struct Says {
    metadata: Value,
    keys: Value,
    /// Status line, further header lines, and body of the token endpoint's responses.
    token: (String, String, String),
    /// Whole requests to the token endpoint.
    heard: Vec<String>,
}

impl Liar {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let signer = Signer::new("k");
        let metadata = json!({
            "issuer": url, "jwks_uri": format!("{url}/keys"), "authorization_endpoint": format!("{url}/auth"),
            "token_endpoint": format!("{url}/token"), "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
        });
        let keys = json!({"keys": [signer.jwk()]});
        let token = ("404 Not Found".to_owned(), String::new(), "{}".to_owned());
        let says = Arc::new(Mutex::new(Says { metadata, keys, token, heard: Vec::new() }));
        let liar = Self { url, signer, says: Arc::clone(&says) };
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(answer(socket, Arc::clone(&says)));
            }
        });
        liar
    }

    pub fn change_metadata(&self, edit: impl FnOnce(&mut Value)) {
        edit(&mut self.says.lock().unwrap().metadata);
    }

    /// Sets the response of the token endpoint.
    pub fn say(&self, status: &str, head: &str, body: &str) {
        self.says.lock().unwrap().token = (status.into(), head.into(), body.into());
    }

    /// Sets a token response with this ID token.
    pub fn give(&self, id_token: &str) {
        let body =
            json!({"access_token": "canary-access", "token_type": "Bearer", "id_token": id_token});
        self.say("200 OK", "", &body.to_string());
    }

    /// Returns the requests to the token endpoint.
    pub fn heard(&self) -> Vec<String> {
        self.says.lock().unwrap().heard.clone()
    }
}

async fn answer(mut socket: TcpStream, says: Arc<Mutex<Says>>) {
    let request = read(&mut socket).await;
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let (status, head, body) = {
        let mut says = says.lock().unwrap();
        let plain = |body: &Value| ("200 OK".to_owned(), String::new(), body.to_string());
        match &*path {
            "/.well-known/openid-configuration" => plain(&says.metadata),
            "/keys" => plain(&says.keys),
            "/token" => {
                says.heard.push(request);
                says.token.clone()
            }
            _ => ("404 Not Found".to_owned(), String::new(), "{}".to_owned()),
        }
    };
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\n{head}content-length: {length}\r\n\r\n{body}"
    );
    let _ = socket.write_all(text.as_bytes()).await;
}

/// Reads a request with the body length from its head.
pub async fn read(socket: &mut TcpStream) -> String {
    let mut text = Vec::new();
    loop {
        let whole = String::from_utf8_lossy(&text).into_owned();
        if let Some((head, body)) = whole.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1).unwrap_or("0");
            let length = length.lines().next().unwrap_or("0").parse().unwrap_or(0);
            if body.len() >= length {
                return whole;
            }
        }
        let mut part = [0; 8192];
        match socket.read(&mut part).await {
            Ok(count) if count > 0 => text.extend_from_slice(&part[..count]),
            _ => return whole,
        }
    }
}
