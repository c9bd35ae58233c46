//! The upstream's HTTP server: sequential requests on a connection.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::bulk::{forever, write_long};
use super::script::{HeardMessage, Say, Script};

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

pub(super) async fn serve_http(
    socket: TcpStream,
    script: Script,
    all: Arc<Mutex<Vec<HeardMessage>>>,
) -> std::io::Result<()> {
    let mut socket = BufReader::new(socket);
    while let Some(heard) = read_request(&mut socket).await? {
        all.lock().unwrap().push(heard.clone());
        let say = script(&heard).in_time().await;
        if !answer(&mut socket, say).await? {
            break;
        }
    }
    Ok(())
}

/// Reads the next request; returns `None` at the end of the connection.
async fn read_request(socket: &mut BufReader<TcpStream>) -> std::io::Result<Option<HeardMessage>> {
    let mut line = String::new();
    if socket.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let verb = line.split(' ').next().unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        socket.read_line(&mut line).await?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_owned(), value.trim().to_owned())),
            None => break,
        }
    }
    let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let mut body = vec![0; length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)];
    socket.read_exact(&mut body).await?;
    let text = String::from_utf8_lossy(&body).into_owned();
    let body = serde_json::from_str(&text).unwrap_or_default();
    Ok(Some(HeardMessage { verb, headers, text, body }))
}

/// Writes a response; returns whether the connection continues.
async fn answer(socket: &mut BufReader<TcpStream>, say: Say) -> std::io::Result<bool> {
    let bytes = match say {
        Say::Json(Value::Null) => b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_vec(),
        Say::Json(value) | Say::Late(_, value) => {
            http(200, JSON, &[], value.to_string().as_bytes())
        }
        Say::Status(status, more, Value::Null) => http(status, JSON, &more, b""),
        Say::Status(status, more, value) => http(status, JSON, &more, value.to_string().as_bytes()),
        Say::Text(kind, body) => http(200, kind, &[], &body),
        Say::Sse(text) => http(200, EVENTS, &[], text.as_bytes()),
        Say::Long(start, count, end) => {
            let length = start.len() + count + end.len();
            socket.write_all(&long_head(length)).await?;
            write_long(socket, &start, count, end).await?;
            return Ok(true);
        }
        last => {
            say_last(socket, last).await?;
            return Ok(false);
        }
    };
    socket.write_all(&bytes).await?;
    Ok(true)
}

/// Writes a final response that closes the connection or leaves it open without further data.
async fn say_last(socket: &mut BufReader<TcpStream>, say: Say) -> std::io::Result<()> {
    match say {
        Say::Raw(bytes) => {
            socket.write_all(&bytes).await?;
            socket.shutdown().await
        }
        Say::Endless(start, byte) => {
            socket.write_all(&[open_head(JSON), start].concat()).await?;
            forever(socket, byte).await
        }
        Say::Stream(start) => stall(socket, EVENTS, start.as_bytes()).await,
        Say::Stalled(kind, start) => stall(socket, kind, &start).await,
        Say::Nothing => socket.read_to_end(&mut Vec::new()).await.map(drop),
        _ => Ok(()),
    }
}

/// Returns the head of a body that ends with the connection.
fn open_head(kind: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n").into_bytes()
}

fn long_head(length: usize) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n")
        .into_bytes()
}

fn http(status: u16, kind: &str, more: &[(&'static str, String)], body: &[u8]) -> Vec<u8> {
    let mut head = format!(
        "HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in more {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

/// Writes the start of a body, then nothing until the other side closes the connection.
async fn stall(socket: &mut BufReader<TcpStream>, kind: &str, start: &[u8]) -> std::io::Result<()> {
    socket.write_all(&open_head(kind)).await?;
    socket.write_all(start).await?;
    socket.read_to_end(&mut Vec::new()).await.map(drop)
}
