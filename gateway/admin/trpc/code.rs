//! The codes of tRPC's errors: name, JSON-RPC number and HTTP status (trpc: rpc/codes.ts,
//! http/getHTTPStatusCode.ts). Codes that the gateway never sends are omitted.

use axum::http::StatusCode;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code {
    pub(crate) key: &'static str,
    /// Several keys share a number.
    pub(crate) number: i32,
    pub(crate) status: u16,
}

impl Code {
    const fn new(key: &'static str, number: i32, status: u16) -> Self {
        Self { key, number, status }
    }

    pub(crate) const BAD_REQUEST: Self = Self::new("BAD_REQUEST", -32600, 400);
    pub(crate) const UNAUTHORIZED: Self = Self::new("UNAUTHORIZED", -32001, 401);
    pub(crate) const FORBIDDEN: Self = Self::new("FORBIDDEN", -32003, 403);
    pub(crate) const NOT_FOUND: Self = Self::new("NOT_FOUND", -32004, 404);
    pub(crate) const METHOD_NOT_SUPPORTED: Self = Self::new("METHOD_NOT_SUPPORTED", -32005, 405);
    pub(crate) const TIMEOUT: Self = Self::new("TIMEOUT", -32008, 408);
    pub(crate) const CONFLICT: Self = Self::new("CONFLICT", -32009, 409);
    pub(crate) const PRECONDITION_FAILED: Self = Self::new("PRECONDITION_FAILED", -32012, 412);
    pub(crate) const PAYLOAD_TOO_LARGE: Self = Self::new("PAYLOAD_TOO_LARGE", -32013, 413);
    pub(crate) const UNSUPPORTED_MEDIA_TYPE: Self =
        Self::new("UNSUPPORTED_MEDIA_TYPE", -32015, 415);
    pub(crate) const PRECONDITION_REQUIRED: Self = Self::new("PRECONDITION_REQUIRED", -32028, 428);
    pub(crate) const TOO_MANY_REQUESTS: Self = Self::new("TOO_MANY_REQUESTS", -32029, 429);
    pub(crate) const INTERNAL_SERVER_ERROR: Self = Self::new("INTERNAL_SERVER_ERROR", -32603, 500);
    pub(crate) const BAD_GATEWAY: Self = Self::new("BAD_GATEWAY", -32603, 502);
    pub(crate) const SERVICE_UNAVAILABLE: Self = Self::new("SERVICE_UNAVAILABLE", -32603, 503);
    pub(crate) const GATEWAY_TIMEOUT: Self = Self::new("GATEWAY_TIMEOUT", -32603, 504);

    pub(crate) const ALL: [Self; 16] = [
        Self::BAD_REQUEST,
        Self::UNAUTHORIZED,
        Self::FORBIDDEN,
        Self::NOT_FOUND,
        Self::METHOD_NOT_SUPPORTED,
        Self::TIMEOUT,
        Self::CONFLICT,
        Self::PRECONDITION_FAILED,
        Self::PAYLOAD_TOO_LARGE,
        Self::UNSUPPORTED_MEDIA_TYPE,
        Self::PRECONDITION_REQUIRED,
        Self::TOO_MANY_REQUESTS,
        Self::INTERNAL_SERVER_ERROR,
        Self::BAD_GATEWAY,
        Self::SERVICE_UNAVAILABLE,
        Self::GATEWAY_TIMEOUT,
    ];

    /// Returns the code of a status, or the nearest code if there is none.
    pub(crate) fn of_status(status: StatusCode) -> Self {
        let number = status.as_u16();
        let own = Self::ALL.into_iter().find(|code| code.status == number);
        match own {
            Some(code) => code,
            None if status == StatusCode::URI_TOO_LONG => Self::PAYLOAD_TOO_LARGE,
            None if status.is_client_error() => Self::BAD_REQUEST,
            None => Self::INTERNAL_SERVER_ERROR,
        }
    }
}
