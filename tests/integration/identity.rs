//! Signed identity assertions for servers: sent with every HTTP request, specific to its caller and
//! server, and verifiable with the gateway's key set.

use std::process::Command;

use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};

use crate::principals::{By, key};
use crate::rig::client::Request;
use crate::rig::gate::command;
use crate::rig::upstream::{legacy, modern};
use crate::rig::{Gate, HeardMessage, Say, Upstream, Value, json, until};
use crate::stdio::Pipe;

const HEADER: &str = "lockgate-identity";
const PUBLIC: &str = "https://gate.test";

/// Creates a private key as documented.
fn make_key() -> String {
    let made = Command::new("openssl")
        .args(["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"])
        .output()
        .expect("openssl");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8(made.stdout).unwrap()
}

/// Private keys in files.
struct Keys(tempfile::TempDir);

impl Keys {
    fn make(names: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            std::fs::write(folder.path().join(name), make_key()).unwrap();
        }
        Self(folder)
    }

    /// Returns the configuration's reference to a key.
    fn at(&self, name: &str) -> String {
        format!("file:{}", self.0.path().join(name).display())
    }
}

/// Returns a configuration with these servers; each audience is the server's name.
fn config(keys: &[&str], servers: &[(&str, Value)]) -> Value {
    let mut told = json!({});
    for (name, server) in servers {
        told[name] = server.clone();
        told[name]["identity"] = json!({"audience": name});
    }
    json!({
        "servers": told, "identity": {"keys": keys}, "http": {"public_url": PUBLIC},
        "auth": {"keys_file": "keys.yaml"},
    })
}

async fn key_set(gate: &Gate) -> JwkSet {
    let answer = Request::bare("GET", "/.well-known/jwks.json", "").send(gate.address).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("cache-control"), Some("max-age=300"));
    assert!(!answer.text().contains("\"d\""), "{}", answer.text());
    serde_json::from_value(answer.json()).unwrap()
}

/// Verifies an assertion as a server with this audience; returns its claims.
fn verify(token: &str, keys: &JwkSet, audience: &str) -> Result<Value, String> {
    let id = decode_header(token).unwrap().kid.unwrap();
    let key = keys.find(&id).ok_or("an unknown key")?;
    let mut rules = Validation::new(Algorithm::ES256);
    rules.set_audience(&[audience]);
    rules.set_issuer(&[PUBLIC]);
    rules.set_required_spec_claims(&["iss", "sub", "aud", "exp"]);
    let told = decode::<Value>(token, &DecodingKey::from_jwk(key).unwrap(), &rules);
    told.map(|told| told.claims).map_err(|error| error.to_string())
}

/// Returns the subject of each request, which must have exactly one valid assertion.
fn subjects(heard: &[HeardMessage], keys: &JwkSet, audience: &str) -> Vec<String> {
    let mut subjects = Vec::new();
    for one in heard {
        let given = one.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(HEADER));
        let given: Vec<&str> = given.map(|(_, value)| value.as_str()).collect();
        let [token] = given[..] else { panic!("{} of {}", given.len(), one.text) };
        let claims = verify(token, keys, audience).unwrap_or_else(|why| panic!("{why}: {token}"));
        subjects.push(claims["sub"].as_str().unwrap().to_owned());
    }
    subjects
}

fn call(tool: &str, by: &str) -> Request {
    let params = json!({"name": tool, "arguments": {}});
    Request::modern("/mcp", "tools/call", params).by(by).with("Lockgate-Identity", "forged")
}

/// Opens a legacy session and makes a call; returns the session id.
async fn call_legacy(gate: &Gate, tool: &str, by: &str, capabilities: Value) -> String {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let opened = Request::bare("POST", "/mcp", body.to_string()).by(by).send(gate.address).await;
    let session = opened.header("mcp-session-id").expect("a session").to_owned();
    let params = json!({"name": tool, "arguments": {}});
    let call = Request::legacy("/mcp", &session, 7, "tools/call", &params).by(by);
    let answer = call.with("Lockgate-Identity", "forged").send(gate.address).await;
    assert_eq!((answer.status, answer.code()), (200, 0), "{}", answer.text());
    session
}

fn principal(key: &str) -> String {
    format!("key|{}", key.split('_').nth(1).unwrap())
}

/// Two callers in turn, in both eras, at servers of both eras: every request identifies its caller,
/// and the gateway's own requests identify the gateway. The client's own header is dropped.
#[tokio::test]
async fn every_request_says_for_whom_it_is() {
    let new = Upstream::http(modern(&["t"])).await;
    let old = Upstream::http(legacy("2025-11-25", &["t"])).await;
    let plain = Upstream::http(modern(&["t"])).await;
    let files = Keys::make(&["key"]);
    let mut config = config(&[&files.at("key")], &[("new", new.config()), ("old", old.config())]);
    config["servers"]["plain"] = plain.config();
    let gate = Gate::start(config).await;
    let alice = key(&gate, "alice", &["--organisation", "acme", "--agent", "desktop"]).await;
    let bob = key(&gate, "bob", &[]).await;
    let keys = key_set(&gate).await;
    for _ in 0..2 {
        for by in [&alice, &bob] {
            for tool in ["new__t", "old__t", "plain__t"] {
                let answer = call(tool, by).send(gate.address).await;
                assert_eq!((answer.status, answer.code()), (200, 0), "{}", answer.text());
                call_legacy(&gate, tool, by, json!({})).await;
            }
        }
    }
    let expected: Vec<String> = [&alice, &alice, &bob, &bob].map(|by| principal(by)).to_vec();
    let expected = [&expected[..], &expected[..]].concat();
    for (server, name) in [(&new, "new"), (&old, "old")] {
        assert_eq!(subjects(&server.heard_of("tools/call"), &keys, name), expected, "{name}");
        let mut own = server.heard();
        own.retain(|heard| heard.method() != "tools/call");
        let own = subjects(&own, &keys, name);
        assert!(own.len() >= 2 && own.iter().all(|who| who == "gateway"), "{own:?}");
    }
    let token = new.heard_of("tools/call")[0].header(HEADER).unwrap().to_owned();
    let claims = verify(&token, &keys, "new").unwrap();
    let members: Vec<&String> = claims.as_object().unwrap().keys().collect();
    assert_eq!(members, ["iss", "sub", "aud", "iat", "exp", "org", "client_id", "key_name"]);
    assert_eq!(
        (&claims["org"], &claims["client_id"], &claims["key_name"]),
        (&json!("acme"), &json!("desktop"), &json!("alice"))
    );
    assert!(verify(&token, &keys, "old").unwrap_err().contains("Audience"));
    let again = new.heard_of("tools/call");
    assert_eq!(again[0].header(HEADER), again[1].header(HEADER), "it is signed once");
    for heard in plain.heard() {
        assert!(heard.header(HEADER).is_none() && !heard.text.contains("forged"));
    }
    for secret in [token.rsplit('.').next().unwrap(), "PRIVATE KEY", "forged"] {
        assert!(!gate.log().contains(secret));
    }
}

/// A client with elicitation has a separate upstream connection, identified as the client from the
/// handshake to the end.
#[tokio::test]
async fn a_clients_own_connection_is_the_clients() {
    let script = legacy("2025-11-25", &["t"]);
    let server = Upstream::verbs(move |heard| match heard.verb.as_str() {
        "POST" => script(heard),
        "GET" => {
            Say::Stream("event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n".into())
        }
        _ => Say::Json(Value::Null),
    })
    .await;
    let files = Keys::make(&["key"]);
    let gate = Gate::start(config(&[&files.at("key")], &[("a", server.config())])).await;
    let alice = key(&gate, "alice", &[]).await;
    let keys = key_set(&gate).await;
    let session = call_legacy(&gate, "a__t", &alice, json!({"elicitation": {}})).await;
    let end = Request::bare("DELETE", "/mcp", "").by(&alice).with("Mcp-Session-Id", &session);
    assert!(end.send(gate.address).await.status < 300);
    until("it is ended at the server", async || {
        let told = subjects(&server.heard(), &keys, "a");
        let ended = server.heard().into_iter().zip(told);
        let mut ended = ended.filter(|(heard, _)| heard.verb == "DELETE");
        ended.any(|(_, who)| who == principal(&alice)).then_some(())
    })
    .await;
    let all = server.heard();
    let told = subjects(&all, &keys, "a");
    let mut of_alice = Vec::new();
    for (heard, who) in all.iter().zip(&told) {
        if *who == principal(&alice) {
            of_alice.push(format!("{} {}", heard.verb, heard.method()));
        } else {
            assert_eq!((who.as_str(), heard.method() == "tools/call"), ("gateway", false));
        }
    }
    of_alice.sort();
    let expected =
        ["DELETE ", "GET ", "POST initialize", "POST notifications/initialized", "POST tools/call"];
    assert_eq!(of_alice, expected);
}

/// Keys are rotated on a reload: the first key signs, and all are published. Identity can be
/// enabled and disabled per server.
#[tokio::test]
async fn keys_are_rotated_while_the_gateway_runs() {
    let server = Upstream::http(modern(&["t"])).await;
    let servers = [("a", server.config())];
    let files = Keys::make(&["old", "new"]);
    let config = |keys: &[&str]| {
        let keys: Vec<String> = keys.iter().map(|name| files.at(name)).collect();
        config(&keys.iter().map(String::as_str).collect::<Vec<_>>(), &servers)
    };
    let gate = Gate::start(config(&["old"])).await;
    let alice = key(&gate, "alice", &[]).await;
    let old = key_set(&gate).await.keys[0].common.key_id.clone().unwrap();
    let signing = async || {
        let answer = call("a__t", &alice).send(gate.address).await;
        assert_eq!(answer.code(), 0, "{}", answer.text());
        let heard = server.heard_of("tools/call").pop().unwrap();
        decode_header(heard.header(HEADER).unwrap()).unwrap().kid.unwrap()
    };
    let published = async |count: usize| {
        until("the keys are published", async || {
            let keys = key_set(&gate).await;
            (keys.keys.len() == count).then_some(keys)
        })
        .await
    };
    assert_eq!(signing().await, old);
    gate.configure(config(&["old", "new"]));
    let keys = published(2).await;
    assert_eq!(signing().await, old);
    let new = keys.keys[1].common.key_id.clone().unwrap();
    gate.configure(config(&["new", "old"]));
    until("the new key signs", async || (signing().await == new).then_some(())).await;
    gate.configure(config(&["new"]));
    published(1).await;
    let heard = server.heard_of("tools/call");
    let (first, last) = (&heard[0], &heard[heard.len() - 1]);
    assert_eq!(subjects(std::slice::from_ref(last), &keys, "a"), [principal(&alice)]);
    assert_eq!(subjects(std::slice::from_ref(first), &keys, "a"), [principal(&alice)]);
    let known = key_set(&gate).await;
    assert_eq!(verify(first.header(HEADER).unwrap(), &known, "a").unwrap_err(), "an unknown key");
    // A server without `identity` is reconnected without assertions.
    let mut without = config(&[]);
    without["servers"]["a"] = server.config();
    gate.configure(without);
    until("nothing is told any more", async || {
        assert_eq!(call("a__t", &alice).send(gate.address).await.code(), 0);
        server.heard_of("tools/call").pop()?.header(HEADER).is_none().then_some(())
    })
    .await;
    until("no keys are published", async || {
        let asked = Request::bare("GET", "/.well-known/jwks.json", "").send(gate.address).await;
        (asked.status == 404).then_some(())
    })
    .await;
}

/// The gateway over stdio signs with the same key; the HTTP gateway publishes the key.
#[tokio::test]
async fn over_stdio_it_is_signed_with_the_same_key() {
    let server = Upstream::http(modern(&["t"])).await;
    let pem = make_key();
    let mut config = config(&["${IDENTITY_KEY}"], &[("a", server.config())]);
    let gate = Gate::launch_with(config.clone(), &[("IDENTITY_KEY", &pem)]).await;
    let keys = key_set(&gate).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), &pem).unwrap();
    let files = Keys(folder);
    config["identity"]["keys"] = json!([files.at("key")]);
    config.as_object_mut().unwrap().remove("auth");
    let mut modern = Pipe::start(config.clone());
    let params = json!({"name": "a__t", "arguments": {}});
    let answer = modern.modern(json!(1), "tools/call", params.clone()).await;
    assert!(answer.get("result").is_some(), "{answer}");
    let mut legacy = Pipe::start(config);
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    legacy.legacy(json!(1), "initialize", hello).await;
    let answer = legacy.legacy(json!(2), "tools/call", params).await;
    assert!(answer.get("result").is_some(), "{answer}");
    let told = subjects(&server.heard_of("tools/call"), &keys, "a");
    assert_eq!(told, ["local|user", "local|user"]);
}

/// `identity` without a key, or for a server process, is an error; unused, there is no key set.
#[tokio::test]
async fn a_mistake_says_how_to_make_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let check = |config: &Value| {
        let file = folder.path().join("lockgate.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let checked = command().args(["check", "--config"]).arg(&file).output().unwrap();
        assert!(!checked.status.success());
        String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned()
    };
    let url = json!({"url": "https://crm.test/mcp", "identity": {"audience": "crm"}});
    let said = check(&json!({"servers": {"crm": url}}));
    assert!(said.contains("openssl genpkey") && said.contains("servers.crm.identity"), "{said}");
    let program = json!({"command": "true", "identity": {"audience": "crm"}});
    let said = check(&json!({"servers": {"crm": program}}));
    assert!(said.contains("is only valid with `url`"), "{said}");
    let gate = Gate::start(json!({})).await;
    let asked = Request::bare("GET", "/.well-known/jwks.json", "").send(gate.address).await;
    assert_eq!(asked.status, 404);
}
