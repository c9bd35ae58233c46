//! `lockgate audit verify`: reads the files of a trail and says whether it holds. It changes
//! nothing. It needs no configuration; of one that is named, it takes the key of the trail.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use lockgate_telemetry::audit::verify::{Anchor, Extent, Part, Report, Text, verify};

/// Most files, and the longest key file.
const MAX_FILES: usize = 10_000;
const MAX_KEY: u64 = 4096;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Check that no record was changed, taken out or cut off; exit code 1 if one was, 2 if a file
    /// cannot be read
    Verify {
        /// Files of one trail, in any order
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// File with the key that the trail was written with; without it, `audit.key` of the
        /// configuration that `--config` names
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,
        /// A record that is known from elsewhere, such as from the log; may be repeated
        #[arg(long, value_name = "SEQ:HASH")]
        anchor: Vec<String>,
        /// These are not all files of the trail: what comes before and after them is kept elsewhere
        #[arg(long)]
        part: bool,
    },
}

/// Runs the command, in this folder; `key` is that of the configuration, if one was named that has
/// one.
pub(crate) fn run(
    command: &Command,
    key: Option<String>,
    cwd: &Path,
    json: bool,
) -> (String, ExitCode) {
    match report(command, key, cwd) {
        Ok(report) => {
            let code = if report.intact { ExitCode::SUCCESS } else { ExitCode::FAILURE };
            let text = if json {
                serde_json::to_string_pretty(&report).unwrap_or_default()
            } else {
                words(&report)
            };
            (text, code)
        }
        Err(error) if json => {
            (serde_json::json!({"error": format!("{error:#}")}).to_string(), ExitCode::from(2))
        }
        Err(error) => (format!("error: {error:#}"), ExitCode::from(2)),
    }
}

fn report(command: &Command, configured: Option<String>, cwd: &Path) -> anyhow::Result<Report> {
    let Command::Verify { files, key_file, anchor, part } = command;
    if files.len() > MAX_FILES {
        return Err(anyhow!("more than {MAX_FILES} files"));
    }
    let key = match key_file {
        Some(file) => Some(short(&cwd.join(file))?),
        None => configured,
    };
    let mut anchors = Vec::with_capacity(anchor.len());
    for text in anchor {
        anchors.push(text.parse::<Anchor>().map_err(|error| anyhow!("--anchor {text}: {error}"))?);
    }
    let extent = if *part { Extent::Part } else { Extent::Whole };
    let trails: BTreeSet<PathBuf> = files.iter().filter_map(|file| trail(file)).collect();
    let (others, files): (Vec<_>, Vec<_>) =
        files.iter().partition(|file| is_of_call(file, &trails));
    // Before the files: a gateway that runs moves its anchor on.
    if extent == Extent::Whole {
        for file in heads(&files) {
            let head = cwd.join(&file);
            if head.is_file() || files.contains(&&file) {
                let anchor = short(&head)?.parse::<Anchor>();
                anchors.push(anchor.map_err(|error| anyhow!("{}: {error}", file.display()))?);
            }
        }
    }
    let parts =
        files.into_iter().filter(|file| trail(file).is_some()).map(|file| source(file, cwd));
    let mut report = verify(parts.collect(), key.as_deref().map(str::trim_end), &anchors, extent)?;
    for file in others.into_iter().filter(|file| trail(file).is_some()) {
        let note =
            format!("{} is of the trail of `lockgate call`: verify it by itself", file.display());
        report.notes.push(note);
    }
    Ok(report)
}

/// The trail that a file is of, by its name: `audit.jsonl.0000000000000001` was set aside by
/// `audit.jsonl`. None of what stands beside a trail: `audit.jsonl*` finds that too.
fn trail(file: &Path) -> Option<PathBuf> {
    let beside = match file.extension().and_then(OsStr::to_str) {
        Some("head") => true,
        Some("lock") => !is_aside(&file.with_extension("")),
        Some("cursor") => true,
        Some("new") => {
            let whole = file.with_extension("");
            whole.extension().is_some_and(|end| end == "head" || end == "cursor")
        }
        _ => false,
    };
    let own = if is_aside(file) { file.with_extension("") } else { file.to_owned() };
    (!beside).then_some(own)
}

/// Whether rotation set a file aside, by its name.
fn is_aside(file: &Path) -> bool {
    let end = file.extension().unwrap_or_default();
    end.len() == 16 && end.as_encoded_bytes().iter().all(u8::is_ascii_digit)
}

/// Whether a file belongs to the trail that `lockgate call` keeps beside one of these.
fn is_of_call(file: &Path, trails: &BTreeSet<PathBuf>) -> bool {
    let own = trail(file).unwrap_or_else(|| file.with_extension(""));
    own.extension().is_some_and(|end| end == "call") && trails.contains(&own.with_extension(""))
}

/// The files that hold the last anchors of the trails that these files are of, whether they are
/// there or not.
fn heads(files: &[&PathBuf]) -> BTreeSet<PathBuf> {
    let mut heads = BTreeSet::new();
    for file in files {
        if let Some(trail) = trail(file) {
            let mut head = trail.into_os_string();
            head.push(".head");
            heads.insert(PathBuf::from(head));
        } else if file.extension().is_some_and(|end| end == "head") {
            heads.insert(file.to_path_buf());
        }
    }
    heads
}

fn source(file: &Path, cwd: &Path) -> Part<'static> {
    let name = file.display().to_string();
    let path = cwd.join(file);
    // A pipe, such as the standard input.
    let once = std::fs::metadata(&path).is_ok_and(|there| !there.is_file());
    Part {
        name,
        open: Box::new(move || Ok(Box::new(BufReader::new(open(&path)?)) as Text<'static>)),
        once,
    }
}

#[allow(clippy::disallowed_methods, reason = "files that the operator names on the command line")]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

fn short(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = open(path).and_then(|file| file.take(MAX_KEY).read_to_string(&mut text));
    read.with_context(|| path.display().to_string())?;
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
    if let Some(first) = report.first
        && let Some(last) = report.last
        && let Some(hash) = &report.last_hash
    {
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
