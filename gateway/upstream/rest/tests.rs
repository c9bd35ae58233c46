//! On-demand connections, with a server in this test.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;
use std::time::UNIX_EPOCH;

use futures_util::FutureExt;
use lockgate_admission::budget::Budget;
use lockgate_admission::{Bounds, CpuPool, Pool, Pools};
use lockgate_egress::{Connector, Policy};
use lockgate_protocol::jsonrpc::{self, Message, SentBy};
use lockgate_protocol::revision::Era;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::catalog::ListKind;
use crate::organisations::{Organisations, Sizes};
use crate::{
    Answer, Call, Caller, CatalogMemory, Client, Config, EraChoice, Sessions, Surroundings,
    Transport, Upstream, UpstreamError,
};

const EVENT_TIMEOUT: Duration = Duration::from_secs(10);
const IDLE_TIMEOUT: Duration = Duration::from_millis(150);
const HERE: Policy = Policy::Organisation { private: false, loopback: true };

/// Starts a legacy server that counts its handshakes.
async fn serve() -> (url::Url, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
    let handshakes = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&handshakes);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer_all(stream, Arc::clone(&count)));
        }
    });
    (url, handshakes)
}

async fn answer_all(stream: TcpStream, handshakes: Arc<AtomicUsize>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        let mut first = String::new();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            if first.is_empty() {
                first.clone_from(&line);
            }
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let (status, text) = answer(&first, &body, &handshakes);
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            text.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
    }
}

fn answer(first: &str, body: &[u8], handshakes: &AtomicUsize) -> (&'static str, String) {
    if !first.starts_with("POST") {
        return ("405 Method Not Allowed", String::new());
    }
    let message: Value = serde_json::from_slice(body).unwrap();
    let result = match message["method"].as_str().unwrap() {
        "initialize" => {
            handshakes.fetch_add(1, Ordering::Relaxed);
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"}})
        }
        "tools/list" => json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}),
        "tools/call" => json!({"content": []}),
        _ => return ("202 Accepted", String::new()),
    };
    ("200 OK", json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string())
}

fn around() -> Surroundings {
    static CONNECTOR: OnceLock<Arc<Connector>> = OnceLock::new();
    let egress = lockgate_egress::Config {
        connect_timeout: EVENT_TIMEOUT,
        idle_connections: 1,
        idle_timeout: EVENT_TIMEOUT,
        ..lockgate_egress::Config::default()
    };
    let cpu_pool = Bounds { running: 1, waiting: 8 };
    Surroundings {
        // The system's CA certificates are loaded only once, because another test measures memory.
        connector: Arc::clone(CONNECTOR.get_or_init(|| Arc::new(Connector::new(&egress).unwrap()))),
        events: tokio::sync::broadcast::channel(64).0,
        metrics: None,
        single_client: None,
        pools: Pools { running: Pool::new(10), waiting: Pool::new(10) },
        part: None,
        budget: Arc::new(Budget::new(1 << 26)),
        cpu_pool: Arc::new(CpuPool::new(cpu_pool)),
        info: Arc::from(br#"{"name":"gate","version":"1"}"#.as_slice()),
        assertion: None,
        authorization: None,
        memory: None,
        guard: "/nowhere".into(),
    }
}

fn remembering(kept: &Arc<Kept>) -> Surroundings {
    Surroundings { memory: Some(Arc::clone(kept) as _), ..around() }
}

fn config(url: url::Url) -> Config {
    let transport = Transport::Http { url, headers: BTreeMap::new() };
    Config {
        era: EraChoice::Legacy,
        sessions: Sessions::Shared,
        rests_after: Some(IDLE_TIMEOUT),
        ..Config::of_organisation("acme".into(), "one".into(), transport, HERE)
    }
}

fn start(config: Config) -> Arc<Client> {
    let client = Client::new(config, around()).unwrap();
    client.start();
    client
}

async fn call(client: &Client) -> Result<Answer, UpstreamError> {
    let text = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "t", "arguments": {}}})
    .to_string();
    let Ok(Message::Request(request)) = jsonrpc::parse(text.into(), 64, SentBy::Client) else {
        panic!("no request")
    };
    let caller = Caller {
        id: lockgate_admission::CallerId::alone(1),
        capabilities: "{}".into(),
        interactive: false,
        assertion: None,
        log_level: None,
        session: None,
        era: Era::Modern,
    };
    client.call(Call::new("t", &request, &caller)).await
}

async fn reach(client: &Client, state: UpstreamState) {
    let wait = async {
        loop {
            let changed = client.shared.changed.notified();
            if client.status().state == state {
                return;
            }
            changed.await;
        }
    };
    tokio::time::timeout(EVENT_TIMEOUT, wait).await.unwrap();
}

#[tokio::test]
async fn a_server_is_connected_while_it_is_used_and_its_lists_stay_known() {
    let (url, handshakes) = serve().await;
    let client = start(config(url));
    assert_eq!(client.status().state, UpstreamState::Resting);
    client.touch();
    reach(&client, UpstreamState::Connected).await;
    assert_eq!((client.catalog().items(ListKind::Tools).len(), client.catalog().version), (1, 1));
    reach(&client, UpstreamState::Resting).await;
    assert_eq!(client.catalog().items(ListKind::Tools).len(), 1);
    client.touch();
    assert_eq!(client.status().state, UpstreamState::Resting, "its lists are of just now");
    assert_eq!(handshakes.load(Ordering::Relaxed), 1);

    call(&client).await.unwrap();
    assert_eq!((client.status().state, client.catalog().version), (UpstreamState::Connected, 1));
    assert_eq!(handshakes.load(Ordering::Relaxed), 2);
    assert_eq!(client.status().restarts, 0, "it was not lost");
    for _ in 0..20 {
        call(&client).await.unwrap();
        tokio::time::sleep(IDLE_TIMEOUT / 5).await;
    }
    assert_eq!(handshakes.load(Ordering::Relaxed), 2, "it stays while it is used");
    client.close().await;
}

/// Servers of an organisation with the given limits.
struct Tenancy(Surroundings);

impl Tenancy {
    fn new(sizes: Sizes) -> Self {
        let around = around();
        let all = Organisations::with_sizes(around.pools.clone(), 1 << 20, sizes);
        Self(Surroundings { part: Some(all.join()), ..around })
    }

    /// Starts a server with a long idle time.
    fn start(&self, url: url::Url) -> Arc<Client> {
        let config = Config { rests_after: Some(EVENT_TIMEOUT * 10), ..config(url) };
        let client = Client::new(config, self.0.clone()).unwrap();
        client.start();
        client
    }
}

#[tokio::test]
async fn the_idlest_server_of_an_organisation_rests_when_there_is_no_place_for_another() {
    let tenancy = Tenancy::new(Sizes { awake: 2, ..Sizes::default() });
    let mut clients = Vec::new();
    for _ in 0..3 {
        let client = tenancy.start(serve().await.0);
        client.touch();
        reach(&client, UpstreamState::Connected).await;
        clients.push(client);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    reach(&clients[0], UpstreamState::Resting).await;
    assert_eq!(clients[0].catalog().items(ListKind::Tools).len(), 1, "its lists stay known");
    assert_eq!(clients[1].status().state, UpstreamState::Connected);
    call(&clients[0]).await.unwrap();
    reach(&clients[1], UpstreamState::Resting).await;
    for client in clients {
        client.close().await;
    }
}

#[tokio::test]
async fn servers_that_do_not_answer_hold_up_no_call_of_another_one() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: url::Url = format!("http://{}/mcp", silent.local_addr().unwrap()).parse().unwrap();
    let tenancy = Tenancy::new(Sizes::default());
    let hanging: Vec<_> = (0..20).map(|_| tenancy.start(url.clone())).collect();
    for client in &hanging {
        client.touch();
        reach(client, UpstreamState::Pending).await;
    }
    let good = tenancy.start(serve().await.0);
    let called = tokio::time::timeout(EVENT_TIMEOUT / 4, call(&good)).await;
    called.expect("it waits behind those that do not answer").unwrap();
    let mut came = Vec::new();
    while let Ok(Ok(one)) = tokio::time::timeout(IDLE_TIMEOUT, silent.accept()).await {
        came.push(one);
    }
    assert!(came.len() <= 8, "{} are tried at once", came.len());
    for client in hanging.iter().chain([&good]) {
        client.close().await;
    }
}

#[tokio::test]
async fn lists_at_rest_make_room_for_those_of_others_and_come_back() {
    let (url, handshakes) = serve().await;
    let first = start(config(url.clone()));
    first.touch();
    reach(&first, UpstreamState::Connected).await;
    let lists = first.catalog().bytes() + 1;
    first.close().await;

    let tenancy = Tenancy::new(Sizes { lists, ..Sizes::default() });
    let resting = Client::new(config(url), tenancy.0.clone()).unwrap();
    resting.start();
    resting.touch();
    reach(&resting, UpstreamState::Connected).await;
    reach(&resting, UpstreamState::Resting).await;
    assert_eq!((resting.catalog().version, handshakes.load(Ordering::Relaxed)), (1, 2));
    let other = tenancy.start(serve().await.0);
    other.touch();
    reach(&other, UpstreamState::Connected).await;
    assert_eq!(
        (
            other.catalog().items(ListKind::Tools).len(),
            resting.catalog().items(ListKind::Tools).len()
        ),
        (1, 0)
    );
    other.close().await;
    drop(other);
    resting.touch();
    reach(&resting, UpstreamState::Connected).await;
    let known = resting.catalog();
    assert_eq!(
        (known.items(ListKind::Tools).len(), known.version),
        (1, 2),
        "a version that it never had"
    );
    resting.close().await;
}

#[tokio::test]
async fn a_server_that_is_not_there_rests_though_its_lists_are_asked_for() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", gone.local_addr().unwrap()).parse().unwrap();
    drop(gone);
    let client = start(config(url));
    client.touch();
    reach(&client, UpstreamState::Failed).await;
    reach(&client, UpstreamState::Resting).await;
    client.touch();
    assert_eq!(client.status().state, UpstreamState::Resting, "it was tried just now");
    tokio::time::sleep(IDLE_TIMEOUT).await;
    client.touch();
    reach(&client, UpstreamState::Failed).await;
    let rests =
        tokio::time::timeout(IDLE_TIMEOUT * 20, reach(&client, UpstreamState::Resting)).await;
    rests.expect("it is tried once for that");
    client.close().await;
}

#[tokio::test]
async fn a_server_with_a_task_rests_when_that_is_over() {
    let (url, _) = serve().await;
    let client = start(config(url));
    let mut answer = call(&client).await.unwrap();
    let text = json!({"jsonrpc": "2.0", "id": 1, "result": {"task": {"taskId": "a",
        "ttl": 8 * IDLE_TIMEOUT.as_millis() as u64}}});
    let read = jsonrpc::parse(text.to_string().into(), 64, SentBy::Server);
    let Ok(Message::Response(response)) = read else { panic!("no response") };
    (answer.text, answer.outcome) = (response.text, response.outcome);
    client.shared.record_task(&answer);
    let began = std::time::Instant::now();
    reach(&client, UpstreamState::Resting).await;
    assert!(began.elapsed() >= 8 * IDLE_TIMEOUT - IDLE_TIMEOUT / 2, "{:?}", began.elapsed());
    client.close().await;
}

/// Storage that outlives a client.
#[derive(Default)]
struct Kept(parking_lot::Mutex<Option<Vec<u8>>>, AtomicUsize);

impl CatalogMemory for Kept {
    fn load(&self) -> crate::BoxFuture<'_, Option<Catalog>> {
        let kept = self.0.lock().clone();
        let catalog = kept.and_then(|kept| Catalog::decode(kept.into(), UNIX_EPOCH));
        Box::pin(std::future::ready(catalog))
    }

    fn keep(&self, catalog: &Catalog) {
        *self.0.lock() = Some(catalog.encode());
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn lists_of_an_earlier_process_are_there_until_the_server_is() {
    let kept = Arc::new(Kept::default());
    let (url, _) = serve().await;
    let known = Client::new(config(url.clone()), remembering(&kept)).unwrap();
    known.start();
    known.touch();
    reach(&known, UpstreamState::Connected).await;
    known.close().await;
    assert_eq!(kept.1.load(Ordering::Relaxed), 1);

    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let away = format!("http://{}/mcp", silent.local_addr().unwrap()).parse().unwrap();
    let later = Client::new(config(away), remembering(&kept)).unwrap();
    later.start();
    assert_eq!(
        later.catalog().items(ListKind::Tools).len(),
        0,
        "nothing is read that nobody wants"
    );
    later.touch();
    let read = async {
        while later.catalog().version == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(EVENT_TIMEOUT, read).await.unwrap();
    let restored = later.catalog();
    assert_eq!((restored.items(ListKind::Tools).len(), restored.read_at), (1, Some(UNIX_EPOCH)));
    assert_eq!(later.status().state, UpstreamState::Pending);
    later.close().await;

    let back = Client::new(config(url), remembering(&kept)).unwrap();
    back.shared.restore(Catalog::clone(&restored));
    back.start();
    assert_eq!(back.catalog().read_at, Some(UNIX_EPOCH));
    back.touch();
    reach(&back, UpstreamState::Connected).await;
    let fresh = back.catalog();
    assert_eq!((fresh.items(ListKind::Tools).len(), fresh.read_at), (1, None));
    back.shared.restore(Catalog::clone(&restored));
    assert_eq!(back.catalog().read_at, None, "what is of now stays");
    back.close().await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_left_alone_when_nobody_wants_it() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", gone.local_addr().unwrap()).parse().unwrap();
    drop(gone);
    let client = start(config(url));
    client.touch();
    reach(&client, UpstreamState::Failed).await;
    reach(&client, UpstreamState::Resting).await;
    assert!(client.status().trouble.is_some(), "why it was not there is still said");
    assert!(call(&client).await.is_err());
    client.close().await;
}

#[tokio::test]
async fn the_first_callers_make_one_attempt_for_all_of_them() {
    let (url, handshakes) = serve().await;
    let client = start(config(url));
    let calls = (0..20).map(|_| call(&client));
    for answer in futures_util::future::join_all(calls).await {
        answer.unwrap();
    }
    assert_eq!(handshakes.load(Ordering::Relaxed), 1);
    client.close().await;
}

#[tokio::test]
async fn the_first_call_waits_no_longer_than_a_call_may_take() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", silent.local_addr().unwrap()).parse().unwrap();
    let client = start(Config { call_timeout: IDLE_TIMEOUT, ..config(url) });
    let began = std::time::Instant::now();
    assert!(call(&client).await.is_err());
    assert!(began.elapsed() < EVENT_TIMEOUT / 4, "it waits no longer than a call may take");
    client.close().await;
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_takes_no_credentials_along() {
    let canary = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let elsewhere = canary.local_addr().unwrap();
    for status in ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: url::Url =
            format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
        let redirect = format!(
            "HTTP/1.1 {status}\r\nlocation: http://{elsewhere}/mcp\r\ncontent-length: 0\r\n\r\n"
        );
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(redirect.as_bytes()).await;
            }
        });
        let headers = BTreeMap::from([("authorization".to_owned(), "Bearer secret".to_owned())]);
        let transport = Transport::Http { url, headers };
        let client = start(Config::of_organisation("acme".into(), "one".into(), transport, HERE));
        client.touch();
        reach(&client, UpstreamState::Failed).await;
        client.close().await;
    }
    assert!(canary.accept().now_or_never().is_none(), "somebody came");
}

#[tokio::test]
async fn a_server_of_an_organisation_leads_to_public_addresses_alone() {
    let (url, handshakes) = serve().await;
    let client = start(Config { addresses: Policy::Public, ..config(url) });
    client.touch();
    reach(&client, UpstreamState::Failed).await;
    let trouble = client.status().trouble.clone().unwrap();
    assert!(trouble.words.contains("is not allowed here"), "{trouble}");
    assert_eq!(handshakes.load(Ordering::Relaxed), 0);
    client.close().await;
}
