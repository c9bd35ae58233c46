//! Requests to a gateway that runs elsewhere. A local gateway is started with that gateway as its
//! only server and asked at the server's own endpoint, so names are unchanged. From this machine's
//! configuration only `egress` is used.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use lockgate_config::{RunningAddresses, Sources};
use lockgate_egress::{Config, Connector, Origin, Payload, Policy};
use lockgate_proxy::Gateway;
use lockgate_proxy::transport::Endpoint;
use lockgate_upstream::UpstreamState;
use serde_json::{Map, Value};
use url::Url;

use crate::commands::ask;

/// The slug of the other gateway as a server.
const SLUG: &str = "gateway";
/// Timeout of a response in seconds: the longest that a gateway can be configured to wait.
const TIMEOUT: &str = "300";

/// The error for a key that the gateway rejects.
pub(crate) const KEY_REFUSED: &str =
    "the gateway requires a valid key; pass one with --key or LOCKGATE_CLIENT_KEY";

pub(crate) fn find_key(given: Option<&str>, sources: &Sources) -> Option<String> {
    match given {
        Some(key) => Some(key.to_owned()),
        None => find_variable(sources, "LOCKGATE_CLIENT_KEY"),
    }
}

pub(crate) fn find_url(given: Option<&str>, sources: &Sources) -> Option<String> {
    match given {
        Some(url) => Some(url.to_owned()),
        None => find_variable(sources, "LOCKGATE_URL"),
    }
}

/// Returns the address of a running gateway: the given address, that in the environment, or an
/// address from the configuration that is named or found here.
pub(crate) fn find_running(
    given: Option<&str>,
    sources: &Sources,
    choose: impl FnOnce(RunningAddresses) -> String,
) -> anyhow::Result<String> {
    if let Some(url) = find_url(given, sources) {
        return Ok(url);
    }
    let found = lockgate_config::find_addresses(sources);
    let found = found.context("the gateway's address is unknown; pass it with --url");
    Ok(choose(found?))
}

/// Prefixes an error with the gateway's address.
pub(crate) fn describe_failure(url: &str, what: &str) -> String {
    format!("the gateway at {} {what}", url.trim_end_matches('/'))
}

fn find_variable(sources: &Sources, name: &str) -> Option<String> {
    match sources.env.get(name) {
        Some(value) if !value.is_empty() => Some(value.clone()),
        _ => None,
    }
}

/// Returns the sources for the requested gateway, and whether the gateway runs elsewhere.
pub(crate) fn choose(
    url: Option<&str>,
    key: Option<&str>,
    given: Sources,
) -> anyhow::Result<(Sources, bool)> {
    match find_url(url, &given) {
        Some(url) => {
            let key = find_key(key, &given);
            Ok((sources(&url, key.as_deref(), given)?, true))
        }
        None if key.is_some() => bail!("--key requires --url, or the variable LOCKGATE_URL"),
        None => Ok((given, false)),
    }
}

/// Returns the sources of a configuration with the other gateway as its only server.
pub(crate) fn sources(url: &str, key: Option<&str>, given: Sources) -> anyhow::Result<Sources> {
    let Some(parsed) = parse_url(url) else {
        bail!("--url must be an http:// or https:// address, such as http://127.0.0.1:3001");
    };
    let key = key.unwrap_or("");
    if url.contains("${") || key.contains("${") {
        bail!("--url and --key are used literally; let the shell expand variables");
    }
    let whole = if parsed.path() == "/" {
        format!("{}/mcp", url.trim_end_matches('/'))
    } else {
        url.to_owned()
    };
    let mut env = given.env;
    env.retain(|name, _| name.starts_with("LOCKGATE_EGRESS__"));
    for (name, value) in [
        ("LOCKGATE_BUILTIN__SYSTEM", "false"),
        ("LOCKGATE_BUILTIN__EXAMPLE", "false"),
        ("LOCKGATE_SERVERS__GATEWAY__URL", &whole),
        ("LOCKGATE_SERVERS__GATEWAY__TIMEOUT", TIMEOUT),
    ] {
        env.insert(name.to_owned(), value.to_owned());
    }
    if !key.is_empty() {
        let name = "LOCKGATE_SERVERS__GATEWAY__HEADERS__AUTHORIZATION".to_owned();
        env.insert(name, format!("Bearer {key}"));
    }
    Ok(Sources { env, without_file: true, config: None, mcp_servers: Vec::new(), ..given })
}

fn parse_url(url: &str) -> Option<Uri> {
    let url: Uri = url.parse().ok()?;
    url.host()?;
    if matches!(url.scheme_str(), Some("http" | "https")) { Some(url) } else { None }
}

/// Returns the endpoint of the other gateway, if requested, or the local endpoint.
pub(crate) fn place(gateway: &Gateway, elsewhere: bool) -> anyhow::Result<Endpoint> {
    let servers = gateway.servers();
    let Some(server) = servers.iter().find(|server| elsewhere && server.slug() == SLUG) else {
        return Ok(Endpoint::All);
    };
    let status = server.status();
    match (status.state, &status.trouble) {
        (UpstreamState::Connected, _) => Ok(Endpoint::Server(SLUG.to_owned())),
        (UpstreamState::NeedsAuth, _) => bail!(KEY_REFUSED),
        (_, Some(trouble)) => bail!("the gateway is unreachable: {trouble}"),
        (_, None) => bail!("the gateway did not respond in time"),
    }
}

fn find_servers_tool(tools: &[Value]) -> Option<&str> {
    for tool in tools {
        if let Some(name) = tool["name"].as_str()
            && name.starts_with("system")
            && name.ends_with("servers")
        {
            return Some(name);
        }
    }
    None
}

/// Returns the servers of the other gateway, through its tool `system__servers`, which the other
/// gateway's operator may have disabled.
pub(crate) async fn servers(gateway: &Arc<Gateway>) -> anyhow::Result<Vec<Value>> {
    let at = place(gateway, true)?;
    let tools = ask::tools(gateway, &at).await?;
    let Some(name) = find_servers_tool(&tools) else {
        bail!(
            "the gateway does not offer `system__servers` to this caller, so its servers cannot \
                be listed"
        );
    };
    let answer = ask::call(gateway, &at, name, Value::Object(Map::new())).await?;
    match answer.result.pointer("/structuredContent/servers") {
        Some(Value::Array(servers)) => Ok(servers.clone()),
        _ => bail!("the gateway's response to `{name}` does not list servers"),
    }
}

// Requests to the API of a running gateway, each a single exchange with the caller's key.

/// Timeout of an exchange: a validation takes up to 30 s.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(40);
/// Maximum size of a response in bytes.
const MAX_ANSWER: usize = 64 << 20;

pub(crate) struct GatewayClient {
    connector: Arc<Connector>,
    egress: Config,
    base: Url,
    key: Option<HeaderValue>,
}

impl GatewayClient {
    /// Creates a client for the gateway at `url`, with or without a trailing `/mcp`.
    pub(crate) fn new(url: &str, key: Option<&str>, sources: Sources) -> anyhow::Result<Self> {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let loaded = lockgate_config::load(&self::sources(url, key, sources)?)?;
        let egress = loaded.config.egress;
        let mut base: Url = url.parse().context("--url")?;
        let path = base.path().trim_end_matches('/');
        let path = path.strip_suffix("/mcp").unwrap_or(path).to_owned();
        base.set_path(&path);
        let mut value = None;
        if let Some(key) = key.filter(|key| !key.is_empty()) {
            let mut header = HeaderValue::from_str(&format!("Bearer {key}")).context("--key")?;
            header.set_sensitive(true);
            value = Some(header);
        }
        Ok(Self { connector: Arc::new(Connector::new(&egress)?), egress, base, key: value })
    }

    /// Sends one request, escaping path segments. Returns null for a response without a body.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let mut target = self.base.clone();
        if let Ok(mut segments) = target.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        self.send_to(method, &target, body).await
    }

    /// Returns the items of a list with `text` in their names.
    pub(crate) async fn search(&self, list: &str, text: &str) -> anyhow::Result<Value> {
        let mut target = self.base.clone();
        if let Ok(mut segments) = target.path_segments_mut() {
            segments.pop_if_empty().extend(["api", list]);
        }
        target.query_pairs_mut().append_pair("search", text).append_pair("limit", "200");
        self.send_to(Method::GET, &target, None).await
    }

    async fn send_to(
        &self,
        method: Method,
        target: &Url,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let connector = Arc::clone(&self.connector);
        let origin = Origin::new(connector, target, Policy::Operator, &self.egress)?;
        let text = body.map(Value::to_string).unwrap_or_default();
        let mut request = Request::new(Payload::from(Bytes::from(text)));
        *request.method_mut() = method;
        *request.uri_mut() = origin.uri().clone();
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = &self.key {
            headers.insert(AUTHORIZATION, key.clone());
        }
        let url = self.base.as_str();
        let answer = tokio::time::timeout(EXCHANGE_TIMEOUT, exchange(url, &origin, request)).await;
        answer.context(describe_failure(url, "did not respond in time"))?
    }
}

async fn exchange(url: &str, origin: &Origin, request: Request<Payload>) -> anyhow::Result<Value> {
    let sent = origin.send(request).await;
    let response = sent.context(describe_failure(url, "is unreachable"))?;
    let status = response.status();
    let body = response.into_body().collect_limited(MAX_ANSWER).await?;
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    if status.is_success() {
        return Ok(answer);
    }
    let words = answer.get("detail").or_else(|| answer.get("error")).and_then(Value::as_str);
    match (status, words) {
        (StatusCode::UNAUTHORIZED, _) => bail!(KEY_REFUSED),
        (_, Some(words)) => bail!("{words}"),
        (status, None) => bail!("the gateway responded with {status}"),
    }
}
