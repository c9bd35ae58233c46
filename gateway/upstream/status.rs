//! How a server is: its state, the stage that failed and why, in words a person can act on.

use std::fmt;
use std::time::SystemTime;

use lockgate_protocol::revision::{Era, Revision};

/// A snapshot of how a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub state: State,
    pub since: SystemTime,
    /// What was found at the last handshake.
    pub peer: Option<Peer>,
    /// Why it is not connected, when it is not.
    pub trouble: Option<Trouble>,
    /// Starts and connects after the first one.
    pub restarts: u64,
}

/// The states of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Starting, or waiting to be tried again for the first time.
    Pending,
    Connected,
    NeedsAuth,
    Failed,
    Disabled,
}

/// What a server said of itself.
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

/// The stage that failed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub stage: Stage,
    pub words: String,
    /// The last lines of the child's stderr, if it is a child.
    pub stderr: Vec<String>,
}

/// The stages on the way to a connected server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    Start,
    Connect,
    Handshake,
    Discovery,
    Run,
}

impl State {
    pub const ALL: [Self; 5] = [Self::Pending, Self::Connected, Self::NeedsAuth, Self::Failed, Self::Disabled];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Connected => "connected",
            Self::NeedsAuth => "needs-auth",
            Self::Failed => "failed",
            Self::Disabled => "disabled",
        }
    }
}

impl Stage {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Connect => "connect",
            Self::Handshake => "handshake",
            Self::Discovery => "discovery",
            Self::Run => "run",
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.stage.as_str(), self.words)
    }
}
