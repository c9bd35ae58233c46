//! The closed sets of values by which things are counted: each value is the index of its counter
//! and a word in metrics, logs and the audit trail.

/// A closed set of label values; the discriminant is the index of its counter.
macro_rules! labels {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $label:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// All of them, in the order of their counters.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The label value and the word in logs.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }
        }
    };
}

labels! {
    /// How a call ended, as the client sees it.
    Outcome {
        Ok = "ok",
        /// A result with `isError`.
        ToolError = "tool_error",
        /// A JSON-RPC error.
        ProtocolError = "protocol_error",
        /// Policy said no; the server was not called.
        Denied = "denied",
        Timeout = "timeout",
        /// By the client.
        Cancelled = "cancelled",
        /// The server could not be reached, or its breaker was open.
        Unavailable = "unavailable",
    }
}

labels! {
    /// Where a call of a tool failed that its server had a part in.
    FailureType {
        /// The server could not be reached, or was lost.
        Connection = "connection",
        /// The server wants credentials that it was not given.
        Authentication = "authentication",
        Timeout = "timeout",
        /// The server, or its tool, answered with an error.
        Execution = "execution",
        /// The server took the arguments for wrong.
        Validation = "validation",
    }
}

labels! {
    /// What became of a message that a call waits for approvers.
    Notification {
        Delivered = "delivered",
        /// Given up after all attempts.
        Failed = "failed",
        /// Too many waited to be sent.
        Dropped = "dropped",
    }
}

labels! {
    /// Why a request was refused before it became a call.
    Rejection {
        /// `Host` is not one of ours.
        Host = "host",
        Origin = "origin",
        /// No or wrong credentials.
        Unauthenticated = "unauthenticated",
        /// Good credentials, but not for this.
        Forbidden = "forbidden",
        NotFound = "not_found",
        /// HTTP method, media type or `Accept`.
        Unsupported = "unsupported",
        /// HTTP, JSON or JSON-RPC that does not hold to the rules.
        Malformed = "malformed",
        /// Headers and body disagree.
        Mismatch = "mismatch",
        BodyTooLarge = "body_too_large",
        HeadersTooLarge = "headers_too_large",
        /// The client took too long to send it.
        SlowClient = "slow_client",
        /// The session is unknown or belongs to somebody else.
        Session = "session",
        RateLimited = "rate_limited",
        /// A bound of the gateway was reached.
        Overloaded = "overloaded",
        /// The keys of a token's issuer are not available.
        IssuerKeys = "issuer_keys",
        /// Stored credentials that do not open.
        Credentials = "credentials",
    }
}

labels! {
    /// Why policy denied a request.
    Denial {
        /// The rule forbids it, or these arguments.
        Policy = "policy",
        /// The rule hides what was asked for.
        Hidden = "hidden",
        /// Too many requests, or too many at the same time.
        Rate = "rate",
        /// The credential lacks a scope.
        Scopes = "scopes",
        /// Nobody approved it.
        Approval = "approval",
        /// The rule is on trial: it would have denied what went on.
        DryRun = "dry_run",
    }
}

labels! {
    /// What a request named that nothing has.
    Unknown {
        Tool = "tool",
        Prompt = "prompt",
        Resource = "resource",
        Task = "task",
        Method = "method",
    }
}

labels! {
    /// What a server is doing.
    ServerState {
        Pending = "pending",
        Connected = "connected",
        Unresponsive = "unresponsive",
        NeedsAuth = "needs_auth",
        Failed = "failed",
        Disabled = "disabled",
        /// Not connected, because nobody uses it.
        Resting = "resting",
    }
}

/// The name that stands for all of a kind beyond its bound.
pub(crate) const OTHER: &str = "other";
/// How many outcomes there are.
pub(crate) const OUTCOMES: usize = Outcome::ALL.len();
