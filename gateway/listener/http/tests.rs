//! Tests of `http`.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::ServerName;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::*;
use crate::tests::fake::{Running, config, echo, fake, message, plain, post, read_to, start};
use crate::tls;

const GRACE: Duration = Duration::from_secs(5);

fn request(authority: &str, body: &'static str) -> Request<Full<Bytes>> {
    let request =
        Request::post(format!("http://{authority}/mcp")).header("content-type", "application/json");
    request.body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap()
}

async fn ask_http2<T>(stream: T, authority: &str) -> (u16, Bytes)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request(authority, "{\"a\":1}")).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    connection.abort();
    (status, body)
}

#[tokio::test]
async fn http2_is_spoken_without_tls_and_checked_the_same() {
    let running = start(config(), echo(), GRACE).await;
    assert_eq!(
        ask_http2(running.connect().await, "localhost").await,
        (200, Bytes::from_static(b"{\"a\":1}"))
    );
    assert_eq!(ask_http2(running.connect().await, "evil.example").await.0, 421);
}

#[tokio::test]
async fn one_connection_takes_many_requests_pipelined_too_until_garbage() {
    let running = start(config(), echo(), GRACE).await;
    let one = post("/mcp", "", "{}").replace("connection: close\r\n", "");
    let mut stream = running.connect().await;
    for _ in 0..3 {
        stream.write_all(one.as_bytes()).await.unwrap();
        read_to(&mut stream, "\r\n\r\n{}").await;
    }
    stream.write_all(format!("{one}{one}\x00garbage\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 2, "{answer}");
    assert_eq!(answer.matches("HTTP/1.1 400").count(), 1, "{answer}");
}

#[tokio::test]
async fn slow_senders_are_timed_out_in_every_phase() {
    let mut config = config();
    config.http.read_timeout = Duration::from_millis(200);
    let running = start(config, echo(), GRACE).await;
    let phases = [
        ("", ""),
        ("P", ""),
        ("PRI", ""),
        ("POST /mcp HTTP/1.1\r\nhost: local", "408"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""),
    ];
    for (sent, expected) in phases {
        // Only HTTP/1.1 has a response for it.
        let answer = tokio::time::timeout(Duration::from_secs(10), running.send(sent)).await;
        let answer = answer.unwrap_or_else(|_| panic!("{sent:?} was never ended"));
        assert!(answer.contains(expected), "{sent:?} -> {answer:?}");
    }
    let body = post("/mcp", "", "{}").replace("content-length: 2", "content-length: 3");
    let answer = running.send(body).await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("jsonrpc"), "{answer}");
    // No read timeout applies between requests.
    let one = post("/mcp", "", "{}").replace("connection: close\r\n", "");
    let mut stream = running.connect().await;
    for _ in 0..2 {
        stream.write_all(one.as_bytes()).await.unwrap();
        read_to(&mut stream, "\r\n\r\n{}").await;
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
}

#[tokio::test]
async fn connections_over_the_limit_wait_to_be_accepted() {
    let mut config = config();
    config.http.connections = 1;
    let running = start(config, echo(), GRACE).await;
    let one = post("/mcp", "", "{}").replace("connection: close\r\n", "");
    let mut first = running.connect().await;
    first.write_all(one.as_bytes()).await.unwrap();
    read_to(&mut first, "\r\n\r\n{}").await;
    let mut second = running.connect().await;
    second.write_all(one.as_bytes()).await.unwrap();
    let mut byte = [0];
    assert!(
        tokio::time::timeout(Duration::from_millis(100), second.read(&mut byte)).await.is_err()
    );
    drop(first);
    read_to(&mut second, "\r\n\r\n{}").await;
}

/// Starts a server in which calls wait for the returned `Notify`.
async fn held(grace: Duration) -> (Running, mpsc::UnboundedReceiver<()>, Arc<tokio::sync::Notify>) {
    let (entered, entries) = mpsc::unbounded_channel();
    let go = Arc::new(tokio::sync::Notify::new());
    let gate = Arc::clone(&go);
    let hold = fake(move |_| {
        entered.send(()).unwrap();
        let gate = Arc::clone(&gate);
        async move {
            gate.notified().await;
            message("done")
        }
    });
    (start(config(), hold, grace).await, entries, go)
}

#[tokio::test]
async fn shutdown_lets_requests_finish_and_closes_idle_connections() {
    let (running, mut entries, go) = held(GRACE).await;
    let mut idle = running.connect().await;
    idle.write_all(plain("OPTIONS", "/mcp", "").replace("connection: close\r\n", "").as_bytes())
        .await
        .unwrap();
    read_to(&mut idle, "\r\n\r\n").await;
    let mut busy = running.connect().await;
    busy.write_all(post("/mcp", "", "{}").replace("connection: close\r\n", "").as_bytes())
        .await
        .unwrap();
    entries.recv().await.unwrap();
    let address = running.address;
    let stop = tokio::spawn(running.stop());
    let mut byte = [0];
    assert_eq!(idle.read(&mut byte).await.unwrap(), 0);
    assert!(TcpStream::connect(address).await.is_err());
    go.notify_one();
    read_to(&mut busy, "\r\n\r\ndone").await;
    assert_eq!(stop.await.unwrap(), 0);
}

#[tokio::test]
async fn shutdown_cuts_what_does_not_finish_and_counts_it() {
    let (running, mut entries, _go) = held(Duration::from_millis(50)).await;
    let mut busy = running.connect().await;
    busy.write_all(post("/mcp", "", "{}").as_bytes()).await.unwrap();
    entries.recv().await.unwrap();
    assert_eq!(running.stop().await, 1);
    let mut rest = Vec::new();
    let _ = busy.read_to_end(&mut rest).await;
    assert!(rest.is_empty());
}

#[tokio::test]
async fn draining_answers_everybody_and_sends_clients_elsewhere() {
    let running = start(config(), echo(), GRACE).await;
    let one = post("/mcp", "", "{}").replace("connection: close\r\n", "");
    let (mut used, mut unused) = (running.connect().await, running.connect().await);
    used.write_all(one.as_bytes()).await.unwrap();
    assert!(!read_to(&mut used, "\r\n\r\n{}").await.contains("connection: close"));
    let connect = async || {
        let io = TokioIo::new(running.connect().await);
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        (sender, tokio::spawn(connection))
    };
    let ((mut old, old_ended), (mut new, new_ended)) = (connect().await, connect().await);
    assert_eq!(old.send_request(request("localhost", "{}")).await.unwrap().status(), 200);
    running.drain.begin();
    // Open connections with and without a request so far, and new connections, each get a last
    // response.
    for socket in [&mut used, &mut unused, &mut running.connect().await] {
        socket.write_all(one.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"),
            "{answer}"
        );
    }
    assert_eq!(new.send_request(request("localhost", "{}")).await.unwrap().status(), 200);
    for ended in [old_ended, new_ended] {
        let ended = tokio::time::timeout(GRACE, ended).await;
        ended.expect("told to go away").unwrap().unwrap();
    }
    assert_eq!(running.stop().await, 0);
}

#[tokio::test]
async fn whoever_connected_before_the_end_is_answered() {
    let running = start(config(), echo(), GRACE).await;
    let mut early: Vec<_> = Vec::new();
    for _ in 0..20 {
        let mut socket = running.connect().await;
        socket.write_all(post("/mcp", "", "{}").as_bytes()).await.unwrap();
        early.push(socket);
    }
    assert_eq!(running.stop().await, 0);
    for mut socket in early {
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
    }
}

#[test]
fn several_loops_share_an_address_and_the_limits() {
    let servers = Server::bind_many(config(), 2).unwrap();
    let address = servers[0].address();
    assert!(servers.iter().all(|server| server.address() == address));
    let taken = Config { listen: address, ..config() };
    assert!(Server::bind(taken.clone()).err().unwrap().to_string().contains(&address.to_string()));
    assert!(Server::bind_many(taken, 2).is_err());
    let answered = Arc::new(AtomicUsize::new(0));
    let stop = Arc::new(tokio::sync::Notify::new());
    std::thread::scope(|threads| {
        for server in servers {
            let stop = Arc::clone(&stop);
            threads.spawn(move || {
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let other = crate::fallback(tower::service_fn(|_| async {
                    Ok(Response::new(Full::new(Bytes::new())))
                }));
                let cut = runtime.block_on(server.run(
                    echo(),
                    other,
                    async move { stop.notified().await },
                    GRACE,
                ));
                assert_eq!(cut.unwrap(), 0);
            });
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for _ in 0..20 {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(post("/mcp", "", "{}").as_bytes()).await.unwrap();
                read_to(&mut stream, "\r\n\r\n{}").await;
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
        stop.notify_one();
        stop.notify_one();
        // `notify_one` stores a single permit for a loop not waiting yet, so notify again.
        std::thread::sleep(Duration::from_millis(50));
        stop.notify_one();
    });
    assert_eq!(answered.load(Ordering::Relaxed), 20);
}

async fn secure(
    running: &Running,
    trusted: rustls_pki_types::CertificateDer<'static>,
    alpn: &[&[u8]],
) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(trusted).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    tokio_rustls::TlsConnector::from(Arc::new(client)).connect(name, running.connect().await).await
}

#[tokio::test]
async fn tls_negotiates_both_versions_of_http() {
    let folder = TempDir::new().unwrap();
    let (files, certificate) = tls::tests::write_pair(&folder, "localhost");
    let mut config = config();
    config.http.tls = Some(files);
    let running = start(config, echo(), GRACE).await;
    let stream = secure(&running, certificate.clone(), &[b"h2", b"http/1.1"]).await.unwrap();
    assert_eq!(ask_http2(stream, "localhost").await.0, 200);
    for alpn in [&[b"http/1.1".as_slice()][..], &[]] {
        let mut stream = secure(&running, certificate.clone(), alpn).await.unwrap();
        stream.write_all(post("/mcp", "", "{}").as_bytes()).await.unwrap();
        read_to(&mut stream, "\r\n\r\n{}").await;
    }
    let other = TempDir::new().unwrap();
    let (_, stranger) = tls::tests::write_pair(&other, "localhost");
    assert!(secure(&running, stranger, &[]).await.is_err());
    // Plain HTTP on a TLS port is rejected.
    assert!(!running.send(post("/mcp", "", "{}")).await.contains("HTTP/1.1 200"));
}
