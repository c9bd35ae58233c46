//! Whether a trail is whole: every hash, the hash before it, the numbers without a hole, and the anchors that somebody kept.
//! It names the first record that does not hold, and says what it could not see. It opens no file.

use std::io::{self, BufRead, Read};

use serde::Serialize;
use serde_json::{Map, Value};

use super::chain::{GENESIS, MAX_LINE, MAX_SPAN, Seal, Tip, is_closed};

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

/// The first record that does not hold; of those that one hash is over, the first.
#[derive(Debug, Default, Serialize)]
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
    let (span, tip) = (Span::default(), None);
    let mut verifier =
        Verifier { seal, anchors, extent, span, tip, begun: false, kept_from: None, gone_from: u64::MAX, report };
    let mut open = Vec::new();
    for mut part in parts {
        let line = read_line(&mut part.text)?;
        let seq = line.as_deref().and_then(|line| number(&record(line)?, "seq"));
        open.push((seq.unwrap_or(u64::MAX), line, part));
    }
    // Stable, so that streams that all begin with 1 stay in the order in which they were given.
    open.sort_by_key(|(seq, ..)| *seq);
    verifier.report.files = open.len();
    for (_, mut line, mut part) in open {
        let mut place = (part.name, 0);
        while let Some(text) = line {
            place.1 += 1;
            if let Err(broken) = verifier.take(&text, &place) {
                verifier.report.broken = Some(broken);
                return Ok(verifier.report);
            }
            line = read_line(&mut part.text)?;
        }
    }
    Ok(verifier.end())
}

/// A line, and the file that it is in.
type Place = (String, u64);

/// Records that no hash was over yet.
#[derive(Default)]
struct Span {
    /// Their lines, with breaks.
    lines: Vec<u8>,
    records: Vec<Map<String, Value>>,
    /// Of the first of them.
    place: Place,
}

impl Span {
    fn first(&self) -> Option<u64> {
        number(self.records.first()?, "seq")
    }

    fn last(&self) -> Option<u64> {
        number(self.records.last()?, "seq")
    }

    /// Their numbers.
    fn words(&self) -> String {
        match (self.first(), self.last()) {
            (Some(first), Some(last)) if first < last => format!("records {first} to {last}"),
            (Some(first), _) => format!("record {first}"),
            _ => "a record".into(),
        }
    }

    /// None came.
    fn unhashed(&self) -> Broken {
        let why = "the writer is about to write it (verify again) or was killed before, or somebody changed or added \
                   records, or cut off the hash";
        self.broken(format!("no hash is over {}: {why}", self.words()))
    }

    /// All of them are wrong.
    fn broken(&self, why: String) -> Broken {
        let (file, line) = self.place.clone();
        Broken { file, line, seq: self.first(), why }
    }
}

struct Verifier<'a> {
    seal: Seal,
    anchors: &'a [Anchor],
    extent: Extent,
    span: Span,
    /// The last record that a hash was over.
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
    fn take(&mut self, line: &[u8], (file, at): &Place) -> Result<(), Broken> {
        let broken = |seq, why: &str| Broken { file: file.clone(), line: *at, seq, why: why.into() };
        let whole = line.strip_suffix(b"\n").ok_or_else(|| broken(None, "the line is cut off, or too long"))?;
        let record = record(whole).ok_or_else(|| broken(None, "this is no record"))?;
        let seq = number(&record, "seq").ok_or_else(|| broken(None, "the record has no number"))?;
        let fresh = is_fresh(&record) && text(&record, "output") != "file";
        if fresh && !self.span.records.is_empty() {
            return Err(self.span.unhashed());
        }
        self.follows(seq, &record, fresh).map_err(|why| broken(Some(seq), &why))?;
        if self.span.records.is_empty() {
            self.span.place = (file.clone(), *at);
        }
        self.span.lines.extend_from_slice(line);
        self.span.records.push(record);
        if is_closed(whole) {
            return self.close();
        }
        if self.span.lines.len() > MAX_SPAN {
            return Err(self.span.unhashed());
        }
        Ok(())
    }

    /// Whether a record has the number that is next.
    fn follows(&self, seq: u64, record: &Map<String, Value>, fresh: bool) -> Result<(), String> {
        match self.span.last().or(self.tip.as_ref().map(|tip| tip.seq)) {
            None if seq == 1 && !is_fresh(record) => Err("the first record does not begin a chain".into()),
            Some(last) if seq > last + 1 => {
                Err(format!("records {} to {} are missing before this one", last + 1, seq - 1))
            }
            Some(last) if seq <= last && !fresh => Err(format!("the record follows record {last}")),
            _ => Ok(()),
        }
    }

    /// The last record carries a hash over all of the span.
    fn close(&mut self) -> Result<(), Broken> {
        let span = std::mem::take(&mut self.span);
        let lines = span.lines.strip_suffix(b"\n").unwrap_or_default();
        let (Some(last), Some(hash)) = (span.records.last(), self.seal.check(lines)) else {
            let keyed = |record: &Map<String, Value>| record.get("keyed") == Some(&Value::Bool(true));
            let key = if !self.seal.is_keyed() && span.records.iter().any(keyed) {
                "the key is missing: the chain has one"
            } else {
                "the key is another one"
            };
            let what = "do not have the hash that the last of them carries";
            let words = match span.records.len() {
                1 => format!("{} does not have the hash that it carries: it was changed, or {key}", span.words()),
                _ => format!("{} {what}: one was changed, or their first is not here, or {key}", span.words()),
            };
            return Err(span.broken(words));
        };
        let seq = number(last, "seq").unwrap_or_default();
        let fresh = span.records.len() == 1 && is_fresh(last);
        match &self.tip {
            Some(tip) if fresh && text(last, "output") != "file" => {
                if !self.report.closed {
                    self.report.notes.push(format!("a chain ends at record {} without saying so", tip.seq));
                }
                self.report.chains += 1;
            }
            Some(tip) if text(last, "prev") != tip.hash => {
                return Err(span.broken("the record before this one is not the one it follows".into()));
            }
            _ => {}
        }
        for record in &span.records {
            // Only the last one has a hash, whatever the others say.
            let own = |anchor: &Anchor| anchor.seq == seq && anchor.hash == hash;
            if self.anchors.iter().any(|anchor| Some(anchor.seq) == number(record, "seq") && !own(anchor)) {
                return Err(
                    span.broken("an anchor has another hash for this record: the chain was written anew".into())
                );
            }
            self.count(record).map_err(|why| span.broken(why))?;
        }
        self.report.last_hash = Some(hash.to_owned());
        self.tip = Some(Tip { seq, hash: hash.to_owned() });
        Ok(())
    }

    /// Takes what a record says that a hash is over.
    fn count(&mut self, record: &Map<String, Value>) -> Result<(), String> {
        let kind = text(record, "kind");
        if kind == "open" {
            if record.get("missing_from").is_some() {
                return Err("the writer found records missing when it started".into());
            }
            if let Some(gone) = number(record, "gone_from") {
                self.gone_from = self.gone_from.min(gone.max(self.kept_from.unwrap_or(0)));
            }
            self.begun |= self.report.records == 0;
            self.kept_from = number(record, "oldest");
        }
        let (seq, report) = (number(record, "seq"), &mut self.report);
        report.chains = report.chains.max(1);
        report.first = report.first.or(seq);
        report.records += 1;
        report.closed = kind == "close";
        report.lost += number(record, "lost").filter(|_| kind == "gap").unwrap_or(0);
        (report.last, report.last_time) = (seq, Some(text(record, "time").to_owned()));
        if record.get("unclean") == Some(&Value::Bool(true)) {
            let seq = seq.unwrap_or_default();
            report.notes.push(format!("before record {seq} the writer ended without saying so"));
        }
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
            self.report.broken = Some(Broken { seq: Some(wanted.min(last)), why, ..Broken::default() });
        } else {
            self.report.notes.push(format!("records 1 to {last} are not in these files"));
        }
    }

    fn end(mut self) -> Report {
        self.begin();
        if !self.span.records.is_empty() && self.report.broken.is_none() {
            self.report.broken = Some(self.span.unhashed());
        }
        let last = self.tip.as_ref().map_or(0, |tip| tip.seq);
        let report = &mut self.report;
        let beyond = self.anchors.iter().filter(|anchor| anchor.seq > last).max_by_key(|anchor| anchor.seq);
        if let Some(anchor) = beyond.filter(|_| report.broken.is_none()) {
            let why = format!("records {} to {} are missing at the end: an anchor knows them", last + 1, anchor.seq);
            report.broken = Some(Broken { seq: Some(last + 1), why, ..Broken::default() });
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

fn record(line: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice(line).ok()
}

fn text<'a>(record: &'a Map<String, Value>, key: &str) -> &'a str {
    record.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn number(record: &Map<String, Value>, key: &str) -> Option<u64> {
    record.get(key).and_then(Value::as_u64)
}

/// Whether a record is the first of a chain.
fn is_fresh(record: &Map<String, Value>) -> bool {
    number(record, "seq") == Some(1) && text(record, "prev") == GENESIS && text(record, "kind") == "open"
}

/// One line with its break; without one when it is the last and cut off, or too long.
fn read_line(text: &mut dyn BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    text.take(MAX_LINE as u64).read_until(b'\n', &mut line)?;
    Ok((!line.is_empty()).then_some(line))
}
