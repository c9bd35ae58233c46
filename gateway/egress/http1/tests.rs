//! Tests of `http1`: each response is also read by hyper, which must agree unless it is laxer, and
//! no way to split or change a response may cause a panic or another body.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use http::{HeaderMap, HeaderValue, Method, Request};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::body::exchange;

/// Responses that both parsers accept, with the same body.
const SAME: &[&str] = &[
    "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
    "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length:  2 \r\ncontent-length: 2\r\n\r\nok",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0003;x=y\r\ncde\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\nA\r\n0123456789\r\n0\r\nx: trailer\r\n\r\n",
    "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nuntil the end",
    "HTTP/1.0 200 OK\r\n\r\nuntil the end",
    "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
    "HTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\n\r\n",
    "HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\ncontent-type: text/plain\r\n\r\nnone",
];

/// Responses that neither accepts.
const REFUSED: &[&str] = &[
    "",
    "HTTP/1.1 200 OK\r\n",
    "HTTP/2 200 OK\r\n\r\n",
    "GET / HTTP/1.1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nx: a\r\n folded\r\n\r\n",
    "HTTP/1.1 200 OK\r\nx : a\r\ncontent-length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok1",
    "HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\nok",
    "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok",
    "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\nok",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\nab\r\n0\r\n\r\n",
];

/// Responses that hyper accepts, although other parsers see another end.
const STRICTER: &[&str] = &[
    "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nx",
    "HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\n\r\nok",
];

/// Returns both ends of a connection on which the parts arrive one after another, then its end.
async fn connect(parts: &[&[u8]]) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let parts: Vec<Vec<u8>> = parts.iter().map(|part| part.to_vec()).collect();
    let tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    tokio::spawn(async move {
        // Waits for the request, because the end of the connection would discard it.
        let _ = server.read(&mut [0; 1024]).await;
        for part in parts {
            let _ = server.write_all(&part).await;
            tokio::task::yield_now().await;
        }
    });
    tcp
}

async fn read_ours(parts: &[&[u8]]) -> Result<(u16, Bytes), String> {
    let request = Request::get("/").body(Payload::default()).unwrap();
    let request = write_request(request, HeaderValue::from_static("host"));
    let connection = Http1Connection::new(Either::Left(connect(parts).await), request);
    let exchange = exchange(connection, false, None, |head| Ok(head.status.as_u16())).await;
    let (status, body) = exchange.map_err(|failed| failed.cause.to_string())?;
    let body = body.collect_limited(1 << 20).await;
    body.map(|body| (status, body)).map_err(|error| error.to_string())
}

async fn read_hypers(text: &str) -> Result<(u16, Bytes), String> {
    let io = TokioIo::new(connect(&[text.as_bytes()]).await);
    let (mut sender, connection) = handshake(io).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("/").body(Empty::<Bytes>::new()).unwrap();
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.map_err(|error| error.to_string())?;
    Ok((status, body.to_bytes()))
}

#[tokio::test]
async fn responses_are_read_as_hyper_reads_them_or_refused() {
    for text in SAME {
        let ours = read_ours(&[text.as_bytes()]).await;
        assert_eq!(ours, read_hypers(text).await, "{text}");
        assert!(ours.is_ok(), "{text}: {ours:?}");
    }
    for text in REFUSED {
        assert!(read_ours(&[text.as_bytes()]).await.is_err(), "{text}");
        assert!(read_hypers(text).await.is_err(), "{text}");
    }
    for text in STRICTER {
        assert!(read_ours(&[text.as_bytes()]).await.is_err(), "{text}");
        assert!(read_hypers(text).await.is_ok(), "{text}");
    }
}

#[tokio::test]
async fn a_response_is_the_same_wherever_it_is_split() {
    for text in SAME {
        let whole = read_ours(&[text.as_bytes()]).await;
        for at in 1..text.len() {
            let (first, second) = text.as_bytes().split_at(at);
            assert_eq!(read_ours(&[first, second]).await, whole, "{text} at {at}");
        }
    }
}

/// Every change of a byte gives an error, or what hyper reads.
#[tokio::test]
async fn changed_bytes_are_read_as_hyper_reads_them_or_refused() {
    let mut different = Vec::new();
    for text in SAME.iter().chain(STRICTER) {
        for at in 0..text.len() {
            for byte in ["\r", "\n", " ", ":", ";", "0", "f", ","] {
                let mut changed = (*text).to_owned();
                changed.replace_range(at..=at, byte);
                if let Ok(ours) = read_ours(&[changed.as_bytes()]).await {
                    let hypers = read_hypers(&changed).await;
                    if hypers.as_ref() != Ok(&ours) {
                        different.push((changed, ours, hypers));
                    }
                }
            }
        }
    }
    assert!(different.is_empty(), "{different:#?}");
}

#[test]
fn heads_end_with_the_length_and_skip_values_that_cannot_be_sent() {
    for (length, text) in [(0, "0"), (7, "7"), (10, "10"), (1_234_567, "1234567")] {
        let mut head = RequestHead::new(&Method::POST, "/mcp", &HeaderMap::new());
        head.add("a", "é b".as_bytes());
        for value in ["x\r\ny: z", "x\n", "\0", "\x7f"] {
            head.add("b", value.as_bytes());
        }
        let text = format!("POST /mcp HTTP/1.1\r\na: é b\r\ncontent-length: {text}\r\n\r\n");
        assert_eq!(head.with_length(length), text.into_bytes());
    }
}
