//! Tests of `guarded_client`.

mod guard;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use parking_lot::Mutex;
use tokio::net::TcpListener;

use super::*;
use crate::target::{Addresses, System};
use crate::tests::scripted::{config, serve};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A resolver with a different result each time.
struct Script(Mutex<VecDeque<Vec<&'static str>>>);

impl Resolve for Script {
    fn resolve<'a>(&'a self, _: &'a str, port: u16) -> Addresses<'a> {
        let next = self.0.lock().pop_front();
        let next = next.map(|all| {
            all.iter().map(|text| SocketAddr::new(text.parse().unwrap(), port)).collect()
        });
        Box::pin(async move { next.ok_or_else(|| io::Error::other("asked too often")) })
    }
}

fn script(answers: &[&[&'static str]]) -> Arc<Script> {
    Arc::new(Script(Mutex::new(answers.iter().map(|one| one.to_vec()).collect())))
}

fn client(resolver: Arc<dyn Resolve>, open: &[&str], proxy: Option<Proxy>) -> GuardedClient {
    let guard = Guard::new(open.iter().map(|net| net.parse().unwrap()).collect());
    GuardedClient::new(Arc::new(Connector::new(&config()).unwrap()), resolver, guard, proxy)
}

async fn get(client: &GuardedClient, url: &str) -> Result<Vec<u8>, GuardedError> {
    let response =
        client.send(Method::GET, &Url::parse(url).unwrap(), HeaderMap::new(), Bytes::new()).await?;
    let (mut page, mut whole) = (response.into_body(), Vec::new());
    while let Some(chunk) = page.data().await.unwrap() {
        whole.extend_from_slice(&chunk);
    }
    Ok(whole)
}

fn refused(result: Result<Vec<u8>, GuardedError>) -> IpAddr {
    match result.unwrap_err() {
        GuardedError::Send(SendError {
            sent: false,
            cause: crate::Cause::Connect(ConnectError::Refused(address)),
        }) => address,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn loopback_gets_no_packet_unless_it_is_named() {
    let canary = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = canary.local_addr().unwrap().port();
    let closed = client(Arc::new(System), &[], None);
    for host in
        ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0"]
    {
        refused(get(&closed, &format!("http://{host}:{port}/")).await);
    }
    assert!(futures_now(canary.accept()).is_none(), "a connection was made");
    let server = serve(&[&[OK]]).await;
    let named = client(Arc::new(System), &["127.0.0.0/8"], None);
    assert_eq!(get(&named, &format!("http://127.0.0.1:{}/a?b", server.port)).await.unwrap(), b"ok");
    let request = server.requests.lock()[0].to_lowercase();
    assert!(
        request.starts_with("get /a?b http/1.1\r\n") && request.contains("connection: close"),
        "{request}"
    );
}

/// Returns the result of a future if it is ready.
fn futures_now<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test]
async fn a_name_is_looked_up_once_for_a_connection_and_what_it_says_then_counts() {
    let server = serve(&[&[OK]]).await;
    let canary = TcpListener::bind(("127.0.0.2", server.port)).await.unwrap();
    // First a permitted address, later a forbidden address: DNS rebinding.
    let names = script(&[
        &["127.0.0.1"],
        &["127.0.0.2"],
        &["127.0.0.1", "127.0.0.2"],
        &["::ffff:127.0.0.2"],
    ]);
    let client = client(names.clone(), &["127.0.0.1/32"], None);
    let url = format!("http://rebind.example:{}/", server.port);
    assert_eq!(get(&client, &url).await.unwrap(), b"ok");
    assert_eq!(names.0.lock().len(), 3);
    for address in ["127.0.0.2", "127.0.0.2", "::ffff:127.0.0.2"] {
        assert_eq!(refused(get(&client, &url).await).to_string(), address);
    }
    assert!(futures_now(canary.accept()).is_none(), "a connection was made");
}

#[tokio::test]
async fn a_tunnel_goes_to_the_checked_address() {
    // Each connection serves both: the proxy's response, then that of the server behind it.
    let proxy =
        serve(&[&["HTTP/1.1 200 Connected\r\n\r\n", OK], &["HTTP/1.1 200 Connected\r\n\r\n", OK]])
            .await;
    let url = Url::parse(&format!("http://127.0.0.1:{}", proxy.port)).unwrap();
    let names = script(&[&["127.0.0.9"], &["127.0.0.2"]]);
    let here =
        client(names, &["127.0.0.9/32"], Some(Proxy::new(&url, Some(("x", "")), false).unwrap()));
    assert_eq!(get(&here, "http://a.example/x").await.unwrap(), b"ok");
    assert_eq!(refused(get(&here, "http://a.example/x").await).to_string(), "127.0.0.2");
    let there = client(script(&[]), &[], Some(Proxy::new(&url, None, true).unwrap()));
    assert_eq!(get(&there, "http://b.example/x").await.unwrap(), b"ok");
    refused(get(&there, "http://127.0.0.1/").await);
    let requests = proxy.requests.lock();
    assert_eq!(requests.len(), 4);
    assert_eq!(
        requests[0],
        "CONNECT 127.0.0.9:80 HTTP/1.1\r\nHost: 127.0.0.9:80\r\nProxy-Authorization: Basic eDo=\r\n\r\n"
    );
    assert!(
        requests[1].contains("host: a.example") && !requests[1].to_lowercase().contains("proxy-"),
        "{}",
        requests[1]
    );
    assert!(requests[2].starts_with("CONNECT b.example:80 "), "{}", requests[2]);
}

#[tokio::test]
async fn a_proxy_that_refuses_or_rambles_is_an_error() {
    let rambling: &'static str =
        Box::leak(format!("HTTP/1.1 200 {}", "x".repeat(9000)).into_boxed_str());
    let script: &'static [&'static [&'static str]] = Box::leak(Box::new([
        &*Box::leak(Box::new(["HTTP/1.1 407 No\r\n\r\n"])) as &[_],
        Box::leak(Box::new([rambling])),
    ]));
    let proxy = serve(script).await;
    let url = Url::parse(&format!("http://127.0.0.1:{}", proxy.port)).unwrap();
    let client = client(Arc::new(System), &[], Some(Proxy::new(&url, None, true).unwrap()));
    for words in ["it returned 407, while reaching a.example:80", "too long"] {
        let error = get(&client, "http://a.example/").await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    assert!(Proxy::new(&Url::parse("https://proxy.example/").unwrap(), None, false).is_err());
}
