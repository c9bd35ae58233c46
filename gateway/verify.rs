//! `lockgate audit verify`: reads the files of a trail and says whether it holds. It changes nothing, and needs no configuration.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use lockgate_telemetry::audit::verify::{Anchor, Part, Report, verify};

/// Most files, and the longest key file.
const MAX_FILES: usize = 10_000;
const MAX_KEY: u64 = 4096;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Check that no record was changed, taken out or cut off; exit code 1 if one was, 2 if a file cannot be read
    Verify {
        /// Files of one trail, in any order
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// File with the key (`audit.key`) that the trail was written with
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,
        /// A record that is known from elsewhere, such as from the log; may be repeated
        #[arg(long, value_name = "SEQ:HASH")]
        anchor: Vec<String>,
    },
}

/// Runs the command, in this folder.
pub(crate) fn run(command: &Command, cwd: &Path, json: bool) -> (String, ExitCode) {
    let Command::Verify { files, key_file, anchor } = command;
    match report(files, key_file.as_deref(), anchor, cwd) {
        Ok(report) => {
            let code = if report.intact { ExitCode::SUCCESS } else { ExitCode::FAILURE };
            let text = if json { serde_json::to_string_pretty(&report).unwrap_or_default() } else { words(&report) };
            (text, code)
        }
        Err(error) if json => (serde_json::json!({"error": format!("{error:#}")}).to_string(), ExitCode::from(2)),
        Err(error) => (format!("error: {error:#}"), ExitCode::from(2)),
    }
}

fn report(files: &[PathBuf], key: Option<&Path>, anchors: &[String], cwd: &Path) -> anyhow::Result<Report> {
    if files.len() > MAX_FILES {
        return Err(anyhow!("more than {MAX_FILES} files"));
    }
    let key = key.map(|file| short(&cwd.join(file))).transpose()?;
    let parsed = anchors.iter().map(|text| text.parse().map_err(|error| anyhow!("--anchor {text}: {error}")));
    let mut anchors = parsed.collect::<anyhow::Result<Vec<Anchor>>>()?;
    let mut parts = Vec::new();
    for file in files.iter().filter(|file| !is_beside(file)) {
        let mut head = file.clone().into_os_string();
        head.push(".head");
        let head = cwd.join(head);
        if head.is_file() {
            let anchor = short(&head)?.parse().map_err(|error| anyhow!("{}: {error}", head.display()))?;
            anchors.push(anchor);
        }
        let text = open(&cwd.join(file))?;
        parts.push(Part { name: file.display().to_string(), text: Box::new(BufReader::new(text)) });
    }
    Ok(verify(parts, key.as_deref().map(str::trim_end), &anchors)?)
}

/// What stands beside a trail and is none: `audit.jsonl*` finds these too.
fn is_beside(file: &Path) -> bool {
    file.extension().is_some_and(|end| end == "head" || end == "lock" || end == "new")
}

#[allow(clippy::disallowed_methods, reason = "files that the operator names on the command line")]
fn open(path: &Path) -> anyhow::Result<File> {
    File::open(path).with_context(|| path.display().to_string())
}

fn short(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    open(path)?.take(MAX_KEY).read_to_string(&mut text).with_context(|| path.display().to_string())?;
    Ok(text)
}

fn words(report: &Report) -> String {
    let mut out = match &report.broken {
        Some(broken) if broken.line > 0 => {
            let record = broken.seq.map(|seq| format!(", record {seq}")).unwrap_or_default();
            format!("BROKEN at {}:{}{record}: {}", broken.file, broken.line, broken.why)
        }
        Some(broken) => format!("BROKEN: {}", broken.why),
        None if report.intact => "intact".into(),
        None => "nothing to verify".into(),
    };
    let _ = write!(out, "\n{} records in {} files", report.records, report.files);
    if let (Some(first), Some(last), Some(hash)) = (report.first, report.last, &report.last_hash) {
        let time = report.last_time.as_deref().unwrap_or("?");
        let _ = write!(out, ", {first} to {last}, the last of {time}\nanchor {last}:{hash}");
    }
    if report.anchors > 0 {
        let _ = write!(out, "\n{} anchors were held against it", report.anchors);
    }
    for note in &report.notes {
        let _ = write!(out, "\nnote: {note}");
    }
    out
}
