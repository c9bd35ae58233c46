//! Servers for which the caller's access token is exchanged (rows ): at their
//! authorization server (RFC 8693), or for an identity assertion (ID-JAG). The token itself reaches
//! no server.

use std::sync::Arc;

use crate::accounts::{CANARIES, PUBLIC};
use crate::principals::{By, key};
use crate::rig::authority::Authority;
use crate::rig::client::Request;
use crate::rig::issuer::{Issuer, Signer, now};
use crate::rig::{Answer, Gate, Upstream, Value, json, until};

const AUDIENCE: &str = "gate";

struct World {
    issuer: Issuer,
    signer: Signer,
    /// The server's authorization server, and the identity provider.
    authority: Authority,
    provider: Authority,
    of_callers: String,
    server: Arc<Upstream>,
    gate: Gate,
}

impl World {
    async fn start(auth: Value) -> Self {
        let signer = Signer::new("k");
        let issuer = Issuer::start(&[&signer]).await;
        let (authority, provider) = (Authority::start().await, Authority::start().await);
        let server = Arc::new(Upstream::verbs(authority.server(true)).await);
        authority.protect(&format!("http://{}/mcp", server.address));
        let mut all = json!({
            "issuer": authority.url, "client_id": "gate", "client_secret": "canary-secret",
            "scopes": ["mcp"],
        });
        for (name, value) in auth.as_object().unwrap() {
            all[name] = value.clone();
        }
        let mut issuers = json!({"x": {"issuer": issuer.url, "audiences": [AUDIENCE]}});
        let mut of_callers = issuer.url.clone();
        if all["type"] == "id_jag" {
            of_callers.clone_from(&provider.url);
            issuers["provider"] = json!({
                "issuer": provider.url, "audiences": [AUDIENCE],
                "jwks_uri": format!("{}/keys", issuer.url),
            });
            all["provider"] = json!({
                "issuer": provider.url, "client_id": "gate-at-provider",
                "client_secret": "canary-secret",
            });
        }
        let config = json!({
            "servers": {"a": server.with(json!({"auth": all}))},
            "auth": {"issuers": issuers, "keys_file": "keys.yaml"},
            "audit": {"file": "audit.jsonl"}, "http": {"public_url": PUBLIC},
        });
        let gate = Gate::start(config).await;
        let world = Self { issuer, signer, authority, provider, of_callers, server, gate };
        until("the issuer's keys are there", async || {
            let list = Request::modern("/mcp", "tools/list", json!({})).by(&world.token("x", 300));
            (list.send(world.gate.address).await.status == 200).then_some(())
        })
        .await;
        world
    }

    fn token(&self, subject: &str, lifetime: u64) -> String {
        self.token_of(&self.of_callers, subject, lifetime)
    }

    fn token_of(&self, issuer: &str, subject: &str, lifetime: u64) -> String {
        let mut claims = self.issuer.claims(subject, AUDIENCE, "mcp");
        claims["iss"] = issuer.into();
        claims["exp"] = (now() + lifetime).into();
        self.signer.sign(&claims)
    }

    async fn call(&self, credential: &str) -> Answer {
        let params = json!({"name": "a__t", "arguments": {}});
        let request = Request::modern("/mcp", "tools/call", params).by(credential);
        request.send(self.gate.address).await
    }

    async fn name(&self, credential: &str) -> String {
        let answer = self.call(credential).await;
        answer.result()["content"][0]["text"].as_str().unwrap_or_default().to_owned()
    }

    /// Fails if a caller's token reached the server, or any secret an output.
    fn assert_no_leak(&self, tokens: &[&str]) {
        let audit = self.gate.folder.path().join("audit.jsonl");
        let outputs = self.gate.log() + &std::fs::read_to_string(audit).unwrap();
        for secret in CANARIES.iter().chain(tokens) {
            assert!(!outputs.contains(secret), "{secret}: {outputs}");
        }
        for heard in self.server.heard() {
            let heard = format!("{heard:?}");
            assert!(!tokens.iter().any(|token| heard.contains(token)), "{heard}");
        }
    }
}

fn exchanges(authority: &Authority) -> usize {
    authority.grants("urn:ietf:params:oauth:grant-type:token-exchange").len()
}

#[tokio::test]
async fn the_callers_token_is_exchanged_once_for_each_caller() {
    let world = World::start(json!({"type": "exchange", "audience": "tickets"})).await;
    let (anna, ben) = (world.token("anna", 300), world.token("ben", 300));
    for _ in 0..3 {
        assert_eq!(world.name(&anna).await, "anna");
        assert_eq!(world.name(&ben).await, "ben");
    }
    assert_eq!(exchanges(&world.authority), 2);
    let form = &world.authority.grants("urn:ietf:params:oauth:grant-type:token-exchange")[0];
    assert_eq!(form["subject_token"], anna);
    assert_eq!(form["subject_token_type"], "urn:ietf:params:oauth:token-type:access_token");
    assert_eq!(form["resource"], format!("http://{}/mcp", world.server.address));
    assert_eq!((&*form["scope"], &*form["audience"]), ("mcp", "tickets"));
    // Another token of the same user may permit less, and is exchanged for itself.
    let other = world.token("anna", 200);
    assert_eq!(world.name(&other).await, "anna");
    assert_eq!(exchanges(&world.authority), 3);
    // A rejected token is replaced once.
    world.authority.expire("anna");
    assert_eq!(world.name(&anna).await, "anna");
    // A caller without a token has no account, and no other credential is used.
    let key = key(&world.gate, "keyed", &[]).await;
    let refused = world.call(&key).await;
    assert!(
        refused.text().contains("requires callers with a valid access token"),
        "{}",
        refused.text()
    );
    for heard in world.server.heard_of("tools/call") {
        assert!(
            world.authority.subject_of(&heard).is_some_and(|(who, _)| who != "gateway")
                || heard.header("authorization").is_some_and(|token| token.contains("-anna-"))
        );
    }
    world.assert_no_leak(&[&anna, &ben, &other, &key]);
}

#[tokio::test]
async fn a_refused_exchange_is_the_administrators_decision() {
    let world = World::start(json!({"type": "exchange"})).await;
    let anna = world.token("anna", 300);
    for (answer, words) in [
        ((400, json!({"error": "access_denied"})), "access_denied"),
        (
            (
                200,
                json!({"access_token": "canary-access", "token_type": "Bearer",
                "issued_token_type": "urn:ietf:params:oauth:token-type:refresh_token"}),
            ),
            "did not return a token",
        ),
        (
            (
                200,
                json!({"access_token": "canary-access", "token_type": "Bearer", "scope": "mcp all",
                "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}),
            ),
            "scopes that were not requested",
        ),
    ] {
        world.authority.break_tokens(Some(answer));
        // Of another token, because a failure is repeated for a few seconds.
        let token = world.token("anna", 100 + u64::try_from(words.len()).unwrap());
        let before = exchanges(&world.authority);
        for _ in 0..3 {
            let refused = world.call(&token).await;
            assert!(refused.text().contains(words), "{}", refused.text());
            assert!(refused.text().contains("administrator"), "{}", refused.text());
        }
        assert_eq!(exchanges(&world.authority), before + 1);
        world.assert_no_leak(&[&token]);
    }
    world.authority.break_tokens(None);
    assert_eq!(world.name(&anna).await, "anna");
    assert_eq!(world.server.count("tools/call"), 1);
}

#[tokio::test]
async fn an_exchanged_token_lives_no_longer_than_the_callers() {
    let world = World::start(json!({"type": "exchange"})).await;
    let short = world.token("anna", 3);
    assert_eq!(world.name(&short).await, "anna");
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    // The gateway still accepts the caller, because clocks differ.
    let late = world.call(&short).await;
    assert!(late.text().contains("a valid access token"), "{}", late.text());
    assert_eq!((exchanges(&world.authority), world.server.count("tools/call")), (1, 1));
}

#[tokio::test]
async fn an_identity_assertion_of_the_provider_is_exchanged() {
    let world = World::start(json!({"type": "id_jag"})).await;
    let (anna, ben) = (world.token("anna", 300), world.token("ben", 300));
    assert_eq!((world.name(&anna).await, world.name(&ben).await), ("anna".into(), "ben".into()));
    let asked = &world.provider.grants("urn:ietf:params:oauth:grant-type:token-exchange")[0];
    assert_eq!(asked["requested_token_type"], "urn:ietf:params:oauth:token-type:id-jag");
    assert_eq!(asked["audience"], world.authority.url);
    assert_eq!(asked["resource"], format!("http://{}/mcp", world.server.address));
    assert_eq!(asked["subject_token"], anna);
    let sent = world.authority.grants("urn:ietf:params:oauth:grant-type:jwt-bearer");
    assert_eq!(sent.len(), 2);
    // The caller's token is for its provider alone.
    for request in world.authority.heard("/token") {
        assert!(!request.body.contains(&anna) && !request.body.contains(&ben), "{request:?}");
    }
    // The provider receives no token of another issuer.
    let asked = exchanges(&world.provider);
    let refused = world.call(&world.token_of(&world.issuer.url, "eve", 300)).await;
    assert_eq!(refused.code(), -32603, "{}", refused.text());
    let words = format!("requires callers with an access token of {}, and", world.provider.url);
    assert!(refused.text().contains(&words), "{}", refused.text());
    assert!(!refused.text().contains("administrator"), "{}", refused.text());
    assert_eq!(exchanges(&world.provider), asked);
    // An assertion for others is not sent on.
    for (name, value) in [
        ("aud", json!("https://other.test")),
        ("resource", json!("https://other.test/mcp")),
        ("client_id", json!("other")),
        ("exp", json!(1)),
        ("typ", json!("JWT")),
    ] {
        world.provider.alter_assertions(Some((name, value)));
        let token = world.token(name, 300);
        let refused = world.call(&token).await;
        assert!(refused.text().contains(&format!("another `{name}`")), "{}", refused.text());
    }
    assert_eq!(world.authority.grants("urn:ietf:params:oauth:grant-type:jwt-bearer").len(), 2);
    world.assert_no_leak(&[&anna, &ben]);
}

#[tokio::test]
async fn the_gateways_own_account_reads_the_lists() {
    let signer = Signer::new("k");
    let issuer = Issuer::start(&[&signer]).await;
    let authority = Authority::start().await;
    let server = Upstream::verbs(authority.server(false)).await;
    authority.protect(&format!("http://{}/mcp", server.address));
    let auth = json!({
        "type": "exchange", "issuer": authority.url, "client_id": "gate",
        "client_secret": "canary-secret", "discovery": "client_credentials",
    });
    let config = json!({
        "servers": {"a": server.with(json!({"auth": auth}))},
        "auth": {"issuers": {"x": {"issuer": issuer.url, "audiences": [AUDIENCE]}}},
        "http": {"public_url": PUBLIC},
    });
    let gate = Gate::start(config).await;
    let token = signer.sign(&issuer.claims("anna", AUDIENCE, ""));
    until("the tools are listed", async || {
        let list = Request::modern("/mcp", "tools/list", json!({})).by(&token);
        let list = list.send(gate.address).await;
        (list.status == 200 && list.result()["tools"][0]["name"] == "a__t").then_some(())
    })
    .await;
    let params = json!({"name": "a__t", "arguments": {}});
    let called = Request::modern("/mcp", "tools/call", params).by(&token).send(gate.address).await;
    assert_eq!(called.result()["content"][0]["text"], "anna", "{}", called.text());
}
