//! A scriptable authorization server on loopback with resource metadata, registration, codes with
//! PKCE and rotating refresh tokens. It answers for an MCP server that accepts its tokens.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::issuer::now;
use super::liar::read;
use super::upstream::{HeardMessage, Say, modern};

/// Decodes a query or a form.
pub fn fields(text: &str) -> BTreeMap<String, String> {
    let decode = |text: &str| {
        let text = text.replace('+', " ");
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes();
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            let digits = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
            match (first, digits.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
                (b'%', Some(byte)) => {
                    bytes.push(byte);
                    rest = &after[2..];
                }
                (byte, _) => bytes.push(*byte),
            }
        }
        String::from_utf8(bytes).unwrap()
    };
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decode(name), decode(value))).collect()
}

fn subject_of_jwt(token: &str) -> String {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    claims["sub"].as_str().unwrap().to_owned()
}

fn lacks(required: &Value, scopes: &str) -> bool {
    required.as_str().is_some_and(|scope| !scopes.contains(scope))
}

/// A request to the token or registration endpoint.
#[derive(Clone, Debug)]
pub struct HeardRequest {
    pub path: String,
    pub head: String,
    pub body: String,
}

#[derive(Clone)]
pub struct Authority {
    pub url: String,
    state: Arc<Mutex<State>>,
}

struct State {
    metadata: Value,
    resource: Value,
    /// Status and body that replace the responses of the token endpoint.
    broken: Option<(u16, Value)>,
    /// Time before a response of the token endpoint is sent.
    delay: Duration,
    /// Lifetime of access tokens, in seconds.
    lifetime: u64,
    /// Issued tokens: subject and scopes.
    access: BTreeMap<String, (String, String)>,
    refresh: BTreeMap<String, (String, String)>,
    /// Codes: subject, challenge and scopes.
    codes: BTreeMap<String, (String, String, String)>,
    /// A member of identity assertions, and its value instead.
    altered: Option<(&'static str, Value)>,
    issued: usize,
    heard: Vec<HeardRequest>,
}

impl Authority {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let metadata = json!({
            "issuer": url, "authorization_endpoint": format!("{url}/authorize"), "token_endpoint": format!("{url}/token"),
            "registration_endpoint": format!("{url}/register"), "revocation_endpoint": format!("{url}/revoke"), "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            "authorization_response_iss_parameter_supported": true, "scopes_supported": ["offline_access"],
        });
        let state = State {
            metadata,
            resource: Value::Null,
            broken: None,
            delay: Duration::ZERO,
            lifetime: 3600,
            access: BTreeMap::new(),
            refresh: BTreeMap::new(),
            codes: BTreeMap::new(),
            altered: None,
            issued: 0,
            heard: Vec::new(),
        };
        let authority = Self { url, state: Arc::new(Mutex::new(state)) };
        let answering = authority.clone();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let authority = answering.clone();
                tokio::spawn(async move {
                    use tokio::io::AsyncWriteExt;
                    let request = read(&mut socket).await;
                    let (status, body) = authority.answer(&request);
                    if request.contains(" /token ") {
                        let delay = authority.state.lock().unwrap().delay;
                        tokio::time::sleep(delay).await;
                    }
                    let body = body.to_string();
                    let length = body.len();
                    let text = format!(
                        "HTTP/1.1 {status} Said\r\nconnection: close\r\ncontent-type: application/json\r\n\
                         content-length: {length}\r\n\r\n{body}"
                    );
                    let _ = socket.write_all(text.as_bytes()).await;
                });
            }
        });
        authority
    }

    /// Sets the protected resource.
    pub fn protect(&self, resource: &str) {
        self.state.lock().unwrap().resource = json!({
            "resource": resource, "authorization_servers": [self.url], "scopes_supported": ["mcp"],
        });
    }

    pub fn change_metadata(&self, edit: impl FnOnce(&mut Value)) {
        edit(&mut self.state.lock().unwrap().metadata);
    }

    pub fn change_resource(&self, edit: impl FnOnce(&mut Value)) {
        edit(&mut self.state.lock().unwrap().resource);
    }

    pub fn resource(&self) -> Value {
        self.state.lock().unwrap().resource.clone()
    }

    /// Sets the response of the token endpoint; `None` for valid ones.
    pub fn break_tokens(&self, response: Option<(u16, Value)>) {
        self.state.lock().unwrap().broken = response;
    }

    /// Changes a member of the identity assertions that are issued from now on.
    pub fn alter_assertions(&self, altered: Option<(&'static str, Value)>) {
        self.state.lock().unwrap().altered = altered;
    }

    /// Invalidates the access tokens of a subject.
    pub fn expire(&self, subject: &str) {
        self.state.lock().unwrap().access.retain(|_, (of, _)| of != subject);
    }

    /// Delays the responses of the token endpoint.
    pub fn delay_tokens(&self, delay: Duration) {
        self.state.lock().unwrap().delay = delay;
    }

    /// Sets the announced lifetime of the access tokens that are issued from now on.
    pub fn limit_lifetime(&self, seconds: u64) {
        self.state.lock().unwrap().lifetime = seconds;
    }

    /// Returns whether a subject has tokens that were not revoked.
    pub fn has_tokens(&self, subject: &str) -> bool {
        let state = self.state.lock().unwrap();
        state.access.values().chain(state.refresh.values()).any(|(of, _)| of == subject)
    }

    pub fn heard(&self, path: &str) -> Vec<HeardRequest> {
        let heard = self.state.lock().unwrap().heard.clone();
        heard.into_iter().filter(|request| request.path == path).collect()
    }

    /// Returns the bodies of requests to the token endpoint with this grant type.
    pub fn grants(&self, kind: &str) -> Vec<BTreeMap<String, String>> {
        let all = self.heard("/token").into_iter().map(|request| fields(&request.body));
        all.filter(|form| form["grant_type"] == kind).collect()
    }

    /// Returns the subject and scopes of the token in a request.
    pub fn subject_of(&self, heard: &HeardMessage) -> Option<(String, String)> {
        let token = heard.header("authorization")?.strip_prefix("Bearer ")?;
        self.state.lock().unwrap().access.get(token).cloned()
    }

    /// Authorizes the request in this URL as the subject; returns the query of the redirect.
    pub fn approve(&self, url: &str, subject: &str) -> String {
        let query = fields(url.split_once('?').unwrap().1);
        assert_eq!(query["response_type"], "code");
        assert_eq!(query["code_challenge_method"], "S256");
        let mut state = self.state.lock().unwrap();
        state.issued += 1;
        let code = format!("canary-code-{}", state.issued);
        let scopes = query.get("scope").cloned().unwrap_or_default();
        state.codes.insert(code.clone(), (subject.into(), query["code_challenge"].clone(), scopes));
        format!("code={code}&state={}&iss={}", query["state"], self.url)
    }

    /// Returns the script of a modern MCP server whose calls require a token; each returns the
    /// subject, or nothing with the argument `hang`. `scope` requires a scope, `acr` a sign-in, and
    /// `forbid` is refused.
    pub fn server(
        &self,
        is_open_to_lists: bool,
    ) -> impl Fn(&HeardMessage) -> Say + Send + Sync + use<> {
        let authority = self.clone();
        let plain = modern(&["t"]);
        move |heard| {
            if heard.verb != "POST" {
                let is_document = heard.header("accept") == Some("application/json");
                return if is_document {
                    Say::Json(authority.resource())
                } else {
                    authority.challenge(405, &[])
                };
            }
            let is_free = is_open_to_lists && heard.method() != "tools/call";
            match authority.subject_of(heard) {
                _ if is_free => plain(heard),
                None => authority.challenge(401, &[]),
                Some((_, scopes))
                    if lacks(&heard.body["params"]["arguments"]["scope"], &scopes) =>
                {
                    let challenge = [("error", "insufficient_scope"), ("scope", "write")];
                    authority.challenge(403, &challenge)
                }
                Some(_) if heard.body["params"]["arguments"]["forbid"] == true => {
                    authority.challenge(403, &[])
                }
                Some(_) if heard.body["params"]["arguments"]["acr"] == true => {
                    let error = ("error", "insufficient_user_authentication");
                    authority.challenge(401, &[error, ("acr_values", "mfa"), ("max_age", "60")])
                }
                Some(_) if heard.body["params"]["arguments"]["hang"] == true => Say::Nothing,
                Some((subject, _)) if heard.method() == "tools/call" => heard.text_result(&subject),
                Some(_) => plain(heard),
            }
        }
    }

    pub fn challenge(&self, status: u16, parameters: &[(&str, &str)]) -> Say {
        let mut challenge = format!("Bearer resource_metadata=\"{}/resource\"", self.url);
        for (name, value) in parameters {
            challenge.push_str(&format!(", {name}=\"{value}\""));
        }
        Say::Status(status, vec![("www-authenticate", challenge)], Value::Null)
    }

    fn answer(&self, request: &str) -> (u16, Value) {
        let (head, body) = request.split_once("\r\n\r\n").unwrap_or((request, ""));
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut state = self.state.lock().unwrap();
        let heard = HeardRequest { path: path.clone(), head: head.into(), body: body.into() };
        state.heard.push(heard);
        match &*path {
            "/resource" => (200, state.resource.clone()),
            "/.well-known/oauth-authorization-server" => (200, state.metadata.clone()),
            "/register" => (201, json!({"client_id": format!("gate-{}", now())})),
            "/revoke" => {
                state.revoke(&fields(body)["token"]);
                (200, json!({}))
            }
            "/token" => match &state.broken {
                Some(broken) => broken.clone(),
                None => state.give(&fields(body)),
            },
            _ => (404, json!({})),
        }
    }
}

impl State {
    /// Ends all tokens of the subject of a refresh token.
    fn revoke(&mut self, token: &str) {
        if let Some((subject, _)) = self.refresh.remove(token) {
            self.access.retain(|_, (of, _)| *of != subject);
        }
    }

    fn assert_identity(&self, subject: &str, form: &BTreeMap<String, String>) -> Value {
        let mut header = json!({"alg": "none", "typ": "oauth-id-jag+jwt"});
        let mut claims = json!({
            "sub": subject, "aud": form["audience"], "resource": form["resource"],
            "client_id": "gate", "exp": now() + 60,
        });
        if let Some((name, value)) = &self.altered {
            let part = if *name == "typ" { &mut header } else { &mut claims };
            part[name] = value.clone();
        }
        let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        json!({
            "access_token": format!("{}.{}.x", encode(&header), encode(&claims)), "token_type": "N_A",
            "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        })
    }

    fn give(&mut self, form: &BTreeMap<String, String>) -> (u16, Value) {
        let refused = (400, json!({"error": "invalid_grant", "error_description": "canary-words"}));
        let (subject, scopes) = match &*form["grant_type"] {
            "client_credentials" => {
                ("gateway".into(), form.get("scope").cloned().unwrap_or_default())
            }
            "authorization_code" => {
                let Some((subject, challenge, scopes)) = self.codes.remove(&form["code"]) else {
                    return refused;
                };
                let hash = digest(&SHA256, form["code_verifier"].as_bytes());
                if URL_SAFE_NO_PAD.encode(hash) != challenge {
                    return refused;
                }
                (subject, scopes)
            }
            "urn:ietf:params:oauth:grant-type:token-exchange" => {
                let subject = subject_of_jwt(&form["subject_token"]);
                if form["requested_token_type"].ends_with(":id-jag") {
                    return (200, self.assert_identity(&subject, form));
                }
                (subject, form.get("scope").cloned().unwrap_or_default())
            }
            "urn:ietf:params:oauth:grant-type:jwt-bearer" => {
                (subject_of_jwt(&form["assertion"]), "mcp".into())
            }
            _ => match self.refresh.remove(&form["refresh_token"]) {
                Some(known) => known,
                None => return refused,
            },
        };
        self.issued += 1;
        let access = format!("canary-access-{subject}-{}", self.issued);
        let refresh = format!("canary-refresh-{subject}-{}", self.issued);
        self.access.insert(access.clone(), (subject.clone(), scopes.clone()));
        self.refresh.insert(refresh.clone(), (subject, scopes));
        let mut answer = json!({
            "access_token": access, "token_type": "Bearer", "expires_in": self.lifetime,
        });
        if form["grant_type"].ends_with(":token-exchange") {
            let kind = "urn:ietf:params:oauth:token-type:access_token";
            answer["issued_token_type"] = kind.into();
        } else if matches!(&*form["grant_type"], "authorization_code" | "refresh_token") {
            answer["refresh_token"] = refresh.into();
        }
        (200, answer)
    }
}
