//! A client of the REST API, with one request at a time on a single connection. Unexpected statuses
//! are errors.

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

    /// Sends a request and returns the response body; fails unless the status is `expected`.
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

    /// Returns the number of an organisation's integrations, up to one page.
    pub async fn count_integrations(&mut self, organisation: &str) -> anyhow::Result<usize> {
        let path = format!("/mcp-integrations?limit=100&organizationId={organisation}");
        let page = self.ask(Method::GET, &path, &Value::Null, StatusCode::OK).await?;
        let items = page.get("items").and_then(Value::as_array).context("no items")?;
        Ok(items.len())
    }
}
