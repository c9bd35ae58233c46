//! Accounts at servers (rows ): the gateway's own, and those of users. No call carries a
//! credential of another caller, and no token, code or secret appears in an output.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::principals::By;
use crate::rig::authority::{Authority, fields};
use crate::rig::client::Request;
use crate::rig::gate::create_key;
use crate::rig::upstream::tool;
use crate::rig::{Answer, Gate, HeardMessage, Say, Upstream, Value, json, until};

pub(crate) const PUBLIC: &str = "http://127.0.0.1:9";
pub(crate) const CANARIES: [&str; 4] =
    ["canary-access", "canary-refresh", "canary-code", "canary-secret"];

pub(crate) struct World {
    pub(crate) authority: Authority,
    pub(crate) server: Arc<Upstream>,
    pub(crate) gate: Gate,
}

fn user_config(server: &Upstream, more: Value) -> Value {
    let mut auth = json!({"type": "user"});
    for (key, value) in more.as_object().unwrap() {
        auth[key] = value.clone();
    }
    json!({
        "servers": {"a": server.with(json!({"auth": auth}))}, "http": {"public_url": PUBLIC},
        "audit": {"file": "audit.jsonl"},
    })
}

async fn start_gate(server: &Upstream, top: Value, more: Value) -> Gate {
    let mut config = user_config(server, more);
    for (key, value) in top.as_object().unwrap() {
        config[key] = value.clone();
    }
    Gate::start(config).await
}

impl World {
    /// Starts a server whose lists need no account, and whose calls need one of the user.
    pub(crate) async fn start(keys: bool, more: Value) -> Self {
        let top = if keys { json!({"auth": {"keys_file": "keys.yaml"}}) } else { json!({}) };
        Self::start_with(top, more).await
    }

    /// Starts a gateway with these settings beside those of the server.
    pub(crate) async fn start_with(top: Value, more: Value) -> Self {
        let authority = Authority::start().await;
        let server = Arc::new(Upstream::verbs(authority.server(true)).await);
        authority.protect(&format!("http://{}/mcp", server.address));
        let gate = start_gate(&server, top, more).await;
        Self { authority, server, gate }
    }

    /// Starts a gateway for a server.
    pub(crate) async fn start_for(authority: Authority, server: Arc<Upstream>, top: Value) -> Self {
        let gate = start_gate(&server, top, json!({})).await;
        Self { authority, server, gate }
    }

    /// Starts another gateway for the same servers.
    pub(crate) async fn start_another(&self, top: Value) -> Self {
        let gate = start_gate(&self.server, top, json!({})).await;
        Self { authority: self.authority.clone(), server: Arc::clone(&self.server), gate }
    }

    pub(crate) fn at(&self) -> SocketAddr {
        self.gate.address
    }

    /// Fails if any output of the gateway contains a token, a code or a secret.
    pub(crate) fn assert_no_canary(&self, answers: &[&Answer]) {
        let mut outputs = vec![self.gate.log()];
        let audit = self.gate.folder.path().join("audit.jsonl");
        outputs.push(std::fs::read_to_string(audit).unwrap());
        outputs.extend(answers.iter().map(|answer| answer.text()));
        for output in outputs {
            for canary in CANARIES {
                assert!(!output.contains(canary), "{canary}: {output}");
            }
        }
    }
}

/// A caller with an API key, or the local user, and its browser.
pub(crate) struct User<'a> {
    pub(crate) world: &'a World,
    pub(crate) key: Option<String>,
    cookie: Option<String>,
}

impl<'a> User<'a> {
    pub(crate) fn local(world: &'a World) -> Self {
        Self { world, key: None, cookie: None }
    }

    pub(crate) async fn with_key(world: &'a World, name: &str) -> Self {
        Self::of_key(world, &create_key(&world.gate, name).await)
    }

    pub(crate) fn of_key(world: &'a World, key: &str) -> Self {
        Self { world, key: Some(key.to_owned()), cookie: None }
    }

    /// Returns the same caller with a fresh browser, at another gateway.
    pub(crate) fn beside<'b>(&self, world: &'b World) -> User<'b> {
        User { world, key: self.key.clone(), cookie: None }
    }

    pub(crate) async fn call(&self, tool: &str) -> Answer {
        self.call_with(tool, json!({})).await
    }

    pub(crate) async fn call_with(&self, tool: &str, arguments: Value) -> Answer {
        let params = json!({"name": tool, "arguments": arguments});
        let mut request = Request::modern("/mcp", "tools/call", params);
        if let Some(key) = &self.key {
            request = request.with("Authorization", &format!("Bearer {key}"));
        }
        request.send(self.world.at()).await
    }

    /// Calls the tool, and returns the text of its successful result.
    pub(crate) async fn name_at_server(&self) -> String {
        let result = self.call("a__t").await.result();
        assert_eq!(result.get("isError"), None, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Calls the tool, and returns the prompt to connect an account.
    pub(crate) async fn prompt(&self) -> Value {
        self.prompt_for(&json!({})).await
    }

    pub(crate) async fn prompt_for(&self, arguments: &Value) -> Value {
        let result = self.call_with("a__t", arguments.clone()).await.result();
        assert_eq!(result["isError"], true, "{result}");
        let prompt = result["_meta"]["io.github.lockgate/connect"].clone();
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(prompt["url"].as_str().unwrap()), "{text}");
        prompt
    }

    /// Opens a link as the user's browser does, and enters the key if the page asks for it.
    pub(crate) async fn open(&mut self, link: &str) -> Answer {
        let path = link.strip_prefix(PUBLIC).unwrap();
        let page = self.browser("GET", path, "").send(self.world.at()).await;
        if page.status != 401 {
            return page;
        }
        let (page, query) = path.split_once('?').unwrap_or((path, ""));
        let key = format!("key={}", self.key.clone().unwrap());
        let signed_in = self.browser("POST", &format!("{page}/sign-in?{query}"), &key);
        let signed_in = signed_in.send(self.world.at()).await;
        assert_eq!(signed_in.status, 303, "{}", signed_in.text());
        let cookie = signed_in.header("set-cookie").unwrap();
        self.cookie = Some(cookie.split(';').next().unwrap().to_owned());
        self.browser("GET", path, "").send(self.world.at()).await
    }

    pub(crate) fn browser(&self, verb: &'static str, path: &str, body: &str) -> Request {
        let host = self.world.at().to_string();
        let mut request = Request::bare(verb, path, body).with("Host", &host);
        if verb == "POST" {
            request = request
                .with("Content-Type", "application/x-www-form-urlencoded")
                .with("Origin", &format!("http://{host}"))
                .with("Sec-Fetch-Site", "same-origin");
        }
        match &self.cookie {
            Some(cookie) => request.with("Cookie", cookie),
            None => request,
        }
    }

    /// Opens the link and confirms; returns the redirect to the authorization server.
    pub(crate) async fn start(&mut self, link: &str) -> (String, String) {
        let page = self.open(link).await;
        assert_eq!(page.status, 200, "{}", page.text());
        assert!(page.text().contains(&self.world.authority.url), "{}", page.text());
        let text = page.text();
        let token = text.split("name=\"token\" value=\"").nth(1).expect("a form");
        let token = token.split('"').next().unwrap();
        let path = link.strip_prefix(PUBLIC).unwrap();
        let started = self.browser("POST", path, &format!("token={token}"));
        let started = started.send(self.world.at()).await;
        assert_eq!(started.status, 303, "{}", started.text());
        let cookie = started.header("set-cookie").unwrap().split(';').next().unwrap();
        (started.header("location").unwrap().to_owned(), cookie.to_owned())
    }

    pub(crate) async fn come_back(&self, query: &str, cookie: &str) -> Answer {
        let path = format!("/oauth/callback?{query}");
        self.browser("GET", &path, "").with("Cookie", cookie).send(self.world.at()).await
    }

    /// Connects an account of this name at the server.
    pub(crate) async fn connect(&mut self, name: &str) -> Answer {
        let prompt = self.prompt().await;
        let (url, cookie) = self.start(prompt["url"].as_str().unwrap()).await;
        let query = self.world.authority.approve(&url, name);
        let done = self.come_back(&query, &cookie).await;
        assert_eq!(done.status, 200, "{}", done.text());
        done
    }
}

#[tokio::test]
async fn the_gateways_own_account_is_used_and_renewed_once() {
    let authority = Authority::start().await;
    let server = Upstream::verbs(authority.server(false)).await;
    authority.protect(&format!("http://{}/mcp", server.address));
    let auth = json!({
        "type": "client_credentials", "issuer": authority.url, "client_id": "gate", "client_secret": "canary-secret",
        "scopes": ["mcp"],
    });
    let gate = Gate::start(json!({"servers": {"a": server.with(json!({"auth": auth}))}})).await;
    assert_eq!(gate.call("a__t").await.result()["content"][0]["text"], "gateway");
    let requests = authority.grants("client_credentials");
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0]["resource"], format!("http://{}/mcp", server.address));
    assert_eq!(requests[0]["scope"], "mcp");
    let head = &authority.heard("/token")[0].head.to_ascii_lowercase();
    // gate:canary-secret
    assert!(head.contains("authorization: basic z2f0ztpjyw5hcnktc2vjcmv0"), "{head}");
    for heard in server.heard() {
        assert!(heard.verb == "GET" || authority.subject_of(&heard).is_some(), "{heard:?}");
    }
    authority.expire("gateway");
    assert_eq!(gate.call("a__t").await.result()["content"][0]["text"], "gateway");
    assert_eq!(authority.grants("client_credentials").len(), 2);
    for canary in CANARIES {
        assert!(!gate.log().contains(canary), "{}", gate.log());
    }
}

#[tokio::test]
async fn a_user_connects_an_account_and_calls_with_it() {
    let world = World::start(false, json!({})).await;
    let (names, _) = world.gate.tools("/mcp").await;
    assert_eq!(names, ["a__t"]);
    let mut user = User::local(&world);
    let prompt = user.prompt().await;
    assert_eq!((&prompt["server"], &prompt["state"]), (&json!("a"), &json!("needs_connect")));
    let link = prompt["url"].as_str().unwrap().to_owned();
    assert!(link.starts_with(&format!("{PUBLIC}/connect/a?link=")), "{link}");
    assert_eq!(world.server.count("tools/call"), 0);
    let page = user.open(&link).await;
    let resource = format!("http://{}/mcp", world.server.address);
    for (header, value) in [
        ("cache-control", "no-store"),
        ("referrer-policy", "same-origin"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(page.header(header), Some(value));
    }
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && !policy.contains("script"), "{policy}");
    let (url, cookie) = user.start(&link).await;
    let query = fields(url.split_once('?').unwrap().1);
    assert_eq!(query["resource"], resource);
    assert_eq!(query["redirect_uri"], format!("{PUBLIC}/oauth/callback"));
    assert_eq!((&*query["scope"], &*query["prompt"]), ("mcp offline_access", "consent"));
    assert!(query["state"].len() >= 22 && !url.contains("verifier"));
    let done = user.come_back(&world.authority.approve(&url, "anna"), &cookie).await;
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(done.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(user.name_at_server().await, "anna");
    let exchanged = &world.authority.grants("authorization_code")[0];
    assert_eq!(exchanged["resource"], resource);
    assert!(exchanged["code_verifier"].len() >= 43);
    // The registration announces exactly one redirect URI.
    let registered: Value =
        serde_json::from_str(&world.authority.heard("/register")[0].body).unwrap();
    assert_eq!(registered["redirect_uris"], json!([format!("{PUBLIC}/oauth/callback")]));
    assert_eq!(registered["application_type"], "native");
    assert_eq!(registered["scope"], "mcp offline_access");
    world.assert_no_canary(&[&page, &done]);
}

#[tokio::test]
async fn a_rejected_token_is_renewed_once_and_a_lost_grant_asks_again() {
    let world = World::start(false, json!({})).await;
    let mut user = User::local(&world);
    user.connect("anna").await;
    assert_eq!(user.name_at_server().await, "anna");
    world.authority.expire("anna");
    assert_eq!(user.name_at_server().await, "anna");
    let refreshed = world.authority.grants("refresh_token");
    assert_eq!(refreshed.len(), 1);
    assert_eq!(refreshed[0]["resource"], format!("http://{}/mcp", world.server.address));
    // A failure of the authorization server ends no grant.
    world.authority.expire("anna");
    world.authority.break_tokens(Some((503, json!({}))));
    let failed = user.call("a__t").await;
    assert_eq!(failed.json()["error"]["data"]["reason"], "overloaded", "{}", failed.text());
    world.authority.break_tokens(None);
    assert_eq!(user.name_at_server().await, "anna");
    // A refusal of the grant does.
    world.authority.expire("anna");
    world.authority.break_tokens(Some((400, json!({"error": "invalid_grant"}))));
    assert_eq!(user.prompt().await["state"], "needs_connect");
    let refused = world.authority.heard("/token").len();
    user.prompt().await;
    assert_eq!(world.authority.heard("/token").len(), refused);
    world.authority.break_tokens(None);
    user.connect("anna").await;
    assert_eq!(user.name_at_server().await, "anna");
    world.assert_no_canary(&[&failed]);
}

#[tokio::test]
async fn a_refused_call_stops_no_renewal() {
    let world = World::start(false, json!({})).await;
    let mut user = User::local(&world);
    world.authority.limit_lifetime(3);
    user.connect("anna").await;
    let refused = user.call_with("a__t", json!({"forbid": true})).await;
    assert!(refused.text().contains("refuses access"), "{}", refused.text());
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(user.name_at_server().await, "anna");
    assert!(!world.authority.grants("refresh_token").is_empty());
}

#[tokio::test]
async fn a_refused_client_of_the_operator_ends_no_grant() {
    let authority = Authority::start().await;
    let server = Arc::new(Upstream::verbs(authority.server(true)).await);
    authority.protect(&format!("http://{}/mcp", server.address));
    let client = json!({
        "issuer": authority.url, "client_id": "gate", "client_secret": "canary-secret",
    });
    let gate = start_gate(&server, json!({}), client).await;
    let world = World { authority, server, gate };
    let mut user = User::local(&world);
    user.connect("anna").await;
    world.authority.expire("anna");
    for answer in [json!({"error": "invalid_client"}), Value::Null] {
        world.authority.break_tokens(Some((401, answer)));
        let failed = user.call("a__t").await;
        assert_eq!(failed.json()["error"]["data"]["reason"], "overloaded", "{}", failed.text());
    }
    assert!(world.gate.log().contains("check `auth` of the server `a`"), "{}", world.gate.log());
    world.authority.break_tokens(None);
    assert_eq!(user.name_at_server().await, "anna");
    world.assert_no_canary(&[]);
}

#[tokio::test]
async fn a_grant_is_renewed_by_its_issuer_while_the_server_names_it() {
    let world = World::start(false, json!({})).await;
    let mut user = User::local(&world);
    user.connect("anna").await;
    let other = Authority::start().await;
    let name = async |issuers: &[&str]| {
        let issuers = json!(issuers);
        world.authority.change_resource(|document| document["authorization_servers"] = issuers);
        // Metadata that was fetched just now is not fetched again.
        tokio::time::sleep(Duration::from_millis(600)).await;
        world.authority.expire("anna");
    };
    name(&[&other.url, &world.authority.url]).await;
    assert_eq!(user.name_at_server().await, "anna");
    world.authority.change_metadata(|document| document["issuer"] = json!("https://gone.test"));
    name(&[&other.url, &world.authority.url]).await;
    let failed = user.call("a__t").await;
    assert_eq!(failed.json()["error"]["data"]["reason"], "overloaded", "{}", failed.text());
    world.authority.change_metadata(|document| document["issuer"] = json!(world.authority.url));
    assert_eq!(user.name_at_server().await, "anna");
    name(&[&other.url]).await;
    assert_eq!(user.prompt().await["state"], "needs_connect");
}

#[tokio::test]
async fn callers_use_their_own_accounts_alone() {
    let world = World::start(true, json!({})).await;
    let mut anna = User::with_key(&world, "anna").await;
    let mut ben = User::with_key(&world, "ben").await;
    anna.connect("anna").await;
    // Anna's account is no account of Ben.
    let links = ben.prompt().await;
    // The link of another caller connects nothing.
    let stolen = anna.open(links["url"].as_str().unwrap()).await;
    assert_eq!(stolen.status, 403, "{}", stolen.text());
    ben.connect("ben").await;
    let mut running = tokio::task::JoinSet::new();
    for number in 0..200 {
        let user = if number % 2 == 0 { &anna } else { &ben };
        let expected = if number % 2 == 0 { "anna" } else { "ben" };
        let params = json!({"name": "a__t", "arguments": {}});
        let request = Request::modern("/mcp", "tools/call", params)
            .with("Authorization", &format!("Bearer {}", user.key.as_ref().unwrap()));
        let at = world.at();
        running.spawn(async move {
            let result = request.send(at).await.result();
            assert_eq!(result["content"][0]["text"], expected, "{result}");
        });
        if number == 100 {
            world.authority.expire("ben");
        }
    }
    while let Some(done) = running.join_next().await {
        done.unwrap();
    }
    assert_eq!(world.authority.grants("refresh_token").len(), 1);
    // No key of a caller reached the server.
    for heard in world.server.heard() {
        let header = heard.header("authorization").unwrap_or("Bearer canary-access");
        assert!(header.starts_with("Bearer canary-access"), "{header}");
    }
    world.assert_no_canary(&[&stolen]);
}

#[tokio::test]
async fn refusals_of_one_account_leave_the_others_alone() {
    let world = World::start(true, json!({})).await;
    let mut anna = User::with_key(&world, "anna").await;
    let mut ben = User::with_key(&world, "ben").await;
    anna.connect("anna").await;
    ben.connect("ben").await;
    // More than the failures in sequence that open a circuit breaker.
    for _ in 0..20 {
        let refused = anna.call_with("a__t", json!({"forbid": true})).await;
        assert!(refused.text().contains("refuses access"), "{}", refused.text());
    }
    assert_eq!(ben.name_at_server().await, "ben");
    world.authority.expire("anna");
    world.authority.break_tokens(Some((400, json!({"error": "invalid_grant"}))));
    for _ in 0..20 {
        assert_eq!(anna.prompt().await["state"], "needs_connect");
    }
    assert_eq!(ben.name_at_server().await, "ben");
}

#[tokio::test]
async fn responses_that_no_attempt_expects_are_rejected_without_a_request() {
    let world = World::start(false, json!({})).await;
    let mut user = User::local(&world);
    let prompt = user.prompt().await;
    let link = prompt["url"].as_str().unwrap();
    let (url, cookie) = user.start(link).await;
    let query = world.authority.approve(&url, "anna");
    let (name, value) = cookie.split_once('=').unwrap();
    for (case, query, cookie) in [
        ("no cookie", query.clone(), "x=y".to_owned()),
        ("another browser", query.clone(), format!("{name}=x{value}")),
        ("unknown state", query.replace("state=", "state=x"), cookie.clone()),
        ("no state", "code=canary-code-1".to_owned(), cookie.clone()),
    ] {
        let refused = user.come_back(&query, &cookie).await;
        assert_eq!(refused.status, 400, "{case}: {}", refused.text());
    }
    assert_eq!(world.authority.heard("/token").len(), 0);
    assert_eq!(user.come_back(&query, &cookie).await.status, 200);
    let again = user.come_back(&query, &cookie).await;
    assert_eq!((again.status, world.authority.heard("/token").len()), (400, 1));
    // Another issuer, and none although it is announced.
    let error = "&error=canary-code&error_description=canary-code";
    for change in ["&iss=", "&iss=http://evil.example", "", &format!("&iss={error}"), error] {
        let (url, cookie) = user.start(link).await;
        let query = world.authority.approve(&url, "eve");
        let (query, _) = query.split_once("&iss=").unwrap();
        let mixed = user.come_back(&format!("{query}{change}"), &cookie).await;
        assert_eq!(mixed.status, 400, "{}", mixed.text());
        world.assert_no_canary(&[&mixed]);
    }
    assert_eq!(world.authority.heard("/token").len(), 1);
    assert_eq!(user.name_at_server().await, "anna");
}

#[tokio::test]
async fn forms_of_other_pages_start_nothing() {
    let world = World::start(false, json!({})).await;
    let mut user = User::local(&world);
    let prompt = user.prompt().await;
    let link = prompt["url"].as_str().unwrap().to_owned();
    let page = user.open(&link).await.text();
    let token = page.split("value=\"").nth(1).unwrap().split('"').next().unwrap();
    let path = link.strip_prefix(PUBLIC).unwrap();
    let good = user.browser("POST", path, &format!("token={token}"));
    let origin = good.clone().with("Origin", "http://127.0.0.1:1");
    for (case, request) in [
        ("no token", user.browser("POST", path, "")),
        ("a wrong token", user.browser("POST", path, "token=0")),
        ("another site", good.clone().with("Sec-Fetch-Site", "cross-site")),
        ("another origin", origin),
        ("no origin", good.clone().without("Origin").without("Sec-Fetch-Site")),
    ] {
        assert_eq!(request.send(world.at()).await.status, 403, "{case}");
    }
    let unknown = user.browser("GET", "/connect/a?link=nothing", "").send(world.at()).await;
    assert_eq!(unknown.status, 410);
    let unknown = user.browser("GET", "/connect/nothing", "").send(world.at()).await;
    assert_eq!(unknown.status, 400);
    assert_eq!(good.send(world.at()).await.status, 303);
}

#[tokio::test]
async fn hostile_metadata_is_refused() {
    let evil =
        |name: &'static str, value: Value| move |document: &mut Value| document[name] = value;
    type Edit = Box<dyn FnOnce(&mut Value)>;
    let resource: [(Edit, &str); 3] = [
        (Box::new(evil("resource", json!("http://127.0.0.1:1/mcp"))), "resource metadata is for"),
        (Box::new(evil("authorization_servers", json!(["http://as.example"]))), "not https"),
        (Box::new(evil("authorization_servers", json!(["https://169.254.169.254"]))), "169.254"),
    ];
    let server: [(Edit, &str); 5] = [
        (Box::new(evil("issuer", json!("http://127.0.0.1:1"))), "another issuer"),
        (Box::new(evil("code_challenge_methods_supported", json!(["plain"]))), "S256"),
        (Box::new(evil("code_challenge_methods_supported", Value::Null)), "S256"),
        (Box::new(evil("token_endpoint", json!("http://as.example/token"))), "not https"),
        (Box::new(evil("padding", json!("x".repeat(70_000)))), "65536"),
    ];
    for (is_resource, edit, expected) in resource
        .into_iter()
        .map(|(edit, expected)| (true, edit, expected))
        .chain(server.into_iter().map(|(edit, expected)| (false, edit, expected)))
    {
        let world = World::start(false, json!({})).await;
        if is_resource {
            world.authority.change_resource(edit);
        } else {
            world.authority.change_metadata(edit);
        }
        let mut user = User::local(&world);
        let prompt = user.prompt().await;
        let page = user.open(prompt["url"].as_str().unwrap()).await;
        assert!(
            page.status >= 400 && page.text().contains(expected),
            "{expected}: {}",
            page.text()
        );
        assert_eq!(world.authority.heard("/token").len(), 0);
    }
}

/// Some authorization servers grant a client only the scopes that it registered.
#[tokio::test]
async fn a_client_registers_again_for_further_scopes() {
    let world = World::start(false, json!({})).await;
    let mut user = User::local(&world);
    user.connect("anna").await;
    let prompt = user.prompt_for(&json!({"scope": "write"})).await;
    let (url, cookie) = user.start(prompt["url"].as_str().unwrap()).await;
    let registered = world.authority.heard("/register");
    assert_eq!(registered.len(), 2);
    let registered: Value = serde_json::from_str(&registered[1].body).unwrap();
    assert_eq!(registered["scope"], "mcp offline_access write");
    let done = user.come_back(&world.authority.approve(&url, "anna"), &cookie).await;
    assert_eq!(done.status, 200, "{}", done.text());
    let done = user.call_with("a__t", json!({"scope": "write"})).await.result();
    assert_eq!(done["content"][0]["text"], "anna", "{done}");
}

#[tokio::test]
async fn the_first_users_lists_are_served_where_lists_need_an_account() {
    let authority = Authority::start().await;
    let server = Arc::new(Upstream::verbs(authority.server(false)).await);
    authority.protect(&format!("http://{}/mcp", server.address));
    let top = json!({"admin": {"ready": "all"}});
    let gate = start_gate(&server, top, json!({"discovery": "first_user"})).await;
    let world = World { authority, server, gate };
    // A tool stands for the server, and its call returns the link.
    let began = std::time::Instant::now();
    let (tools, _) = world.gate.tools("/mcp").await;
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(tools, ["a__connect"]);
    let list = world.gate.modern("/mcp", "tools/list", json!({})).await.result();
    assert_eq!(list["ttlMs"], 0, "it is replaced once a user has connected: {list}");
    let mut user = User::local(&world);
    let result = user.call("a__connect").await.result();
    let link = result["_meta"]["io.github.lockgate/connect"]["url"].as_str().unwrap();
    let (url, cookie) = user.start(link).await;
    let query = world.authority.approve(&url, "anna");
    assert_eq!(user.come_back(&query, &cookie).await.status, 200);
    until("the lists are there", async || {
        let list = world.gate.modern("/mcp", "tools/list", json!({})).await.json();
        (list["result"]["tools"][0]["name"] == "a__t").then_some(())
    })
    .await;
    assert_eq!(world.gate.tools("/mcp").await.0, ["a__t"]);
    assert_eq!(user.name_at_server().await, "anna");
    // The connection for lists is refused, which is no failure of the server.
    let shown = Request::bare("GET", "/api/servers/a", "").send(world.at()).await.json();
    assert_eq!(shown["state"], "resting", "{shown}");
    let ready = Request::bare("GET", "/readyz", "").send(world.at()).await;
    assert_eq!(ready.status, 200, "{}", ready.text());
}

/// Starts a server that lists to users alone, a tool of each user among others.
async fn start_listing_to_users(discovery: &str) -> World {
    let authority = Authority::start().await;
    let (plain, guard) = (authority.server(false), authority.clone());
    let script = move |heard: &HeardMessage| match guard.subject_of(heard) {
        Some((subject, _)) if heard.method() == "tools/list" => Say::Json(heard.result(json!({
            "resultType": "complete", "tools": [tool("t"), tool(&format!("of_{subject}"))],
            "ttlMs": 0, "cacheScope": "private",
        }))),
        _ => plain(heard),
    };
    let server = Arc::new(Upstream::verbs(script).await);
    authority.protect(&format!("http://{}/mcp", server.address));
    let top = json!({"auth": {"keys_file": "keys.yaml"}});
    let gate = start_gate(&server, top, json!({"discovery": discovery})).await;
    World { authority, server, gate }
}

/// Returns the names of the tools that a user sees, sorted.
async fn tools_of(user: &User<'_>) -> Vec<String> {
    let list = Request::modern("/mcp", "tools/list", json!({})).by(user.key.as_deref().unwrap());
    let list = list.send(user.world.at()).await.result();
    let listed = list["tools"].as_array().unwrap().iter();
    let mut names: Vec<_> = listed.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    names.sort_unstable();
    names
}

/// Waits until a user sees these tools, whose names are sorted.
async fn sees(user: &User<'_>, tools: &[&str]) {
    until("the tools are listed", async || (tools_of(user).await == tools).then_some(())).await;
}

/// Connects an account by the link of the tool that stands for the server.
async fn connect_by_tool(user: &mut User<'_>, name: &str) {
    let link = user.call("a__connect").await.result();
    let link = link["_meta"]["io.github.lockgate/connect"]["url"].as_str().unwrap();
    let (url, cookie) = user.start(link).await;
    let query = user.world.authority.approve(&url, name);
    assert_eq!(user.come_back(&query, &cookie).await.status, 200);
}

async fn disconnect(user: &User<'_>) {
    let ended = Request::bare("DELETE", "/api/connections/a", "");
    let ended = ended.by(user.key.as_deref().unwrap()).send(user.world.at()).await;
    assert_eq!(ended.status, 204, "{}", ended.text());
}

#[tokio::test]
async fn lists_of_users_follow_a_connected_user() {
    let world = start_listing_to_users("first_user").await;
    let mut anna = User::with_key(&world, "anna").await;
    let mut ben = User::with_key(&world, "ben").await;
    connect_by_tool(&mut anna, "anna").await;
    sees(&anna, &["a__of_anna", "a__t"]).await;
    disconnect(&anna).await;
    ben.connect("ben").await;
    ben.name_at_server().await;
    sees(&ben, &["a__of_ben", "a__t"]).await;
}

#[tokio::test]
async fn each_user_sees_the_lists_of_its_own_account() {
    let world = start_listing_to_users("per_user").await;
    let mut anna = User::with_key(&world, "anna").await;
    let mut ben = User::with_key(&world, "ben").await;
    assert_eq!(tools_of(&anna).await, ["a__connect"]);
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let listen = Request::modern("/mcp", "subscriptions/listen", listen);
    let mut to_ben = listen.by(ben.key.as_deref().unwrap()).open(world.at()).await;
    to_ben.next().await.unwrap();
    connect_by_tool(&mut anna, "anna").await;
    sees(&anna, &["a__of_anna", "a__t"]).await;
    assert_eq!(anna.name_at_server().await, "anna");
    // Others see and call nothing of it, and hear of no change.
    assert_eq!(tools_of(&ben).await, ["a__connect"]);
    for tool in ["a__t", "a__of_anna"] {
        assert_eq!(ben.call(tool).await.code(), -32602, "{tool}");
    }
    assert!(crate::subscriptions::is_silent(&mut to_ben).await);
    connect_by_tool(&mut ben, "ben").await;
    let changed = to_ben.next().await.unwrap();
    assert_eq!(changed["method"], "notifications/tools/list_changed", "{changed}");
    sees(&ben, &["a__of_ben", "a__t"]).await;
    assert_eq!(anna.name_at_server().await, "anna");
    assert_eq!(ben.name_at_server().await, "ben");
    disconnect(&anna).await;
    sees(&anna, &["a__connect"]).await;
    assert_eq!(tools_of(&ben).await, ["a__of_ben", "a__t"]);
}

#[tokio::test]
async fn a_workloads_token_is_read_for_each_request() {
    let authority = Authority::start().await;
    let server = Upstream::verbs(authority.server(false)).await;
    authority.protect(&format!("http://{}/mcp", server.address));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("canary-file");
    let issue = |subject: &str| {
        let claims = URL_SAFE_NO_PAD.encode(json!({"sub": subject}).to_string());
        std::fs::write(&file, format!("e30.{claims}.canary-secret\n")).unwrap();
    };
    issue("pod");
    let auth = json!({"type": "wif", "issuer": authority.url, "token_file": file});
    let gate = Gate::start(json!({"servers": {"a": server.with(json!({"auth": auth}))}})).await;
    assert_eq!(gate.call("a__t").await.result()["content"][0]["text"], "pod");
    let kind = "urn:ietf:params:oauth:grant-type:jwt-bearer";
    let requests = authority.grants(kind);
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0]["resource"], format!("http://{}/mcp", server.address));
    assert!(!requests[0].contains_key("client_id"), "{requests:?}");
    assert!(authority.heard("/register").is_empty());
    issue("pod2");
    authority.expire("pod");
    assert_eq!(gate.call("a__t").await.result()["content"][0]["text"], "pod2");
    assert_eq!(authority.grants(kind).len(), 2);
    for heard in server.heard() {
        let header = heard.header("authorization").unwrap_or("Bearer canary-access");
        assert!(header.starts_with("Bearer canary-access"), "{header}");
    }
    // Without the file, calls fail, and no other credential is used.
    std::fs::write(&file, "canary-secret").unwrap();
    authority.expire("pod2");
    let malformed = gate.call("a__t").await.text();
    std::fs::remove_file(&file).unwrap();
    let missing = gate.call("a__t").await.text();
    assert!(gate.log().contains("the token file cannot be read"), "{}", gate.log());
    assert_eq!(authority.grants(kind).len(), 2);
    for canary in CANARIES {
        assert!(!gate.log().contains(canary), "{}", gate.log());
    }
    for answer in [malformed, missing] {
        assert!(answer.contains("error") && !answer.contains("canary"), "{answer}");
    }
}
