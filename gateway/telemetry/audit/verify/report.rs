//! What is asked of a verification, and what it answers.

use serde::Serialize;

use super::span::BrokenRecord;

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
    /// Lines that came again word for word, as a receiver gets them after a broken connection.
    pub repeated: u64,
    /// Anchors that were held against the trail.
    pub anchors: usize,
    pub broken: Option<BrokenRecord>,
    pub notes: Vec<String>,
}

/// How much of a trail the parts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All that is kept: the trail itself says where that begins.
    Whole,
    /// Some of it: what comes before is nobody's fault.
    Part,
}
