//! The command line: parses it, runs the command and prints the result. Independent of MCP.

mod arguments;
mod pages;

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use lockgate_config::{Flags, Loaded, Report, Sources, Transport};
use lockgate_text::count::count;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::commands::remote::GatewayClient;
use crate::commands::{ask, keys, pins, remote, show, store, verify};
use crate::serve;
use arguments::{Cli, Command, Common, Running, ServersAt};

/// Prevents core files, which would contain secrets and tokens. A debugger can still attach, and
/// `prlimit` lift the limit.
fn forbid_core_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Core);
    // Lowering the limit is always allowed.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum });
}

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    forbid_core_files();
    let cli = Cli::parse();
    let mut sources = sources(&cli.common);
    let mut elsewhere = false;
    if let Some(command) = &cli.command {
        if let Some(at) = command.running() {
            let key = remote::find_key(at.key.as_deref(), &sources);
            return finish(ask_running(&cli, at, key.as_deref(), sources));
        }
        if let Some(at) = command.at() {
            (sources, elsewhere) =
                match remote::choose(at.url.as_deref(), at.key.as_deref(), sources) {
                    Ok(chosen) => chosen,
                    Err(error) => return finish(Err(error)),
                };
        }
        if let Some(code) = unconfigured(command, &sources, cli.common.json) {
            return code;
        }
    }
    let mut loaded = match load(&sources, &cli) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    let json = cli.common.json;
    if matches!(
        cli.command,
        Some(Command::Servers { .. } | Command::Tools { .. } | Command::Pins(_))
    ) {
        // These commands call no tool, so there is nothing to record.
        loaded.config.telemetry.audit = None;
    }
    let command = cli.command.unwrap_or(default_command(&loaded));
    run_configured(command, loaded, sources, elsewhere, json)
}

/// Runs a command that contacts a running gateway.
fn ask_running(
    cli: &Cli,
    at: &Running,
    key: Option<&str>,
    sources: Sources,
) -> anyhow::Result<(String, ExitCode)> {
    let json = cli.common.json;
    let is_of_clients = matches!(cli.command, Some(Command::Approvals { .. }));
    let url = remote::find_running(at.url.as_deref(), &sources, |found| {
        if is_of_clients { found.clients } else { found.api }
    })?;
    let gateway = GatewayClient::new(&url, key, sources)?;
    match &cli.command {
        Some(Command::Approvals { command, .. }) => command.run(&gateway, json),
        Some(Command::Servers { command: Some(ServersAt::Add { new, .. }), .. }) => {
            new.question()?.run(&gateway, json)
        }
        Some(Command::Integrations { command, .. }) => command.question()?.run(&gateway, json),
        Some(Command::Agents { command, .. }) => command.question()?.run(&gateway, json),
        Some(Command::Connect { command, .. }) => command.question().run(&gateway, json),
        Some(Command::Organisations { command, .. }) => command.question().run(&gateway, json),
        _ => Ok((String::new(), ExitCode::SUCCESS)),
    }
}

/// Runs a command on the configuration; `elsewhere` if `sources` name a remote gateway.
fn run_configured(
    command: Command,
    loaded: Loaded,
    sources: Sources,
    elsewhere: bool,
    json: bool,
) -> ExitCode {
    match command {
        Command::Check if loaded.config.proxy.groups.is_empty() => {
            finish(Ok((check(&loaded, json, &[]), ExitCode::SUCCESS)))
        }
        Command::Check => finish(check_groups(loaded, json)),
        Command::Serve => finish(serve::serve(loaded, sources)),
        Command::Stdio { agent } => finish(serve::serve_stdio(loaded, sources, agent.as_deref())),
        Command::Servers { at, .. } => finish(print_servers(loaded, at.wait(), elsewhere, json)),
        Command::Tools { at } => finish(print_tools(loaded, at.wait(), elsewhere, json)),
        Command::Call { name, arguments, at } => {
            finish(call_tool(loaded, at.wait(), elsewhere, (&name, &arguments), json))
        }
        Command::Keys(command) => finish(match &loaded.config.authn.keys_file {
            Some(file) => keys_command(&command, &sources.cwd.join(file), json),
            None => Err(anyhow::anyhow!(
                "no keys file: pass --file, or set `auth.keys_file` in the configuration"
            )),
        }),
        Command::Pins(command) => finish(pins_command(loaded, command, json)),
        Command::Store(command) => {
            let done = store::run(&command, &loaded.config.store, &sources.cwd, json);
            finish(done.map(|text| (text, ExitCode::SUCCESS)))
        }
        Command::Vault(command) => finish(store::run_vault(&command, &loaded.config.store, json)),
        Command::Schema { .. }
        | Command::Config(_)
        | Command::Init(_)
        | Command::Completions { .. }
        | Command::Man { .. }
        | Command::Policy(_)
        | Command::Audit(_)
        | Command::Approvals { .. }
        | Command::Integrations { .. }
        | Command::Agents { .. }
        | Command::Connect { .. }
        | Command::Organisations { .. } => ExitCode::SUCCESS,
    }
}

fn print_servers(
    loaded: Loaded,
    wait: Duration,
    elsewhere: bool,
    json: bool,
) -> anyhow::Result<(String, ExitCode)> {
    ask::with_gateway(loaded, Some(wait), async |gateway| {
        let servers = if elsewhere {
            show::Servers::told(remote::servers(gateway).await?)
        } else {
            show::Servers::of(gateway)
        };
        let code = if servers.are_up() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        Ok((servers.render(json), code))
    })
}

fn print_tools(
    loaded: Loaded,
    wait: Duration,
    elsewhere: bool,
    json: bool,
) -> anyhow::Result<(String, ExitCode)> {
    ask::with_gateway(loaded, Some(wait), async |gateway| {
        let tools = ask::tools(gateway, &remote::place(gateway, elsewhere)?).await?;
        let flagged_tools = if json { Vec::new() } else { gateway.flagged_tools(None) };
        let text = show::tools(&tools, json);
        // Written to stderr, so that JSON on stdout stays valid.
        for line in show::missing(gateway) {
            let _ = writeln!(std::io::stderr(), "{line}");
        }
        Ok((text + &show::flagged_tools(&flagged_tools), ExitCode::SUCCESS))
    })
}

fn call_tool(
    loaded: Loaded,
    wait: Duration,
    elsewhere: bool,
    (name, arguments): (&str, &str),
    json: bool,
) -> anyhow::Result<(String, ExitCode)> {
    let arguments = ask::arguments(arguments)?;
    ask::with_gateway(loaded, Some(wait), async |gateway| {
        let at = remote::place(gateway, elsewhere)?;
        let answer = match ask::call(gateway, &at, name, arguments).await {
            Ok(answer) => answer,
            Err(error) => {
                let mut words = vec![show::describe_error(&error)];
                words.extend(show::missing(gateway));
                anyhow::bail!(words.join("\n"));
            }
        };
        let code = if answer.is_error { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        Ok((show::answer(&answer, json), code))
    })
}

/// Runs a command that needs no valid configuration; returns `None` for other commands.
fn unconfigured(command: &Command, sources: &Sources, json: bool) -> Option<ExitCode> {
    match command {
        Command::Schema { policy, cases } => {
            let schema = match (policy, cases) {
                (true, _) => lockgate_policy::file::schema(),
                (_, true) => lockgate_policy::cases::schema(),
                _ => lockgate_config::schema(),
            };
            Some(print(&serde_json::to_string_pretty(&schema).unwrap_or_default()))
        }
        Command::Init(init) => Some(finish_or_report(init.run(sources, json), json, false)),
        Command::Completions { shell } => Some(print(&pages::write_completions(*shell))),
        Command::Man { list: true, .. } => Some(print(&pages::list_commands())),
        Command::Man { words, .. } => Some(match pages::write_manual(words) {
            Some(page) => print(&page),
            None => finish(Err(anyhow::anyhow!("unknown command {}", words.join(" ")))),
        }),
        Command::Config(command) => {
            let shown = lockgate_config::effective(sources);
            Some(match shown.map(|effective| command.run(&effective, json)) {
                Ok(done) => finish(done),
                Err(report) => mistaken(&report, json, false),
            })
        }
        Command::Audit(command) => {
            // The files do not name their trail's key, so only a named configuration is used.
            let mut key = None;
            if sources.config.is_some() {
                match lockgate_config::load(sources) {
                    Ok(loaded) => key = loaded.config.telemetry.audit.and_then(|audit| audit.key),
                    Err(report) => {
                        let _ = mistaken(&report, json, false);
                        return Some(ExitCode::from(2));
                    }
                }
            }
            let (text, code) = verify::run(command, key, &sources.cwd, json);
            print(&text);
            Some(code)
        }
        Command::Policy(command) => {
            let done = command.run(&sources.cwd, json, || match lockgate_config::load(sources) {
                Ok(loaded) => Ok(loaded.into()),
                Err(report) => Err(report.into()),
            });
            Some(finish_or_report(done, json, command.finds()))
        }
        Command::Keys(command) => {
            let file = sources.cwd.join(command.file()?);
            Some(finish(keys_command(command, &file, json)))
        }
        _ => None,
    }
}

/// Loads the configuration, or reports its mistakes and returns the exit code.
fn load(sources: &Sources, cli: &Cli) -> Result<Loaded, ExitCode> {
    let finds = matches!(cli.command, Some(Command::Check));
    let report = match lockgate_config::load(sources) {
        Ok(loaded) => return Ok(loaded),
        Err(report) => report,
    };
    let code = mistaken(&report, cli.common.json, finds);
    if matches!(cli.command, Some(Command::Keys(_))) {
        let _ = writeln!(
            std::io::stderr(),
            "nothing was changed; pass the keys file with --file to skip the configuration"
        );
    }
    Err(code)
}

/// Prints mistakes: to stdout for a check, of which they are the result, and to stderr for every
/// other command.
fn mistaken(report: &Report, json: bool, finds: bool) -> ExitCode {
    let text = if json {
        serde_json::to_string_pretty(report).unwrap_or_default()
    } else {
        report.to_string()
    };
    let _ = if finds {
        writeln!(std::io::stdout(), "{text}")
    } else {
        writeln!(std::io::stderr(), "{text}")
    };
    ExitCode::FAILURE
}

fn pins_command(
    loaded: Loaded,
    command: pins::Command,
    json: bool,
) -> anyhow::Result<(String, ExitCode)> {
    let Some(file) = loaded.config.proxy.pins.file.clone() else {
        anyhow::bail!("no lock file is configured; set pins: {{ file: lockgate.pins.json }}");
    };
    let lock = loaded.config.proxy.pins.lock.clone().unwrap_or_default();
    ask::with_gateway(loaded, None, async move |gateway| {
        futures_util::future::join_all(
            gateway.servers().iter().map(|server| {
                server.wait_for_interactive(lockgate_protocol::revision::Era::Legacy)
            }),
        )
        .await;
        pins::run(&command, gateway, &lock, &file, json)
    })
}

fn keys_command(
    command: &keys::Command,
    file: &Path,
    json: bool,
) -> anyhow::Result<(String, ExitCode)> {
    Ok((keys::run(command, file, json)?, ExitCode::SUCCESS))
}

fn default_command(loaded: &Loaded) -> Command {
    match loaded.transport {
        Some(Transport::Stdio) => Command::Stdio { agent: None },
        Some(Transport::Http) | None => Command::Serve,
    }
}

#[allow(clippy::disallowed_methods, reason = "the environment comes in here, once")]
fn sources(common: &Common) -> Sources {
    let mut env = BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        if let (Ok(name), Ok(value)) = (name.into_string(), value.into_string()) {
            env.insert(name, value);
        }
    }
    Sources {
        config: common.config.clone(),
        mcp_servers: common.mcp_servers.clone(),
        flags: Flags {
            listen: common.listen.clone(),
            log_level: common.log_level.clone(),
            profile: common.profile.clone(),
        },
        without_file: false,
        env,
        cwd: std::env::current_dir().unwrap_or(PathBuf::from("/")),
    }
}

/// Also connects to the servers, to find the tools of groups that stay apart.
fn check_groups(loaded: Loaded, json: bool) -> anyhow::Result<(String, ExitCode)> {
    let again = loaded.clone();
    ask::with_gateway(loaded, None, async |gateway| {
        Ok((check(&again, json, &gateway.explain_groups()), ExitCode::SUCCESS))
    })
}

fn check(loaded: &Loaded, json: bool, apart: &[String]) -> String {
    if json {
        let builtin: Vec<&str> = loaded.config.tools.names().collect();
        let servers = loaded.config.servers.len();
        let report = serde_json::json!({
            "problems": loaded.warnings,
            "apart": apart,
            "servers": servers,
            "builtin": builtin,
        });
        return format!("{report:#}");
    }
    let mut text = String::new();
    for warning in &loaded.warnings {
        text.push_str(&format!("{warning}\n"));
    }
    for why in apart {
        text.push_str(&format!("note: {why}\n"));
    }
    let files: Vec<_> = loaded.files.iter().map(|f| f.display().to_string()).collect();
    let from = if files.is_empty() { "built-in defaults".to_owned() } else { files.join(", ") };
    let builtin: Vec<&str> = loaded.config.tools.names().collect();
    let builtin = if builtin.is_empty() {
        String::new()
    } else {
        format!(", built in: {}", builtin.join(", "))
    };
    let servers = count(loaded.config.servers.len(), "server");
    text.push_str(&format!("ok: {servers}{builtin}; from {from}"));
    text
}

/// Prints output, with control characters escaped on a terminal. A closed reader (`| head`) is not
/// an error.
fn print(text: &str) -> ExitCode {
    let _ = if std::io::stdout().is_terminal() {
        writeln!(std::io::stdout(), "{}", show::for_terminal(text))
    } else {
        writeln!(std::io::stdout(), "{text}")
    };
    ExitCode::SUCCESS
}

/// Prints the output, or the mistakes of files with their places.
fn finish_or_report(done: anyhow::Result<(String, ExitCode)>, json: bool, finds: bool) -> ExitCode {
    let error = match done {
        Ok(done) => return finish(Ok(done)),
        Err(error) => error,
    };
    match error.downcast::<Report>() {
        Ok(report) => mistaken(&report, json, finds),
        Err(error) => finish(Err(error)),
    }
}

fn finish(result: anyhow::Result<(String, ExitCode)>) -> ExitCode {
    match result {
        Ok((text, code)) => {
            if !text.is_empty() {
                print(&text);
            }
            code
        }
        Err(error) => {
            let red = std::io::stderr().is_terminal();
            let (on, off) = if red { ("\x1b[31m", "\x1b[0m") } else { ("", "") };
            let words = show::for_terminal(&show::describe_error(&error));
            let _ = writeln!(std::io::stderr(), "{on}error:{off} {words}");
            ExitCode::FAILURE
        }
    }
}
