//! Two gateways on one PostgreSQL: an organisation's changes at one apply at both, calls continue,
//! and no data is lost when the database or a gateway fails.

#[path = "../../gateway/store/tests/postgres.rs"]
mod postgres;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use postgres::Postgres;

use crate::principals::{By, key};
use crate::rig::client::Request;
use crate::rig::upstream::modern;
use crate::rig::{Answer, Gate, Upstream, Value, json, signal, until};
use crate::tls::{authority, write_server};

/// Limit on the time until a change applies everywhere.
const APPLY_TIMEOUT: Duration = Duration::from_secs(2);

async fn start(database: &Postgres, keys: Option<&Gate>) -> Gate {
    let keys = match keys {
        None => "keys.yaml".to_owned(),
        Some(gate) => gate.folder.path().join("keys.yaml").display().to_string(),
    };
    Gate::start(json!({
        "auth": {"keys_file": keys},
        "egress": {"organisations": "local"},
        "store": {"url": database.url(), "keys": ["a-key-of-the-ring-that-is-long-enough"]},
    }))
    .await
}

async fn ask(gate: &Gate, by: &str, verb: &'static str, path: &str, body: Value) -> Answer {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    Request::bare(verb, &format!("/api{path}"), text).by(by).send(gate.address).await
}

async fn create(gate: &Gate, by: &str, name: &str, server: &Upstream) -> String {
    let url = format!("http://{}/mcp", server.address);
    let body = json!({"name": name, "serverUrl": url, "authMethod": "none"});
    let made = ask(gate, by, "POST", "/mcp-integrations/custom", body).await;
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()["id"].as_str().unwrap().to_owned()
}

/// Returns the tools visible to a caller; empty if no server has tools.
async fn list(gate: &Gate, by: &str) -> Vec<String> {
    let request = Request::modern("/mcp", "tools/list", json!({})).by(by);
    let answer = request.send(gate.address).await;
    if answer.status == 404 {
        return Vec::new();
    }
    let result = answer.result();
    let tools = result["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Waits until a tool is present or absent at all gateways; returns the time taken.
async fn agree(gates: &[&Gate], by: &str, tool: &str, is_there: bool) -> Duration {
    let began = Instant::now();
    for gate in gates {
        until(&format!("{tool} there: {is_there}"), async || {
            let tools = list(gate, by).await;
            (tools.iter().any(|name| name == tool) == is_there).then_some(())
        })
        .await;
    }
    began.elapsed()
}

/// Calls a tool repeatedly; returns the number of calls, and panics on a failed call.
async fn call_on(address: std::net::SocketAddr, by: String, ends: Arc<AtomicBool>) -> usize {
    let mut calls = 0;
    while !ends.load(Ordering::Relaxed) {
        let call = json!({"name": "steady__t", "arguments": {}});
        let answer = Request::modern("/mcp", "tools/call", call).by(&by).send(address).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.json()["result"]["content"].is_array(), "{}", answer.text());
        calls += 1;
    }
    calls
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changes_at_one_gateway_is_in_force_at_both_while_calls_go_on() {
    let Some(database) = Postgres::start() else { return };
    let server = Upstream::http(modern(&["t"])).await;
    let one = start(&database, None).await;
    let by = key(&one, "admin", &["--role", "admin", "--organisation", "acme"]).await;
    let two = start(&database, Some(&one)).await;
    let gates = [&one, &two];
    create(&one, &by, "Steady", &server).await;
    agree(&gates, &by, "steady__t", true).await;

    let ends = Arc::new(AtomicBool::new(false));
    let mut callers = Vec::new();
    for gate in [&one, &one, &two, &two] {
        callers.push(tokio::spawn(call_on(gate.address, by.clone(), Arc::clone(&ends))));
    }
    let slowest = AtomicUsize::new(0);
    for round in 0..8 {
        let (here, there) = if round % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let name = format!("Server {round}");
        let tool = format!("server-{round}__t");
        let id = create(here, &by, &name, &server).await;
        let path = format!("/mcp-integrations/{id}");
        let mut took = vec![agree(&gates, &by, &tool, true).await];
        let disabled = ask(there, &by, "POST", &format!("{path}/disable"), Value::Null).await;
        assert_eq!(disabled.status, 200, "{}", disabled.text());
        took.push(agree(&gates, &by, &tool, false).await);
        let enabled = ask(here, &by, "POST", &format!("{path}/enable"), Value::Null).await;
        assert_eq!(enabled.status, 200, "{}", enabled.text());
        took.push(agree(&gates, &by, &tool, true).await);
        assert_eq!(ask(there, &by, "DELETE", &path, Value::Null).await.status, 204);
        took.push(agree(&gates, &by, &tool, false).await);
        let longest = took.into_iter().max().unwrap();
        assert!(longest < APPLY_TIMEOUT, "{longest:?}");
        slowest.fetch_max(usize::try_from(longest.as_millis()).unwrap(), Ordering::Relaxed);
    }
    ends.store(true, Ordering::Relaxed);
    let mut calls = 0;
    for caller in callers {
        calls += caller.await.unwrap();
    }
    assert!(calls > 100, "{calls}");
    eprintln!("{calls} calls, none failed; slowest change {slowest:?} ms");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_known_goes_on_without_the_database_and_outlives_a_gateway() {
    let Some(mut database) = Postgres::start() else { return };
    let server = Upstream::http(modern(&["t"])).await;
    let one = start(&database, None).await;
    let by = key(&one, "admin", &["--role", "admin", "--organisation", "acme"]).await;
    let mut two = start(&database, Some(&one)).await;
    let id = create(&one, &by, "Steady", &server).await;
    agree(&[&one, &two], &by, "steady__t", true).await;

    database.stop();
    let path = format!("/mcp-integrations/{id}");
    for gate in [&one, &two] {
        let refused = ask(gate, &by, "POST", &format!("{path}/disable"), Value::Null).await;
        let said = refused.json();
        assert_eq!((refused.status, &said["code"]), (503, &json!("STORE_UNAVAILABLE")), "{said}");
        let ready = Request::bare("GET", "/readyz", "").send(gate.address).await;
        assert_eq!((ready.status, &ready.json()["store"]), (200, &json!("unavailable")));
        let call = json!({"name": "steady__t", "arguments": {}});
        let call = Request::modern("/mcp", "tools/call", call).by(&by).send(gate.address).await;
        assert!(call.result()["content"].is_array());
        let shown = ask(gate, &by, "GET", &path, Value::Null).await;
        assert_eq!((shown.status, &shown.json()["enabled"]), (200, &json!(true)));
    }
    database.run();
    until("the store is back", async || {
        let ready = Request::bare("GET", "/readyz", "").send(two.address).await;
        (ready.json()["store"] == "ok").then_some(())
    })
    .await;
    // One gateway is killed and replaced.
    signal(two.pid(), rustix::process::Signal::KILL);
    two.ended().await;
    let other = start(&database, Some(&one)).await;
    agree(&[&one, &other], &by, "steady__t", true).await;
    until("changes are taken again", async || {
        let disabled = ask(&one, &by, "POST", &format!("{path}/disable"), Value::Null).await;
        (disabled.status == 200).then_some(())
    })
    .await;
    let took = agree(&[&one, &other], &by, "steady__t", false).await;
    assert!(took < APPLY_TIMEOUT, "{took:?}");
}

/// An impostor of the database gets no password or query: the certificate must be of the configured
/// authority and for the URL's host.
#[tokio::test]
async fn a_database_has_to_show_the_certificate_of_its_host() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, others) = (authority("ours"), authority("others"));
    write_server(folder.path(), &ours);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let Some(database) = Postgres::start_with_tls(&read("cert.pem"), &read("key.pem")) else {
        return;
    };
    std::fs::write(folder.path().join("ours.pem"), ours.pem()).unwrap();
    std::fs::write(folder.path().join("others.pem"), others.pem()).unwrap();
    for (host, root, is_taken) in [
        ("localhost", "ours.pem", true),
        ("localhost", "others.pem", false),
        // The certificate is for `localhost`.
        ("127.0.0.1", "ours.pem", false),
    ] {
        let place = format!("{host}:{}/postgres", database.port());
        let root = folder.path().join(root);
        let root = root.display();
        let url =
            format!("postgres://postgres:secret@{place}?sslmode=verify-full&sslrootcert={root}");
        let gate = Gate::launch(json!({"store": {"url": url}})).await;
        let body = json!({"name": "A"}).to_string();
        let made = Request::bare("POST", "/api/agents", body).send(gate.address).await;
        let words = made.text();
        if is_taken {
            assert_eq!(made.status, 201, "{host} {root}: {words}");
            continue;
        }
        assert_eq!((made.status, &made.json()["code"]), (503, &json!("STORE_UNAVAILABLE")));
        assert!(!words.contains("secret") && !words.contains(host), "{words}");
        let log = gate.log();
        assert!(log.contains("TLS: "), "{host} {root}: {log}");
        assert!(!log.contains("postgres:secret"), "{log}");
    }
}
