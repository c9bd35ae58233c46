//! The command line as a client: starts a gateway in this process for a single request, which takes
//! the same path as a client's.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use http::HeaderMap;
use lockgate_admin::{Params, compose_request};
use lockgate_authn::{Credentials, Peer};
use lockgate_config::Loaded;
use lockgate_protocol::method::Method;
use lockgate_proxy::transport::{Endpoint, ReplyBody, Transport};
use lockgate_proxy::{Gateway, ToolSearch};
use lockgate_text::json;
use lockgate_upstream::UpstreamState;
use serde_json::{Value, json};

use crate::app::App;
use crate::commands::Printed;
use crate::trail;

/// Interval between checks of servers that are still starting.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Starts the gateway, waits until its servers have settled, asks `question` and shuts everything
/// down. `wait` bounds the wait for servers; without it, the longest configured deadline applies.
pub(crate) fn with_gateway(
    mut loaded: Loaded,
    wait: Option<Duration>,
    question: impl AsyncFnOnce(&Arc<Gateway>) -> Printed,
) -> Printed {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    // At a terminal, errors are printed with the result, so the default log is silenced.
    if loaded.config.telemetry.level == "info" {
        loaded.config.telemetry.level = "off".into();
    }
    trail::step_aside(&mut loaded.config.telemetry);
    lockgate_telemetry::init(&loaded.config.telemetry)?;
    let longest = loaded.config.servers.iter().map(|server| server.start_timeout).max();
    let longest = longest.max(Some(loaded.config.proxy.limits.discovery_deadline));
    let deadline = wait.or(longest).unwrap_or_default();
    loaded.config.proxy.limits.discovery_deadline = deadline;
    // The command line is no model: it gets full lists.
    loaded.config.proxy.tool_search = ToolSearch::default();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let app = App::start(&loaded.config, None, None)?;
        let _ = tokio::time::timeout(deadline, settle(&app.gateway)).await;
        let answer = question(&app.gateway).await;
        app.close().await;
        answer
    })
}

/// Waits until the state of every server is known, including servers with cached tools.
async fn settle(gateway: &Gateway) {
    gateway.settle().await;
    while gateway.servers().iter().any(|server| server.status().state == UpstreamState::Pending) {
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

/// Parses the arguments from the command line, or from stdin for `-`.
pub(crate) fn arguments(text: &str) -> anyhow::Result<Value> {
    let text = match text {
        "-" => std::io::read_to_string(std::io::stdin()).context("stdin")?,
        text => text.to_owned(),
    };
    let value: Value = json::from_str(&text).context("the arguments are not JSON")?;
    if !value.is_object() {
        bail!("the arguments must be a JSON object, such as '{{\"text\":\"hi\"}}'");
    }
    Ok(value)
}

/// Returns all tools, over all pages.
pub(crate) async fn tools(gateway: &Arc<Gateway>, at: &Endpoint) -> anyhow::Result<Vec<Value>> {
    let mut all = Vec::new();
    let mut params = json!({});
    loop {
        let mut result = ask(gateway, at, Method::ToolsList, &params).await?;
        if let Some(Value::Array(tools)) = result.get_mut("tools") {
            all.append(tools);
        }
        let Some(cursor) = result.get("nextCursor") else { return Ok(all) };
        params = json!({"cursor": cursor});
    }
}

pub(crate) async fn call(
    gateway: &Arc<Gateway>,
    at: &Endpoint,
    name: &str,
    arguments: Value,
) -> anyhow::Result<Value> {
    let params = json!({"name": name, "arguments": arguments});
    ask(gateway, at, Method::ToolsCall, &params).await
}

async fn ask(
    gateway: &Arc<Gateway>,
    at: &Endpoint,
    method: Method,
    params: &Value,
) -> anyhow::Result<Value> {
    let credentials = Credentials { peer: Peer::Stdio, bearer: None, certificate: None };
    let Ok(principal) = gateway.identify(at, &credentials).await else {
        bail!("the local user is not admitted")
    };
    let params: Params = json::from_str(&params.to_string())?;
    let place = (at.clone(), Transport::Mcp);
    let exchange = compose_request(place, principal, method, params, HeaderMap::new(), false);
    let exchange = exchange.context("the request cannot be written")?;
    let ReplyBody::Message(text) = gateway.receive_modern(&exchange).await.body else {
        bail!("the gateway did not respond")
    };
    let mut answer: Value =
        json::from_slice(&text.into_bytes()).context("the response is not JSON")?;
    if let Some(error) = answer.get("error") {
        let message = error["message"].as_str().unwrap_or("unknown error");
        let hint =
            if message.starts_with("unknown tool") { "; `lockgate tools` lists them" } else { "" };
        return Err(anyhow!("{message}{hint}"));
    }
    Ok(answer.get_mut("result").map(Value::take).unwrap_or_default())
}
