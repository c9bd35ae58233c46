//! The closed sets of label values. Each value is the index of its counter, and a word in metrics,
//! logs and the audit trail.

use prometheus::proto::LabelPair;

lockgate_text::words! {
    /// The outcome of a call, as the client observes it.
    #[derive(Hash)]
    pub enum Outcome {
        Ok = "ok",
        /// A result with `isError`.
        ToolError = "tool_error",
        /// A JSON-RPC error.
        ProtocolError = "protocol_error",
        /// Denied by policy; the server was not called.
        Denied = "denied",
        Timeout = "timeout",
        /// Cancelled by the client.
        Cancelled = "cancelled",
        /// The server was unreachable, or its breaker was open.
        Unavailable = "unavailable",
    }
}

lockgate_text::words! {
    /// The type of a failed tool call in which its server was involved.
    #[derive(Hash)]
    pub enum FailureType {
        /// The server was unreachable, or the connection was lost.
        Connection = "connection",
        /// The server requires credentials that it did not receive.
        Authentication = "authentication",
        Timeout = "timeout",
        /// The server or the tool returned an error.
        Execution = "execution",
        /// The server rejected the arguments.
        Validation = "validation",
    }
}

lockgate_text::words! {
    /// The outcome of a notification that a call awaits approval.
    #[derive(Hash)]
    pub enum Notification {
        Delivered = "delivered",
        /// All attempts failed.
        Failed = "failed",
        /// The queue was full.
        Dropped = "dropped",
    }
}

lockgate_text::words! {
    /// The reason a request was rejected before it became a call.
    #[derive(Hash)]
    pub enum Rejection {
        /// `Host` is not accepted.
        Host = "host",
        Origin = "origin",
        /// Missing or invalid credentials.
        Unauthenticated = "unauthenticated",
        /// Valid credentials without the required permission.
        Forbidden = "forbidden",
        NotFound = "not_found",
        /// HTTP method, media type or `Accept`.
        Unsupported = "unsupported",
        /// Invalid HTTP, JSON or JSON-RPC.
        Malformed = "malformed",
        /// Headers and body disagree.
        Mismatch = "mismatch",
        BodyTooLarge = "body_too_large",
        HeadersTooLarge = "headers_too_large",
        /// The client sent the request too slowly.
        SlowClient = "slow_client",
        /// The session is unknown or belongs to another principal.
        Session = "session",
        RateLimited = "rate_limited",
        /// A limit of the gateway was reached.
        Overloaded = "overloaded",
        /// The keys of a token's issuer are unavailable.
        IssuerKeys = "issuer_keys",
        /// Stored credentials cannot be decrypted.
        Credentials = "credentials",
    }
}

lockgate_text::words! {
    /// The reason for a policy denial.
    #[derive(Hash)]
    pub enum Denial {
        /// The rule forbids the request, or its arguments.
        Policy = "policy",
        /// The rule hides the requested item.
        Hidden = "hidden",
        /// Too many requests, in total or concurrently.
        Rate = "rate",
        /// The credential lacks a scope.
        Scopes = "scopes",
        /// The call was not approved.
        Approval = "approval",
        /// The rule is in dry-run mode and would have denied the request.
        DryRun = "dry_run",
    }
}

lockgate_text::words! {
    /// The kind of an unknown name in a request.
    #[derive(Hash)]
    pub enum Unknown {
        Tool = "tool",
        Prompt = "prompt",
        Resource = "resource",
        Task = "task",
        Method = "method",
    }
}

lockgate_text::words! {
    /// The state of a server.
    #[derive(Hash)]
    pub enum ServerState {
        /// Starting, or waiting for the first retry.
        Pending = "pending",
        Connected = "connected",
        /// Connected but not answering: slow or hung.
        Unresponsive = "unresponsive",
        NeedsAuth = "needs-auth",
        Failed = "failed",
        Disabled = "disabled",
        /// Disconnected while idle; connected on demand.
        Resting = "resting",
    }
}

/// The name for all values of a kind beyond its bound.
pub(crate) const OTHER: &str = "other";
pub(crate) const OUTCOMES: usize = Outcome::ALL.len();

/// Returns a label of a series.
pub(crate) fn pair(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}
