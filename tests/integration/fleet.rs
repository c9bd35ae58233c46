//! Several gateways with one secret behind one address: rates shared in a real Redis that fails and
//! recovers, legacy sessions that move between gateways, and a replacement of all gateways under
//! load.

#[path = "../../gateway/limits/tests/redis.rs"]
pub(crate) mod redis;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::Redis;

use crate::connections::Balancer;
use crate::rig::client::Request;
use crate::rig::upstream::modern;
use crate::rig::{Answer, Gate, Upstream, Value, json, until};
use crate::tls;

const SECRET: &str = "1f0c9e7ab35d2468fd1ac0e5b7943628";
const OLD: &str = "0e9d8c7b6a5f4e3d2c1b0a9f8e7d6c5b";

fn call(tool: &str) -> Request {
    Request::modern("/mcp", "tools/call", json!({"name": tool, "arguments": {}}))
}

/// Returns the configuration of a gateway with shared rates; `policies` adds rate policies to one
/// that allows all calls.
fn shared(server: &Upstream, redis: &str, folder: &tempfile::TempDir, policies: &str) -> Value {
    let file = folder.path().join("rates.yaml");
    let text = format!("policies:\n  - {{ name: all, effect: allow }}\n{policies}");
    std::fs::write(&file, text).unwrap();
    json!({
        "servers": {"a": server.config()},
        "policy": {"files": [file]},
        "secret": SECRET,
        "redis": {"url": redis},
    })
}

/// Returns the `rates` of `/readyz`.
async fn rates(gate: &Gate) -> Value {
    Request::bare("GET", "/readyz", "").send(gate.address).await.json()["rates"].clone()
}

async fn rates_are(gate: &Gate, wanted: &str) {
    until(wanted, async || (rates(gate).await == wanted).then_some(())).await;
    let metrics = Request::bare("GET", "/metrics", "").send(gate.address).await.text();
    let figure = u8::from(wanted != "shared");
    assert!(metrics.contains(&format!("lockgate_shared_rates_away {figure}\n")), "{metrics}");
}

/// Calls one gateway continuously until stopped.
async fn flood(
    gate: SocketAddr,
    passed: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
    ends: Arc<AtomicBool>,
) {
    while !ends.load(Ordering::Relaxed) {
        let answer = call("a__t").send(gate).await;
        match answer.code() {
            0 => passed.fetch_add(1, Ordering::Relaxed),
            -31029 => refused.fetch_add(1, Ordering::Relaxed),
            code => panic!("{code}: {}", answer.text()),
        };
    }
}

/// Floods three gateways with a rate of 600 a minute; returns the number of permitted calls, and
/// the maximum that a single gateway would permit.
async fn keep_a_rate(rate: &str, burst: f64, window: Duration) -> Option<(f64, f64)> {
    let redis = Redis::start()?;
    let server = Upstream::http(modern(&["t"])).await;
    let folder = tempfile::tempdir().unwrap();
    let rate =
        format!("  - {{ name: calls, effect: deny, what: {{ tools: ['*'] }}, rate: {rate} }}\n");
    let mut gates = Vec::new();
    for _ in 0..3 {
        let gate = Gate::start(shared(&server, &redis.url(), &folder, &rate)).await;
        rates_are(&gate, "shared").await;
        gates.push(gate);
    }
    let [passed, refused]: [Arc<AtomicUsize>; 2] = Default::default();
    let ends = Arc::new(AtomicBool::new(false));
    let began = Instant::now();
    let mut floods = Vec::new();
    for gate in gates.iter().chain(&gates) {
        let [passed, refused] = [&passed, &refused].map(Arc::clone);
        floods.push(tokio::spawn(flood(gate.address, passed, refused, Arc::clone(&ends))));
    }
    until("the rate is reached", async || (refused.load(Ordering::Relaxed) > 0).then_some(()))
        .await;
    tokio::time::sleep(window).await;
    ends.store(true, Ordering::Relaxed);
    for flood in floods {
        flood.await.unwrap();
    }
    let allowed = burst + began.elapsed().as_secs_f64() * 10.0;
    let passed = passed.load(Ordering::Relaxed) as f64;
    eprintln!("{passed} passed of {allowed:.1} in {:?}, {refused:?} refused", began.elapsed());
    Some((passed, allowed))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_gateways_keep_one_rate() {
    let seconds = std::env::var("LOCKGATE_RATE_SECONDS").unwrap_or_default().parse().unwrap_or(4);
    let rate = "{ per_minute: 600, burst: 300 }";
    let window = Duration::from_secs(seconds);
    let Some((passed, allowed)) = keep_a_rate(rate, 300.0, window).await else { return };
    // One percent of 600.
    assert!((passed - allowed).abs() <= 6.0, "{passed} of {allowed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_store_is_away_each_policy_says_what_holds() {
    let Some(mut redis) = Redis::start() else { return };
    let server = Upstream::http(modern(&["local", "allow", "deny"])).await;
    let folder = tempfile::tempdir().unwrap();
    let mut policies = String::new();
    for name in ["local", "allow", "deny"] {
        policies.push_str(&format!(
            "  - {{ name: {name}, effect: deny, what: {{ tools: ['a/{name}'] }}, \
             rate: {{ per_hour: 3, when_away: {name} }} }}\n"
        ));
    }
    let one = Gate::start(shared(&server, &redis.url(), &folder, &policies)).await;
    let two = Gate::start(shared(&server, &redis.url(), &folder, &policies)).await;
    rates_are(&one, "shared").await;
    rates_are(&two, "shared").await;
    redis.stop();
    rates_are(&one, "unavailable").await;
    rates_are(&two, "unavailable").await;
    for gate in [&one, &two] {
        for (tool, passes) in [("a__local", 3), ("a__allow", 6), ("a__deny", 0)] {
            for number in 0..6 {
                let answer = call(tool).send(gate.address).await;
                let wanted = if number < passes { 0 } else { -31029 };
                assert_eq!(answer.code(), wanted, "{tool} {number}: {}", answer.text());
            }
        }
    }
    let refused = call("a__deny").send(one.address).await;
    assert!(refused.text().contains("tool calls cannot be counted"), "{}", refused.text());
    redis.run();
    rates_are(&one, "shared").await;
    rates_are(&two, "shared").await;
    // Calls permitted during the outage count, at either gateway.
    until("all know it", async || {
        (call("a__allow").send(one.address).await.code() == -31029).then_some(())
    })
    .await;
    for _ in 0..3 {
        assert_eq!(call("a__deny").send(two.address).await.code(), 0);
    }
    until("they are used", async || {
        (call("a__deny").send(one.address).await.code() == -31029).then_some(())
    })
    .await;
    let log = one.log();
    assert!(log.contains("the store of shared rates is unavailable"), "{log}");
    assert!(log.contains("the store of shared rates is available again"), "{log}");
    assert!(!log.contains("secret@"), "{log}");
}

/// Redis with TLS only, and a user with the permissions stated in the documentation.
#[tokio::test]
async fn the_store_is_reached_over_tls_as_a_user_with_few_rights() {
    let authority = tls::authority("Lockgate test CA");
    let folder = tempfile::tempdir().unwrap();
    tls::write_server(folder.path(), &authority);
    std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
    let page = std::fs::read_to_string("../../docs/policy.md").unwrap();
    let (_, rights) = page.split_once("A Redis user needs `").unwrap();
    let (commands, rest) = rights.split_once('`').unwrap();
    let (_, rest) = rest.split_once('`').unwrap();
    let (keys, _) = rest.split_once('`').unwrap();
    let rights: Vec<String> = commands.split_whitespace().map(str::to_owned).collect();
    let place = folder.path().to_path_buf();
    let redis = Redis::start_with(|port, _| {
        let at = |name: &str| place.join(name).display().to_string();
        let mut options: Vec<String> = vec!["--port".into(), "0".into()];
        options.extend(["--tls-port".into(), port.to_string()]);
        options.extend(["--tls-cert-file".into(), at("cert.pem")]);
        options.extend(["--tls-key-file".into(), at("key.pem")]);
        options.extend(["--tls-ca-cert-file".into(), at("ca.pem")]);
        options.extend(["--tls-auth-clients".into(), "no".into()]);
        options.extend(["--user".into(), "gate".into(), "on".into(), ">pass".into()]);
        options.push(keys.to_owned());
        options.extend(rights);
        options
    });
    let Some(redis) = redis else { return };
    let server = Upstream::http(modern(&["t"])).await;
    let policy =
        "  - { name: calls, effect: deny, what: { tools: ['*'] }, rate: { per_hour: 2 } }\n";
    let url = format!("rediss://gate:pass@localhost:{}/0", redis.port());
    let mut config = shared(&server, &url, &folder, policy);
    // Without the certificate authority.
    let stranger = Gate::start(config.clone()).await;
    config["egress"] = json!({"ca_file": folder.path().join("ca.pem")});
    let gate = Gate::start(config).await;
    rates_are(&gate, "shared").await;
    for wanted in [0, 0, -31029] {
        assert_eq!(call("a__t").send(gate.address).await.code(), wanted);
    }
    assert_eq!(rates(&stranger).await, "unavailable");
    until("why is said", async || stranger.log().contains("TLS handshake failed").then_some(()))
        .await;
}

async fn begin(gate: SocketAddr) -> Answer {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    Request::bare("POST", "/mcp", body.to_string()).send(gate).await
}

async fn call_within(gate: SocketAddr, session: &str) -> Answer {
    let params = json!({"name": "a__t", "arguments": {}});
    Request::legacy("/mcp", session, 7, "tools/call", &params).send(gate).await
}

#[tokio::test]
async fn a_legacy_session_goes_on_at_another_gateway_or_is_told_to_begin_anew() {
    let server = Upstream::http(modern(&["t"])).await;
    let config = |secrets: Value| {
        let mut config = json!({"servers": {"a": server.config()}});
        for (key, value) in secrets.as_object().unwrap() {
            config[key] = value.clone();
        }
        config
    };
    let old = Gate::start(config(json!({"secret": OLD}))).await;
    let both = Gate::start(config(json!({"secret": SECRET, "old_secrets": [OLD]}))).await;
    let new = Gate::start(config(json!({"secret": SECRET}))).await;
    let none = Gate::start(config(json!({}))).await;
    for (from, to, goes_on) in [
        (&old, &both, true),
        (&both, &new, true),
        (&new, &both, true),
        (&old, &new, false),
        (&new, &old, false),
        (&old, &none, false),
        (&none, &old, false),
    ] {
        let begun = begin(from.address).await;
        let session = begun.header("mcp-session-id").unwrap().to_owned();
        let answer = call_within(to.address, &session).await;
        if goes_on {
            assert!(answer.result()["content"].is_array());
            continue;
        }
        assert_eq!(answer.status, 404, "{}", answer.text());
        // A 404 makes a client open a new session.
        let anew = begin(to.address).await;
        let session = anew.header("mcp-session-id").unwrap();
        assert!(call_within(to.address, session).await.result()["content"].is_array());
    }
}

/// Calls as a legacy client that opens a new session after a 404; returns the calls and retries.
async fn legacy_client(balancer: SocketAddr, ends: Arc<AtomicBool>) -> (usize, usize) {
    let begun = begin(balancer).await;
    let mut session = begun.header("mcp-session-id").unwrap().to_owned();
    let mut calls = 0;
    let mut retries = 0;
    while !ends.load(Ordering::Relaxed) {
        let answer = call_within(balancer, &session).await;
        if answer.status == 404 {
            session = begin(balancer).await.header("mcp-session-id").unwrap().to_owned();
            retries += 1;
            continue;
        }
        assert_eq!((answer.status, answer.code()), (200, 0), "{}", answer.text());
        calls += 1;
    }
    (calls, retries)
}

async fn modern_client(balancer: SocketAddr, ends: Arc<AtomicBool>) -> usize {
    let mut calls = 0;
    while !ends.load(Ordering::Relaxed) {
        let answer = call("a__t").send(balancer).await;
        assert_eq!((answer.status, answer.code()), (200, 0), "{}", answer.text());
        calls += 1;
    }
    calls
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_gateways_are_replaced_under_load_and_no_call_fails() {
    let Some(redis) = Redis::start() else { return };
    let server = Upstream::http(modern(&["t"])).await;
    let folder = tempfile::tempdir().unwrap();
    let policy = "  - { name: calls, effect: deny, what: { tools: ['*'] }, rate: { per_minute: 1000000 } }\n";
    let mut config = shared(&server, &redis.url(), &folder, policy);
    config["http"] = json!({"drain": 2});
    let mut gates = Vec::new();
    for _ in 0..3 {
        gates.push(Gate::start(config.clone()).await);
    }
    let addresses: Vec<SocketAddr> = gates.iter().map(|gate| gate.address).collect();
    let known = Arc::new(Mutex::new(addresses));
    let balancer = Balancer::start_for(Arc::clone(&known)).await;
    let ends = Arc::new(AtomicBool::new(false));
    let modern: Vec<_> =
        (0..3).map(|_| tokio::spawn(modern_client(balancer, Arc::clone(&ends)))).collect();
    let legacy: Vec<_> =
        (0..3).map(|_| tokio::spawn(legacy_client(balancer, Arc::clone(&ends)))).collect();
    for mut old in std::mem::take(&mut gates) {
        let new = Gate::start(config.clone()).await;
        known.lock().unwrap().push(new.address);
        gates.push(new);
        old.terminate();
        assert_eq!(old.ended().await, Some(0));
        known.lock().unwrap().retain(|address| *address != old.address);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    ends.store(true, Ordering::Relaxed);
    let mut calls = 0;
    for client in modern {
        calls += client.await.unwrap();
    }
    let mut within = 0;
    let mut repeated = 0;
    for client in legacy {
        let (calls, retries) = client.await.unwrap();
        assert!(retries <= 1, "{retries} retries");
        within += calls;
        repeated += retries;
    }
    eprintln!("all replaced: {calls} modern calls, {within} legacy ones, {repeated} repeated");
    assert!(calls > 30 && within > 30, "{calls} {within}");
}
