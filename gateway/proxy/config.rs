//! What the request path needs to know, already validated. It reads no file and no environment.

use std::net::SocketAddr;
use std::time::Duration;

use lockgate_policy::pin::Pins;

/// The gateway's own identity and the limits of the request path.
#[derive(Clone, PartialEq, Eq)]
pub struct Config {
    /// `serverInfo.name` that clients see.
    pub name: String,
    /// `serverInfo.title`, if any.
    pub title: Option<String>,
    /// Text put before the upstreams' own instructions, if any.
    pub instructions: Option<String>,
    pub names: Names,
    pub limits: Limits,
    /// Secret from which the keys of sealed tokens (cursors, request states, task ids) are derived.
    /// Without one each start makes a new one, and tokens do not outlive the process.
    pub secret: Option<String>,
    /// Secrets that still open tokens and seal none.
    pub old_secrets: Vec<String>,
    /// Tools as they were approved.
    pub pins: Pins,
    /// How this gateway and others reach each other; `None` where it is alone.
    pub replicas: Option<Replicas>,
}

/// Where this gateway is for the others, and where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replicas {
    pub address: SocketAddr,
    /// Names or addresses, each with a port, that lead to all gateways.
    pub peers: Vec<(String, u16)>,
    /// The name in the certificate of all gateways, where they serve TLS.
    pub tls_name: Option<String>,
}

/// How exposed names are made from a server's slug and a tool's own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// One of `__`, `_`, `-`, `.`, `/`.
    pub separator: String,
    /// Longest exposed name, 32–128 characters; longer ones get a hash suffix.
    pub max_length: usize,
}

/// Bounds of the request path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nesting of a message (arrays and objects).
    pub depth: usize,
    /// Legacy sessions alive at once; one more `initialize` is answered with 503.
    pub sessions: usize,
    /// Legacy sessions of one principal alive at once; one more of its `initialize` is answered
    /// with 503.
    pub sessions_per_principal: usize,
    /// Time without a request after which a legacy session ends.
    pub session_idle: Duration,
    /// Bytes of request bodies and of answers that are in flight, over all clients.
    pub bytes_in_flight: usize,
    /// Calls that run at once at all servers together.
    pub concurrent_requests: usize,
    /// Calls that wait at once for all servers together.
    pub queued_requests: usize,
    /// Large or difficult requests that wait to be looked at.
    pub queued_judgements: usize,
    /// Items of one page of a list.
    pub page_items: usize,
    /// How long the first list waits for servers that are still starting.
    pub discovery_deadline: Duration,
    /// `subscriptions/listen` streams and legacy GET streams alive at once, per principal.
    pub streams_per_principal: usize,
    /// Connections that one address may have. The streams of one organisation other than
    /// `default` are at most half as many.
    pub connections_per_address: usize,
    /// Resource URIs that one session or one listen may subscribe to.
    pub subscriptions: usize,
    /// Messages buffered for a client that reads slowly or resumes later, per stream.
    pub stream_buffer: usize,
    /// Rounds of questions to a client within one call.
    pub question_rounds: usize,
    /// How long a client may take to answer one question.
    pub question_timeout: Duration,
    /// Calls of modern clients at legacy servers that wait for answers to questions.
    pub parked_calls: usize,
    /// The same of one principal.
    pub parked_calls_per_principal: usize,
    /// Bytes of a client's answers to the questions of one round.
    pub answer_bytes: usize,
    /// Calls that wait for others than their callers to approve them, and as many questions to
    /// callers.
    pub approvals: usize,
    /// The same of one principal.
    pub approvals_per_principal: usize,
    /// How long a call waits for its approval at most.
    pub approval_timeout: Duration,
}

/// Never shows the secret.
impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("name", &self.name)
            .field("title", &self.title)
            .field("instructions", &self.instructions)
            .field("names", &self.names)
            .field("limits", &self.limits)
            .field("secret", &self.secret.as_ref().map(|_| "…"))
            .finish_non_exhaustive()
    }
}
