//! Requests to a gateway that runs elsewhere. A local gateway is started with that gateway as its
//! only server and asked at the server's own endpoint, so names are unchanged. From this machine's
//! configuration only `egress` is used.
//! A request of a command to the API displays its response as a table; names are accepted as ids.

use std::process::ExitCode;
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
use lockgate_text::count::count;
use lockgate_upstream::UpstreamState;
use serde_json::{Map, Value, json};
use tokio::runtime::{Builder, Runtime};
use url::Url;

use crate::commands::{ask, show};

/// The slug of the other gateway as a server.
const SLUG: &str = "gateway";
/// Timeout of a response in seconds: the longest that a gateway can be configured to wait.
const TIMEOUT: &str = "300";

/// The error for a key that the gateway rejects.
pub(crate) const KEY_REFUSED: &str =
    "the gateway requires a valid key; pass one with --key or LOCKGATE_CLIENT_KEY";

pub(crate) fn find_key(given: Option<&str>, sources: &Sources) -> Option<String> {
    given.map(str::to_owned).or_else(|| find_variable(sources, "LOCKGATE_CLIENT_KEY"))
}

pub(crate) fn find_url(given: Option<&str>, sources: &Sources) -> Option<String> {
    given.map(str::to_owned).or_else(|| find_variable(sources, "LOCKGATE_URL"))
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

fn find_variable(sources: &Sources, name: &str) -> Option<String> {
    sources.env.get(name).filter(|value| !value.is_empty()).cloned()
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
    /// What is asked, for errors: `gateway` or `registry`.
    noun: &'static str,
    runtime: Runtime,
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
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let connector = Arc::new(Connector::new(&egress)?);
        Ok(Self { noun: "gateway", runtime, connector, egress, base, key: value })
    }

    /// Creates a client for the registry at `url`.
    pub(crate) fn of_registry(url: &str, sources: Sources) -> anyhow::Result<Self> {
        if parse_url(url).is_none() {
            bail!("--registry must be an http:// or https:// address");
        }
        Ok(Self { noun: "registry", ..Self::new(url, None, sources)? })
    }

    /// Sends one request, escaping path segments. Returns null for a response without a body.
    pub(crate) fn send(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let mut target = self.base.clone();
        if let Ok(mut segments) = target.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        self.runtime.block_on(self.send_to(method, &target, body))
    }

    /// Returns the items of a list with `text` in their names.
    fn search(&self, list: &str, text: &str) -> anyhow::Result<Value> {
        let mut target = self.base.clone();
        if let Ok(mut segments) = target.path_segments_mut() {
            segments.pop_if_empty().extend(["api", list]);
        }
        target.query_pairs_mut().append_pair("search", text).append_pair("limit", "200");
        self.runtime.block_on(self.send_to(Method::GET, &target, None))
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
        let answer = tokio::time::timeout(EXCHANGE_TIMEOUT, self.exchange(&origin, request)).await;
        answer.context(self.describe_failure("did not respond in time"))?
    }

    async fn exchange(&self, origin: &Origin, request: Request<Payload>) -> anyhow::Result<Value> {
        let sent = origin.send(request).await;
        let response = sent.context(self.describe_failure("is unreachable"))?;
        let status = response.status();
        let body = response.into_body().collect_limited(MAX_ANSWER).await?;
        let answer = serde_json::from_slice(&body);
        if status.is_success() && !body.is_empty() {
            return answer.context(self.describe_failure("returned no JSON: check the address"));
        }
        let answer: Value = answer.unwrap_or_default();
        if status.is_success() {
            return Ok(answer);
        }
        let words = answer.get("detail").or_else(|| answer.get("error")).and_then(Value::as_str);
        match (status, words) {
            (StatusCode::UNAUTHORIZED, _) if self.noun == "gateway" => bail!(KEY_REFUSED),
            (_, Some(words)) => bail!("{words}"),
            (status, None) => bail!("the {} responded with {status}", self.noun),
        }
    }

    /// Prefixes an error with the address.
    fn describe_failure(&self, what: &str) -> String {
        format!("the {} at {} {what}", self.noun, self.base.as_str().trim_end_matches('/'))
    }
}

pub(crate) const INTEGRATIONS: &str = "mcp-integrations";

/// A request and the columns of its response.
pub(crate) struct Question<'a> {
    method: Method,
    path: Vec<&'a str>,
    body: Option<Value>,
    columns: &'static [&'static str],
    /// Whether a name may stand in place of an id in the path.
    takes_names: bool,
}

impl<'a> Question<'a> {
    pub(crate) fn new(method: Method, path: &[&'a str], columns: &'static [&'static str]) -> Self {
        let mut whole = vec!["api"];
        whole.extend_from_slice(path);
        Self { method, path: whole, body: None, columns, takes_names: true }
    }

    /// Marks the path as having no id.
    pub(crate) fn plain(self) -> Self {
        Self { takes_names: false, ..self }
    }

    pub(crate) fn with(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// Sends the request, and returns the text and the exit code of the command.
    pub(crate) fn run(
        self,
        gateway: &GatewayClient,
        json: bool,
    ) -> anyhow::Result<(String, ExitCode)> {
        let path = self.find_ids(gateway)?;
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let answer = gateway.send(self.method, &path, self.body.as_ref())?;
        let text = match (&answer, json) {
            (Value::Null, true) => show::pretty(&json!({"done": true})),
            (Value::Null, false) => "done".to_owned(),
            (answer, true) => show::pretty(answer),
            (answer, false) => show_answer(answer, self.columns),
        };
        let failed = answer.get("valid") == Some(&Value::Bool(false));
        Ok((text, if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }))
    }

    /// Returns the path with names replaced by ids.
    fn find_ids(&self, gateway: &GatewayClient) -> anyhow::Result<Vec<String>> {
        let mut path: Vec<String> = Vec::with_capacity(self.path.len());
        for segment in &self.path {
            let prefix = match path.last().map(String::as_str) {
                Some("agents") => "agt_",
                Some(INTEGRATIONS) => "int_",
                _ => "",
            };
            let is_id = segment.starts_with(prefix) || *segment == "available";
            path.push(match path.last() {
                Some(list) if self.takes_names && !is_id => find_id(gateway, list, segment)?,
                _ => (*segment).to_owned(),
            });
        }
        Ok(path)
    }
}

/// Returns the id of the item called `name`.
fn find_id(gateway: &GatewayClient, list: &str, name: &str) -> anyhow::Result<String> {
    let found = gateway.search(list, name)?;
    let mut ids = Vec::new();
    for item in show::list(&found, "items") {
        let is_called_so = ["name", "slug"].iter().any(|member| item[*member] == *name);
        if let (true, Some(id)) = (is_called_so, item["id"].as_str()) {
            ids.push(id.to_owned());
        }
    }
    match (ids.pop(), ids.is_empty()) {
        (Some(id), true) => Ok(id),
        (None, _) => bail!("nothing is named `{name}`; `list` shows all names"),
        (Some(id), false) => {
            bail!("several are named `{name}`: use the id, such as {id}; `list` shows the ids")
        }
    }
}

/// Formats a list as a table, a single item as a table with one row, and other responses as lines.
fn show_answer(answer: &Value, columns: &[&str]) -> String {
    if let Some(Value::Array(items)) = answer.get("items") {
        if items.is_empty() {
            return "there are none".to_owned();
        }
        return show_table(items, columns);
    }
    match answer.get("valid") {
        Some(valid) => show_validation(answer, valid == &Value::Bool(true)),
        None => {
            let one = answer.get("integration").unwrap_or(answer);
            let mut text = show_table(std::slice::from_ref(one), columns);
            for warning in show::list(one, "warnings") {
                text.push_str(&format!("\nwarning: {}", show::cell(warning, "message")));
            }
            text
        }
    }
}

fn show_validation(answer: &Value, is_valid: bool) -> String {
    if !is_valid {
        return format!("{} failed: {}", show::cell(answer, "stage"), show::cell(answer, "error"));
    }
    let offered = answer.get("capabilities").unwrap_or(&Value::Null);
    let mut parts = Vec::new();
    for (name, noun) in [("tools", "tool"), ("resources", "resource"), ("prompts", "prompt")] {
        let number = offered.get(name).and_then(Value::as_u64).unwrap_or(0);
        parts.push(count(number, noun));
    }
    format!("ok: {}", parts.join(", "))
}

fn show_table(items: &[Value], columns: &[&str]) -> String {
    let mut rows = Vec::new();
    for item in items {
        rows.push(columns.iter().map(|column| show_cell(item, column)).collect());
    }
    show::table(columns, &rows)
}

/// Formats a member as a cell: an object as JSON, and the items of an agent without a choice as
/// `all`.
fn show_cell(item: &Value, column: &str) -> String {
    match (column, item.get(column)) {
        ("items", Some(Value::Null)) => "all".to_owned(),
        (_, Some(Value::Object(members))) => Value::Object(members.clone()).to_string(),
        _ => show::cell(item, column),
    }
}
