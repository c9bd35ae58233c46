//! A server of a registry (API v0.1) as the entry of a client's file. Only remote servers are
//! imported: packages would be programs to run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, bail};
use http::Method;
use lockgate_config::Sources;
use serde_json::{Map, Value, json};

use crate::commands::gateway_client::GatewayClient;

/// Reads `NAME` or `NAME@VERSION` from a registry. Returns its source and the text of the entry.
pub(super) fn read(
    registry: &str,
    name: &str,
    sources: &Sources,
) -> anyhow::Result<(PathBuf, String)> {
    let (name, version) = name.split_once('@').unwrap_or((name, "latest"));
    let client = GatewayClient::new(registry, None, sources.clone())?;
    let path = ["v0.1", "servers", name, "versions", version];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let found = runtime.block_on(client.send(Method::GET, &path, None));
    let found = found.with_context(|| format!("{name} of {registry}"))?;
    let (version, entry) = convert(name, &found["server"])?;
    Ok((PathBuf::from(format!("the registry: {name} {version}")), entry))
}

/// Converts an entry to the text of a client's file; returns its version too.
fn convert(name: &str, server: &Value) -> anyhow::Result<(String, String)> {
    if server["name"] != name {
        bail!("the registry returned another server than {name}");
    }
    let version = server["version"].as_str().unwrap_or("").to_owned();
    if version.is_empty() || version.contains(char::is_control) {
        bail!("{name} has no version");
    }
    let remotes = server["remotes"].as_array().map_or(&[][..], Vec::as_slice);
    let found = find_type(remotes, "streamable-http").or_else(|| find_type(remotes, "sse"));
    let Some(remote) = found else {
        bail!("{name} has no `remotes`; add its program to `servers` yourself, with `command`");
    };
    let short = name.rsplit('/').next().unwrap_or(name);
    let url = remote["url"].as_str().context("a remote has no `url`")?;
    let url = fill(url, short, &remote["variables"])?;
    let mut headers = BTreeMap::new();
    for header in remote["headers"].as_array().map_or(&[][..], Vec::as_slice) {
        let Some(key) = header["name"].as_str() else { bail!("a header has no `name`") };
        let value = match header["value"].as_str() {
            Some(value) => fill(value, short, &header["variables"])?,
            None if header["isRequired"] == true => variable(short, key),
            None => continue,
        };
        headers.insert(key, value);
    }
    let transport = if remote["type"] == "sse" { "sse" } else { "http" };
    let mut entry = Map::new();
    let described = json!({"url": url, "type": transport, "headers": headers});
    entry.insert(short.to_owned(), described);
    Ok((version, json!({"mcpServers": entry}).to_string()))
}

fn find_type<'a>(remotes: &'a [Value], kind: &str) -> Option<&'a Value> {
    remotes.iter().find(|remote| remote["type"] == kind)
}

/// Replaces `{name}` by the default of the variable, or a reference to the environment.
fn fill(template: &str, server: &str, variables: &Value) -> anyhow::Result<String> {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else {
            bail!("the template {template:.200?} has no closing brace")
        };
        out.push_str(literal(before)?);
        match variables[name]["default"].as_str() {
            Some(default) => out.push_str(literal(default)?),
            None => out.push_str(&variable(server, name)),
        }
        rest = after;
    }
    out.push_str(literal(rest)?);
    if out.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:")) {
        bail!("the value {out:.200?} would be read from a file");
    }
    Ok(out)
}

/// Returns text of the registry that the configuration takes literally. A reference would send a
/// variable of the environment to the server.
fn literal(text: &str) -> anyhow::Result<&str> {
    if text.contains('$') {
        bail!("the value {text:.200?} contains `$`, which starts a reference to the environment");
    }
    Ok(text)
}

/// Returns a reference to an environment variable for an input of a server.
fn variable(server: &str, input: &str) -> String {
    let mut name = format!("{server}_{input}").to_ascii_uppercase();
    name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert(0, '_');
    }
    format!("${{{name}}}")
}

#[cfg(test)]
mod tests;
