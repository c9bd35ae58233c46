//! The input and result of a verification.

use serde::Serialize;

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
