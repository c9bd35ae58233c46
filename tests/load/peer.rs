//! A client connection with one request at a time, and its legacy session. Never reconnects: a
//! connection that breaks under load is an error to report.

use std::net::SocketAddr;

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};
use http::{Request, StatusCode};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::body::{Pieces, whole};
use crate::wire::{Face, SESSION, Template, expect_result};

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

pub struct Peer {
    sender: SendRequest<Pieces>,
    last: u64,
}

impl Peer {
    pub async fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream =
            TcpStream::connect(address).await.with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true).context("set no delay")?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.context("begin HTTP")?;
        // The driver ends with the sender; the affected request returns its error.
        tokio::spawn(async move { drop(connection.await) });
        // Every id has nine digits, so that all bodies have the same length.
        Ok(Self { sender, last: 100_000_000 })
    }

    /// Returns an id that is unused on this connection.
    pub fn fresh_id(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub async fn send(&mut self, request: Request<Pieces>) -> anyhow::Result<Answer> {
        self.sender.ready().await.context("the connection is closed")?;
        let (head, body) =
            self.sender.send_request(request).await.context("send a request")?.into_parts();
        Ok(Answer { status: head.status, headers: head.headers, body: whole(body).await? })
    }

    /// Sends `initialize` and `notifications/initialized`; returns the session id.
    pub async fn open_session(&mut self, face: &Face) -> anyhow::Result<HeaderValue> {
        let session = self.initialize(&Template::initialize(face)?).await?;
        let answer = self.send(Template::initialized(face, &session)?.request(0)).await?;
        ensure!(
            answer.status == StatusCode::ACCEPTED,
            "notifications/initialized got {}",
            answer.status
        );
        Ok(session)
    }

    pub async fn initialize(&mut self, template: &Template) -> anyhow::Result<HeaderValue> {
        let id = self.fresh_id();
        let answer = self.send(template.request(id)).await?;
        expect_result(&answer, id).context("initialize")?;
        answer.headers.get(SESSION).cloned().context("initialize gave no session id")
    }

    pub async fn end_session(&mut self, face: &Face, session: &HeaderValue) -> anyhow::Result<()> {
        let answer = self.send(Template::delete(face, session)?.request(0)).await?;
        ensure!(answer.status.is_success(), "ending a session got {}", answer.status);
        Ok(())
    }
}
