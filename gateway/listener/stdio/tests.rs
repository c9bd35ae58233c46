//! Tests of `stdio`.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use bytes::Bytes;
use futures_util::StreamExt;
use http::StatusCode;
use lockgate_proxy::transport::{Outgoing, Reply};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines as Read, ReadHalf, WriteHalf,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::*;
use crate::tests::fake::{Fake, empty, fake, message};

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;

/// A client on the other end of two pipes.
struct Client {
    input: WriteHalf<DuplexStream>,
    output: Read<BufReader<ReadHalf<DuplexStream>>>,
    saw: mpsc::UnboundedReceiver<String>,
    fake: Arc<Fake>,
    served: JoinHandle<io::Result<usize>>,
}

fn limits() -> Stdio {
    Stdio {
        endpoint: Endpoint::All,
        line_bytes: 500,
        depth: 32,
        requests: 3,
        grace: Duration::from_secs(5),
    }
}

/// Returns a proxy with session `s1` that echoes names, hangs on `hang`, streams on `stream`.
fn proxy(seen: mpsc::UnboundedSender<String>) -> Arc<Fake> {
    fake(move |exchange: Exchange| {
        let seen = seen.clone();
        async move {
            let of = |name: &str| {
                exchange.headers.get(name).map_or("-", |value| value.to_str().unwrap()).to_owned()
            };
            let from = format!("{} {} {}", of("mcp-session-id"), of("mcp-method"), of("mcp-name"));
            let ExchangeKind::Post(body) = exchange.kind else {
                let get = matches!(exchange.kind, ExchangeKind::Get);
                seen.send(format!("{} {from}", if get { "get" } else { "delete" })).unwrap();
                let event = Outgoing {
                    data: Bytes::from_static(b"{\"news\":1}").into(),
                    ..Outgoing::default()
                };
                let events = futures_util::stream::once(async { event })
                    .chain(futures_util::stream::pending());
                let stream = Reply::events(events.boxed());
                return if get { stream } else { empty(StatusCode::NO_CONTENT) };
            };
            let text = String::from_utf8(body.to_vec()).unwrap();
            let has = |word: &str| text.contains(word);
            if has("initialize\"") && !has("_meta") {
                seen.send(format!("initialize {from}")).unwrap();
                let headers = HeaderMap::from_iter([(
                    session_client::SESSION,
                    HeaderValue::from_static("s1"),
                )]);
                let text = session_client::text("{\"welcome\":1}");
                return Reply::message(text).with_headers(headers);
            }
            let _guard = Guard(seen.clone(), has("hang"));
            seen.send(format!("post {from}")).unwrap();
            match () {
                () if has("hang") => std::future::pending().await,
                () if has("silent") || has("notifications/") => empty(StatusCode::ACCEPTED),
                () if has("stream") => {
                    let event = |data: &'static str| Outgoing {
                        data: Bytes::from(data).into(),
                        ..Outgoing::default()
                    };
                    let events = [event("{\"progress\":\n1}"), event(""), event("{\"done\":1}")];
                    let events = futures_util::stream::iter(events).boxed();
                    Reply::events(events)
                }
                () => message(format!("{{\"echo\":{}}}", text.len())),
            }
        }
    })
}

struct Guard(mpsc::UnboundedSender<String>, bool);

impl Drop for Guard {
    fn drop(&mut self) {
        if self.1 {
            let _ = self.0.send("dropped".into());
        }
    }
}

fn client(limits: Stdio) -> Client {
    let (seen, saw) = mpsc::unbounded_channel();
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (stdin, stdout) = tokio::io::split(theirs);
    let fake = proxy(seen);
    let served =
        tokio::spawn(serve(stdin, stdout, Arc::clone(&fake), limits, std::future::pending()));
    let (output, input) = tokio::io::split(ours);
    Client { input, output: BufReader::new(output).lines(), saw, fake, served }
}

impl Client {
    async fn say(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn hear(&mut self) -> String {
        let line = tokio::time::timeout(Duration::from_secs(10), self.output.next_line()).await;
        line.expect("a line in time").unwrap().unwrap_or_default()
    }

    async fn ask(&mut self, line: &str) -> String {
        self.say(line).await;
        self.hear().await
    }

    async fn end(mut self) -> usize {
        self.input.shutdown().await.unwrap();
        self.served.await.unwrap().unwrap()
    }
}

fn request(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#)
}

#[tokio::test]
async fn before_any_handshake_only_ping_and_modern_messages_are_served() {
    let mut client = client(limits());
    assert_eq!(
        client.ask(&request("\"a\"", "ping", "")).await,
        r#"{"jsonrpc":"2.0","id":"a","result":{}}"#
    );
    let refused = client.ask(&request("7", "tools/list", "")).await;
    assert!(refused.starts_with(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"#), "{refused}");
    assert!(refused.contains("io.modelcontextprotocol/protocolVersion"), "{refused}");
    client.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    client.say(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
    assert!(client.ask(&request("8", "tools/list", META)).await.contains("echo"));
    assert_eq!(client.saw.recv().await.unwrap(), "post - tools/list -");
    // The modern envelope has priority over the method: the proxy rejects this request.
    assert!(client.ask(&request("9", "initialize", META)).await.contains("echo"));
    assert_eq!(client.saw.recv().await.unwrap(), "post - initialize -");
    assert_eq!(client.end().await, 0);
}

#[tokio::test]
async fn both_eras_are_served_in_turn_on_one_process() {
    let mut client = client(limits());
    assert_eq!(client.ask(&request("1", "initialize", "")).await, "{\"welcome\":1}");
    client.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    assert_eq!(client.hear().await, "{\"news\":1}");
    client.ask(&request("2", "tools/list", "")).await;
    client.ask(&request("3", "ping", "")).await;
    client.ask(&request("4", "tools/call", &format!(r#""name":"suche.über",{META}"#))).await;
    let decorated = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}"#;
    client.ask(&request("5", "tools/list", decorated)).await;
    client.ask("[]").await;
    client.say(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
    client.ask(&request("6", "resources/read", &format!(r#""uri":"page://home",{META}"#))).await;
    let mut saw = Vec::new();
    while let Ok(line) = client.saw.try_recv() {
        saw.push(line);
    }
    let expected = [
        "initialize - - -",
        "post s1 - -",
        "get s1 - -",
        "post s1 - -",
        "post s1 - -",
        "post - tools/call =?base64?c3VjaGUuw7xiZXI=?=",
        "post s1 - -",
        "post s1 - -",
        "post s1 - -",
        "post - resources/read page://home",
    ];
    assert_eq!(saw, expected);
    client.input.shutdown().await.unwrap();
    assert_eq!(client.saw.recv().await.unwrap(), "delete s1 - -");
    assert_eq!(client.served.await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn streams_are_written_message_by_message_and_silence_becomes_an_error() {
    let mut client = client(limits());
    assert_eq!(client.ask(&request("1", "stream", META)).await, "{\"progress\": 1}");
    assert_eq!(client.hear().await, "{\"done\":1}");
    assert!(
        client
            .ask(&request("2", "silent", META))
            .await
            .starts_with(r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32603"#)
    );
}

#[tokio::test]
async fn a_modern_cancellation_drops_the_call_and_a_legacy_one_is_forwarded() {
    let mut client = client(limits());
    client.say(&request("\"x\"", "hang", META)).await;
    assert_eq!(client.saw.recv().await.unwrap(), "post - hang -");
    let cancel = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
        )
    };
    client.say(&cancel("\"other\"")).await;
    client.say(&cancel("1")).await;
    client.say(&cancel("\"x\"")).await;
    assert_eq!(client.saw.recv().await.unwrap(), "dropped");
    client.ask(&request("1", "initialize", "")).await;
    client.say(&request("2", "hang", "")).await;
    client.say(&cancel("2")).await;
    let expected = ["initialize - - -", "post s1 - -", "post s1 - -"];
    for line in expected {
        assert_eq!(client.saw.recv().await.unwrap(), line);
    }
    client.ask(&request("3", "ping", "")).await;
    assert_eq!(
        client.saw.recv().await.unwrap(),
        "post s1 - -",
        "the legacy call was not dropped here"
    );
}

#[tokio::test]
async fn requests_over_the_bound_are_refused_while_answers_still_pass() {
    let mut client = client(limits());
    client.ask(&request("1", "initialize", "")).await;
    for id in ["2", "3", "4"] {
        client.say(&request(id, "hang", "")).await;
    }
    let refused = client.ask(&request("5", "tools/list", "")).await;
    assert!(refused.starts_with(r#"{"jsonrpc":"2.0","id":5,"error":{"code":-31053"#), "{refused}");
    client.say(r#"{"jsonrpc":"2.0","id":9,"result":{"answer":1}}"#).await;
    // Two run, a third waits; the response to the proxy's request overtakes them all.
    let expected = ["initialize - - -", "post s1 - -", "post s1 - -", "post s1 - -"];
    for line in expected {
        assert_eq!(client.saw.recv().await.unwrap(), line);
    }
}

#[tokio::test]
async fn a_line_over_the_limit_is_answered_without_id_and_skipped() {
    let mut client = client(limits());
    let refused = client.ask(&"x".repeat(501)).await;
    assert!(refused.starts_with(r#"{"jsonrpc":"2.0","error":{"code":-31013"#), "{refused}");
    assert!(client.ask(&request("1", "ping", "")).await.contains("result"));
}

#[tokio::test(start_paused = true)]
async fn at_the_end_of_the_input_requests_finish_or_are_cut_and_listens_are_not_waited_for() {
    let mut listening = client(limits());
    listening.say(&request("1", "subscriptions/listen", &format!(r#""hang":1,{META}"#))).await;
    assert_eq!(listening.saw.recv().await.unwrap(), "post - subscriptions/listen -");
    let begin = tokio::time::Instant::now();
    assert_eq!(listening.end().await, 0);
    assert!(begin.elapsed() < Duration::from_secs(1));

    let mut calling = client(limits());
    calling.say(&request("1", "hang", META)).await;
    assert_eq!(calling.saw.recv().await.unwrap(), "post - hang -");
    let begin = tokio::time::Instant::now();
    assert_eq!(calling.end().await, 1);
    assert_eq!(begin.elapsed().as_secs(), 5);
}

/// The usual way for clients to end a server: close stdin, wait, and send SIGTERM.
#[tokio::test]
async fn a_signal_after_the_end_of_the_input_waits_for_nothing() {
    let (seen, mut saw) = mpsc::unbounded_channel();
    let (stdout, _reader) = tokio::io::duplex(1024);
    let (mut input, stdin) = tokio::io::duplex(1024);
    let (signal, signalled) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async move { drop(signalled.await) };
    let limits = Stdio { grace: Duration::from_secs(600), ..limits() };
    let served = tokio::spawn(serve(stdin, stdout, proxy(seen), limits, shutdown));
    input.write_all(format!("{}\n", request("1", "hang", META)).as_bytes()).await.unwrap();
    assert_eq!(saw.recv().await.unwrap(), "post - hang -");
    drop(input);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!served.is_finished(), "answers are waited for");
    signal.send(()).unwrap();
    let cut = tokio::time::timeout(Duration::from_secs(10), served).await.unwrap().unwrap();
    assert_eq!(cut.unwrap(), 1);
    assert_eq!(saw.recv().await.unwrap(), "dropped");
}

#[tokio::test]
async fn a_client_that_closes_its_end_drops_everything() {
    let (seen, mut saw) = mpsc::unbounded_channel();
    let (stdout, reader) = tokio::io::duplex(64);
    let (mut input, stdin) = tokio::io::duplex(1024);
    let served = tokio::spawn(serve(stdin, stdout, proxy(seen), limits(), std::future::pending()));
    input.write_all(format!("{}\n", request("1", "hang", META)).as_bytes()).await.unwrap();
    assert_eq!(saw.recv().await.unwrap(), "post - hang -");
    drop(reader);
    input.write_all(format!("{}\n", request("2", "ping", "")).as_bytes()).await.unwrap();
    assert!(served.await.unwrap().is_err());
    assert_eq!(saw.recv().await.unwrap(), "dropped");
}

/// Rejections before the proxy are recorded, as over HTTP.
#[tokio::test]
async fn what_is_turned_away_is_told() {
    let mut client = client(limits());
    let fake = Arc::clone(&client.fake);
    let told = || std::mem::take(&mut *fake.record_rejection.lock().unwrap());
    assert!(client.ask(&"x".repeat(600)).await.contains("error"));
    assert_eq!(told(), [Rejection::BodyTooLarge]);
    client.ask(&request("1", "tools/list", "")).await;
    client.say(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
    client.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    client
        .say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#)
        .await;
    client.ask(&request("2", "ping", "")).await;
    assert_eq!(told(), [Rejection::Session; 3]);
    let hang = format!(r#""hang":1,{META}"#);
    for id in ["3", "4", "5", "6"] {
        client.say(&request(id, "tools/list", &hang)).await;
    }
    assert!(client.hear().await.contains(r#""id":6"#));
    assert_eq!(told(), [Rejection::Overloaded]);
}
