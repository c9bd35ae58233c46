//! The upstream over stdio: one JSON message per line.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::bulk::{forever, write_long};
use super::script::{HeardMessage, Say, Script};

pub(super) async fn talk(
    socket: TcpStream,
    script: Script,
    all: Arc<Mutex<Vec<HeardMessage>>>,
) -> std::io::Result<()> {
    let mut socket = BufReader::new(socket);
    loop {
        let mut text = String::new();
        if socket.read_line(&mut text).await? == 0 {
            return Ok(());
        }
        let body = serde_json::from_str(&text).unwrap_or_default();
        let heard = HeardMessage { verb: "LINE".into(), headers: Vec::new(), text, body };
        all.lock().unwrap().push(heard.clone());
        match script(&heard).in_time().await {
            Say::Json(Value::Null) | Say::Nothing => {}
            Say::Json(value) | Say::Late(_, value) | Say::Status(_, _, value) => {
                socket.write_all(format!("{value}\n").as_bytes()).await?
            }
            Say::Text(_, text) => socket.write_all(&[&text[..], b"\n"].concat()).await?,
            Say::Sse(_) | Say::Stream(_) => {}
            Say::Raw(bytes) => {
                socket.write_all(&bytes).await?;
                return socket.shutdown().await;
            }
            Say::Long(start, count, end) => {
                write_long(&mut socket, &start, count, end).await?;
                socket.write_all(b"\n").await?;
            }
            Say::Endless(start, byte) => {
                socket.write_all(&start).await?;
                return forever(&mut socket, byte).await;
            }
            Say::Stalled(_, start) => socket.write_all(&start).await?,
            Say::Close => return Ok(()),
        }
    }
}
