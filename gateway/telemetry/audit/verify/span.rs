//! Records as they are read, and the span of records not yet covered by a hash.

use std::fmt;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::super::chain::GENESIS;

/// A file name and line number.
pub(super) type LinePlace = (String, u64);

/// The first broken record, or the first of a broken span.
#[derive(Debug, Default, Serialize)]
pub struct BrokenRecord {
    pub file: String,
    pub line: u64,
    pub seq: Option<u64>,
    pub why: String,
}

/// The members of a record. Duplicate names are rejected, because readers may use either value.
pub(super) struct Record(Map<String, Value>);

impl Record {
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    pub(super) fn text(&self, key: &str) -> &str {
        match self.0.get(key) {
            Some(Value::String(text)) => text,
            _ => "",
        }
    }

    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.0.get(key)?.as_u64()
    }

    pub(super) fn is(&self, key: &str) -> bool {
        self.0.get(key) == Some(&Value::Bool(true))
    }

    /// Returns whether the record is the first of a chain.
    pub(super) fn is_fresh(&self) -> bool {
        self.number("seq") == Some(1) && self.text("prev") == GENESIS && self.text("kind") == "open"
    }

    /// Returns whether the record is the first of a process that writes to a stream.
    pub(super) fn begins_stream(&self) -> bool {
        self.is_fresh() && self.text("output") != "file"
    }
}

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Record;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a record")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Record, A::Error> {
                let mut members = Map::new();
                while let Some((key, value)) = access.next_entry::<String, Value>()? {
                    if members.insert(key, value).is_some() {
                        return Err(A::Error::custom("duplicate member"));
                    }
                }
                Ok(Record(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// Records not yet covered by a hash.
#[derive(Default)]
pub(super) struct Span {
    /// Their lines, with breaks.
    lines: Vec<u8>,
    pub(super) records: Vec<Record>,
    /// The position of the first record.
    place: LinePlace,
}

impl Span {
    pub(super) fn add(&mut self, line: &[u8], record: Record, place: &LinePlace) {
        if self.records.is_empty() {
            self.place.clone_from(place);
        }
        self.lines.extend_from_slice(line);
        self.records.push(record);
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns the bytes the last line's hash covers, and that hash.
    pub(super) fn lines(&self) -> &[u8] {
        self.lines.strip_suffix(b"\n").unwrap_or(&[])
    }

    pub(super) fn first(&self) -> Option<u64> {
        self.records.first()?.number("seq")
    }

    fn last(&self) -> Option<u64> {
        self.records.last()?.number("seq")
    }

    /// Returns whether absent records before the span may explain a wrong hash.
    pub(super) fn lacks_beginning(&self) -> bool {
        matches!(self.records.first(), Some(record) if record.text("kind") != "open")
    }

    pub(super) fn words(&self) -> String {
        match (self.first(), self.last()) {
            (Some(first), Some(last)) if first < last => format!("records {first} to {last}"),
            (Some(first), _) => format!("record {first}"),
            _ => "a record".into(),
        }
    }

    /// Reports that no hash covers the span.
    pub(super) fn unhashed(&self) -> BrokenRecord {
        let why = "the writer has not written it yet (verify again) or was killed, or records were \
            changed or added, or the hash was cut off";
        self.broken(format!("no hash covers {}: {why}", self.words()))
    }

    /// Reports a wrong hash; `keyless` if verification has no key.
    pub(super) fn changed(&self, keyless: bool) -> BrokenRecord {
        let key = if keyless && self.records.iter().any(|record| record.is("keyed")) {
            "the key of the chain is missing"
        } else {
            "the key is not the key of the chain"
        };
        let words = self.words();
        self.broken(match self.records.len() {
            1 => {
                format!("{words} does not match its hash: it was changed, or {key}")
            }
            _ => format!(
                "{words} do not match the hash in the last of them: one was changed, or {key}"
            ),
        })
    }

    /// Reports the span, any record of which may be broken.
    pub(super) fn broken(&self, why: String) -> BrokenRecord {
        let (file, line) = self.place.clone();
        BrokenRecord { file, line, seq: self.first(), why }
    }
}
