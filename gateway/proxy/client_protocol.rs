//! What distinguishes clients with a session from clients whose requests describe themselves, for
//! the steps between the two edges (`legacy` and `modern`).

use http::StatusCode;
use lockgate_protocol::code;
use lockgate_protocol::revision::{Era, Revision};

/// The client's side of the protocol.
pub(crate) struct ClientProtocol {
    /// Results have a type, cache hints and our server info. Sessions got the info in `initialize`.
    pub(crate) describes_results: bool,
    /// A question is the result of a request, and the client's next request carries the answer.
    /// Otherwise it is a request on a stream of the session.
    pub(crate) asks_by_result: bool,
    /// Tasks are those of the extension, not those of 2025-11-25.
    pub(crate) has_task_extension: bool,
    /// The error code for a resource that does not exist.
    pub(crate) missing_resource: i64,
    /// The HTTP status of an error for an unknown method.
    pub(crate) unknown_method: StatusCode,
}

pub(crate) static MODERN: ClientProtocol = ClientProtocol {
    describes_results: true,
    asks_by_result: true,
    has_task_extension: true,
    missing_resource: code::INVALID_PARAMS,
    unknown_method: StatusCode::NOT_FOUND,
};

pub(crate) static LEGACY: ClientProtocol = ClientProtocol {
    describes_results: false,
    asks_by_result: false,
    has_task_extension: false,
    missing_resource: code::RESOURCE_NOT_FOUND,
    unknown_method: StatusCode::OK,
};

impl ClientProtocol {
    pub(crate) fn of(revision: Revision) -> &'static Self {
        match revision.era() {
            Era::Modern => &MODERN,
            Era::Legacy => &LEGACY,
        }
    }
}
