//! Requests to a gateway that runs elsewhere. A local gateway is started with that gateway as its
//! only server and asked at the server's own endpoint, so names are unchanged. From this machine's
//! configuration only `egress` is used.
//! A request of a command to the API displays its response as a table; names are accepted as ids.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use lockgate_admin::Fault;
use lockgate_config::{RunningAddresses, Sources};
use lockgate_egress::{Connector, Origin, Payload, Policy};
use lockgate_proxy::Gateway;
use lockgate_proxy::transport::Endpoint;
use lockgate_text::count::count;
use lockgate_text::json;
use lockgate_upstream::UpstreamState;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use url::Url;

use crate::commands::{Printed, ask, show};

/// The slug of the other gateway as a server.
const SLUG: &str = "gateway";
/// Timeout of a response in seconds: the longest that a gateway can be configured to wait.
const TIMEOUT: &str = "300";

/// The error for a key that the gateway rejects.
pub(crate) const KEY_REFUSED: &str =
    "the gateway requires a valid key; pass one with --key or LOCKGATE_CLIENT_KEY";

pub(crate) fn find_key(given: Option<&str>, sources: &Sources) -> Option<String> {
    find(given, sources, "LOCKGATE_CLIENT_KEY")
}

/// Returns the given value, or that of a variable.
fn find(given: Option<&str>, sources: &Sources, variable: &str) -> Option<String> {
    let of_variable = sources.env.get(variable).filter(|value| !value.is_empty());
    given.or(of_variable.map(String::as_str)).map(str::to_owned)
}

/// Returns the address of a running gateway: the given address, that in the environment, or an
/// address from the configuration that is named or found here.
pub(crate) fn find_running(
    given: Option<&str>,
    sources: &Sources,
    choose: impl FnOnce(RunningAddresses) -> String,
) -> anyhow::Result<String> {
    if let Some(url) = find(given, sources, "LOCKGATE_URL") {
        return Ok(url);
    }
    let found = lockgate_config::find_addresses(sources).map_err(|report| anyhow!("{report}"));
    let found = found.context("the gateway's address is unknown; pass it with --url");
    Ok(choose(found?))
}

/// Returns the sources for the requested gateway, and its address if it runs elsewhere.
pub(crate) fn choose(
    url: Option<&str>,
    key: Option<&str>,
    given: Sources,
) -> anyhow::Result<(Sources, Option<String>)> {
    match find(url, &given, "LOCKGATE_URL") {
        Some(url) => {
            let key = find_key(key, &given);
            Ok((sources(&url, key.as_deref(), given)?, Some(url)))
        }
        None if key.is_some() => bail!("--key requires --url, or the variable LOCKGATE_URL"),
        None => Ok((given, None)),
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

/// A gateway that runs elsewhere.
pub(crate) struct RemoteGateway {
    /// Its address, for messages.
    pub(crate) url: String,
    /// How long the command waits for it.
    pub(crate) wait: Duration,
}

/// Returns the endpoint of the other gateway, if requested, or the local endpoint.
pub(crate) fn place(
    gateway: &Gateway,
    elsewhere: Option<&RemoteGateway>,
) -> anyhow::Result<Endpoint> {
    let Some(RemoteGateway { url, wait }) = elsewhere else { return Ok(Endpoint::All) };
    let servers = gateway.servers();
    let server = servers.iter().find(|server| server.slug() == SLUG);
    let Some(server) = server else { return Ok(Endpoint::All) };
    let status = server.status();
    match (status.state, &status.trouble) {
        (UpstreamState::Connected, _) => Ok(Endpoint::Server(SLUG.to_owned())),
        (UpstreamState::NeedsAuth, _) => bail!(KEY_REFUSED),
        (_, Some(trouble)) => {
            let fix = Fault::of_server(SLUG, trouble, true).fix;
            // A command does not retry.
            let fix = fix.trim_end_matches(" Lockgate retries automatically.");
            bail!("the gateway at {url} is unreachable: {trouble}. {fix}")
        }
        (_, None) => bail!(
            "the gateway at {url} did not respond within {} s. Check the address and its load, or \
                wait longer with --wait SECONDS.",
            wait.as_secs()
        ),
    }
}

impl RemoteGateway {
    /// Returns the servers of the gateway, through its tool `system__servers`, which its operator
    /// may have disabled.
    pub(crate) async fn servers(&self, gateway: &Arc<Gateway>) -> anyhow::Result<Vec<Value>> {
        let at = place(gateway, Some(self))?;
        let tools = ask::tools(gateway, &at).await?;
        let mut names = tools.iter().filter_map(|tool| tool["name"].as_str());
        let name = names.find(|name| name.starts_with("system") && name.ends_with("servers"));
        let name = name.with_context(|| {
            format!(
                "the gateway at {} does not offer `system__servers` to this caller, so its servers \
                    cannot be listed. Ask its operator to enable `builtin.system` and to permit \
                    the tool, or open its console.",
                self.url
            )
        })?;
        let answer = ask::call(gateway, &at, name, json!({})).await?;
        let servers = answer["structuredContent"]["servers"].as_array().cloned();
        servers.with_context(|| {
            let url = &self.url;
            format!("the response of the gateway at {url} to `{name}` does not list servers")
        })
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
    base: Url,
    key: Option<HeaderValue>,
}

impl GatewayClient {
    /// Creates a client for the gateway at `url`, with or without a trailing `/mcp`.
    pub(crate) fn new(url: &str, key: Option<&str>, sources: Sources) -> anyhow::Result<Self> {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let loaded = lockgate_config::load(&self::sources(url, key, sources)?);
        // In words, because the mistakes are not those of a file of the caller.
        let loaded = loaded.map_err(|report| anyhow!("{report}"))?;
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
        let connector = Arc::new(Connector::new(&loaded.config.egress)?);
        Ok(Self { noun: "gateway", runtime, connector, base, key: value })
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
        self.exchange(method, &self.find_target(path), body)
    }

    fn find_target(&self, path: &[&str]) -> Url {
        let mut target = self.base.clone();
        if let Ok(mut segments) = target.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        target
    }

    /// Returns the items of a list with `text` in their names.
    fn search(&self, list: &str, text: &str) -> anyhow::Result<Value> {
        let mut target = self.find_target(&["api", list]);
        target.query_pairs_mut().append_pair("search", text).append_pair("limit", "200");
        self.exchange(Method::GET, &target, None)
    }

    fn exchange(
        &self,
        method: Method,
        target: &Url,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let origin = Origin::new(Arc::clone(&self.connector), target, Policy::Operator)?;
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
        let exchange = async {
            let response = origin.send(request).await.map_err(|error| {
                let cause = show::describe_error(&error.into());
                let fix = format!("Check the address, and that the {} is running.", self.noun);
                anyhow!(self.describe(&format!("is unreachable: {cause}. {fix}")))
            })?;
            let status = response.status();
            anyhow::Ok((status, response.into_body().collect_limited(MAX_ANSWER).await?))
        };
        let answer =
            self.runtime.block_on(async { tokio::time::timeout(EXCHANGE_TIMEOUT, exchange).await });
        let (status, body) = answer.with_context(|| {
            let seconds = EXCHANGE_TIMEOUT.as_secs();
            let fix = "check its load and its log";
            self.describe(&format!("did not respond within {seconds} s: {fix}"))
        })??;
        self.read(status, &body)
    }

    fn read(&self, status: StatusCode, body: &[u8]) -> anyhow::Result<Value> {
        if status.is_success() && body.is_empty() {
            return Ok(Value::Null);
        }
        let answer = json::from_slice(body);
        if status.is_success() {
            return answer.context(self.describe("returned no JSON: check the address"));
        }
        let answer: Value = answer.unwrap_or_default();
        let words = answer.get("detail").or_else(|| answer.get("error")).and_then(Value::as_str);
        match (status, words) {
            (StatusCode::UNAUTHORIZED, _) if self.noun == "gateway" => bail!(KEY_REFUSED),
            (_, Some(words)) => bail!("{words}"),
            (status, None) => {
                bail!(self.describe(&format!("responded with {status}: check the address")))
            }
        }
    }

    /// Prefixes an error with the address.
    fn describe(&self, what: &str) -> String {
        format!("the {} at {} {what}", self.noun, show::address(self.base.as_str()))
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

    pub(crate) fn get(path: &[&'a str], columns: &'static [&'static str]) -> Self {
        Self::new(Method::GET, path, columns)
    }

    pub(crate) fn post(path: &[&'a str], columns: &'static [&'static str]) -> Self {
        Self::new(Method::POST, path, columns)
    }

    pub(crate) fn delete(path: &[&'a str], columns: &'static [&'static str]) -> Self {
        Self::new(Method::DELETE, path, columns)
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
    pub(crate) fn run(self, gateway: &GatewayClient, json: bool) -> Printed {
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
    let items = show::list(&found, "items").iter();
    let named = items.filter(|item| item["name"] == *name || item["slug"] == *name);
    let ids: Vec<&str> = named.filter_map(|item| item["id"].as_str()).collect();
    match ids[..] {
        [id] => Ok(id.to_owned()),
        [] => bail!("nothing is named `{name}`; `list` shows all names"),
        [.., id] => {
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
    let offered = &answer["capabilities"];
    let kinds = [("tools", "tool"), ("resources", "resource"), ("prompts", "prompt")];
    let parts = kinds.map(|(name, noun)| count(offered[name].as_u64().unwrap_or(0), noun));
    format!("ok: {}", parts.join(", "))
}

fn show_table(items: &[Value], columns: &[&str]) -> String {
    let rows = items.iter().map(|item| {
        let cells = columns.iter().map(|column| show_cell(item, column));
        cells.collect()
    });
    show::table(columns, &rows.collect::<Vec<_>>())
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
