//! `lockgate init`: writes a first configuration file, optionally with the servers of a client.
//! Never prompts and never overwrites a file.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use http::Method;
use lockgate_config::{Draft, RequiredVariable, Sources, draft, has_servers};
use serde_json::{Map, Value, json};

use crate::commands::Printed;
use crate::commands::remote::GatewayClient;
use crate::commands::show::{address, list, pretty};

const DEFAULT: &str = "lockgate.yaml";
/// Other file names that would be found as a configuration.
const OTHERS: [&str; 3] = ["lockgate.yml", "lockgate.toml", "lockgate.json"];

/// Configuration files of clients, below the settings folder (`~/.config`), the home folder or the
/// current folder. Of two servers with the same name the first is taken, so that a file in a
/// project folder cannot replace the user's own choice.
const CLAUDE: &[(Base, &str)] = &[
    (Base::Settings, "Claude/claude_desktop_config.json"),
    (Base::Home, "Library/Application Support/Claude/claude_desktop_config.json"),
    (Base::Home, ".claude.json"),
    (Base::Here, ".mcp.json"),
];
const CURSOR: &[(Base, &str)] =
    &[(Base::Home, ".cursor/mcp.json"), (Base::Here, ".cursor/mcp.json")];
const VSCODE: &[(Base, &str)] = &[
    (Base::Settings, "Code/User/mcp.json"),
    (Base::Settings, "Code/User/settings.json"),
    (Base::Home, "Library/Application Support/Code/User/mcp.json"),
    (Base::Here, ".vscode/mcp.json"),
];

#[derive(Clone, Copy)]
enum Base {
    Here,
    Settings,
    Home,
}

#[derive(clap::Args)]
pub(crate) struct Init {
    /// Import the servers of a client: `claude`, `cursor`, `vscode`, or the path of its file; or a
    /// server of a registry: `registry NAME` or `registry NAME@VERSION`; may be repeated
    #[arg(long, value_names = ["CLIENT", "NAME"], num_args = 1..=2)]
    from: Vec<String>,
    /// The registry of `--from registry`
    #[arg(long, value_name = "URL", default_value = "https://registry.modelcontextprotocol.io")]
    registry: String,
}

impl Init {
    pub(crate) fn run(&self, sources: &Sources, json: bool) -> Printed {
        let target = find_target(sources)?;
        let home = sources.env.get("HOME").cloned().unwrap_or_default();
        let mut files = Vec::new();
        let mut texts = Vec::new();
        let mut clients = self.from.iter();
        while let Some(client) = clients.next() {
            if client != "registry" {
                files.extend(find_files(client, &home, sources)?);
                continue;
            }
            let name = clients.next().context("--from registry requires the name of a server")?;
            texts.push(read(&self.registry, name, sources)?);
        }
        let draft = draft(&files, &texts, &home, &sources.cwd)?;
        write_new(&target, &draft.text)?;
        let shown = target.strip_prefix(&sources.cwd).unwrap_or(&target);
        let text = if json {
            pretty(&json!({
                "file": target,
                "servers": draft.servers,
                "variables": draft.variables,
                "problems": draft.notes,
            }))
        } else {
            describe(shown, &draft, sources)
        };
        Ok((text, ExitCode::SUCCESS))
    }
}

/// Returns the file to write, which must not exist yet.
fn find_target(sources: &Sources) -> anyhow::Result<PathBuf> {
    let Some(named) = &sources.config else {
        if let Some(other) = OTHERS.iter().find(|other| sources.cwd.join(other).exists()) {
            bail!("{other} already exists and would be read by Lockgate; nothing was written");
        }
        return Ok(sources.cwd.join(DEFAULT));
    };
    match named.extension().and_then(|extension| extension.to_str()) {
        Some("yaml" | "yml") => Ok(sources.cwd.join(named)),
        _ => bail!("{} must end in .yaml", named.display()),
    }
}

/// Returns the existing files of a client that contain servers.
fn find_files(client: &str, home: &str, sources: &Sources) -> anyhow::Result<Vec<PathBuf>> {
    let candidates = match client.to_ascii_lowercase().as_str() {
        "claude" | "claude-desktop" | "claude-code" => CLAUDE,
        "cursor" => CURSOR,
        "vscode" | "code" | "vs-code" => VSCODE,
        _ => {
            let file = sources.cwd.join(client);
            if file.is_file() {
                return Ok(vec![file]);
            }
            bail!("{client} is not claude, cursor, vscode or an existing file");
        }
    };
    let settings = match sources.env.get("XDG_CONFIG_HOME") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => Path::new(home).join(".config"),
    };
    let looked = candidates.iter().map(|(base, name)| match base {
        Base::Here => sources.cwd.join(name),
        Base::Settings => settings.join(name),
        Base::Home => Path::new(home).join(name),
    });
    let mut files: Vec<PathBuf> = looked.clone().collect();
    files.retain(|file| file.is_file() && has_servers(file, &sources.cwd));
    // With the home folder as the current folder, a file may have two places.
    files.dedup();
    if files.is_empty() {
        let looked: Vec<String> = looked.map(|file| file.display().to_string()).collect();
        let looked = looked.join(", ");
        bail!(
            "found no file of {client} with servers; looked for {looked}; pass its path: --from \
                FILE"
        );
    }
    Ok(files)
}

#[allow(clippy::disallowed_methods, reason = "writes the file that it was asked for, once")]
fn write_new(target: &Path, text: &str) -> anyhow::Result<()> {
    let shown = target.display();
    let opened = OpenOptions::new().write(true).create_new(true).open(target);
    if let Err(error) = &opened
        && error.kind() == std::io::ErrorKind::AlreadyExists
    {
        bail!("{shown} already exists; nothing was written");
    }
    let mut file = opened.with_context(|| format!("{shown} cannot be written"))?;
    file.write_all(text.as_bytes()).with_context(|| format!("{shown} cannot be written"))
}

/// Describes the written file, the variables to set, and the next steps.
fn describe(file: &Path, draft: &Draft, sources: &Sources) -> String {
    let mut text = String::new();
    for note in &draft.notes {
        text.push_str(&format!("{note}\n"));
    }
    let servers = match draft.servers.as_slice() {
        [] => "the example server".to_string(),
        servers => servers.join(", "),
    };
    text.push_str(&format!("wrote {}, with {servers}\n", file.display()));
    let missing = draft.variables.iter().filter(|one| !sources.env.contains_key(&one.name));
    if let Some(width) = missing.clone().map(|one| one.name.len()).max() {
        text.push_str(
            "\nIt refers to variables that are not set. It does not contain their values:\n",
        );
        for RequiredVariable { name, key, place } in missing {
            text.push_str(&format!("  {name:<width$}  for {key}, currently at {place}\n"));
        }
    }
    let config = sources.config.as_ref();
    let config = config.map(|_| format!(" --config {}", file.display())).unwrap_or_default();
    text.push_str(&format!("\nNext:\n  lockgate check{config}    lists every mistake\n"));
    text.push_str(&format!("  lockgate tools{config}    lists the tools that clients see\n"));
    text.push_str(&format!("  lockgate{config}          serves http://127.0.0.1:3001/mcp"));
    text
}

// A server of a registry (API v0.1) as the entry of a client's file. Only remote servers are
// imported: packages would be programs to run.

/// Reads `NAME` or `NAME@VERSION` from a registry. Returns its source and the text of the entry.
fn read(registry: &str, name: &str, sources: &Sources) -> anyhow::Result<(PathBuf, String)> {
    let (name, version) = name.split_once('@').unwrap_or((name, "latest"));
    let client = GatewayClient::of_registry(registry, sources.clone())?;
    let path = ["v0.1", "servers", name, "versions", version];
    let found = client.send(Method::GET, &path, None);
    let found = found.with_context(|| format!("{name} of {}", address(registry)))?;
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
    let remotes = list(server, "remotes");
    let found = find_type(remotes, "streamable-http").or_else(|| find_type(remotes, "sse"));
    let Some(remote) = found else {
        bail!("{name} has no `remotes`; add its program to `servers` yourself, with `command`");
    };
    let short = name.rsplit('/').next().unwrap_or(name);
    let url = remote["url"].as_str().context("a remote has no `url`")?;
    let url = fill(url, short, &remote["variables"])?;
    let mut headers = BTreeMap::new();
    for header in list(remote, "headers") {
        let key = header["name"].as_str().context("a header has no `name`")?;
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
