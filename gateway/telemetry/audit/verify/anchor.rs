//! Anchors: what somebody kept of a trail, to hold it against the trail later.

use std::str::FromStr;

use serde_json::Value;

use super::super::chain::GENESIS;

/// A number and a hash that were kept somewhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    pub seq: u64,
    pub hash: String,
}

impl FromStr for Anchor {
    type Err = &'static str;

    /// `SEQ:HASH`, or the text of a `.head` file.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(head) = serde_json::from_str::<Value>(text) {
            let seq = head.get("seq").and_then(Value::as_u64);
            let hash = head.get("hash").and_then(Value::as_str);
            return match (seq, hash) {
                (Some(seq), Some(hash)) => Ok(Self { seq, hash: hash.to_owned() }),
                _ => Err("it has no `seq` and `hash`"),
            };
        }
        let (seq, hash) = text.trim().split_once(':').ok_or("it is not SEQ:HASH")?;
        let seq = seq.parse().map_err(|_| "SEQ is no number")?;
        if hash.len() != GENESIS.len() || !hash.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err("HASH has not 64 hexadecimal digits");
        }
        Ok(Self { seq, hash: hash.to_ascii_lowercase() })
    }
}
