//! `lockgate init`: writes a first configuration file, optionally with the servers of a client.
//! Never prompts and never overwrites a file.

mod from_registry;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use lockgate_config::{Draft, RequiredVariable, Sources, draft, has_servers};
use serde_json::json;

use crate::commands::show::pretty;

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
    pub(crate) fn run(&self, sources: &Sources, json: bool) -> anyhow::Result<(String, ExitCode)> {
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
            texts.push(from_registry::read(&self.registry, name, sources)?);
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
        for other in OTHERS {
            if sources.cwd.join(other).exists() {
                bail!("{other} already exists and would be read by Lockgate; nothing was written");
            }
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
    let mut files = Vec::new();
    let mut looked = Vec::new();
    for (base, name) in candidates {
        let file = match base {
            Base::Here => sources.cwd.join(name),
            Base::Settings => settings.join(name),
            Base::Home => Path::new(home).join(name),
        };
        looked.push(file.display().to_string());
        if file.is_file() && has_servers(&file, &sources.cwd) && !files.contains(&file) {
            files.push(file);
        }
    }
    if files.is_empty() {
        bail!(
            "found no file of {client} with servers; looked for {}; pass its path: --from FILE",
            looked.join(", ")
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
    let mut missing = Vec::new();
    let mut width = 0;
    for wanted in &draft.variables {
        if !sources.env.contains_key(&wanted.name) {
            missing.push(wanted);
            width = width.max(wanted.name.len());
        }
    }
    if !missing.is_empty() {
        text.push_str(
            "\nIt refers to variables that are not set. It does not contain their values:\n",
        );
        for RequiredVariable { name, key, place } in missing {
            text.push_str(&format!("  {name:<width$}  for {key}, currently at {place}\n"));
        }
    }
    let config = match sources.config {
        Some(_) => format!(" --config {}", file.display()),
        None => String::new(),
    };
    text.push_str(&format!("\nNext:\n  lockgate check{config}    lists every mistake\n"));
    text.push_str(&format!("  lockgate tools{config}    lists the tools that clients see\n"));
    text.push_str(&format!("  lockgate{config}          serves http://127.0.0.1:3001/mcp"));
    text
}
