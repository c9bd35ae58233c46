//! `lockgate audit verify`: reads the files of a trail and reports whether it is intact. Changes
//! nothing. Needs no configuration; from a named configuration, only the trail's key is used.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use lockgate_telemetry::audit;
use lockgate_telemetry::audit::verify::{Anchor, Extent, Part, Report, Text, verify};
use lockgate_text::count::count;

/// Maximum number of files, and of bytes in a key file.
const MAX_FILES: usize = 10_000;
const MAX_KEY: u64 = 4096;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Check that no record was changed, removed or truncated; exit code 1 if one was, 2 if a file
    /// cannot be read
    Verify {
        /// Files of one trail, in any order
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// File with the key of the trail; without it, `audit.key` of the configuration of
        /// `--config`
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,
        /// A record known from another source, such as the log; may be repeated
        #[arg(long, value_name = "SEQ:HASH")]
        anchor: Vec<String>,
        /// The files are only part of the trail: earlier and later files are kept elsewhere
        #[arg(long)]
        part: bool,
    },
}

/// Runs the command in the folder `cwd`. `key` is the trail's key in the named configuration, if
/// any.
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

/// Verifies the trail of a running gateway, including its rotated files.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn verify_trail(file: &Path, key: Option<String>) -> anyhow::Result<Report> {
    let files = audit::list_files(file)?;
    let command = Command::Verify { files, key_file: None, anchor: Vec::new(), part: false };
    report(&command, key, Path::new(""))
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
    let anchors = anchor.iter().map(|text| read_anchor(text, &format!("--anchor {text}")));
    let mut anchors = anchors.collect::<anyhow::Result<Vec<_>>>()?;
    let extent = if *part { Extent::Part } else { Extent::Whole };
    let (files, others) = sort_files(files);
    // Read before the files, because a running gateway advances its anchor.
    if extent == Extent::Whole {
        for file in heads(&files) {
            let head = cwd.join(&file);
            if head.is_file() || files.contains(&&file) {
                anchors.push(read_anchor(&short(&head)?, &file.display().to_string())?);
            }
        }
    }
    let trails = files.into_iter().filter(|file| trail(file).is_some());
    let parts = trails.map(|file| source(file, cwd)).collect();
    let mut report = verify(parts, key.as_deref().map(str::trim_end), &anchors, extent)?;
    for file in others {
        if trail(file).is_some() {
            let file = file.display();
            let note =
                format!("{file} belongs to the trail of `lockgate call`: verify it separately");
            report.notes.push(note);
        }
    }
    Ok(report)
}

fn read_anchor(text: &str, from: &str) -> anyhow::Result<Anchor> {
    text.parse().map_err(|error| anyhow!("{from}: {error}"))
}

/// Separates the files of the trails that `lockgate call` keeps beside the others.
fn sort_files(files: &[PathBuf]) -> (Vec<&PathBuf>, Vec<&PathBuf>) {
    let trails = files.iter().filter_map(|file| trail(file)).collect();
    files.iter().partition(|file| !is_of_call(file, &trails))
}

/// Returns the trail of a file, by its name: `audit.jsonl.0000000000000001` was rotated out of
/// `audit.jsonl`. Returns `None` for auxiliary files, which `audit.jsonl*` matches too.
fn trail(file: &Path) -> Option<PathBuf> {
    let beside = match file.extension().and_then(OsStr::to_str) {
        Some("head") => true,
        Some("lock") => !is_aside(&file.with_extension("")),
        Some("cursor") => true,
        Some("new") => {
            let whole = file.with_extension("");
            matches!(whole.extension(), Some(end) if end == "head" || end == "cursor")
        }
        _ => false,
    };
    if beside {
        return None;
    }
    Some(if is_aside(file) { file.with_extension("") } else { file.to_owned() })
}

/// Reports whether a file was rotated out, by its name.
fn is_aside(file: &Path) -> bool {
    let Some(end) = file.extension() else { return false };
    end.len() == 16 && end.as_encoded_bytes().iter().all(u8::is_ascii_digit)
}

/// Reports whether a file belongs to a trail that `lockgate call` keeps beside one of `trails`.
fn is_of_call(file: &Path, trails: &BTreeSet<PathBuf>) -> bool {
    let own = trail(file).unwrap_or(file.with_extension(""));
    own.extension() == Some(OsStr::new("call")) && trails.contains(&own.with_extension(""))
}

/// Returns the files that hold the last anchors of these files' trails, whether or not they exist.
fn heads(files: &[&PathBuf]) -> BTreeSet<PathBuf> {
    let mut heads = BTreeSet::new();
    for file in files {
        if let Some(trail) = trail(file) {
            let mut head = trail.into_os_string();
            head.push(".head");
            heads.insert(PathBuf::from(head));
        } else if file.extension() == Some(OsStr::new("head")) {
            heads.insert(file.to_path_buf());
        }
    }
    heads
}

fn source(file: &Path, cwd: &Path) -> Part<'static> {
    let name = file.display().to_string();
    let path = cwd.join(file);
    // A pipe, such as stdin, can be read only once.
    let once = matches!(std::fs::metadata(&path), Ok(there) if !there.is_file());
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
    let file = open(path).with_context(|| path.display().to_string())?;
    let read = file.take(MAX_KEY).read_to_string(&mut text);
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
    let records = count(report.records, "record");
    let _ = write!(out, "\n{records} in {}", count(report.files, "file"));
    if let Some(first) = report.first
        && let Some(last) = report.last
        && let Some(hash) = &report.last_hash
    {
        let time = report.last_time.as_deref().unwrap_or("?");
        let _ = write!(out, ", {first} to {last}, the last of {time}\nanchor {last}:{hash}");
    }
    if report.repeated > 0 {
        let lines = count(report.repeated, "line");
        let _ = write!(out, "\n{lines} repeated verbatim, which a receiver may get");
    }
    if report.anchors > 0 {
        let _ = write!(out, "\nchecked against {}", count(report.anchors, "anchor"));
    }
    for note in &report.notes {
        let _ = write!(out, "\nnote: {note}");
    }
    out
}
