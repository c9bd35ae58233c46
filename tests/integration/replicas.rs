//! Two gateways on one PostgreSQL: an organisation's changes at one apply at both, calls continue,
//! and no data is lost when the database or a gateway fails.

#[path = "../../gateway/store/tests/postgres.rs"]
pub(crate) mod postgres;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use postgres::Postgres;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::principals::{By, key};
use crate::rig::client::Request;
use crate::rig::gate::command;
use crate::rig::upstream::modern;
use crate::rig::{Answer, Gate, Upstream, Value, json, signal, until};
use crate::tls::{authority, write_server};

/// Limit on the time until a change applies everywhere.
const APPLY_TIMEOUT: Duration = Duration::from_secs(2);

async fn start(database: &Postgres, keys: Option<&Gate>) -> Gate {
    start_at(&database.url(), keys).await
}

async fn start_at(url: &str, keys: Option<&Gate>) -> Gate {
    let keys = match keys {
        None => "keys.yaml".to_owned(),
        Some(gate) => gate.folder.path().join("keys.yaml").display().to_string(),
    };
    Gate::start(json!({
        "auth": {"keys_file": keys},
        "egress": {"organisations": "local"},
        "store": {"url": url, "keys": ["a-key-of-the-ring-that-is-long-enough"]},
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

/// A proxy to a database that can hang: it accepts connections but forwards nothing.
struct Hanging {
    port: u16,
    is_hung: watch::Sender<bool>,
}

impl Hanging {
    async fn start(database: &Postgres) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (is_hung, hung) = watch::channel(false);
        let to = database.port();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(pass_on(from_client, to_server, hung.clone()));
                tokio::spawn(pass_on(from_server, to_client, hung.clone()));
            }
        });
        Self { port, is_hung }
    }

    fn url(&self) -> String {
        format!("postgres://postgres:secret@127.0.0.1:{}/postgres", self.port)
    }
}

/// Forwards bytes, or holds them back while the proxy hangs.
async fn pass_on(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut hung: watch::Receiver<bool>) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        let _ = hung.wait_for(|is_hung| !is_hung).await;
        if to.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
}

/// With a database that accepts connections but hangs, changes are refused within three seconds,
/// with the reason, however many wait. Every gateway logs it, even without changes. Calls continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_hangs_is_noticed_everywhere_and_refuses_changes_in_time() {
    let Some(database) = Postgres::start() else { return };
    let way = Hanging::start(&database).await;
    let server = Upstream::http(modern(&["t"])).await;
    let one = start_at(&way.url(), None).await;
    let by = key(&one, "admin", &["--role", "admin", "--organisation", "acme"]).await;
    let two = start_at(&way.url(), Some(&one)).await;
    let id = create(&one, &by, "Steady", &server).await;
    agree(&[&one, &two], &by, "steady__t", true).await;

    way.is_hung.send_replace(true);
    let began = Instant::now();
    let path = format!("/mcp-integrations/{id}/disable");
    let unknown = format!("/mcp-integrations/int_{}/disable", "0".repeat(32));
    let change = async |path: &str| {
        let refused = ask(&one, &by, "POST", path, Value::Null).await;
        let said = refused.json();
        assert_eq!((refused.status, &said["code"]), (503, &json!("STORE_UNAVAILABLE")), "{said}");
        assert!(said.to_string().contains("store cannot be reached"), "{said}");
        began.elapsed()
    };
    let url = format!("http://{}", one.address);
    let mut command = command();
    command.args(["integrations", "disable", &id, "--url", &url]);
    command.env("LOCKGATE_CLIENT_KEY", &by).current_dir(one.folder.path());
    let command = tokio::task::spawn_blocking(move || command.output().unwrap());
    let (a, b, c, d) = tokio::join!(change(&path), change(&path), change(&unknown), change(&path));
    let slowest = a.max(b).max(c).max(d);
    assert!(slowest < Duration::from_millis(4_500), "{slowest:?}");
    let output = command.await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("store cannot be reached"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    let words = "the store cannot be";
    until("both say so", async || {
        [&one, &two].iter().all(|gate| gate.log().contains(words)).then_some(())
    })
    .await;
    let noticed = began.elapsed();
    assert!(noticed < Duration::from_secs(7), "{noticed:?}");
    for gate in [&one, &two] {
        let log = gate.log();
        assert!(log.contains("it does not answer"), "{log}");
        assert_eq!(log.matches(words).count(), 1, "once: {log}");
        let call = json!({"name": "steady__t", "arguments": {}});
        let call = Request::modern("/mcp", "tools/call", call).by(&by).send(gate.address).await;
        assert!(call.result()["content"].is_array());
    }
    eprintln!("refused after {slowest:?}, in both logs after {noticed:?}");
    way.is_hung.send_replace(false);
    until("changes are taken again", async || {
        (ask(&one, &by, "POST", &path, Value::Null).await.status == 200).then_some(())
    })
    .await;
    agree(&[&one, &two], &by, "steady__t", false).await;
    for gate in [&one, &two] {
        until("it says so", async || gate.log().contains("can be read again").then_some(())).await;
    }
}

const FIRST: &str = "5b0f8c1e9ad34672f1ac0e5b79436281";
const SECOND: &str = "c4d1e09b7f26a8535d0e9c1b6a7f4328";

/// Launches a gateway on this store with these secrets.
async fn with_secrets(place: &Value, secret: &str, old: &[&str]) -> Gate {
    Gate::launch(json!({"store": place, "secret": secret, "old_secrets": old})).await
}

async fn readiness(gate: &Gate) -> (u16, Value) {
    until("it has settled", async || {
        let ready = Request::bare("GET", "/readyz", "").send(gate.address).await;
        let shown = ready.json();
        (shown["state"] != "initializing").then_some((ready.status, shown))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_with_another_secret_is_not_ready_until_the_others_are_gone() {
    let Some(database) = Postgres::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shared.db");
    for place in [json!({"url": database.url()}), json!({"file": file})] {
        // The first change creates the SQLite file.
        let maker = Gate::start(json!({"store": place})).await;
        let made = Request::bare("POST", "/api/agents", json!({"name": "A"}).to_string());
        assert_eq!(made.send(maker.address).await.status, 201);
        let mut first = with_secrets(&place, FIRST, &[]).await;
        first.ready().await;
        let same = with_secrets(&place, FIRST, &[]).await;
        assert_eq!(readiness(&same).await.0, 200);
        let other = with_secrets(&place, SECOND, &[]).await;
        let (status, shown) = readiness(&other).await;
        assert_eq!((status, &shown["state"]), (503, &json!("other_secret")), "{shown}");
        assert!(shown["reason"].as_str().unwrap().contains("`old_secrets`"), "{shown}");
        let log = other.log();
        assert!(log.contains("ERROR") && log.contains("not ready: another gateway"), "{log}");
        // The earlier gateways stay ready and report the new one.
        until("the first one notices", async || {
            first.log().contains("a gateway that was started later").then_some(())
        })
        .await;
        for gate in [&first, &same] {
            assert_eq!(readiness(gate).await.0, 200);
        }
        first.terminate();
        first.ended().await;
        assert_eq!(readiness(&other).await.0, 503, "one of them is left");
        same.terminate();
        until("it is ready", async || (readiness(&other).await.0 == 200).then_some(())).await;
        for gate in [&first, &same, &other] {
            for secret in [FIRST, SECOND] {
                assert!(!gate.log().contains(secret));
            }
        }
    }
}

/// The steps of docs/kubernetes.md: the new secret first in `old_secrets` of all gateways, then in
/// `secret`, then without the old one. Every gateway stays ready.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_is_changed_in_steps_and_every_gateway_stays_ready() {
    let Some(database) = Postgres::start() else { return };
    let place = json!({"url": database.url()});
    let mut running: Vec<Gate> = Vec::new();
    let steps: [(&str, &[&str]); 4] =
        [(FIRST, &[]), (FIRST, &[SECOND]), (SECOND, &[FIRST]), (SECOND, &[])];
    for (secret, old) in steps {
        // One gateway at a time, as in a rollout.
        for at in 0..2 {
            let new = with_secrets(&place, secret, old).await;
            new.ready().await;
            running.push(new);
            if running.len() > 2 {
                let mut gone = running.remove(0);
                gone.terminate();
                gone.ended().await;
            }
            for gate in &running {
                assert_eq!(readiness(gate).await.0, 200, "{at}: {}", gate.log());
                assert!(!gate.log().contains("`secret` that this one"), "{}", gate.log());
            }
        }
    }
}
