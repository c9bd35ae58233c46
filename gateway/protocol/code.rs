//! JSON-RPC error codes: standard ones, those of MCP, and the gateway's own (outside the reserved
//! range).

/// Not JSON.
pub const PARSE: i64 = -32700;
/// JSON, but not an accepted message.
pub const INVALID_REQUEST: i64 = -32600;
pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
pub const INTERNAL: i64 = -32603;
/// Resource not found, legacy revisions only.
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// A standard header is missing or contradicts the body (modern).
pub const HEADER_MISMATCH: i64 = -32020;
/// The client did not declare a capability that the request needs (modern).
pub const MISSING_CAPABILITY: i64 = -32021;
/// The requested revision is not supported (modern).
pub const UNSUPPORTED_VERSION: i64 = -32022;
/// The user has to open a URL first (2025-11-25 only).
pub const URL_ELICITATION: i64 = -32042;

/// Gateway: a rate or concurrency limit; `data.retryAfterMs` is the time to wait.
pub const LIMITED: i64 = -31029;
/// Gateway: too large (body, response, stream).
pub const TOO_LARGE: i64 = -31013;
/// Gateway: shutting down or over capacity; retry later.
pub const OVERLOADED: i64 = -31053;
/// Gateway: the caller is not authenticated.
pub const UNAUTHENTICATED: i64 = -31001;
/// Gateway: the caller has to connect an account at the server first; `data.connect` has the link.
pub const NEEDS_ACCOUNT: i64 = -31004;
/// Gateway: the Host or Origin is not allowed.
pub const FORBIDDEN: i64 = -31003;

/// `data.code` of the error for a legacy request without a session.
pub const NOT_INITIALIZED: &str = "SERVER_NOT_INITIALIZED";

/// Returns whether a server's error code may be passed to a client unchanged.
///
/// Hop-local codes, codes of the retired implementation range and undefined reserved ones may not.
pub fn is_relayable(code: i64) -> bool {
    match code {
        PARSE | INVALID_REQUEST => false,
        METHOD_NOT_FOUND | INVALID_PARAMS | INTERNAL => true,
        -32099..=-32000 => false,
        _ => true,
    }
}
