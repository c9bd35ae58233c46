//! `lockgate approvals`: lists the calls that wait for approval at a running gateway, and approves
//! or denies them. The gateway decides which approvals the caller may give.

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Subcommand;
use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderValue, Method, Request, StatusCode};
use lockgate_config::Sources;
use lockgate_egress::{Connector, Origin, Payload, Policy};
use serde_json::Value;
use url::Url;

use crate::commands::remote;
use crate::commands::show::list;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a response in bytes.
const MAX_ANSWER: usize = 64 << 20;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the calls that wait for your approval
    List,
    /// Approve a call: it is sent once, exactly as shown
    Approve {
        /// The id, as `list` shows it
        id: String,
    },
    /// Deny a call
    Deny {
        /// The id, as `list` shows it
        id: String,
    },
}

pub(crate) fn run(
    command: &Command,
    url: &str,
    key: Option<&str>,
    sources: Sources,
    json: bool,
) -> anyhow::Result<(String, ExitCode)> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let loaded = lockgate_config::load(&remote::sources(url, key, sources)?)?;
    let egress = loaded.config.egress;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (method, path) = match command {
            Command::List => (Method::GET, String::new()),
            Command::Approve { id } => (Method::POST, format!("/{}/approve", checked(id)?)),
            Command::Deny { id } => (Method::POST, format!("/{}/deny", checked(id)?)),
        };
        let mut target: Url = url.parse().context("--url")?;
        let base = target.path().trim_end_matches('/');
        let base = base.strip_suffix("/mcp").unwrap_or(base);
        let path = format!("{base}/approvals{path}");
        target.set_path(&path);
        let connector = Arc::new(Connector::new(&egress)?);
        let origin = Origin::new(connector, &target, Policy::Operator, &egress)?;
        let mut request = Request::new(Payload::from(Bytes::new()));
        *request.method_mut() = method;
        *request.uri_mut() = origin.uri().clone();
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(key) = key
            && !key.is_empty()
        {
            let mut value = HeaderValue::from_str(&format!("Bearer {key}")).context("--key")?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, exchange(url, &origin, request)).await;
        let answer = answer.context(remote::describe_failure(url, "did not respond in time"))??;
        let text = match (json, command) {
            (true, _) => serde_json::to_string_pretty(&answer)?,
            (false, Command::List) => show_list(&answer),
            (false, _) => show_state(&answer),
        };
        Ok((text, ExitCode::SUCCESS))
    })
}

/// Checks that an id is hexadecimal, as the gateway's are, so that it cannot change the path.
fn checked(id: &str) -> anyhow::Result<&str> {
    if id.is_empty() || id.contains(|c: char| !c.is_ascii_hexdigit()) {
        bail!("`{id}` is not a call id; `lockgate approvals list` shows the ids");
    }
    Ok(id)
}

async fn exchange(url: &str, origin: &Origin, request: Request<Payload>) -> anyhow::Result<Value> {
    let sent = origin.send(request).await;
    let response = sent.context(remote::describe_failure(url, "is unreachable"))?;
    let status = response.status();
    let body = response.into_body().collect_limited(MAX_ANSWER).await?;
    let answer: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    match (status, answer["error"].as_str()) {
        (StatusCode::OK, _) => Ok(answer),
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => bail!(remote::KEY_REFUSED),
        (_, Some(words)) => bail!("{words}"),
        (status, None) => bail!("the gateway responded with {status}"),
    }
}

fn show_list(answer: &Value) -> String {
    let mut text = String::new();
    for call in list(answer, "approvals") {
        let _ = writeln!(
            text,
            "{}  {} calls {} (server {}), {} s left\n  arguments {}\n  {}",
            text_of(call, "id"),
            text_of(call, "caller"),
            text_of(call, "tool"),
            text_of(call, "server"),
            number_of(call, "expires_in"),
            text_of(call, "arguments"),
            show_policies(call),
        );
    }
    if text.is_empty() {
        return "no calls are waiting for your approval".into();
    }
    text.trim_end().to_owned()
}

fn show_policies(call: &Value) -> String {
    let mut parts = Vec::new();
    for policy in list(call, "policies") {
        let name = text_of(policy, "policy");
        let given = number_of(policy, "approvals");
        parts.push(format!("policy {name}: {given} of {}", number_of(policy, "needed")));
    }
    parts.join(", ")
}

fn show_state(answer: &Value) -> String {
    let id = text_of(answer, "id");
    match text_of(answer, "state") {
        "waiting" => {
            format!("{id} approved by you, waiting for other approvers: {}", show_policies(answer))
        }
        state => format!("{id} {state}"),
    }
}

fn text_of<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or("")
}

fn number_of(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or(0)
}
