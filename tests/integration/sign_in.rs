//! Sign-in to the console at an identity provider, with forged metadata, tokens and callbacks: no
//! session is opened, and the errors reveal no details.

use std::net::SocketAddr;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::rig::client::Request;
use crate::rig::issuer::now;
use crate::rig::liar::Liar;
use crate::rig::upstream::modern;
use crate::rig::{Answer, Gate, Upstream, Value, json, until};

const SECRET: &str = "canary-secret";
const START: &str = "/console/sign-in/start?next=/console/servers%3Fstate%3Dbad";
/// The redirect target after a refusal, with the original page in `next`.
const FORM: &str = "/console/sign-in?next=%2Fconsole%2Fservers%3Fstate%3Dbad&why=";

fn config(server: &Upstream, provider: &Liar, console_url: &str) -> Value {
    let claims = json!({"organisation": "org_id", "roles": "groups"});
    json!({
        "servers": {"a": server.config()},
        "http": {"public_url": "http://127.0.0.1:9", "hosts": ["console.test"]},
        "auth": {"keys_file": "keys.yaml", "issuers": {"company": {"issuer": provider.url, "claims": claims}}},
        "admin": {
            "operators": ["role:boss"],
            "sign_in": {"issuer": "company", "client_id": "console", "client_secret": SECRET, "console_url": console_url},
        },
        "audit": {"file": "audit.jsonl"},
    })
}

struct World {
    provider: Liar,
    gate: Gate,
    _server: Upstream,
}

impl World {
    async fn start() -> Self {
        Self::start_with(|_| {}, "http://127.0.0.1:9").await
    }

    async fn start_with(edit: impl FnOnce(&mut Value), console_url: &str) -> Self {
        let provider = Liar::start().await;
        provider.change_metadata(edit);
        let server = Upstream::http(modern(&["t"])).await;
        let gate = Gate::start(config(&server, &provider, console_url)).await;
        Self { provider, gate, _server: server }
    }

    async fn begin(&self) -> Begun {
        let answer = get(START).send(self.gate.address).await;
        Begun::read(&answer)
    }

    /// Returns valid claims for an attempt.
    fn claims(&self, begun: &Begun) -> Value {
        json!({
            "iss": self.provider.url, "sub": "ada", "aud": "console", "nonce": begun.nonce, "org_id": "acme",
            "groups": ["boss"], "iat": now(), "exp": now() + 300,
        })
    }

    fn sign(&self, claims: &Value) -> String {
        self.provider.signer.sign_as(&json!({"alg": "ES256", "kid": "k"}), claims)
    }

    /// Returns from the provider with a valid code.
    async fn come_back(&self, begun: &Begun) -> Answer {
        let path = self.callback(&begun.state, "code=canary-code");
        get(&path).with("Cookie", &begun.cookie).send(self.gate.address).await
    }

    fn callback(&self, state: &str, more: &str) -> String {
        format!("/console/sign-in/callback?{more}&state={state}&iss={}", self.provider.url)
    }

    fn records(&self) -> String {
        let file = self.gate.folder.path().join("audit.jsonl");
        std::fs::read_to_string(file).unwrap_or_default()
    }

    /// Checks that no secret is in the log or the audit trail.
    fn check_writings(&self, others: &[&str]) {
        let written = self.records() + &self.gate.log();
        for secret in [SECRET, "canary-code", "canary-access", "eyJ"].iter().chain(others) {
            assert!(!written.contains(secret), "{secret} in {written}");
        }
    }
}

/// The state of a browser after the start of a sign-in.
struct Begun {
    state: String,
    nonce: String,
    challenge: String,
    cookie: String,
    location: String,
}

impl Begun {
    #[track_caller]
    fn read(answer: &Answer) -> Self {
        assert_eq!(answer.status, 303, "{}", answer.text());
        let location = answer.header("location").unwrap().to_owned();
        let cookie = answer.header("set-cookie").unwrap_or_else(|| panic!("{location}"));
        let part = |name: &str| {
            let value = location.split(&format!("{name}=")).nth(1).unwrap();
            value.split('&').next().unwrap().to_owned()
        };
        Self {
            state: part("&state"),
            nonce: part("&nonce"),
            challenge: part("&code_challenge"),
            cookie: cookie.split(';').next().unwrap().to_owned(),
            location,
        }
    }
}

fn get(path: &str) -> Request {
    Request::bare("GET", path, "")
}

/// Returns the cookie of a session opened by a response.
fn session_of(answer: &Answer) -> Option<String> {
    let mut found = None;
    for (name, value) in &answer.headers {
        let pair = value.split(';').next().unwrap_or_default();
        let is_session = pair.starts_with("lockgate=") || pair.starts_with("__Host-lockgate=");
        if name.eq_ignore_ascii_case("set-cookie") && is_session {
            found = Some(pair.to_owned());
        }
    }
    found
}

#[track_caller]
fn is_refused(answer: &Answer, why: &str, what: &str) {
    assert_eq!(answer.status, 303, "{what}: {}", answer.text());
    assert_eq!(answer.header("location"), Some(&*format!("{FORM}{why}")), "{what}");
    assert_eq!(session_of(answer), None, "{what}");
}

async fn status(at: SocketAddr, path: &str, cookie: &str) -> u16 {
    get(path).with("Cookie", cookie).send(at).await.status
}

#[tokio::test]
async fn an_account_becomes_a_session_that_ends_with_the_provider() {
    let world = World::start().await;
    let at = world.gate.address;
    let form = get("/console/sign-in?next=/console").send(at).await.text();
    assert!(form.contains("href=\"/console/sign-in/start?next="), "{form}");
    let begun = world.begin().await;
    assert!(begun.location.starts_with(&format!("{}/auth?", world.provider.url)));
    assert!(begun.location.contains("&code_challenge_method=S256"), "{}", begun.location);
    world.provider.give(&world.sign(&world.claims(&begun)));
    let back = world.come_back(&begun).await;
    assert_eq!(back.status, 303, "{}", back.text());
    assert_eq!(back.header("location"), Some("/console/servers?state=bad"));
    assert_eq!(back.header("referrer-policy"), Some("no-referrer"));
    let session = session_of(&back).unwrap();

    let [heard] = &world.provider.heard()[..] else { panic!("one request") };
    let verifier = heard.split("code_verifier=").nth(1).unwrap().split('&').next().unwrap();
    let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()));
    assert_eq!(challenge, begun.challenge);
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("console:{SECRET}"));
    assert!(heard.to_ascii_lowercase().contains("\r\nauthorization: basic "), "{heard}");
    assert!(heard.contains(&basic) && !heard.contains("client_secret="), "{heard}");

    assert_eq!(status(at, "/console/organisations", &session).await, 200, "its roles count");
    assert_eq!(status(at, "/api/servers", &session).await, 401, "the API knows no cookies");
    let page = get("/console").with("Cookie", &session).send(at).await.text();
    assert!(page.contains("ada") && page.contains("operator of acme"), "{page}");
    until("the session is on the record", async || {
        world.records().contains("\"action\":\"sign in\"").then_some(())
    })
    .await;
    world.check_writings(&[verifier, &begun.state, &begun.nonce]);

    let mut without = config(&world._server, &world.provider, "http://127.0.0.1:9");
    without["admin"].as_object_mut().unwrap().remove("sign_in");
    world.gate.configure(without);
    until("the session ends with the provider", async || {
        (status(at, "/console", &session).await == 303).then_some(())
    })
    .await;
    let start = get(START).send(at).await;
    assert_eq!(start.header("location"), Some("/console/sign-in"));
}

#[tokio::test]
async fn over_https_cookies_are_of_this_very_host() {
    let world = World::start_with(|_| {}, "https://console.test").await;
    let at = world.gate.address;
    let start = get(START).with("Host", "console.test").send(at).await;
    let cookie = start.header("set-cookie").unwrap();
    assert!(cookie.starts_with("__Host-lockgate-sign-in-"), "{cookie}");
    let rest = "; Path=/; HttpOnly; SameSite=Lax; Max-Age=600; Secure";
    assert!(cookie.ends_with(rest), "{cookie}");
    let begun = Begun::read(&start);
    let redirect = "redirect_uri=https%3A%2F%2Fconsole.test%2Fconsole%2Fsign-in%2Fcallback&";
    assert!(begun.location.contains(redirect), "{}", begun.location);
    world.provider.give(&world.sign(&world.claims(&begun)));
    let session = session_of(&world.come_back(&begun).await).unwrap();
    assert!(session.starts_with("__Host-lockgate="), "{session}");
}

#[tokio::test]
async fn an_answer_of_another_browser_time_or_place_is_nobodys() {
    let world = World::start().await;
    let at = world.gate.address;
    let (own, other) = (world.begin().await, world.begin().await);
    world.provider.give(&world.sign(&world.claims(&own)));
    let good = world.callback(&own.state, "code=canary-code");
    let unknown = "/console/sign-in?next=%2Fconsole&why=";
    let doubled = format!("{good}&state={}", own.state);
    for (path, cookie, why) in [
        (&good, "", "begun"),
        (&good, &*other.cookie, "begun"),
        (&world.callback(&other.state, "code=canary-code"), &*own.cookie, "begun"),
        (&world.callback("", "code=canary-code"), &*own.cookie, "begun"),
        (&doubled, &*own.cookie, "answer"),
    ] {
        let answer = get(path).with("Cookie", cookie).send(at).await;
        assert_eq!(answer.header("location"), Some(&*format!("{unknown}{why}")), "{path}");
        assert_eq!(session_of(&answer), None);
    }
    assert_eq!(world.provider.heard().len(), 0, "nothing of it is asked the provider");
    assert!(session_of(&world.come_back(&own).await).is_some());
    let again = world.come_back(&own).await;
    assert_eq!(again.header("location"), Some(&*format!("{unknown}begun")));
    assert_eq!(session_of(&again), None);
    assert_eq!(world.provider.heard().len(), 1, "a code is shown once");
}

#[tokio::test]
async fn answers_of_another_issuer_and_errors_are_told_in_our_words() {
    let world = World::start().await;
    let at = world.gate.address;
    let evil = "iss=https://evil.test&code=canary-code";
    let words = "error_description=%3Cscript%3Ealert(1)%3C/script%3E";
    let own = format!("iss={}", world.provider.url);
    for (query, why) in [
        (evil.to_owned(), "issuer"),
        ("code=canary-code".to_owned(), "issuer"),
        (format!("error=access_denied&{words}"), "issuer"),
        (format!("error=access_denied&{words}&{own}"), "refused"),
        (format!("error=server_error&{words}&{own}"), "answer"),
        (format!("error=%3Cb%3E&{own}"), "answer"),
        (own, "answer"),
    ] {
        let begun = world.begin().await;
        let path = format!("/console/sign-in/callback?{query}&state={}", begun.state);
        let answer = get(&path).with("Cookie", &begun.cookie).send(at).await;
        is_refused(&answer, why, &query);
        let form = get(answer.header("location").unwrap()).send(at).await;
        assert_eq!(form.status, 200);
        assert!(form.text().contains("role=\"alert\""), "{}", form.text());
        assert!(!form.text().contains("<script>alert"), "{}", form.text());
    }
    assert_eq!(world.provider.heard().len(), 0);
    let record = "the identity provider or the user denied access";
    until("refusals are recorded", async || world.records().contains(record).then_some(())).await;
    world.check_writings(&["alert(1)"]);
}

#[tokio::test]
async fn an_id_token_that_is_not_for_this_sign_in_begins_no_session() {
    let world = World::start().await;
    for (member, value, why) in [
        ("iss", json!("https://evil.test"), "issuer"),
        ("aud", json!("other"), "token"),
        ("aud", json!(["console", "other"]), "token"),
        ("azp", json!("other"), "token"),
        ("nonce", json!("other"), "nonce"),
        ("nonce", Value::Null, "nonce"),
        ("exp", json!(now() - 60), "clock"),
        ("iat", json!(now() + 600), "clock"),
        ("org_id", Value::Null, "organisation"),
        ("sub", json!(""), "token"),
    ] {
        let begun = world.begin().await;
        let mut claims = world.claims(&begun);
        claims[member] = value;
        world.provider.give(&world.sign(&claims));
        is_refused(&world.come_back(&begun).await, why, &format!("{member}: {claims}"));
    }
    let begun = world.begin().await;
    let claims = world.claims(&begun);
    let stranger = crate::rig::issuer::Signer::new("k");
    let header = json!({"alg": "ES256", "kid": "k"});
    let good = world.sign(&claims);
    let payload = good.split('.').nth(1).unwrap();
    let none = URL_SAFE_NO_PAD.encode(json!({"alg": "none"}).to_string());
    for token in [
        stranger.sign_as(&header, &claims),
        world.provider.signer.sign_as(&json!({"alg": "HS256", "kid": "k"}), &claims),
        world.provider.signer.sign(&claims),
        format!("{none}.{payload}."),
        "canary".to_owned(),
    ] {
        let begun = world.begin().await;
        world.provider.give(&token);
        is_refused(&world.come_back(&begun).await, "token", &token);
    }
    world.check_writings(&[]);
}

#[tokio::test]
async fn a_token_endpoint_that_lies_begins_no_session() {
    let world = World::start().await;
    let elsewhere = Liar::start().await;
    let moved = format!("location: {}/token\r\n", elsewhere.url);
    let huge = format!("{{\"id_token\": \"{}\"}}", "x".repeat(300 * 1024));
    for (status, head, body, why) in [
        ("400 Bad Request", "", "{\"error\": \"invalid_grant\"}", "code"),
        ("401 Unauthorized", "", "{\"error\": \"invalid_client\"}", "client"),
        ("400 Bad Request", "", "{\"error\": \"canary-code\"}", "answer"),
        ("307 Temporary Redirect", &*moved, "{}", "answer"),
        ("500 Internal Server Error", "", "<h1>canary-code</h1>", "unreachable"),
        ("200 OK", "", "canary-code", "unreachable"),
        ("200 OK", "", "{\"access_token\": \"canary-access\"}", "token"),
        ("200 OK", "", &*huge, "unreachable"),
    ] {
        let begun = world.begin().await;
        world.provider.say(status, head, body);
        is_refused(&world.come_back(&begun).await, why, status);
    }
    assert_eq!(elsewhere.heard().len(), 0, "no secret goes elsewhere");
    world.check_writings(&[]);
}

#[tokio::test]
async fn metadata_that_are_not_the_providers_own_lead_nowhere() {
    let edits: [fn(&mut Value); 5] = [
        |metadata| metadata["issuer"] = json!("https://evil.test"),
        |metadata| metadata["code_challenge_methods_supported"] = json!(["plain"]),
        |metadata| metadata["authorization_endpoint"] = json!("javascript:alert(1)"),
        |metadata| metadata["token_endpoint"] = Value::Null,
        |metadata| *metadata = json!("x".repeat(300 * 1024)),
    ];
    for edit in edits {
        let world = World::start_with(edit, "http://127.0.0.1:9").await;
        let answer = get(START).send(world.gate.address).await;
        is_refused(&answer, "unreachable", "metadata");
        assert!(answer.header("set-cookie").is_none());
    }
    // A token endpoint on another host must have a public address.
    let inside = "http://localhost:9/token";
    let world = World::start_with(
        |metadata| metadata["token_endpoint"] = json!(inside),
        "http://127.0.0.1:9",
    );
    let world = world.await;
    let begun = world.begin().await;
    is_refused(&world.come_back(&begun).await, "unreachable", inside);
    let record = "is not allowed here";
    until("the cause is recorded", async || world.records().contains(record).then_some(())).await;
}

#[tokio::test]
async fn nobody_is_led_to_another_place_or_signed_in_by_another_site() {
    let world = World::start().await;
    let at = world.gate.address;
    for next in
        ["https://evil.test", "//evil.test/console", "/console%5C@evil.test", "/api/servers"]
    {
        let start = get(&format!("/console/sign-in/start?next={next}")).send(at).await;
        let begun = Begun::read(&start);
        world.provider.give(&world.sign(&world.claims(&begun)));
        let back = world.come_back(&begun).await;
        assert_eq!(back.header("location"), Some("/console"), "{next}");
        assert!(session_of(&back).is_some());
    }
    for site in ["cross-site", "same-site"] {
        let start = get(START).with("Sec-Fetch-Site", site).send(at).await;
        let form = "/console/sign-in?next=%2Fconsole%2Fservers%3Fstate%3Dbad";
        assert_eq!(start.header("location"), Some(form));
        assert!(start.header("set-cookie").is_none());
    }
    let host = get(START).with("Host", "localhost:1").send(at).await;
    let expected = "redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fconsole%2Fsign-in%2Fcallback&";
    assert!(host.header("location").unwrap().contains(expected), "Host decides nothing");
}

#[tokio::test]
async fn who_signs_out_may_sign_out_at_the_provider_too_where_it_does_that() {
    const END: &str = "/console/sign-in/end";
    for has_end in [true, false] {
        let edit = |metadata: &mut Value| {
            let end = format!("{}/end", metadata["issuer"].as_str().unwrap());
            metadata["end_session_endpoint"] = if has_end { json!(end) } else { Value::Null };
        };
        let world = World::start_with(edit, "http://127.0.0.1:9").await;
        let at = world.gate.address;
        let begun = world.begin().await;
        world.provider.give(&world.sign(&world.claims(&begun)));
        let session = session_of(&world.come_back(&begun).await).unwrap();
        let page = get("/console").with("Cookie", &session).send(at).await.text();
        let token = page.split("name=\"token\" value=\"").nth(1).unwrap();
        let token = token.split('"').next().unwrap();
        let leave = Request::bare("POST", "/console/sign-out", format!("token={token}"))
            .with("Cookie", &session)
            .with("Sec-Fetch-Site", "same-origin")
            .with("Content-Type", "application/x-www-form-urlencoded");
        let left = leave.send(at).await;
        assert_eq!(left.header("location"), Some("/console/sign-in?out=account"));
        assert_eq!(status(at, "/console", &session).await, 303, "it is over here in any case");
        let form = get("/console/sign-in?out=account").send(at).await.text();
        assert_eq!(form.contains(&format!("href=\"{END}\"")), has_end, "{form}");
        let key = get("/console/sign-in?out=key").send(at).await.text();
        assert!(!key.contains(END), "who came with a key has none there");
        let end = get(END).send(at).await;
        let there = format!("{}/end?client_id=console", world.provider.url);
        let expected = if has_end { &*there } else { "/console/sign-in" };
        assert_eq!((end.status, end.header("location")), (303, Some(expected)));
        assert_eq!(end.header("referrer-policy"), Some("no-referrer"));
    }
}
