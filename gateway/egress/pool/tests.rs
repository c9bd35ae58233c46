//! Tests of `pool`.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::config::Config;
use crate::error::{Cause, ConnectError};
use crate::tests::scripted::{HOLD, config, origin, post, serve};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const EMPTY: &str = "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";

async fn text(response: Response<Body>) -> String {
    String::from_utf8(response.into_body().collect_limited(1000).await.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn one_connection_serves_one_request_after_another() {
    let server = serve(&[&[OK, EMPTY, OK, HOLD]]).await;
    let origin = origin(server.port, &config());
    assert_eq!(text(origin.send(post(&origin, "one")).await.unwrap()).await, "ok");
    assert_eq!(origin.idle(), 1);
    // A response without a body returns its connection before any read.
    let accepted = origin.send(post(&origin, "two")).await.unwrap();
    assert_eq!((accepted.status().as_u16(), origin.idle()), (202, 1));
    assert_eq!(text(origin.send(post(&origin, "three")).await.unwrap()).await, "ok");
    let requests = server.requests.lock().clone();
    assert_eq!(requests.len(), 3);
    assert!(requests[0].starts_with("POST /mcp?a=b HTTP/1.1\r\n"), "{}", requests[0]);
    assert!(requests[0].contains(&format!("host: 127.0.0.1:{}\r\n", server.port)));
    assert!(requests[2].ends_with("\r\n\r\nthree"));
}

#[tokio::test]
async fn host_and_request_line_are_of_the_origin_whatever_the_request_says() {
    let server = serve(&[&[OK]]).await;
    let origin = origin(server.port, &config());
    let mut request = post(&origin, "");
    *request.uri_mut() = "http://elsewhere.example/x?y".parse().unwrap();
    request.headers_mut().insert("host", "elsewhere.example".parse().unwrap());
    origin.send(request).await.unwrap();
    let requests = server.requests.lock().clone();
    assert!(
        requests[0].starts_with("POST /x?y HTTP/1.1\r\n") && !requests[0].contains("elsewhere"),
        "{}",
        requests[0]
    );
}

#[tokio::test]
async fn a_connection_that_the_server_closed_while_idle_is_replaced_unnoticed() {
    let mut server = serve(&[&[OK], &[OK, HOLD]]).await;
    let origin = origin(server.port, &config());
    text(origin.send(post(&origin, "one")).await.unwrap()).await;
    assert_eq!(server.ended.recv().await, Some(0));
    assert_eq!(text(origin.send(post(&origin, "two")).await.unwrap()).await, "ok");
    assert_eq!(server.requests.lock().len(), 2);
}

#[tokio::test]
async fn a_request_that_was_read_but_not_answered_counts_as_sent_and_is_not_repeated() {
    let server = serve(&[&[""], &[OK]]).await;
    let origin = origin(server.port, &config());
    let error = origin.send(post(&origin, "one")).await.unwrap_err();
    assert!(error.sent, "{error}");
    assert_eq!(server.requests.lock().len(), 1);
}

#[tokio::test]
async fn a_close_after_reading_on_a_reused_connection_counts_as_sent() {
    let server = serve(&[&[OK, ""], &[OK]]).await;
    let origin = origin(server.port, &config());
    text(origin.send(post(&origin, "one")).await.unwrap()).await;
    assert!(origin.send(post(&origin, "two")).await.unwrap_err().sent);
    assert_eq!(server.requests.lock().len(), 2);
}

#[tokio::test]
async fn a_connection_that_cannot_be_made_means_not_sent() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let origin = origin(port, &config());
    let error = origin.send(post(&origin, "")).await.unwrap_err();
    assert!(!error.sent);
    assert!(matches!(error.cause, Cause::Connect(ConnectError::Connect(_))), "{error:?}");
}

#[tokio::test]
async fn dropping_the_request_closes_the_connection() {
    // Reads the request, sends no response, and ends when the client has closed.
    let mut server = serve(&[&["", HOLD]]).await;
    let origin = origin(server.port, &config());
    let mut sending = Box::pin(origin.send(post(&origin, "one")));
    let requests = server.requests.clone();
    let read = async {
        while requests.lock().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = &mut sending => panic!("nobody answers"),
        () = read => {}
    }
    assert!(server.ended.try_recv().is_err());
    drop(sending);
    assert_eq!(server.ended.recv().await, Some(0));
    assert_eq!(origin.idle(), 0);
}

#[tokio::test]
async fn unread_connections_are_not_shared_and_the_stack_is_bounded() {
    let mut server = serve(&[&[OK, HOLD], &[OK, HOLD], &[OK, HOLD]]).await;
    let origin = origin(server.port, &Config { idle_connections: 2, ..config() });
    let one = origin.send(post(&origin, "")).await.unwrap();
    let two = origin.send(post(&origin, "")).await.unwrap();
    let three = origin.send(post(&origin, "")).await.unwrap();
    // A body that arrived with the head still belongs to its response.
    assert_eq!(origin.idle(), 0);
    for response in [one, two, three] {
        text(response).await;
    }
    assert_eq!(origin.idle(), 2);
    assert_eq!(server.ended.recv().await, Some(2));
}

#[tokio::test]
async fn idle_connections_are_closed_after_their_time() {
    let mut server = serve(&[&[OK, HOLD]]).await;
    let origin =
        origin(server.port, &Config { idle_timeout: Duration::from_millis(20), ..config() });
    text(origin.send(post(&origin, "")).await.unwrap()).await;
    // No request uses it: the sweeper alone closes it.
    assert_eq!(server.ended.recv().await, Some(0));
    assert_eq!(origin.idle(), 0);
}

#[tokio::test]
async fn a_response_that_says_close_is_read_and_not_reused() {
    let server = serve(&[&["HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nuntil the end"]]).await;
    let origin = origin(server.port, &config());
    assert_eq!(text(origin.send(post(&origin, "")).await.unwrap()).await, "until the end");
    assert_eq!(origin.idle(), 0);
}

#[tokio::test]
async fn a_redirect_is_an_answer_like_any_other() {
    let server = serve(&[&[
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n",
    ]])
    .await;
    let origin = origin(server.port, &config());
    assert_eq!(origin.send(post(&origin, "")).await.unwrap().status().as_u16(), 307);
}

#[tokio::test]
async fn bytes_that_nobody_asked_for_end_an_idle_connection() {
    let mut server = serve(&[
        &["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n", HOLD],
        &[OK, HOLD],
    ])
    .await;
    let origin = origin(server.port, &config());
    text(origin.send(post(&origin, "")).await.unwrap()).await;
    assert_eq!(text(origin.send(post(&origin, "two")).await.unwrap()).await, "ok");
    assert_eq!(server.ended.recv().await, Some(0));
}

#[tokio::test]
async fn a_response_head_beyond_its_bound_is_an_error() {
    let head: &'static str = Box::leak(
        format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "a".repeat(70 << 10)).into_boxed_str(),
    );
    let script: &'static [&'static str] = vec![head].leak();
    let server = serve(vec![script].leak()).await;
    let origin = origin(server.port, &config());
    assert!(origin.send(post(&origin, "")).await.unwrap_err().sent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_share_few_connections_without_a_lost_wake_up() {
    const SCRIPT: &[&str] = &[OK; 500];
    let server = serve(&[SCRIPT; 64]).await;
    let origin = origin(server.port, &Config { idle_connections: 16, ..config() });
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let origin = origin.clone();
            tokio::spawn(async move {
                for _ in 0..30 {
                    assert_eq!(text(origin.send(post(&origin, "x")).await.unwrap()).await, "ok");
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(server.requests.lock().len(), 480);
}

#[tokio::test]
async fn urls_that_are_not_served_are_refused() {
    let connector = Arc::new(Connector::new(&config()).unwrap());
    for text in [
        "ftp://127.0.0.1/",
        "http://user@127.0.0.1/",
        "http://:secret@127.0.0.1/",
        "unix:/run/x",
        "http://127.0.0.1:0/",
    ] {
        let url = Url::parse(text).unwrap();
        assert!(Origin::new(connector.clone(), &url, Policy::Operator).is_err(), "{text}");
    }
}
