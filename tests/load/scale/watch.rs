//! The members' view: the latency of their lists, and the time until a change is effective. A list
//! with a missing server does not count.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use http::{Method, StatusCode};
use memchr::memmem;
use serde_json::{Value, json};

use super::Stand;
use super::api::Api;
use crate::generate::quantile;
use crate::peer::Peer;
use crate::wire::{Era, Face, Template, expect_result};

/// Measured lists per organisation.
const MEASURED_LISTS: usize = 400;
/// Integrations that are added and removed.
const CHANGES: usize = 20;
/// Limit on each wait.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

pub struct Lists {
    /// Tools in the longest list.
    pub tools: usize,
    /// The slowest first list, which includes connecting to the servers.
    pub first_ms: f64,
    /// The median and the 99th percentile of later lists.
    pub warm_ms: [f64; 2],
}

/// Times of changes, each the median and the maximum.
pub struct Changes {
    pub answer_ms: [f64; 2],
    pub called_ms: [f64; 2],
    pub gone_ms: [f64; 2],
}

fn face(address: SocketAddr, key: &str) -> Face {
    Face { name: "member", address, path: "/mcp", tool: "", key: Some(key.to_owned()) }
}

/// Measures the lists of the keys' organisations, in turn on a single connection.
pub async fn lists(
    address: SocketAddr,
    keys: &[String],
    integrations: usize,
) -> anyhow::Result<Lists> {
    let mut peer = Peer::connect(address).await?;
    let mut lists = Lists { tools: 0, first_ms: 0.0, warm_ms: [0.0; 2] };
    for key in keys {
        let began = Instant::now();
        let tools = whole_list(&mut peer, &face(address, key), integrations).await?;
        lists.first_ms = lists.first_ms.max(began.elapsed().as_secs_f64() * 1e3);
        lists.tools = lists.tools.max(tools);
    }
    let mut nanos = Vec::with_capacity(MEASURED_LISTS * keys.len());
    for _ in 0..MEASURED_LISTS {
        for key in keys {
            let template = Template::list(&face(address, key), Era::Modern, None, None)?;
            let id = peer.fresh_id();
            let began = Instant::now();
            let answer = peer.send(template.request(id)).await?;
            nanos.push(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
            expect_result(&answer, id)?;
        }
    }
    nanos.sort_unstable();
    lists.warm_ms = [0.5, 0.99].map(|share| quantile(&nanos, share) as f64 / 1e6);
    Ok(lists)
}

/// Lists until every server is included; returns the number of tools.
async fn whole_list(peer: &mut Peer, face: &Face, integrations: usize) -> anyhow::Result<usize> {
    let template = Template::list(face, Era::Modern, None, None)?;
    let deadline = Instant::now() + WAIT_TIMEOUT;
    loop {
        let id = peer.fresh_id();
        let answer = peer.send(template.request(id)).await?;
        expect_result(&answer, id)?;
        let is_whole = (0..integrations).all(|number| {
            let prefix = format!("\"own{number}__");
            memmem::find(&answer.body, prefix.as_bytes()).is_some()
        });
        if is_whole && memmem::find(&answer.body, b"lockgate/degraded").is_none() {
            let value: Value = serde_json::from_slice(&answer.body).context("no JSON")?;
            let tools = value.pointer("/result/tools").and_then(Value::as_array);
            return Ok(tools.context("no tools")?.len());
        }
        ensure!(Instant::now() < deadline, "no whole list in {} s", WAIT_TIMEOUT.as_secs());
    }
}

/// Measures adding and removing integrations in a member's organisation.
pub async fn changes(
    address: SocketAddr,
    operator: &str,
    member: &str,
    stand: &Stand,
) -> anyhow::Result<Changes> {
    let mut api = Api::connect(address, operator).await?;
    let mut peer = Peer::connect(address).await?;
    let mut answered = Vec::new();
    let mut called = Vec::new();
    let mut gone = Vec::new();
    let organisation = super::fill::organisation(0);
    for number in 0..CHANGES {
        let name = format!("new{number}");
        let tool = format!("{name}__echo");
        let url = format!("http://{}/mcp", stand.echo.address);
        let body = json!({"name": name, "slug": name, "serverUrl": url, "authMethod": "none"});
        let path = format!("/mcp-integrations/custom?organizationId={organisation}");
        let began = Instant::now();
        let made = api.ask(Method::POST, &path, &body, StatusCode::CREATED).await?;
        answered.push(began.elapsed());
        let id = made.get("id").and_then(Value::as_str).context("no id")?;
        wait_for(&mut peer, &face(address, member), &tool, true).await?;
        called.push(began.elapsed());
        let path = format!("/mcp-integrations/{id}?organizationId={organisation}");
        let began = Instant::now();
        api.ask(Method::DELETE, &path, &Value::Null, StatusCode::NO_CONTENT).await?;
        wait_for(&mut peer, &face(address, member), &tool, false).await?;
        gone.push(began.elapsed());
    }
    let [answer_ms, called_ms, gone_ms] = [answered, called, gone].map(middle_and_most);
    Ok(Changes { answer_ms, called_ms, gone_ms })
}

/// Calls a tool until the call succeeds or, if `is_there` is false, fails.
async fn wait_for(peer: &mut Peer, face: &Face, tool: &str, is_there: bool) -> anyhow::Result<()> {
    let template = Template::tool(face, Era::Modern, None, tool, r#"{"text":"hi"}"#)?;
    let deadline = Instant::now() + WAIT_TIMEOUT;
    while Instant::now() < deadline {
        let id = peer.fresh_id();
        let answer = peer.send(template.request(id)).await?;
        if expect_result(&answer, id).is_ok() == is_there {
            return Ok(());
        }
    }
    bail!("{tool} there: {is_there} took longer than {} s", WAIT_TIMEOUT.as_secs())
}

/// Returns the median and the maximum, in milliseconds.
fn middle_and_most(mut times: Vec<Duration>) -> [f64; 2] {
    times.sort_unstable();
    let half = times.get(times.len() / 2).copied().unwrap_or_default();
    let most = times.last().copied().unwrap_or_default();
    [half, most].map(|time| time.as_secs_f64() * 1e3)
}
