//! Anchors: positions kept outside of a trail, to compare with the trail later.

use std::str::FromStr;

use serde_json::Value;

use super::super::chain::GENESIS;
use super::super::pieces::number;

/// A record number and hash that were kept elsewhere.
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
