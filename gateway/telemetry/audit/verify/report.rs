//! The input and result of a verification.

use std::str::FromStr;

use serde::Serialize;
use serde_json::Value;

use super::super::chain::GENESIS;
use super::super::pieces::number;
use super::record::BrokenRecord;

/// The result of a verification.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// No record is broken or missing.
    pub intact: bool,
    pub files: usize,
    pub records: u64,
    /// Greater than 1 if a stream was collected across restarts.
    pub chains: u64,
    pub first: Option<u64>,
    pub last: Option<u64>,
    pub last_hash: Option<String>,
    pub last_time: Option<String>,
    /// The last record states that the writer ended.
    pub closed: bool,
    /// Records that the writer recorded as lost.
    pub lost: u64,
    /// Repeated identical lines, which a receiver gets after a broken connection.
    pub repeated: u64,
    /// Number of anchors that matched.
    pub anchors: usize,
    pub broken: Option<BrokenRecord>,
    pub notes: Vec<String>,
}

/// The extent of the given parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All kept records: the trail itself states its beginning.
    Whole,
    /// Some records: earlier records may be absent.
    Part,
}

/// An anchor: a record number and hash that were kept outside of the trail, to compare later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    pub seq: u64,
    pub hash: String,
}

impl FromStr for Anchor {
    type Err = &'static str;

    /// Parses `SEQ:HASH`, or the text of a `.head` file.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(head) = serde_json::from_str::<Value>(text) {
            return match (number(&head, "seq"), head.get("hash")) {
                (Some(seq), Some(Value::String(hash))) => Ok(Self { seq, hash: hash.clone() }),
                _ => Err("it has no `seq` and `hash`"),
            };
        }
        let Some((seq, hash)) = text.trim().split_once(':') else {
            return Err("it is not SEQ:HASH");
        };
        let Ok(seq) = seq.parse() else { return Err("SEQ is not a number") };
        if hash.len() != GENESIS.len() || !hash.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err("HASH does not have 64 hexadecimal digits");
        }
        Ok(Self { seq, hash: hash.to_ascii_lowercase() })
    }
}
