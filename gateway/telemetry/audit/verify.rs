//! Whether a trail is whole: every record's own hash, the hash of the one before, the numbers without a hole, and the anchors
//! that somebody kept. It names the first record that does not hold, and says what it could not see. It opens no file.

use std::io::{self, BufRead, Read};

use serde::Serialize;
use serde_json::Value;

use super::chain::{GENESIS, Seal, Tip};
use super::file::MAX_LINE;

/// A number and a hash that were kept somewhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    pub seq: u64,
    pub hash: String,
}

impl std::str::FromStr for Anchor {
    type Err = &'static str;

    /// `SEQ:HASH`, or the text of a `.head` file.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(head) = serde_json::from_str::<Value>(text) {
            let tip = || Some(Self { seq: head.get("seq")?.as_u64()?, hash: head.get("hash")?.as_str()?.to_owned() });
            return tip().ok_or("it has no `seq` and `hash`");
        }
        let (seq, hash) = text.trim().split_once(':').ok_or("it is not SEQ:HASH")?;
        let seq = seq.parse().map_err(|_| "SEQ is no number")?;
        if hash.len() != GENESIS.len() || !hash.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err("HASH has not 64 hexadecimal digits");
        }
        Ok(Self { seq, hash: hash.to_ascii_lowercase() })
    }
}

/// What was found.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Nothing is wrong.
    pub intact: bool,
    pub files: usize,
    pub records: u64,
    /// More than one when a stream was collected over restarts.
    pub chains: u64,
    pub first: Option<u64>,
    pub last: Option<u64>,
    pub last_hash: Option<String>,
    pub last_time: Option<String>,
    /// The last record says that the writer ended.
    pub closed: bool,
    /// Records that the writer itself says are missing.
    pub lost: u64,
    /// Anchors that were held against the trail.
    pub anchors: usize,
    pub broken: Option<Broken>,
    pub notes: Vec<String>,
}

/// The first record that does not hold.
#[derive(Debug, Serialize)]
pub struct Broken {
    pub file: String,
    pub line: u64,
    pub seq: Option<u64>,
    pub why: String,
}

/// A file and its name.
pub struct Part<'a> {
    pub name: String,
    pub text: Box<dyn BufRead + 'a>,
}

/// How much of a trail the parts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All that is kept: the trail itself says where that begins.
    Whole,
    /// Some of it: what comes before is nobody's fault.
    Part,
}

/// Reads all parts in the order of their first records.
///
/// # Errors
/// A part cannot be read.
pub fn verify(parts: Vec<Part<'_>>, key: Option<&str>, anchors: &[Anchor], extent: Extent) -> io::Result<Report> {
    let (seal, report) = (Seal::new(key), Report::default());
    let mut verifier =
        Verifier { seal, anchors, extent, tip: None, begun: false, kept_from: None, gone_from: u64::MAX, report };
    let mut open = Vec::new();
    for mut part in parts {
        let line = read_line(&mut part.text)?;
        let seq = line.as_deref().and_then(|line| record(line)?.get("seq")?.as_u64());
        open.push((seq.unwrap_or(u64::MAX), line, part));
    }
    // Stable, so that streams that all begin with 1 stay in the order in which they were given.
    open.sort_by_key(|(seq, ..)| *seq);
    verifier.report.files = open.len();
    for (_, mut line, mut part) in open {
        let mut number = 0;
        while let Some(text) = line {
            number += 1;
            if let Err(why) = verifier.take(&text) {
                let seq = record(&text).and_then(|record| record.get("seq")?.as_u64());
                verifier.report.broken = Some(Broken { file: part.name, line: number, seq, why });
                return Ok(verifier.report);
            }
            line = read_line(&mut part.text)?;
        }
    }
    Ok(verifier.end())
}

struct Verifier<'a> {
    seal: Seal,
    anchors: &'a [Anchor],
    extent: Extent,
    tip: Option<Tip>,
    /// The first record is one that begins a file or a chain.
    begun: bool,
    /// The first record that the trail keeps, as its last opening says. Only rotation moves it on.
    kept_from: Option<u64>,
    /// The first record that an opening missed, of those that the one before kept.
    gone_from: u64,
    report: Report,
}

impl Verifier<'_> {
    fn take(&mut self, line: &[u8]) -> Result<(), String> {
        let line = line.strip_suffix(b"\n").ok_or("the line is cut off, or too long")?;
        let record = record(line).ok_or("this is no record")?;
        let text = |key: &str| record.get(key).and_then(Value::as_str).unwrap_or_default();
        let number = |key: &str| record.get(key).and_then(Value::as_u64);
        let Some(hash) = self.seal.check(line) else {
            let keyed = record.get("keyed") == Some(&Value::Bool(true)) && !self.seal.is_keyed();
            let words = "the record does not have the hash that it carries: it was changed";
            let key = if keyed { ", or the key is missing: the chain has one" } else { ", or the key is another one" };
            return Err(format!("{words}{key}"));
        };
        let (seq, prev) = (number("seq").ok_or("the record has no number")?, text("prev"));
        let fresh = seq == 1 && prev == GENESIS && text("kind") == "open";
        match &self.tip {
            None if seq == 1 && !fresh => return Err("the first record does not begin a chain".into()),
            Some(tip) if fresh && text("output") != "file" => {
                if !self.report.closed {
                    self.report.notes.push(format!("a chain ends at record {} without saying so", tip.seq));
                }
                self.report.chains += 1;
            }
            Some(tip) if seq > tip.seq + 1 => {
                return Err(format!("records {} to {} are missing before this one", tip.seq + 1, seq - 1));
            }
            Some(tip) if seq <= tip.seq => return Err(format!("the record follows record {}", tip.seq)),
            Some(tip) if prev != tip.hash => return Err("the record before this one is not the one it follows".into()),
            _ => {}
        }
        if self.anchors.iter().any(|anchor| anchor.seq == seq && anchor.hash != hash) {
            return Err("an anchor has another hash for this record: the chain was written anew".into());
        }
        if text("kind") == "open" && record.get("missing_from").is_some() {
            return Err("the writer found records missing when it started".into());
        }
        if text("kind") == "open" {
            if let Some(gone) = number("gone_from") {
                self.gone_from = self.gone_from.min(gone.max(self.kept_from.unwrap_or(0)));
            }
            self.begun |= self.report.records == 0;
            self.kept_from = number("oldest");
        }
        let report = &mut self.report;
        report.chains = report.chains.max(1);
        report.first = report.first.or(Some(seq));
        report.records += 1;
        report.closed = text("kind") == "close";
        report.lost += number("lost").filter(|_| text("kind") == "gap").unwrap_or(0);
        (report.last, report.last_hash, report.last_time) =
            (Some(seq), Some(hash.to_owned()), Some(text("time").to_owned()));
        if record.get("unclean") == Some(&Value::Bool(true)) {
            report.notes.push(format!("before record {seq} the writer ended without saying so"));
        }
        self.tip = Some(Tip { seq, hash: hash.to_owned() });
        Ok(())
    }

    /// Holds the first record against what the trail says of its beginning.
    fn begin(&mut self) {
        let Some(first) = self.report.first.filter(|first| *first > 1) else { return };
        let (last, wanted) = (first - 1, self.kept_from.unwrap_or(u64::MAX).min(self.gone_from));
        if self.extent == Extent::Whole && (wanted < first || !self.begun) {
            let what = if wanted < first {
                format!(
                    "{wanted} to {last} are missing at the beginning: the trail does not say that rotation removed them"
                )
            } else {
                format!("up to {last} are missing at the beginning: record {first} is not one that begins a file")
            };
            let why = format!("records {what}; give all files of the trail, or `--part` if others are kept elsewhere");
            self.report.broken = Some(Broken { file: String::new(), line: 0, seq: Some(wanted.min(last)), why });
        } else {
            self.report.notes.push(format!("records 1 to {last} are not in these files"));
        }
    }

    fn end(mut self) -> Report {
        self.begin();
        let last = self.tip.as_ref().map_or(0, |tip| tip.seq);
        let report = &mut self.report;
        let beyond = self.anchors.iter().filter(|anchor| anchor.seq > last).max_by_key(|anchor| anchor.seq);
        if let Some(anchor) = beyond.filter(|_| report.broken.is_none()) {
            let why = format!("records {} to {} are missing at the end: an anchor knows them", last + 1, anchor.seq);
            report.broken = Some(Broken { file: String::new(), line: 0, seq: Some(last + 1), why });
        }
        let seen = |anchor: &&Anchor| report.first.is_some_and(|first| first <= anchor.seq);
        report.anchors = self.anchors.iter().filter(seen).count();
        if report.records > 0 && !report.closed {
            report.notes.push(
                "the last record does not say that the writer ended: it is still running, was killed, or the end was cut \
                 after the last anchor"
                    .into(),
            );
        }
        if report.lost > 0 {
            report.notes.push(format!("{} records could not be written; the trail says where", report.lost));
        }
        report.intact = report.broken.is_none() && report.records > 0;
        if report.records == 0 {
            report.notes.push("there is no record".into());
        }
        self.report
    }
}

fn record(line: &[u8]) -> Option<serde_json::Map<String, Value>> {
    serde_json::from_slice(line).ok()
}

/// One line with its break; without one when it is the last and cut off, or too long.
fn read_line(text: &mut dyn BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    text.take(MAX_LINE).read_until(b'\n', &mut line)?;
    Ok((!line.is_empty()).then_some(line))
}
