//! Forwarding of the audit trail to syslog receivers and a webhook: complete and in order after
//! outages and hangs of the receiver and after a kill of the gateway.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair};
use rustix::process::Signal;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::rig::client::Request;
use crate::rig::gate::command;
use crate::rig::upstream::modern;
use crate::rig::{Gate, HeardMessage, Say, Upstream, Value, json, signal};
use crate::tls::{Authority, authority, write_server};

/// Limit on each wait; retry delays grow to 10 s.
const WAIT_TIMEOUT: Duration = Duration::from_secs(90);

const POLICIES: &str = "policies:
  - { name: most, effect: allow, what: { tools: ['a/*'] } }
  - { name: not-that, effect: deny, what: { tools: ['a/u'] } }
";

/// The data received over syslog.
#[derive(Default)]
struct Taken {
    /// Messages in order, each with its syslog header.
    messages: Vec<String>,
    connections: usize,
}

/// The receiver's treatment of connections.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Takes,
    /// Reads, and ends TLS with `close_notify`.
    SaysGoodbye,
    /// An intermediary that discards the data and then closes the connection.
    Swallows,
    NeverReads,
}

/// A syslog receiver that can stop and resume.
struct Receiver {
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    taken: Arc<Mutex<Taken>>,
    task: Option<JoinHandle<()>>,
}

impl Receiver {
    async fn start(tls: Option<TlsAcceptor>, manner: Manner) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut receiver = Self { address, tls, taken: Arc::default(), task: None };
        receiver.resume(manner).await;
        receiver
    }

    async fn resume(&mut self, manner: Manner) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.address = listener.local_addr().unwrap();
        let (tls, taken) = (self.tls.clone(), Arc::clone(&self.taken));
        self.task = Some(tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                taken.lock().unwrap().connections += 1;
                connections.spawn(take(socket, tls.clone(), Arc::clone(&taken), manner));
            }
        }));
    }

    /// Stops immediately and breaks all connections.
    async fn stop(&mut self) {
        let task = self.task.take().unwrap();
        task.abort();
        let _ = task.await;
    }

    fn messages(&self) -> Vec<String> {
        self.taken.lock().unwrap().messages.clone()
    }

    /// Returns the records, including duplicates.
    fn records(&self) -> Vec<String> {
        let record = |message: &String| message[message.find('{').unwrap()..].to_owned();
        self.messages().iter().map(record).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

async fn take(
    socket: TcpStream,
    tls: Option<TlsAcceptor>,
    taken: Arc<Mutex<Taken>>,
    manner: Manner,
) {
    if manner == Manner::NeverReads {
        return std::future::pending().await;
    }
    match tls {
        None => take_messages(socket, &taken).await,
        Some(tls) => {
            let Ok(mut socket) = tls.accept(socket).await else { return };
            let nobody = Mutex::default();
            let taken = if manner == Manner::Swallows { &nobody } else { &*taken };
            take_messages(&mut socket, taken).await;
            if manner == Manner::SaysGoodbye {
                let _ = socket.shutdown().await;
            }
        }
    }
}

/// Reads length-prefixed messages to the end.
async fn take_messages(mut socket: impl AsyncRead + Unpin, taken: &Mutex<Taken>) {
    let mut bytes = Vec::new();
    while let Ok(1..) = socket.read_buf(&mut bytes).await {
        while let Some(space) = bytes.iter().position(|byte| *byte == b' ') {
            let length: usize = std::str::from_utf8(&bytes[..space]).unwrap().parse().unwrap();
            let end = space + 1 + length;
            if bytes.len() < end {
                break;
            }
            let message = String::from_utf8(bytes[space + 1..end].to_vec()).unwrap();
            taken.lock().unwrap().messages.push(message);
            bytes.drain(..end);
        }
    }
}

/// A gateway with a trail in a folder that outlives the process.
struct Rig {
    folder: TempDir,
    config: Value,
    gate: Gate,
    _server: Upstream,
}

impl Rig {
    /// Starts a gateway with further settings of `audit`, and other settings.
    async fn start(audit: Value, more: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("policies.yaml"), POLICIES).unwrap();
        let server = Upstream::http(modern(&["t", "u"])).await;
        let mut config = json!({
            "servers": {"a": server.config()},
            "policy": {"files": [folder.path().join("policies.yaml")]},
            "audit": {"file": folder.path().join("audit.jsonl")},
        });
        for (key, value) in audit.as_object().unwrap() {
            config["audit"][key] = value.clone();
        }
        for (key, value) in more.as_object().unwrap() {
            config[key] = value.clone();
        }
        let gate = Gate::start(config.clone()).await;
        Self { folder, config, gate, _server: server }
    }

    async fn syslog(receiver: &Receiver, audit: Value) -> Self {
        let mut audit = audit;
        audit["syslog"] = json!({"address": format!("tcp://{}", receiver.address)});
        Self::start(audit, json!({})).await
    }

    fn trail(&self) -> PathBuf {
        self.folder.path().join("audit.jsonl")
    }

    /// Makes this many calls, four at a time.
    async fn call(&self, count: usize) {
        let address = self.gate.address;
        let mut callers = JoinSet::new();
        for _ in 0..4 {
            callers.spawn(async move {
                for _ in 0..count.div_ceil(4) {
                    let params = json!({"name": "a__t", "arguments": {}});
                    let answer = Request::modern("/mcp", "tools/call", params).send(address).await;
                    assert_eq!(answer.code(), 0, "{}", answer.text());
                }
            });
        }
        callers.join_all().await;
    }

    /// Returns the rotated files.
    fn aside(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            let end = path.extension().unwrap_or_default().to_str().unwrap().to_owned();
            if end.len() == 16 && end.bytes().all(|byte| byte.is_ascii_digit()) {
                files.push(path);
            }
        }
        files.sort();
        files
    }

    /// Makes calls until this many more files are rotated.
    async fn rotate(&self, count: usize) {
        let mut seen: std::collections::BTreeSet<PathBuf> = self.aside().into_iter().collect();
        let wanted = seen.len() + count;
        eventually("files are set aside", async || {
            self.call(40).await;
            seen.extend(self.aside());
            (seen.len() >= wanted).then_some(())
        })
        .await;
    }

    /// Returns all remaining lines of the trail.
    fn lines(&self) -> Vec<String> {
        let mut files = self.aside();
        files.push(self.trail());
        let mut lines = Vec::new();
        for file in files {
            let text = std::fs::read_to_string(file).unwrap();
            lines.extend(text.lines().map(str::to_owned));
        }
        lines
    }

    /// Ends the gateway, which first sends the remaining records.
    async fn end(&mut self) {
        self.gate.terminate();
        let began = Instant::now();
        assert_eq!(self.gate.ended().await, Some(0));
        assert!(began.elapsed() < Duration::from_secs(10));
    }

    async fn kill_and_start_again(&mut self) {
        signal(self.gate.pid(), Signal::KILL);
        self.gate.ended().await;
        self.gate = Gate::start(self.config.clone()).await;
    }

    async fn metric(&self, name: &str) -> u64 {
        let answer = Request::bare("GET", "/metrics", "").send(self.gate.address).await;
        let text = answer.text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is not in\n{text}")).parse().unwrap()
    }
}

/// Polls for long enough to include the retry delays.
async fn eventually<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = check().await {
            return found;
        }
        assert!(began.elapsed() < WAIT_TIMEOUT, "waited too long: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the records by number; duplicates must be identical.
fn by_number(records: &[String]) -> BTreeMap<u64, String> {
    let mut all = BTreeMap::new();
    for record in records {
        let parsed: Value = serde_json::from_str(record).expect("a record");
        let twice = all.insert(parsed["seq"].as_u64().unwrap(), record.clone());
        assert!(twice.is_none_or(|first| first == *record), "{record}");
    }
    all
}

fn are_all_there(records: &[String], wanted: &[String]) -> bool {
    let received: Vec<String> = by_number(records).into_values().collect();
    received == wanted
}

/// Verifies the received records with `lockgate audit verify`.
fn verify(folder: &Path, records: &[String]) {
    let file = folder.join("received.jsonl");
    let lines: Vec<String> = by_number(records).into_values().collect();
    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    let done = command().args(["audit", "verify"]).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert_eq!(done.status.code(), Some(0), "{said}");
}

/// Returns the TLS acceptor of a receiver with a certificate of this authority.
fn acceptor(by: &Authority) -> TlsAcceptor {
    acceptor_for(by, None)
}

/// Returns an acceptor that requires a client certificate if `clients` is given.
fn acceptor_for(by: &Authority, clients: Option<&Authority>) -> TlsAcceptor {
    let key = KeyPair::generate().unwrap();
    let made = CertificateParams::new(vec!["localhost".into()]).unwrap().signed_by(&key, by);
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = match clients {
        None => WebPkiClientVerifier::no_client_auth(),
        Some(clients) => {
            let mut roots = RootCertStore::empty();
            roots.add(clients.der().clone()).unwrap();
            let roots = Arc::new(roots);
            let builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider));
            builder.build().unwrap()
        }
    };
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![made.unwrap().der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

#[tokio::test]
async fn every_record_arrives_once_over_tls_and_verifies() {
    let by = authority("logs");
    let receiver = Receiver::start(Some(acceptor(&by)), Manner::Takes).await;
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, by.pem()).unwrap();
    let address = format!("tls://localhost:{}", receiver.address.port());
    let audit = json!({"syslog": {"address": address, "facility": "local3"}});
    let mut rig = Rig::start(audit, json!({"egress": {"ca_file": ca}})).await;
    rig.call(100).await;
    rig.gate.call("a__u").await;
    eventually("they are counted", async || {
        let taken = rig.metric("lockgate_audit_forwarded_total{to=\"syslog\"}").await;
        (taken > 0).then_some(())
    })
    .await;
    assert_eq!(rig.metric("lockgate_audit_forward_lost_total{to=\"syslog\"}").await, 0);
    assert_eq!(rig.metric("lockgate_audit_forward_failing{to=\"syslog\"}").await, 0);
    rig.end().await;
    // Including the last record, `close`, and without duplicates.
    assert_eq!(receiver.records(), rig.lines());
    verify(folder.path(), &receiver.records());
    let messages = receiver.messages();
    // 19 * 8, and 4 for a warning.
    let denied: Vec<&String> =
        messages.iter().filter(|text| text.starts_with("<156>1 20")).collect();
    assert!(denied.len() == 1 && denied[0].contains(" lockgate "), "{denied:?}");
    assert!(denied[0].contains(" decision - {\"seq\":"), "{denied:?}");
    let allowed = messages.iter().filter(|text| text.starts_with("<158>1 20")).count();
    assert!(allowed >= 200, "{allowed}");
}

/// Receivers that require a client certificate: first none is sent, then a certificate of another
/// authority, and then a valid certificate from the same files, without a restart.
#[tokio::test]
async fn receivers_that_ask_for_a_client_certificate_are_shown_it() {
    let by = authority("logs");
    let clients = authority("clients");
    let tls = acceptor_for(&by, Some(&clients));
    let syslog = Receiver::start(Some(tls.clone()), Manner::SaysGoodbye).await;
    let webhook = Upstream::http(|_| Say::Status(204, Vec::new(), Value::Null)).await;
    let (port, _front) = put_tls_before(webhook.address, tls).await;
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, by.pem()).unwrap();
    write_server(folder.path(), &by);
    let mut audit = json!({
        "syslog": {"address": format!("tls://localhost:{}", syslog.address.port())},
        "webhook": webhook_of(&webhook),
    });
    audit["webhook"]["url"] = json!(format!("https://localhost:{port}/in"));
    let more = json!({"egress": {"ca_file": ca}});
    let mut rig = Rig::start(audit.clone(), more.clone()).await;
    rig.call(20).await;
    both_fail(&rig).await;
    eventually("it is said what they want", async || {
        rig.gate.log().contains("the server requires a client certificate").then_some(())
    })
    .await;
    rig.end().await;
    assert_eq!(syslog.records().len() + webhook.heard().len(), 0);
    for receiver in ["syslog", "webhook"] {
        audit[receiver]["client_cert"] = json!(folder.path().join("cert.pem"));
        audit[receiver]["client_key"] = json!(folder.path().join("key.pem"));
        rig.config["audit"][receiver] = audit[receiver].clone();
    }
    rig.gate = Gate::start(rig.config.clone()).await;
    rig.call(20).await;
    both_fail(&rig).await;
    assert_eq!(syslog.records().len() + webhook.heard().len(), 0);
    write_server(folder.path(), &clients);
    eventually("they take everything", async || {
        let mut behind = 0;
        for to in ["syslog", "webhook"] {
            behind += rig.metric(&format!("lockgate_audit_forward_failing{{to=\"{to}\"}}")).await;
            behind += rig.metric(&format!("lockgate_audit_forward_behind{{to=\"{to}\"}}")).await;
        }
        (behind == 0).then_some(())
    })
    .await;
    assert!(rig.gate.log().contains("client certificate reloaded"));
    rig.end().await;
    assert!(are_all_there(&syslog.records(), &rig.lines()));
    assert_eq!(posted(&webhook.heard()), rig.lines());
    verify(folder.path(), &syslog.records());
}

async fn both_fail(rig: &Rig) {
    for to in ["syslog", "webhook"] {
        let failing = format!("lockgate_audit_forward_failing{{to=\"{to}\"}}");
        eventually("it is counted as failing", async || {
            (rig.metric(&failing).await == 1).then_some(())
        })
        .await;
        let taken = format!("lockgate_audit_forwarded_total{{to=\"{to}\"}}");
        assert_eq!(rig.metric(&taken).await, 0);
    }
}

/// Starts a TLS port in front of a plain address.
async fn put_tls_before(address: SocketAddr, tls: TlsAcceptor) -> (u16, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            let tls = tls.clone();
            connections.spawn(async move {
                let Ok(mut socket) = tls.accept(socket).await else { return };
                let mut behind = TcpStream::connect(address).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut socket, &mut behind).await;
            });
        }
    });
    (port, tasks)
}

/// An attacker that cuts the connection cannot send `close_notify`.
#[tokio::test]
async fn an_end_without_the_last_word_of_tls_proves_nothing_where_it_was_said_before() {
    let by = authority("logs");
    let mut receiver = Receiver::start(Some(acceptor(&by)), Manner::SaysGoodbye).await;
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, by.pem()).unwrap();
    let address = format!("tls://localhost:{}", receiver.address.port());
    let audit = json!({"syslog": {"address": address}});
    let mut rig = Rig::start(audit, json!({"egress": {"ca_file": ca}})).await;
    rig.call(20).await;
    eventually("they are counted", async || {
        let taken = rig.metric("lockgate_audit_forwarded_total{to=\"syslog\"}").await;
        (taken > 0).then_some(())
    })
    .await;
    receiver.stop().await;
    receiver.resume(Manner::Swallows).await;
    rig.call(20).await;
    eventually("it is said", async || {
        rig.gate.log().contains("without close_notify").then_some(())
    })
    .await;
    receiver.stop().await;
    receiver.resume(Manner::SaysGoodbye).await;
    eventually("it is back", async || {
        rig.gate.log().contains("the receiver accepts the audit trail again").then_some(())
    })
    .await;
    rig.end().await;
    assert!(are_all_there(&receiver.records(), &rig.lines()));
}

#[tokio::test]
async fn a_receiver_of_another_name_or_authority_gets_nothing() {
    let by = authority("logs");
    let receiver = Receiver::start(Some(acceptor(&by)), Manner::Takes).await;
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, by.pem()).unwrap();
    // A certificate for another name, and an unknown authority.
    let port = receiver.address.port();
    for (address, more) in [
        (format!("tls://127.0.0.1:{port}"), json!({"egress": {"ca_file": ca}})),
        (format!("tls://localhost:{port}"), json!({})),
    ] {
        let mut rig = Rig::start(json!({"syslog": {"address": address}}), more).await;
        eventually("it is said", async || {
            let log = rig.gate.log();
            (log.contains("the receiver does not accept the audit trail") && log.contains("TLS"))
                .then_some(())
        })
        .await;
        assert_eq!(rig.metric("lockgate_audit_forward_failing{to=\"syslog\"}").await, 1);
        assert_eq!(rig.gate.call("a__t").await.code(), 0);
        rig.end().await;
        assert_eq!(receiver.records(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn nothing_is_missing_after_a_receiver_was_away_while_files_were_set_aside() {
    let mut receiver = Receiver::start(None, Manner::Takes).await;
    let audit = json!({"rotate_size": "64KiB", "keep": 1000});
    let mut rig = Rig::syslog(&receiver, audit).await;
    rig.call(20).await;
    for _ in 0..2 {
        receiver.stop().await;
        rig.rotate(3).await;
        eventually("it is said", async || {
            let failing = rig.metric("lockgate_audit_forward_failing{to=\"syslog\"}").await;
            (failing == 1).then_some(())
        })
        .await;
        assert!(rig.metric("lockgate_audit_forward_behind{to=\"syslog\"}").await > 100);
        receiver.resume(Manner::Takes).await;
        rig.call(20).await;
        eventually("it is back", async || {
            let behind = rig.metric("lockgate_audit_forward_behind{to=\"syslog\"}").await;
            let failing = rig.metric("lockgate_audit_forward_failing{to=\"syslog\"}").await;
            ((behind, failing) == (0, 0)).then_some(())
        })
        .await;
    }
    rig.end().await;
    assert!(are_all_there(&receiver.records(), &rig.lines()));
    verify(rig.folder.path(), &receiver.records());
    // Other files beside the trail are not part of it.
    let mut files = rig.aside();
    for end in ["", ".head", ".lock", ".syslog.cursor"] {
        files.push(rig.folder.path().join(format!("audit.jsonl{end}")));
    }
    let done = command().args(["audit", "verify"]).args(files).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stdout));
    let log = rig.gate.log();
    assert!(log.contains("the receiver does not accept the audit trail"), "{log}");
    assert!(log.contains("the receiver accepts the audit trail again"), "{log}");
}

#[tokio::test]
async fn nothing_is_missing_after_the_gateway_was_killed() {
    let mut receiver = Receiver::start(None, Manner::Takes).await;
    let mut rig = Rig::syslog(&receiver, json!({"rotate_size": "64KiB", "keep": 1000})).await;
    rig.call(100).await;
    // Some records were sent without confirmation, others not yet.
    rig.kill_and_start_again().await;
    rig.call(50).await;
    receiver.stop().await;
    rig.rotate(1).await;
    rig.kill_and_start_again().await;
    rig.call(50).await;
    receiver.resume(Manner::Takes).await;
    eventually("all is sent", async || {
        let behind = rig.metric("lockgate_audit_forward_behind{to=\"syslog\"}").await;
        (behind == 0).then_some(())
    })
    .await;
    rig.end().await;
    assert!(are_all_there(&receiver.records(), &rig.lines()));
    verify(rig.folder.path(), &receiver.records());
}

#[tokio::test]
async fn a_receiver_that_never_reads_holds_up_nobody_and_loses_nothing() {
    let mut receiver = Receiver::start(None, Manner::NeverReads).await;
    let mut rig = Rig::syslog(&receiver, json!({})).await;
    let began = Instant::now();
    rig.call(200).await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    eventually("it is said", async || {
        rig.gate.log().contains("did not close its side of the connection").then_some(())
    })
    .await;
    rig.end().await;
    assert!(rig.gate.log().contains("are sent after the next start"), "{}", rig.gate.log());
    receiver.stop().await;
    receiver.resume(Manner::Takes).await;
    rig.gate = Gate::start(rig.config.clone()).await;
    rig.end().await;
    assert!(are_all_there(&receiver.records(), &rig.lines()));
}

#[tokio::test]
async fn what_rotation_removed_before_it_was_sent_is_counted_and_said() {
    let mut receiver = Receiver::start(None, Manner::Takes).await;
    let mut rig = Rig::syslog(&receiver, json!({"rotate_size": "64KiB", "keep": 1})).await;
    receiver.stop().await;
    rig.rotate(4).await;
    receiver.resume(Manner::Takes).await;
    let lost = eventually("it is counted", async || {
        let lost = rig.metric("lockgate_audit_forward_lost_total{to=\"syslog\"}").await;
        (lost > 0).then_some(lost)
    })
    .await;
    rig.end().await;
    assert!(rig.gate.log().contains("were removed before they could be sent"));
    let received = by_number(&receiver.records());
    let last = *received.keys().last().unwrap();
    assert_eq!(received.len() as u64 + lost, last, "each record was sent or counted");
}

/// A new receiver gets only new records.
#[tokio::test]
async fn forwarding_begins_with_the_start_that_turns_it_on() {
    let receiver = Receiver::start(None, Manner::Takes).await;
    let mut rig = Rig::start(json!({}), json!({})).await;
    rig.call(10).await;
    rig.end().await;
    let old = rig.lines();
    rig.config["audit"]["syslog"] = json!({"address": format!("tcp://{}", receiver.address)});
    rig.gate = Gate::start(rig.config.clone()).await;
    rig.call(10).await;
    rig.end().await;
    assert_eq!(receiver.records(), rig.lines()[old.len()..]);
}

const SECRET: &[u8] = b"0f1e2d3c4b5a69788796a5b4c3d2e1f0";

fn webhook_of(receiver: &Upstream) -> Value {
    let url = format!("http://{}/in/with-a-secret-path", receiver.address);
    json!({"url": url, "secret": format!("whsec_{}", STANDARD.encode(SECRET))})
}

/// Returns the records in the bodies of these requests.
fn posted(heard: &[HeardMessage]) -> Vec<String> {
    heard.iter().flat_map(|heard| heard.text.lines().map(str::to_owned)).collect()
}

fn is_signed(heard: &HeardMessage) -> bool {
    let [id, time] = ["webhook-id", "webhook-timestamp"].map(|name| heard.header(name).unwrap());
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET);
    let signed = format!("{id}.{time}.{}", heard.text);
    let wanted = format!("v1,{}", STANDARD.encode(hmac::sign(&key, signed.as_bytes())));
    heard.header("webhook-signature") == Some(&*wanted)
}

#[tokio::test]
async fn a_webhook_gets_every_record_signed_and_once() {
    let receiver = Upstream::http(|_| Say::Status(204, Vec::new(), Value::Null)).await;
    let mut webhook = webhook_of(&receiver);
    webhook["headers"] = json!({"Authorization": "Splunk a-token-of-theirs", "X-Team": "a"});
    let mut rig = Rig::start(json!({"webhook": webhook}), json!({})).await;
    rig.call(100).await;
    rig.end().await;
    let heard = receiver.heard();
    assert_eq!(posted(&heard), rig.lines());
    verify(rig.folder.path(), &posted(&heard));
    for request in &heard {
        assert!(is_signed(request), "{request:?}");
        assert_eq!(request.header("content-type"), Some("application/x-ndjson"));
        assert_eq!(request.header("authorization"), Some("Splunk a-token-of-theirs"));
        assert_eq!(request.header("x-team"), Some("a"));
    }
    let shown = command()
        .args(["config", "show", "--config"])
        .arg(rig.gate.folder.path().join("lockgate.json"))
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("audit.webhook.secret"), "{shown}");
    assert!(shown.contains("audit.webhook.headers.Authorization"), "{shown}");
    for text in [shown, rig.gate.log()] {
        for secret in ["whsec_", "with-a-secret-path", "of-theirs"] {
            assert!(!text.contains(secret), "{secret} is in {text}");
        }
    }
}

/// Each kind of rejection, then success.
#[tokio::test]
async fn a_webhook_that_refuses_is_asked_again_and_gets_the_same() {
    let times = Arc::<Mutex<Vec<Instant>>>::default();
    let seen = Arc::clone(&times);
    let receiver = Upstream::http(move |_| {
        let mut seen = seen.lock().unwrap();
        seen.push(Instant::now());
        match seen.len() {
            1 => Say::Status(503, Vec::new(), Value::Null),
            2 => Say::Status(429, vec![("Retry-After", "2".into())], Value::Null),
            3 => Say::Close,
            4 => Say::Status(302, vec![("Location", "/elsewhere".into())], Value::Null),
            _ => Say::Status(200, Vec::new(), json!({})),
        }
    })
    .await;
    let mut rig = Rig::start(json!({"webhook": webhook_of(&receiver)}), json!({})).await;
    eventually("it is said", async || rig.gate.log().contains("302 Found").then_some(())).await;
    // The retry after a 302 is delayed; the gateway's end triggers it.
    rig.end().await;
    let heard = receiver.heard();
    for again in &heard[1..5] {
        assert_eq!(again.header("webhook-id"), heard[0].header("webhook-id"));
        assert_eq!(again.text, heard[0].text);
    }
    let times = times.lock().unwrap();
    assert!(times[2] - times[1] > Duration::from_millis(1900), "as it has asked for");
    let log = rig.gate.log();
    for words in ["503 Service Unavailable", "429 Too Many Requests", "302 Found: fix the receiver"]
    {
        assert!(log.contains(words), "{words} is not in {log}");
    }
    assert_eq!(posted(&heard[4..]), rig.lines());
}

#[tokio::test]
async fn a_webhook_that_was_away_misses_nothing_over_rotation_and_kills() {
    let mut receiver = Upstream::http(|_| Say::Status(204, Vec::new(), Value::Null)).await;
    let audit = json!({"webhook": webhook_of(&receiver), "rotate_size": "64KiB", "keep": 1000});
    let mut rig = Rig::start(audit, json!({})).await;
    rig.call(50).await;
    receiver.stop().await;
    rig.rotate(2).await;
    rig.kill_and_start_again().await;
    rig.call(20).await;
    receiver.restart().await;
    eventually("all is sent", async || {
        let behind = rig.metric("lockgate_audit_forward_behind{to=\"webhook\"}").await;
        (behind == 0).then_some(())
    })
    .await;
    rig.kill_and_start_again().await;
    rig.call(20).await;
    rig.end().await;
    let received = posted(&receiver.heard());
    assert!(are_all_there(&received, &rig.lines()));
    verify(rig.folder.path(), &received);
}

#[tokio::test]
async fn a_webhook_that_never_answers_holds_up_nobody() {
    let receiver = Upstream::http(|_| Say::Nothing).await;
    let mut rig = Rig::start(json!({"webhook": webhook_of(&receiver)}), json!({})).await;
    let began = Instant::now();
    rig.call(200).await;
    assert!(began.elapsed() < Duration::from_secs(20));
    eventually("it is said", async || rig.gate.log().contains("no response in time").then_some(()))
        .await;
    rig.end().await;
    assert!(rig.gate.log().contains("are sent after the next start"), "{}", rig.gate.log());
}
