//! Client requests of both eras, prepared so that each call only fills in its id, and checks of the
//! responses.

use std::net::SocketAddr;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use memchr::memmem;

use crate::body::Pieces;
use crate::peer::Answer;

pub const MODERN: &str = "2026-07-28";
pub const LEGACY: &str = "2025-11-25";

pub const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");
pub const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"load","version":"1"}}"#;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Era {
    Modern,
    Legacy,
}

impl Era {
    pub const BOTH: [Self; 2] = [Self::Modern, Self::Legacy];

    pub fn word(self) -> &'static str {
        match self {
            Self::Modern => "modern",
            Self::Legacy => "legacy",
        }
    }
}

/// An endpoint to call: a process's address, its path, and the name of the echo tool there.
#[derive(Clone, Debug)]
pub struct Face {
    pub name: &'static str,
    pub address: SocketAddr,
    pub path: &'static str,
    pub tool: &'static str,
    /// The API key that callers present, if the endpoint requires a key.
    pub key: Option<String>,
}

pub struct Template {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    /// The body before and after the id.
    before: Bytes,
    after: Bytes,
}

impl Template {
    /// Returns a `tools/call` of the echo tool; `text` must need no escapes.
    pub fn call(
        face: &Face,
        era: Era,
        session: Option<&HeaderValue>,
        text: &Bytes,
    ) -> anyhow::Result<Self> {
        let text = std::str::from_utf8(text).context("the text is not UTF-8")?;
        Self::tool(face, era, session, face.tool, &format!(r#"{{"text":"{text}"}}"#))
    }

    /// Returns a `tools/call` of any tool; `arguments` is JSON text.
    pub fn tool(
        face: &Face,
        era: Era,
        session: Option<&HeaderValue>,
        tool: &str,
        arguments: &str,
    ) -> anyhow::Result<Self> {
        let params = format!(r#""name":"{tool}","arguments":{arguments}"#);
        Self::request_of(face, era, session, "tools/call", Some(tool), &params)
    }

    pub fn list(
        face: &Face,
        era: Era,
        session: Option<&HeaderValue>,
        cursor: Option<&str>,
    ) -> anyhow::Result<Self> {
        let params = cursor.map(|cursor| format!(r#""cursor":"{cursor}""#)).unwrap_or_default();
        Self::request_of(face, era, session, "tools/list", None, &params)
    }

    pub fn initialize(face: &Face) -> anyhow::Result<Self> {
        let params = format!(
            r#""protocolVersion":"{LEGACY}","capabilities":{{}},"clientInfo":{{"name":"load","version":"1"}}"#
        );
        let mut template = Self::request_of(face, Era::Legacy, None, "initialize", None, &params)?;
        template.headers.remove(REVISION);
        Ok(template)
    }

    pub fn initialized(face: &Face, session: &HeaderValue) -> anyhow::Result<Self> {
        let mut template = Self::request_of(face, Era::Legacy, Some(session), "", None, "")?;
        template.before =
            Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        template.after = Bytes::new();
        Ok(template)
    }

    pub fn delete(face: &Face, session: &HeaderValue) -> anyhow::Result<Self> {
        Ok(Self { method: Method::DELETE, ..Self::bodiless(face, face.path, Some(session))? })
    }

    pub fn get(face: &Face, path: &str) -> anyhow::Result<Self> {
        Self::bodiless(face, path, None)
    }

    fn bodiless(face: &Face, path: &str, session: Option<&HeaderValue>) -> anyhow::Result<Self> {
        let mut template = Self::request_of(face, Era::Legacy, session, "", None, "")?;
        template.method = Method::GET;
        template.uri = path.parse().context("parse a path")?;
        template.headers.remove(CONTENT_TYPE);
        template.before = Bytes::new();
        template.after = Bytes::new();
        Ok(template)
    }

    fn request_of(
        face: &Face,
        era: Era,
        session: Option<&HeaderValue>,
        method: &str,
        name: Option<&str>,
        params: &str,
    ) -> anyhow::Result<Self> {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(&face.address.to_string())?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let (revision, meta) = match era {
            Era::Modern => (MODERN, META),
            Era::Legacy => (LEGACY, ""),
        };
        headers.insert(REVISION, HeaderValue::from_static(revision));
        if era == Era::Modern {
            headers.insert(METHOD, HeaderValue::from_str(method)?);
            if let Some(name) = name {
                headers.insert(NAME, HeaderValue::from_str(name)?);
            }
        }
        if let Some(key) = &face.key {
            headers.insert(AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {key}"))?);
        }
        if let Some(session) = session {
            headers.insert(SESSION, session.clone());
        }
        let comma = if params.is_empty() || meta.is_empty() { "" } else { "," };
        Ok(Self {
            method: Method::POST,
            uri: face.path.parse().context("parse a path")?,
            headers,
            before: Bytes::from_static(br#"{"jsonrpc":"2.0","id":"#),
            after: format!(r#","method":"{method}","params":{{{params}{comma}{meta}}}}}"#).into(),
        })
    }

    /// Returns the request with this id; copies only the headers and the id.
    pub fn request(&self, id: u64) -> Request<Pieces> {
        let numbered = if self.after.is_empty() { Bytes::new() } else { id.to_string().into() };
        let mut request =
            Request::new(Pieces::new([self.before.clone(), numbered, self.after.clone()]));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }
}

/// Returns an error unless the response is a result for this id.
pub fn expect_result(answer: &Answer, id: u64) -> anyhow::Result<()> {
    let shown = || {
        String::from_utf8_lossy(answer.body.get(..answer.body.len().min(300)).unwrap_or_default())
            .into_owned()
    };
    if answer.status != StatusCode::OK {
        bail!("status {}: {}", answer.status, shown());
    }
    let after = after(&answer.body, br#""id":"#).with_context(|| format!("no id: {}", shown()))?;
    let digits = id.to_string();
    let rest = after
        .strip_prefix(digits.as_bytes())
        .with_context(|| format!("not id {id}: {}", shown()))?;
    ensure!(!rest.first().is_some_and(u8::is_ascii_digit), "not id {id}: {}", shown());
    ensure!(memmem::find(&answer.body, br#""result":"#).is_some(), "no result: {}", shown());
    Ok(())
}

/// Returns an error unless the response is this text for this id.
pub fn expect_echo(answer: &Answer, id: u64, text: &[u8]) -> anyhow::Result<()> {
    expect_result(answer, id)?;
    let echoed = after(&answer.body, br#""text":"#).context("no text")?;
    let rest = echoed
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_prefix(text))
        .context("another text")?;
    ensure!(rest.first() == Some(&b'"'), "a longer text");
    Ok(())
}

/// Returns the bytes after the first `key` and the following spaces.
fn after<'a>(body: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let at = memmem::find(body, key)?;
    body.get(at + key.len()..).map(<[u8]>::trim_ascii_start)
}

#[cfg(test)]
mod tests;
