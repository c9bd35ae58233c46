//! The status of a server: its state, the stage that failed and the reason, in words that a person
//! can act on.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use lockgate_protocol::revision::{Era, Revision};
pub use lockgate_telemetry::ServerState as UpstreamState;
use lockgate_text::date;
use serde_json::{Map, Value, json};

use crate::config::Config;

/// A snapshot of a server's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub state: UpstreamState,
    pub since: SystemTime,
    /// The properties found at the last handshake.
    pub peer: Option<Peer>,
    /// Why it is not connected, if so.
    pub trouble: Option<StageError>,
    /// Why the latest read of its lists failed, if so; earlier lists stay in use.
    pub list_failure: Option<ListFailure>,
    /// Starts and connects after the first.
    pub restarts: u64,
    /// When it was last connected, if it is not now.
    pub last_good: Option<SystemTime>,
}

/// A failure to read the lists of a connected server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListFailure {
    pub words: String,
    pub since: SystemTime,
}

/// The self-description of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub era: Era,
    pub revision: Revision,
    /// `stdio`, `http` or `sse`, or `builtin`.
    pub transport: &'static str,
    /// Self-declared; for display only.
    pub name: String,
    pub version: String,
}

/// The stage that failed, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageError {
    pub stage: Stage,
    pub words: String,
    /// The last lines of a child's standard error.
    pub stderr: Vec<String>,
}

/// The limits for calls to a server, and their current use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    pub config: Arc<Config>,
    /// Running calls.
    pub running: usize,
    /// Waiting calls.
    pub waiting: usize,
    /// Time since the server last sent anything; `None` before it first did.
    pub silent: Option<Duration>,
    pub breaker: BreakerState,
    /// The failure that last opened the breaker.
    pub breaker_failure: Cow<'static, str>,
}

/// Whether calls to a server are admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Admitted; the number of consecutive failures.
    Closed { failures: u32 },
    /// Blocked because of the last failure, until the time has passed.
    Open { until: Instant },
    /// One trial call is running.
    Trying,
}

impl Stats {
    /// Returns the statistics as JSON, with times in milliseconds.
    pub fn json(&self) -> Value {
        let why = &self.breaker_failure;
        let breaker = match self.breaker {
            BreakerState::Closed { failures } => json!({"state": "closed", "failures": failures}),
            BreakerState::Open { until } => {
                let retry_in = to_ms(until.saturating_duration_since(Instant::now()));
                json!({"state": "open", "why": why, "retryInMs": retry_in})
            }
            BreakerState::Trying => json!({"state": "trying", "why": why}),
        };
        let config = &self.config;
        let mut tools = Map::new();
        for (tool, timeout) in &config.tool_timeouts {
            tools.insert(tool.clone(), to_ms(*timeout).into());
        }
        json!({
            "startTimeoutMs": to_ms(config.start_timeout),
            "timeoutMs": to_ms(config.call_timeout),
            "toolTimeoutsMs": tools,
            "running": self.running,
            "concurrency": config.limits.concurrency,
            "waiting": self.waiting,
            "queue": config.limits.queue,
            "silentMs": self.silent.map(to_ms),
            "breaker": breaker,
        })
    }
}

fn to_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

lockgate_text::words! {
    /// The stages of connecting to a server.
    #[derive(Hash)]
    pub enum Stage {
        Start = "start",
        Connect = "connect",
        Handshake = "handshake",
        Discovery = "list",
        Run = "run",
    }
}

/// The reason of a failure to list that is safe to publish.
pub const UNREADABLE_LISTS: &str = "its lists could not be read";

/// Substrings of an error's words, the corresponding reason that is safe to publish, and the failed
/// step of connecting, if it is more precise than the stage.
const REASONS: &[(&str, &str, Option<&str>)] = &[
    ("within the time allowed", "no connection was established in time", None),
    (", while reaching ", "the outbound proxy failed", None),
    ("onnection refused", "the connection was refused", None),
    ("lookup failed", "its host name could not be resolved", Some("dns")),
    ("did not answer", "it did not answer in time", None),
    ("was not ready within", "it was not ready in time", None),
    ("TLS", "the encrypted connection failed", Some("tls")),
    ("is not allowed here", "its address is not allowed", None),
    ("HTTP status 401", "it requires credentials", Some("auth")),
    ("HTTP status 403", "it requires other credentials", Some("auth")),
    ("HTTP status 407", "it requires credentials", Some("auth")),
    ("HTTP status 40", "no MCP server at this address", Some("http")),
    ("HTTP status 5", "it returned a server error", Some("http")),
    ("credentials", "it requires credentials", Some("auth")),
    ("revisions", "it supports none of the required revisions", None),
    ("refused initialize", "it refused the handshake", None),
    ("HTML page", "it returned an HTML page", None),
    ("exit", "its process ended", Some("start")),
    ("ended", "its process ended", Some("start")),
];

/// Details of a failure that are safe to publish: their prefix, the characters of the value after
/// it, and the resulting reason.
const DETAILS: &[(&str, &str, &str)] = &[
    ("it exited with code ", "0123456789", "it exited with code "),
    ("did not answer within ", "0123456789 s", "it did not answer within "),
    ("was not ready within ", "0123456789 s", "it was not ready within "),
];

impl StageError {
    pub fn new(stage: Stage, words: impl Into<String>) -> Self {
        Self { stage, words: words.into(), stderr: Vec::new() }
    }

    /// Returns a reason without the confidential parts of the words: addresses, commands and text
    /// of the server.
    pub fn reason(&self) -> Cow<'static, str> {
        match self.detail() {
            Some(detail) => detail.into(),
            None => self.kind().into(),
        }
    }

    /// Returns a detail of the words that is safe to publish, such as an exit code.
    fn detail(&self) -> Option<String> {
        for (start, allowed, reason) in DETAILS {
            let Some((_, rest)) = self.words.split_once(start) else { continue };
            let end = rest.find(|letter| !allowed.contains(letter)).unwrap_or(rest.len());
            let value = rest[..end].trim_end();
            if !value.is_empty() {
                return Some(format!("{reason}{value}"));
            }
        }
        None
    }

    fn kind(&self) -> &'static str {
        let known = REASONS.iter().find(|(part, ..)| self.words.contains(part));
        known.map_or_else(
            || match self.stage {
                Stage::Start => "it could not be started",
                Stage::Connect => "it could not be reached",
                Stage::Handshake => "it did not complete the handshake",
                Stage::Discovery => UNREADABLE_LISTS,
                Stage::Run => "the connection to it was lost",
            },
            |(_, reason, _)| *reason,
        )
    }

    /// Reports whether the server timed out, rather than failed.
    pub fn is_timeout(&self) -> bool {
        self.kind().ends_with("in time")
    }

    /// Returns the failed step, as precisely as the words reveal it: `start`, `dns`, `connect`,
    /// `tls`, `http`, `auth`, `handshake`, `list` or `run`.
    pub fn step(&self) -> &'static str {
        let known = REASONS.iter().find(|(part, ..)| self.words.contains(part));
        match (known, self.stage) {
            (Some((_, _, Some(step))), Stage::Connect | Stage::Handshake) => step,
            (_, stage) => stage.as_str(),
        }
    }
}

impl Status {
    /// Returns why the server is unavailable, without the confidential words of its trouble.
    pub fn reason(&self) -> String {
        match (self.state, &self.trouble) {
            (UpstreamState::Disabled, _) => "it is switched off".to_owned(),
            (UpstreamState::Connected | UpstreamState::Resting, None) if self.fails_to_list() => {
                format!("list failed: {UNREADABLE_LISTS}")
            }
            (UpstreamState::Connected, _) => "it is connected".to_owned(),
            (_, Some(trouble)) => {
                format!("{} failed: {}", trouble.step(), trouble.reason())
            }
            (UpstreamState::Resting, None) => "it is connected on demand".to_owned(),
            (_, None) => "still starting".to_owned(),
        }
    }

    /// Reports whether the latest read of its lists failed.
    pub fn fails_to_list(&self) -> bool {
        self.list_failure.is_some()
    }

    /// Reports whether it may recover without intervention.
    pub fn is_passing(&self) -> bool {
        !matches!(self.state, UpstreamState::NeedsAuth | UpstreamState::Disabled)
    }

    /// Returns when the state last changed (RFC 3339).
    pub fn since_text(&self) -> String {
        date::of_time(self.since)
    }
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.step(), self.words)
    }
}

#[cfg(test)]
mod tests;
