//! The command line: parses it, runs the command and prints the result. Independent of MCP.

mod arguments;
mod pages;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use lockgate_config::{Flags, Loaded, Report, Sources, Transport, load};
use lockgate_text::count::count;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::commands::remote::{Question, RemoteGateway};
use crate::commands::{Printed, ask, keys, pins, remote, show, store, verify};
use crate::serve;
use arguments::{At, Cli, Command, Common, Running, ServersAt};

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
    let Cli { command, common } = Cli::parse();
    let sources = sources(&common);
    let json = common.json;
    // Mistakes of files are the result of a check, and the failure of every other command.
    let (finds, is_of_keys) = match &command {
        Some(Command::Policy(command)) => (command.finds(), false),
        Some(Command::Check) => (true, false),
        command => (false, matches!(command, Some(Command::Keys(_)))),
    };
    let done = match command {
        Some(command) => run_command(command, sources, json),
        None => serve_default(sources),
    };
    let error = match done {
        Ok((text, code)) => {
            if !text.is_empty() {
                print(&text);
            }
            return code;
        }
        Err(error) => error,
    };
    match error.downcast() {
        Ok(report) => {
            print_mistakes(&report, json, finds);
            if is_of_keys {
                let hint = "nothing was changed; pass the keys file with --file to skip the \
                    configuration";
                let _ = writeln!(std::io::stderr(), "{hint}");
            }
        }
        Err(error) => {
            let red = std::io::stderr().is_terminal();
            let (on, off) = if red { ("\x1b[31m", "\x1b[0m") } else { ("", "") };
            let words = show::for_terminal(&show::describe_error(&error));
            let _ = writeln!(std::io::stderr(), "{on}error:{off} {words}");
        }
    }
    ExitCode::FAILURE
}

/// Serves as the configuration says.
fn serve_default(sources: Sources) -> Printed {
    let loaded = load(&sources)?;
    match loaded.transport {
        Some(Transport::Stdio) => serve::serve_stdio(loaded, sources, None),
        Some(Transport::Http) | None => serve::serve(loaded, sources),
    }
}

fn run_command(command: Command, sources: Sources, json: bool) -> Printed {
    match command {
        Command::Serve => serve::serve(load(&sources)?, sources),
        Command::Stdio { agent } => serve::serve_stdio(load(&sources)?, sources, agent.as_deref()),
        Command::Check => check(load(&sources)?, json),
        Command::Init(init) => init.run(&sources, json),
        Command::Config(command) => command.run(&lockgate_config::effective(&sources)?, json),
        Command::Servers { command: Some(ServersAt::Add { at, new }), .. } => {
            ask_api(&at, sources, json, || new.question())
        }
        Command::Servers { at, command: None } => print_servers(Asked::new(&at, sources)?, json),
        Command::Integrations { at, command } => ask_api(&at, sources, json, || command.question()),
        Command::Agents { at, command } => ask_api(&at, sources, json, || command.question()),
        Command::Connect { at, command } => ask_api(&at, sources, json, || Ok(command.question())),
        Command::Organisations { at, command } => {
            ask_api(&at, sources, json, || Ok(command.question()))
        }
        Command::Approvals { at, command } => {
            command.run(&at.connect(sources, |found| found.clients)?, json)
        }
        Command::Tools { at } => print_tools(Asked::new(&at, sources)?, json),
        Command::Call { name, arguments, at } => {
            call_tool(Asked::new(&at, sources)?, &name, &arguments, json)
        }
        Command::Keys(command) => {
            let file = match command.file() {
                Some(file) => Some(file.to_owned()),
                None => load(&sources)?.config.authn.keys_file,
            };
            let hint = "no keys file: pass --file, or set `auth.keys_file` in the configuration";
            succeed(keys::run(&command, &sources.cwd.join(file.context(hint)?), json)?)
        }
        Command::Pins(command) => pins_command(load(&sources)?, command, json),
        Command::Store(command) => {
            succeed(store::run(&command, &load(&sources)?.config.store, &sources.cwd, json)?)
        }
        Command::Vault(command) => store::run_vault(&command, &load(&sources)?.config.store, json),
        Command::Audit(command) => Ok(verify_audit(&command, &sources, json)),
        Command::Policy(command) => command.run(&sources.cwd, json, || Ok(load(&sources)?.into())),
        Command::Schema { policy, cases } => succeed(write_schema(policy, cases)),
        Command::Completions { shell } => succeed(pages::write_completions(shell)),
        Command::Man { list: true, .. } => succeed(pages::list_commands()),
        Command::Man { words, .. } => {
            let page = pages::write_manual(&words);
            succeed(page.with_context(|| format!("unknown command {}", words.join(" ")))?)
        }
    }
}

fn succeed(text: String) -> Printed {
    Ok((text, ExitCode::SUCCESS))
}

/// Sends a request to the API of a running gateway.
fn ask_api<'a>(
    at: &Running,
    sources: Sources,
    json: bool,
    question: impl FnOnce() -> anyhow::Result<Question<'a>>,
) -> Printed {
    let gateway = at.connect(sources, |found| found.api)?;
    question()?.run(&gateway, json)
}

/// The gateway that answers a command.
struct Asked {
    loaded: Loaded,
    wait: Duration,
    /// The running gateway, if it is not started for the command.
    elsewhere: Option<RemoteGateway>,
}

impl Asked {
    fn new(at: &At, sources: Sources) -> anyhow::Result<Self> {
        let wait = Duration::from_secs(at.wait);
        let (sources, url) = remote::choose(at.url.as_deref(), at.key.as_deref(), sources)?;
        let elsewhere = url.map(|url| RemoteGateway { url: show::address(&url), wait });
        Ok(Self { loaded: load(&sources)?, wait, elsewhere })
    }

    /// Records nothing, for a command that calls no tool.
    fn without_audit(mut self) -> Self {
        self.loaded.config.telemetry.audit = None;
        self
    }
}

fn write_schema(policy: bool, cases: bool) -> String {
    show::pretty(&match (policy, cases) {
        (true, _) => lockgate_policy::file::schema(),
        (_, true) => lockgate_policy::cases::schema(),
        _ => lockgate_config::schema(),
    })
}

fn print_servers(asked: Asked, json: bool) -> Printed {
    let Asked { loaded, wait, elsewhere } = asked.without_audit();
    ask::with_gateway(loaded, Some(wait), async |gateway| {
        let servers = match &elsewhere {
            Some(other) => show::Servers::told(other.servers(gateway).await?),
            None => show::Servers::of(gateway),
        };
        let code = if servers.are_up() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        Ok((servers.render(json), code))
    })
}

fn print_tools(asked: Asked, json: bool) -> Printed {
    let Asked { loaded, wait, elsewhere } = asked.without_audit();
    ask::with_gateway(loaded, Some(wait), async |gateway| {
        let tools = ask::tools(gateway, &remote::place(gateway, elsewhere.as_ref())?).await?;
        let flagged_tools = if json { Vec::new() } else { gateway.flagged_tools(None) };
        let text = show::tools(&tools, json);
        // Written to stderr, so that JSON on stdout stays valid.
        for line in show::missing(gateway) {
            let _ = writeln!(std::io::stderr(), "{line}");
        }
        succeed(text + &show::flagged_tools(&flagged_tools))
    })
}

fn call_tool(asked: Asked, name: &str, arguments: &str, json: bool) -> Printed {
    let arguments = ask::arguments(arguments)?;
    let Asked { loaded, wait, elsewhere } = asked;
    ask::with_gateway(loaded, Some(wait), async |gateway| {
        let at = remote::place(gateway, elsewhere.as_ref())?;
        let answer = match ask::call(gateway, &at, name, arguments).await {
            Ok(answer) => answer,
            Err(error) => {
                let mut words = vec![show::describe_error(&error)];
                words.extend(show::missing(gateway));
                anyhow::bail!(words.join("\n"));
            }
        };
        let code = if answer["isError"] == true { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        Ok((show::answer(&answer, json), code))
    })
}

/// Verifies a trail. The files do not name their trail's key, so only a named configuration is
/// used.
fn verify_audit(command: &verify::Command, sources: &Sources, json: bool) -> (String, ExitCode) {
    let mut key = None;
    if sources.config.is_some() {
        match load(sources) {
            Ok(loaded) => key = loaded.config.telemetry.audit.and_then(|audit| audit.key),
            Err(report) => {
                print_mistakes(&report, json, false);
                return (String::new(), ExitCode::from(2));
            }
        }
    }
    verify::run(command, key, &sources.cwd, json)
}

/// Prints mistakes: to stdout if they are the result of the command, and to stderr otherwise.
fn print_mistakes(report: &Report, json: bool, finds: bool) {
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
}

fn pins_command(mut loaded: Loaded, command: pins::Command, json: bool) -> Printed {
    // No tool is called, so there is nothing to record.
    loaded.config.telemetry.audit = None;
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

#[allow(clippy::disallowed_methods, reason = "the environment comes in here, once")]
fn sources(common: &Common) -> Sources {
    let env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Sources {
        config: common.config.clone(),
        mcp_servers: common.mcp_servers.clone(),
        flags: Flags {
            listen: common.listen.clone(),
            log_level: common.log_level.clone(),
            profile: common.profile.clone(),
        },
        without_file: false,
        env: env.collect(),
        cwd: std::env::current_dir().unwrap_or(PathBuf::from("/")),
    }
}

/// Describes the configuration. For groups, also connects to the servers, to find the tools that
/// stay apart.
fn check(loaded: Loaded, json: bool) -> Printed {
    if loaded.config.proxy.groups.is_empty() {
        return succeed(describe(&loaded, json, &[]));
    }
    let again = loaded.clone();
    ask::with_gateway(loaded, None, async |gateway| {
        succeed(describe(&again, json, &gateway.explain_groups()))
    })
}

fn describe(loaded: &Loaded, json: bool, apart: &[String]) -> String {
    let builtin: Vec<&str> = loaded.config.tools.names().collect();
    if json {
        return show::pretty(&serde_json::json!({
            "problems": loaded.warnings,
            "apart": apart,
            "servers": loaded.config.servers.len(),
            "builtin": builtin,
        }));
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
    let builtin = match &builtin[..] {
        [] => String::new(),
        names => format!(", built in: {}", names.join(", ")),
    };
    let servers = count(loaded.config.servers.len(), "server");
    text.push_str(&format!("ok: {servers}{builtin}; from {from}"));
    text
}

/// Prints output, with control characters escaped on a terminal. A closed reader (`| head`) is not
/// an error.
fn print(text: &str) {
    let _ = if std::io::stdout().is_terminal() {
        writeln!(std::io::stdout(), "{}", show::for_terminal(text))
    } else {
        writeln!(std::io::stdout(), "{text}")
    };
}
