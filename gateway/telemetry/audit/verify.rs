//! Verification of a trail: every hash, gapless numbers, and anchors kept elsewhere. Reports the
//! first broken record, and any that could not be checked. The caller supplies the function that
//! opens files.

mod record;

use std::io;

use lockgate_text::count::count;
use serde_json::Value;

use super::chain::{Hex, Seal, Tip, claimed};
use super::pieces::{Members, number, text};
pub use record::{Anchor, BrokenRecord, Extent, Part, Report, Text};
use record::{LinePlace, Lines, Placed, Repeats, begins_stream, is_fresh, parse};

/// Verifies all parts in the order of their first records.
///
/// # Errors
/// A part cannot be read, or was replaced during the check.
pub fn verify(
    parts: Vec<Part<'_>>,
    key: Option<&str>,
    anchors: &[Anchor],
    extent: Extent,
) -> io::Result<Report> {
    let held = anchors.iter().map(|anchor| HeldAnchor { anchor, met: false, other: None });
    let mut verifier = Verifier {
        seal: Seal::new(key),
        anchors: held.collect(),
        extent,
        gone_from: u64::MAX,
        ..Verifier::default()
    };
    let mut placed = parts.into_iter().map(Placed::new).collect::<Result<Vec<_>, _>>()?;
    // Each process writes a record 1 to a stream, so streams are ordered by time. Files contain a
    // single record 1 and are ordered by number, because clocks may be set back.
    placed.sort_by_key(|part| part.seq.unwrap_or(u64::MAX));
    if placed.iter().any(|part| part.begins_stream) {
        placed.sort_by(|one, other| one.time.cmp(&other.time));
    }
    verifier.report.files = placed.len();
    // The last part first: a running gateway may rotate it at any time, to a name not among the
    // parts.
    let last = placed.pop().map(Placed::open).transpose()?;
    let others = placed.into_iter().map(Placed::open);
    for lines in others.chain(last.map(Ok)) {
        if !verifier.read(lines?)? {
            return Ok(verifier.report);
        }
    }
    Ok(verifier.end())
}

fn broken_at(place: &LinePlace, seq: Option<u64>, why: &str) -> BrokenRecord {
    BrokenRecord { file: place.0.clone(), line: place.1, seq, why: why.into() }
}

/// An anchor, and the trail's records at its number.
struct HeldAnchor<'a> {
    anchor: &'a Anchor,
    met: bool,
    /// A record with its number and another hash.
    other: Option<BrokenRecord>,
}

/// Returns the anchors without a record of their number and hash.
fn unmet<'a>(anchors: &'a [HeldAnchor<'a>]) -> impl Iterator<Item = &'a HeldAnchor<'a>> {
    anchors.iter().filter(|held| !held.met)
}

#[derive(Default)]
struct Verifier<'a> {
    seal: Seal,
    anchors: Vec<HeldAnchor<'a>>,
    extent: Extent,
    /// The last record. Its hash is verified unless it is the first of a part.
    tip: Option<Tip>,
    /// The last `open` record says that the chain has a key.
    keyed: bool,
    /// The first record, verified or not.
    seen: Option<u64>,
    /// The last record read.
    last: Option<u64>,
    /// Whether the chain belongs to a stream, once known.
    stream: Option<bool>,
    /// The first record is an `open` record.
    begun: bool,
    /// The oldest kept record, according to the last `open` record. Only rotation advances it.
    kept_from: Option<u64>,
    /// The first record that an `open` record reports missing, although the previous one kept it.
    gone_from: u64,
    repeats: Repeats,
    report: Report,
}

impl Verifier<'_> {
    /// Reads a file to its end. Returns `false` if a record is broken, which the report contains.
    fn read(&mut self, mut lines: Lines<'_>) -> io::Result<bool> {
        let mut place = (lines.name.clone(), 0);
        let mut next = lines.next()?;
        while let Some(mut text) = next {
            place.1 += 1;
            next = lines.next()?;
            if next.is_none() {
                self.complete(&mut text, &place);
            }
            if let Err(broken) = self.take(&text, &place) {
                self.report.broken = Some(broken);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds the line break of a file's last line if only that is missing, as the hash is complete.
    fn complete(&mut self, line: &mut Vec<u8>, place: &LinePlace) {
        if claimed(line).is_some() {
            line.push(b'\n');
            let why = "the writer has not written it yet, was killed, or it was removed";
            self.report.note(format!("the last line of {} has no line break: {why}", place.0));
        }
    }

    fn take(&mut self, line: &[u8], place: &LinePlace) -> Result<(), BrokenRecord> {
        let Some(whole) = line.strip_suffix(b"\n") else {
            let why = "the line is cut off, or too long; if the writer is still writing it, verify \
                again";
            return Err(broken_at(place, None, why));
        };
        let record = parse(whole).ok_or_else(|| broken_at(place, None, "this is not a record"))?;
        let Some(seq @ 1..) = number(&record, "seq") else {
            return Err(broken_at(place, None, "the record has no number"));
        };
        // Senders deliver at least once, so a repeated line is no new record. The first line of a
        // stream begins another chain, and streams are not sent again.
        if begins_stream(&record) {
            self.repeats = Repeats::default();
        } else if self.repeats.contains(seq, line) {
            self.report.repeated += 1;
            return Ok(());
        }
        self.repeats.add(seq, line);
        self.seen = self.seen.or(Some(seq));
        let renews = self.renews(&record);
        if !renews {
            self.follows(seq, &record).map_err(|why| broken_at(place, Some(seq), &why))?;
        }
        self.last = Some(seq);
        if text(&record, "kind") == "open" {
            self.keyed = record.get("keyed") == Some(&Value::Bool(true));
        }
        let Some(prev) = self.prev_of(&record, renews) else {
            return match self.tip {
                None => self.skip(seq, whole, place),
                Some(_) => Err(broken_at(place, Some(seq), &self.describe_changed(seq, whole))),
            };
        };
        if let Some(tip) = &self.tip
            && !renews
            && prev != tip.hash
        {
            let why = "the record before this one does not have the hash in `prev`";
            return Err(broken_at(place, Some(seq), why));
        }
        let checked = self.seal.check(&prev, whole);
        let hash = checked
            .ok_or_else(|| broken_at(place, Some(seq), &self.describe_changed(seq, whole)))?;
        if renews {
            self.begin_chain();
        }
        self.compare_anchors(seq, &hash, place);
        self.note(&record).map_err(|why| broken_at(place, Some(seq), why))?;
        self.report.last_hash = Some(hash.as_str().to_owned());
        self.tip = Some(Tip { seq, hash });
        Ok(())
    }

    /// Returns whether the record begins another chain of a stream, as every process does.
    fn renews(&self, record: &Members) -> bool {
        self.last.is_some() && self.stream != Some(false) && begins_stream(record)
    }

    fn follows(&self, seq: u64, record: &Members) -> Result<(), String> {
        match self.last {
            None if seq == 1 && !is_fresh(record) => {
                Err("the first record does not begin a chain".into())
            }
            Some(last) if seq <= last => Err(format!("the record follows record {last}")),
            Some(last) if seq - last > 1 => {
                Err(format!("records {} to {} are missing before this one", last + 1, seq - 1))
            }
            _ => Ok(()),
        }
    }

    /// Returns the hash before a record: in an `open` record its own, so that a chain can begin at
    /// any file, and otherwise that of the last record.
    fn prev_of(&self, record: &Members, renews: bool) -> Option<Hex> {
        if text(record, "kind") == "open" {
            return Hex::parse(text(record, "prev"));
        }
        match &self.tip {
            Some(tip) if !renews => Some(tip.hash.clone()),
            _ => None,
        }
    }

    fn describe_changed(&self, seq: u64, line: &[u8]) -> String {
        if claimed(line).is_none() {
            return format!("record {seq} has no hash: it was changed or added");
        }
        let key = if self.keyed && self.seal.0.is_none() {
            "the key of the chain is missing"
        } else {
            "the key is not the key of the chain"
        };
        format!("record {seq} does not match its hash: it was changed, or {key}")
    }

    /// Counts a further chain of a stream.
    fn begin_chain(&mut self) {
        if let Some(tip) = &self.tip
            && !self.report.closed
        {
            let seq = tip.seq;
            self.report.note(format!("a chain ends at record {seq} without a `close` record"));
        }
        self.report.chains += 1;
    }

    fn compare_anchors(&mut self, seq: u64, hash: &Hex, place: &LinePlace) {
        for held in &mut self.anchors {
            if held.anchor.seq == seq {
                held.met |= held.anchor.hash == hash.as_str();
                let why = "an anchor has another hash for this record: the chain was rewritten";
                held.other.get_or_insert_with(|| broken_at(place, Some(seq), why));
            }
        }
    }

    /// Handles a first record without the hash before it. Only a part may begin with one.
    fn skip(&mut self, seq: u64, line: &[u8], place: &LinePlace) -> Result<(), BrokenRecord> {
        let Some(hash) = claimed(line) else {
            return Err(broken_at(place, Some(seq), &self.describe_changed(seq, line)));
        };
        if self.extent == Extent::Part {
            let why = "the record before it is not in these files";
            self.report.note(format!("record {seq} cannot be verified: {why}"));
            self.tip = Some(Tip { seq, hash });
            return Ok(());
        }
        let last = seq.saturating_sub(1);
        let why = format!(
            "records up to {last} are missing at the beginning, or record {seq} was changed; give \
                all files of the trail, or `--part` if others are kept elsewhere"
        );
        Err(BrokenRecord::missing(last, why))
    }

    /// Evaluates a verified record.
    fn note(&mut self, record: &Members) -> Result<(), &'static str> {
        let kind = text(record, "kind");
        if kind == "open" {
            if record.contains_key("missing_from") {
                return Err("the writer found records missing when it started");
            }
            if let Some(gone) = number(record, "gone_from") {
                self.gone_from = self.gone_from.min(gone.max(self.kept_from.unwrap_or(0)));
            }
            self.begun |= self.seen == number(record, "seq");
            self.kept_from = number(record, "oldest").or(self.kept_from);
            self.stream = Some(text(record, "output") != "file");
        }
        let seq = number(record, "seq");
        let report = &mut self.report;
        report.chains = report.chains.max(1);
        report.first = report.first.or(seq);
        report.records += 1;
        report.closed = kind == "close";
        if kind == "gap" {
            report.lost += number(record, "lost").unwrap_or(0);
        }
        (report.last, report.last_time) = (seq, Some(text(record, "time").to_owned()));
        if record.get("unclean") == Some(&Value::Bool(true)) {
            let seq = seq.unwrap_or(0);
            report.note(format!("before record {seq} the writer ended without a `close` record"));
        }
        Ok(())
    }

    /// Checks the first record against the declared beginning of the trail.
    fn begin(&mut self) {
        let Some(first @ 2..) = self.seen else { return };
        let last = first - 1;
        let wanted = self.kept_from.unwrap_or(u64::MAX).min(self.gone_from);
        if self.extent == Extent::Whole && (wanted < first || !self.begun) {
            let (missing, cause) = if wanted < first {
                let cause = "the trail does not record that rotation removed them".to_owned();
                (format!("{wanted} to {last}"), cause)
            } else {
                (format!("up to {last}"), format!("record {first} does not begin a file"))
            };
            let why = format!(
                "records {missing} are missing at the beginning: {cause}; give all files of the \
                    trail, or `--part` if others are kept elsewhere"
            );
            self.report.broken = Some(BrokenRecord::missing(wanted.min(last), why));
        } else {
            self.report.note(format!("records 1 to {last} are not in these files"));
        }
    }

    fn end(mut self) -> Report {
        self.begin();
        // A part of a stream may lack the chain of an anchor.
        if self.report.broken.is_none()
            && (self.extent == Extent::Whole || self.stream == Some(false))
        {
            let other = unmet(&self.anchors).find_map(|held| held.other.clone());
            self.report.broken = other;
        }
        let last = self.tip.as_ref().map_or(0, |tip| tip.seq);
        let anchor = unmet(&self.anchors).map(|held| held.anchor.seq).max().unwrap_or(0);
        let many = unmet(&self.anchors).count();
        let report = &mut self.report;
        if anchor > last && self.extent == Extent::Whole && report.broken.is_none() {
            let next = last + 1;
            let why = format!(
                "records {next} to {anchor} are missing at the end, according to an anchor"
            );
            report.broken = Some(BrokenRecord::missing(next, why));
        }
        report.anchors = self.anchors.len() - many;
        if report.broken.is_none() && many > 0 {
            report.note(format!("anchors of records that are not in these files: {many}"));
        }
        if report.records > 0 && !report.closed {
            report.note(
                "the last record is not a `close` record: the writer is still running, was killed, \
                    or the end was cut after the last anchor",
            );
        }
        if report.lost > 0 {
            let lost = count(report.lost, "record");
            report.note(format!("{lost} could not be written; the trail says where"));
        }
        report.intact = report.broken.is_none() && report.records > 0;
        if report.records == 0 {
            report.note("there is no record");
        }
        self.report
    }
}
