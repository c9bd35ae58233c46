//! The plan for each member of a streamed response. Members of other kinds of results are rejected.

use std::sync::Arc;

use bytes::Bytes;
use lockgate_protocol::scan::Fault;

/// Parameters of the client's response.
#[derive(Clone)]
pub(in crate::relay) struct Shape {
    /// The client's request id as JSON text.
    pub(in crate::relay) client_id: Bytes,
    pub(in crate::relay) server_id: u64,
    /// Set if the result has a `ttlMs`.
    pub(in crate::relay) has_ttl: bool,
    /// The server's slug, if URIs are namespaced.
    pub(in crate::relay) slug: Option<String>,
    /// Our server info, if the result has it, a type and cache hints.
    pub(in crate::relay) info: Option<Arc<[u8]>>,
}

/// The reason why a response cannot be streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::relay) enum RewriteError {
    #[error("{0}")]
    Fault(#[from] Fault),
    #[error("it is not a result")]
    NotResult,
    #[error("it has the id of another request")]
    OtherId,
    #[error("`jsonrpc` must be \"2.0\"")]
    Version,
    #[error("it is another kind of result")]
    OtherKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Copy,
    Drop,
    Keep(Kept),
    Result,
    /// Content blocks, which may contain URIs.
    Blocks {
        level: usize,
    },
    /// Structured content: legacy clients accept objects only.
    Structured,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    Version,
    Id,
    ResultType,
    Meta,
    Ttl,
    IsError,
    BlockType,
    BlockUri,
}

pub(super) fn plan_of_envelope(name: &str) -> Result<Plan, RewriteError> {
    match name {
        "jsonrpc" => Ok(Plan::Keep(Kept::Version)),
        "id" => Ok(Plan::Keep(Kept::Id)),
        "result" => Ok(Plan::Result),
        "error" | "method" => Err(RewriteError::NotResult),
        _ => Ok(Plan::Drop),
    }
}

pub(super) fn plan_of_result(
    name: &str,
    namespaced: bool,
    is_described: bool,
) -> Result<Plan, RewriteError> {
    match name {
        "resultType" => Ok(Plan::Keep(Kept::ResultType)),
        "_meta" => Ok(Plan::Keep(Kept::Meta)),
        "ttlMs" => Ok(Plan::Keep(Kept::Ttl)),
        "cacheScope" => Ok(Plan::Drop),
        "isError" => Ok(Plan::Keep(Kept::IsError)),
        "content" | "contents" | "messages" if namespaced => Ok(Plan::Blocks { level: 0 }),
        "structuredContent" if !is_described => Ok(Plan::Structured),
        "inputRequests" | "requestState" | "taskId" => Err(RewriteError::OtherKind),
        _ => Ok(Plan::Copy),
    }
}

pub(super) fn plan_of_block(name: &str, level: usize) -> Plan {
    match name {
        "type" => Plan::Keep(Kept::BlockType),
        "uri" => Plan::Keep(Kept::BlockUri),
        "resource" | "content" => Plan::Blocks { level: level + 1 },
        _ => Plan::Copy,
    }
}
