//! `shell/execute`: checks a command, resolves its paths against the roots, runs it, and returns
//! its result. Nothing is expanded or passed to a shell.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockgate_policy::command::Invocation;
use serde_json::{Map, Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, interval_at};

use super::Shell;
use super::folder::Folder;
use super::program::Program;
use super::run::{self, Ran, Start};
use crate::blocking::acquire_within;
use crate::tool::{
    Arguments, Client, Effect, MAX_TIMEOUT, Output, Tool, ToolError, ToolSpec, milliseconds,
    timeout_schema,
};

/// How long a call waits for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of progress notifications.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// The time limit of a run ends this long before the call's timeout.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(1);
/// Maximum length of the working folder, in characters.
const MAX_PATH: usize = 4096;
/// Maximum length of a variable's value, in characters.
const MAX_VARIABLE: usize = 4096;

pub(super) struct Execute(pub(super) Arc<Shell>);

impl Tool for Execute {
    fn spec(&self) -> ToolSpec {
        let shell = &*self.0;
        let config = &shell.config;
        let programs: Vec<&str> = shell.programs.keys().map(String::as_str).collect();
        let programs = programs.join(", ");
        let roots = shell.folders.paths().join(", ");
        let description = format!(
            "Runs one program and returns its output and exit code. Programs: {programs}. \
                Folders: {roots}. There is no shell: no pipes, redirection, variables, wildcards \
                or chaining; quote arguments with '…'. Only options that read and print are \
                allowed, written in full; a refusal names the option. An exit code other than 0 \
                is a result, not an error of this tool."
        );
        // The built-in models allow no option that changes anything.
        let reads = config.models.is_empty() && !shell.programs.values().any(Program::runs_code);
        let effect = if reads {
            Effect::Reads
        } else {
            Effect::Writes { destructive: true, idempotent: false }
        };
        ToolSpec::new("shell/execute", "Run a program", description)
            .input(input_schema(shell))
            .output(output_schema())
            .effect(effect)
            .tags(&["shell", "process"])
            .permissions(&["shell:execute"])
            .timeout(config.max_timeout + PERMIT_TIMEOUT + TIMEOUT_MARGIN)
            // Both streams, as text and as structured content; each invalid byte takes three bytes.
            .cap(config.output_size.saturating_mul(12).saturating_add(64 * 1024))
    }

    async fn run(&self, arguments: Arguments, client: Client<'_>) -> Result<Output, ToolError> {
        let shell = &*self.0;
        let folder = shell.folders.enter(arguments.maybe_text("cwd"))?;
        let call = judge(shell, &arguments, &folder)?;
        for path in &call.paths {
            shell.folders.stays(&folder, path)?;
        }
        let Some(program) = shell.programs.get(&call.program) else {
            return Err(ToolError(format!(
                "`{}` is allowed but not installed where the gateway runs",
                call.program
            )));
        };
        let limit = Duration::from_millis(arguments.whole("timeout_ms")?);
        let limit = limit.min(shell.config.max_timeout).min(MAX_TIMEOUT - TIMEOUT_MARGIN);
        let variables = read_environment(&arguments)?;
        let place = turn(shell).await?;
        let start = Start { program, call: &call, folder: &folder, variables, limit };
        let wanted = run::start(shell, start, place).await?;
        let ran = follow(wanted, limit, &client).await?;
        if let Some(words) = ran.not_started() {
            return Err(ToolError(format!("`{}` could not be started: {words}", call.program)));
        }
        Ok(tell(&call.program, &ran, limit))
    }
}

fn input_schema(shell: &Shell) -> Value {
    let config = &shell.config;
    let rule = config.rule();
    let mut schema = json!({
        "command?": {
            "type": "string", "minLength": 1, "maxLength": rule.max_bytes,
            "description": "The command line, such as: grep -rn 'fn main' src. Either this or argv",
        },
        "argv?": {
            "type": "array", "minItems": 1, "maxItems": rule.max_arguments + 1,
            "items": {"type": "string"},
            "description": "The program and its arguments, without shell quoting; no line breaks",
        },
        "cwd?": {
            "type": "string", "minLength": 1, "maxLength": MAX_PATH,
            "description": "The folder to work in: absolute, or relative to the first folder, \
                which is the default",
        },
        "timeout_ms?": timeout_schema(
            config.timeout,
            config.max_timeout,
            "The program is ended after this time",
        ),
    });
    if !shell.config.caller_environment.is_empty() {
        let mut variables = Map::new();
        for name in &shell.config.caller_environment {
            variables.insert(name.clone(), json!({"type": "string", "maxLength": MAX_VARIABLE}));
        }
        schema["env?"] = json!({
            "type": "object",
            "properties": variables,
            "additionalProperties": false,
            "description": "Additional variables for the program",
        });
    }
    schema
}

/// Returns the caller's variables. The schema has validated their names.
fn read_environment(arguments: &Arguments) -> Result<BTreeMap<String, String>, ToolError> {
    let mut variables = BTreeMap::new();
    let Some(Value::Object(given)) = arguments.get("env") else { return Ok(variables) };
    for (name, value) in given {
        let text = value.as_str().unwrap_or_default();
        if text.contains('\0') {
            return Err(ToolError(format!("`env.{name}` must not contain NUL")));
        }
        variables.insert(name.clone(), text.to_owned());
    }
    Ok(variables)
}

fn output_schema() -> Value {
    json!({
        "program": "string",
        "exitCode": {"type": ["integer", "null"], "description": "null when a signal ended it"},
        "signal": {"type": ["integer", "null"]}, "timedOut": "boolean", "stdout": "string",
        "stderr": "string", "stdoutTruncated": "boolean", "stderrTruncated": "boolean",
        "stdoutBytes": {"type": "integer", "description": "Bytes written, kept or truncated"},
        "stderrBytes": "integer",
        "binary": {"type": "boolean", "description": "Bytes that are not UTF-8 were replaced"},
        "durationMs": "number",
    })
}

fn judge(shell: &Shell, arguments: &Arguments, folder: &Folder) -> Result<Invocation, ToolError> {
    let argv = match (arguments.maybe_text("command"), arguments.get("argv")) {
        (Some(command), None) => shell.rule.words(command)?,
        (None, Some(Value::Array(argv))) => {
            argv.iter().filter_map(|word| Some(word.as_str()?.to_owned())).collect()
        }
        _ => {
            return Err(ToolError::new(
                "give either `command`, a command line, or `argv`, a list of words; received both \
                    or none",
            ));
        }
    };
    Ok(shell.rule.check_argv(&argv, Some(&folder.path))?)
}

async fn turn(shell: &Shell) -> Result<OwnedSemaphorePermit, ToolError> {
    acquire_within(&shell.places, PERMIT_TIMEOUT).await.ok_or_else(|| {
        let most = shell.config.concurrent;
        ToolError(format!(
            "{most} programs are running, which is the limit; try again when one has ended"
        ))
    })
}

/// Reports progress until the result arrives.
async fn follow(
    mut wanted: tokio::sync::oneshot::Receiver<Ran>,
    limit: Duration,
    client: &Client<'_>,
) -> Result<Ran, ToolError> {
    let began = Instant::now();
    let mut ticks = interval_at(began + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
    loop {
        tokio::select! {
            ran = &mut wanted => return ran.map_err(|_| {
                ToolError::new("the gateway is shutting down; the program was ended")
            }),
            _ = ticks.tick() => {
                let seconds = began.elapsed().as_secs();
                let total = limit.as_secs().max(seconds);
                client.progress(seconds, Some(total), Some(&format!("running for {seconds} s")));
            }
        }
    }
}

fn add_line(text: &mut String, words: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(words);
}

fn tell(program: &str, ran: &Ran, limit: Duration) -> Output {
    let (stdout, odd_stdout) = ran.stdout.text();
    let (stderr, odd_stderr) = ran.stderr.text();
    let mut text = stdout.clone();
    for (name, output) in [("stdout", &ran.stdout), ("stderr", &ran.stderr)] {
        if output.truncated() {
            let kept = output.kept.len();
            let words = format!("[{name} truncated: {kept} of {} bytes]\n", output.total);
            add_line(&mut text, &words);
        }
    }
    if !stderr.is_empty() {
        add_line(&mut text, &format!("[stderr]\n{stderr}"));
    }
    match (ran.timed_out, ran.code(), ran.signal()) {
        (true, _, _) => {
            let words = format!("[ended after {} ms, its time limit]", limit.as_millis());
            add_line(&mut text, &words);
        }
        (_, Some(0), _) => {}
        (_, Some(code), _) => add_line(&mut text, &format!("[exit code {code}]")),
        (_, _, Some(signal)) => add_line(&mut text, &format!("[ended by signal {signal}]")),
        _ => add_line(&mut text, "[ended in an unknown way]"),
    }
    let structured = json!({
        "program": program,
        "exitCode": ran.code(),
        "signal": ran.signal(),
        "timedOut": ran.timed_out,
        "stdout": stdout,
        "stderr": stderr,
        "stdoutTruncated": ran.stdout.truncated(),
        "stderrTruncated": ran.stderr.truncated(),
        "stdoutBytes": ran.stdout.total,
        "stderrBytes": ran.stderr.total,
        "binary": odd_stdout || odd_stderr,
        "durationMs": milliseconds(ran.took),
    });
    Output { structured, text: Some(text) }
}
