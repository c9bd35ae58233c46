//! The gateway as an OAuth resource server (rows A-01 to A-05): metadata per endpoint, challenges,
//! step-up before any stream, key rotation, and tokens of other audiences.

use crate::rig::client::Request;
use crate::rig::issuer::{Issuer, Signer, now};
use crate::rig::upstream::modern;
use crate::rig::{Answer, Gate, Upstream, Value, json, until};

const PUBLIC: &str = "http://gw.test/team";
const ALL: &str = "http://gw.test/team/mcp";
const ONE: &str = "http://gw.test/team/servers/a/mcp";
const METADATA: &str = "http://gw.test/.well-known/oauth-protected-resource/team";

fn call(path: &str, token: &str) -> Request {
    let name = if path == "/mcp" { "a__t" } else { "t" };
    let params = json!({"name": name, "arguments": {}, "_meta": {"progressToken": 1}});
    Request::modern(path, "tools/call", params).with("Authorization", &format!("Bearer {token}"))
}

fn challenge(answer: &Answer) -> &str {
    answer
        .header("www-authenticate")
        .unwrap_or_else(|| panic!("no challenge: {} {}", answer.status, answer.text()))
}

async fn gate(server: &Upstream, issuers: Value, scopes: Value) -> Gate {
    let config = json!({
        "servers": {"a": server.config()}, "http": {"public_url": PUBLIC}, "auth": {"issuers": issuers, "scopes": scopes},
    });
    Gate::start(config).await
}

async fn waits_for(gate: &Gate, request: &Request) {
    until("the issuer's keys are there", async || {
        (request.send(gate.address).await.status != 503).then_some(())
    })
    .await;
}

/// A-01: every endpoint is a resource with its own metadata document, referenced by a 401.
#[tokio::test]
async fn each_endpoint_says_where_to_sign_in() {
    let server = Upstream::http(modern(&["t"])).await;
    let signer = Signer::new("k");
    let issuer = Issuer::start(&[&signer]).await;
    let gate =
        gate(&server, json!({"x": {"issuer": issuer.url}}), json!({"required": ["mcp"]})).await;
    for (path, resource) in [("/mcp", ALL), ("/servers/a/mcp", ONE), ("/servers/nowhere/mcp", "")] {
        let refused = Request::modern(path, "tools/list", json!({})).send(gate.address).await;
        assert_eq!(refused.status, 401);
        let expected = format!("Bearer scope=\"mcp\", resource_metadata=\"{METADATA}{path}\"");
        assert_eq!(challenge(&refused), expected);
        for prefix in ["/team", ""] {
            let path = format!("/.well-known/oauth-protected-resource{prefix}{path}");
            let document = Request::bare("GET", &path, "").send(gate.address).await;
            assert_eq!(
                (document.status, document.header("content-type")),
                (200, Some("application/json"))
            );
            let document = document.json();
            assert!(resource.is_empty() || document["resource"] == resource, "{document}");
            assert_eq!(document["authorization_servers"], json!([issuer.url]));
            assert_eq!(document["scopes_supported"], json!(["mcp"]));
        }
    }
    let root = Request::bare("GET", "/.well-known/oauth-protected-resource", "")
        .send(gate.address)
        .await
        .json();
    assert_eq!(root["resource"], ALL);
    let other = Request::bare("GET", "/.well-known/oauth-authorization-server", "")
        .send(gate.address)
        .await;
    assert_eq!(other.status, 404);
}

/// A-02, A-03, A-05: only valid tokens for this endpoint are accepted, and they are not forwarded.
#[tokio::test]
async fn only_good_tokens_for_this_endpoint_are_taken() {
    let server = Upstream::http(modern(&["t"])).await;
    let (signer, stranger) = (Signer::new("k"), Signer::new("k"));
    let issuer = Issuer::start(&[&signer]).await;
    let gate = gate(&server, json!({"x": {"issuer": issuer.url}}), json!({})).await;
    let at = gate.address;
    let claims = || issuer.claims("ada", ALL, "");
    let with = |name: &str, value: Value| {
        let mut claims = claims();
        claims[name] = value;
        signer.sign(&claims)
    };
    let good = signer.sign(&claims());
    waits_for(&gate, &call("/mcp", &good)).await;
    for _ in 0..3 {
        assert_eq!(call("/mcp", &good).send(at).await.code(), 0);
    }
    assert_eq!(call("/servers/a/mcp", &with("aud", json!([ONE]))).send(at).await.code(), 0);
    let before = server.count("tools/call");
    let (signed, _) = good.rsplit_once('.').unwrap();
    for (case, token) in [
        ("another audience", with("aud", json!("http://gw.test/mcp"))),
        ("another endpoint", with("aud", json!(ONE))),
        ("no audience", with("aud", json!(null))),
        ("another issuer", with("iss", json!("http://127.0.0.1:1"))),
        ("over", with("exp", json!(now() - 60))),
        ("not yet", with("nbf", json!(now() + 600))),
        ("signed by a stranger", stranger.sign(&claims())),
        ("not signed", format!("{signed}.")),
        ("huge", with("pad", json!("x".repeat(20_000)))),
        ("garbage", "a.b.c".to_owned()),
    ] {
        let refused = call("/mcp", &token).send(at).await;
        assert_eq!(refused.status, 401, "{case}: {}", refused.text());
        assert!(
            challenge(&refused).contains("error=\"invalid_token\""),
            "{case}: {}",
            challenge(&refused)
        );
        assert!(
            challenge(&refused).contains(&format!("resource_metadata=\"{METADATA}/mcp\"")),
            "{case}"
        );
    }
    assert_eq!(call("/servers/a/mcp", &good).send(at).await.status, 401);
    let query = Request { path: format!("/mcp?access_token={good}"), ..call("/mcp", "") }
        .without("Authorization");
    assert_eq!(query.send(at).await.status, 401);
    assert_eq!(server.count("tools/call"), before);
    assert!(
        server
            .heard()
            .iter()
            .all(|h| h.header("authorization").is_none() && !h.text.contains(&good))
    );
    assert!(!gate.log().contains(&good));

    // A session belongs to the subject, not the token: another token of ada continues it, a token
    // of eve does not.
    let body = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let by =
        |request: Request, token: &str| request.with("Authorization", &format!("Bearer {token}"));
    let opened = by(Request::bare("POST", "/mcp", body), &good).send(at).await;
    let id = opened.header("mcp-session-id").unwrap();
    let ping = || Request::legacy("/mcp", id, 1, "ping", &json!({}));
    assert_eq!(by(ping(), &with("jti", json!("2"))).send(at).await.status, 200);
    assert_eq!(by(ping(), &with("sub", json!("eve"))).send(at).await.status, 404);
    assert_eq!(by(ping(), &with("exp", json!(now() - 60))).send(at).await.status, 401);
}

/// A-04: missing scopes are reported before any stream, and a scope that implies them suffices.
#[tokio::test]
async fn more_scopes_are_asked_for_when_a_call_needs_them() {
    let server = Upstream::http(modern(&["t", "pay"])).await;
    let signer = Signer::new("k");
    let issuer = Issuer::start(&[&signer]).await;
    let scopes = json!({
        "required": ["mcp"], "tools": {"a/p*": ["pay"]}, "implies": {"admin": ["mcp", "pay"]},
    });
    let gate = gate(&server, json!({"x": {"issuer": issuer.url}}), scopes).await;
    let at = gate.address;
    let pay = |path: &str, name: &str, scope: &str| {
        let audience = if path == "/mcp" { ALL } else { ONE };
        let token = signer.sign(&issuer.claims("ada", audience, scope));
        let params = json!({"name": name, "arguments": {}, "_meta": {"progressToken": 1}});
        Request::modern(path, "tools/call", params)
            .with("Authorization", &format!("Bearer {token}"))
    };
    waits_for(&gate, &pay("/mcp", "a__t", "mcp")).await;
    assert_eq!(pay("/mcp", "a__t", "mcp").send(at).await.code(), 0);
    for (path, name) in [("/mcp", "a__pay"), ("/mcp", "a/pay"), ("/servers/a/mcp", "pay")] {
        let refused = pay(path, name, "mcp").send(at).await;
        assert_eq!(
            (refused.status, refused.code()),
            (403, -31003),
            "{path} {name}: {}",
            refused.text()
        );
        let challenge = challenge(&refused);
        assert!(challenge.starts_with("Bearer error=\"insufficient_scope\""), "{challenge}");
        assert!(
            challenge.contains("scope=\"mcp pay\"")
                && challenge.contains(&format!("{METADATA}{path}\""))
        );
        assert_eq!(pay(path, name, "mcp pay").send(at).await.code(), 0);
        assert_eq!(pay(path, name, "admin").send(at).await.code(), 0);
    }
    let base = pay("/mcp", "a__t", "other").send(at).await;
    assert!(
        base.status == 403 && challenge(&base).contains("scope=\"mcp\""),
        "{}",
        challenge(&base)
    );
    let unknown = pay("/mcp", "a__nothing", "mcp").send(at).await;
    assert_eq!((unknown.status, unknown.code()), (200, -32602), "what is not there needs no scope");
}

/// Keys rotate without a restart; unknown key ids do not cause repeated fetches.
#[tokio::test]
async fn rotated_keys_are_found_and_old_ones_forgotten() {
    let server = Upstream::http(modern(&["t"])).await;
    let (old, new) = (Signer::new("old"), Signer::new("new"));
    let issuer = Issuer::start(&[&old]).await;
    let gate = gate(&server, json!({"x": {"issuer": issuer.url, "cooldown": 1}}), json!({})).await;
    let at = gate.address;
    let claims = issuer.claims("ada", ALL, "");
    let (first, second) = (old.sign(&claims), new.sign(&claims));
    waits_for(&gate, &call("/mcp", &first)).await;
    assert_eq!(call("/mcp", &first).send(at).await.code(), 0);
    issuer.publish(&[&new]);
    until("the new key is found", async || {
        (call("/mcp", &second).send(at).await.status == 200).then_some(())
    })
    .await;
    assert_eq!(call("/mcp", &first).send(at).await.status, 401, "remembered, but its key is gone");
    let before = issuer.asked();
    for n in 0..50 {
        let token = Signer::new(&format!("guess{n}")).sign(&claims);
        assert_eq!(call("/mcp", &token).send(at).await.status, 401);
    }
    assert!(issuer.asked() - before <= 10, "{}", issuer.asked() - before);
}
