//! A client of the REST API on one connection, one request at a time. Refuses an answer that the
//! caller did not expect.

use std::net::SocketAddr;

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use http::{Method, Request, StatusCode};
use serde_json::Value;

use crate::body::Pieces;
use crate::peer::Peer;

pub struct Api {
    peer: Peer,
    address: SocketAddr,
    authorization: HeaderValue,
}

impl Api {
    pub async fn connect(address: SocketAddr, key: &str) -> anyhow::Result<Self> {
        let authorization = HeaderValue::from_str(&format!("Bearer {key}"))?;
        Ok(Self { peer: Peer::connect(address).await?, address, authorization })
    }

    /// The body of an answer, which must have this status.
    pub async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: &Value,
        expected: StatusCode,
    ) -> anyhow::Result<Value> {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let mut request = Request::new(Pieces::one(Bytes::from(text)));
        *request.method_mut() = method;
        *request.uri_mut() = format!("/api{path}").parse().context("parse a path")?;
        let headers = request.headers_mut();
        headers.insert(HOST, HeaderValue::from_str(&self.address.to_string())?);
        headers.insert(AUTHORIZATION, self.authorization.clone());
        if !body.is_null() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let answer = self.peer.send(request).await?;
        let said = String::from_utf8_lossy(&answer.body);
        ensure!(answer.status == expected, "{path} gives {}: {said}", answer.status);
        Ok(serde_json::from_str(&said).unwrap_or_default())
    }

    /// How many integrations an organisation has, up to a page.
    pub async fn count_integrations(&mut self, organisation: &str) -> anyhow::Result<usize> {
        let path = format!("/mcp-integrations?limit=100&organizationId={organisation}");
        let page = self.ask(Method::GET, &path, &Value::Null, StatusCode::OK).await?;
        let items = page.get("items").and_then(Value::as_array).context("no items")?;
        Ok(items.len())
    }
}
