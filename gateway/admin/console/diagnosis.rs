//! The state of a server as text: the problem, its cause, the fix and the visitor's next step. All
//! of it comes from the response of the API.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::fault::{Fault, sentence};

/// The state of a server, as returned by the API.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServerState {
    pub(crate) name: String,
    pub(crate) organization_id: Option<String>,
    pub(crate) state: String,
    pub(crate) fault: Option<Fault>,
    pub(crate) reason: String,
    pub(crate) since: String,
    pub(crate) last_heard: Option<String>,
    pub(crate) last_good: Option<String>,
    pub(crate) transport: Option<String>,
    pub(crate) revision: Option<String>,
    pub(crate) capabilities: Capabilities,
    pub(crate) restarts: u64,
    pub(crate) metrics: Option<Metrics>,
    pub(crate) recent: Vec<RecentStep>,
    pub(crate) operator: Option<Internals>,
}

/// Calls that ended within one time step.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RecentStep {
    pub(crate) calls: u64,
    pub(crate) failed: u64,
    pub(crate) average_ms: Option<f64>,
}

/// The number of tools, prompts and resources of a server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Capabilities {
    pub(crate) tools: usize,
    pub(crate) prompts: usize,
    pub(crate) resources: usize,
}

/// Outcomes of calls.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metrics {
    pub(crate) calls: u64,
    errors: BTreeMap<String, u64>,
    pub(crate) p95_ms: Option<f64>,
}

/// Details for operators only.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Internals {
    pub(crate) trouble: Option<String>,
    pub(crate) stderr: Vec<String>,
    pub(crate) omitted: Vec<String>,
    pub(crate) load: Option<serde_json::Value>,
}

/// The severity of a state. Each is drawn with a mark of a different shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    Bad,
    Waiting,
    Good,
    Off,
    /// A policy decision, not a failure.
    Denied,
}

/// The action that a visitor can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// Ends the connection and reconnects; holds the label of the button.
    Reconnect(&'static str),
    /// Connects a disconnected server.
    Connect,
    AskOperator,
    None,
}

impl NextStep {
    /// Returns the target of the form and the label of its button.
    pub(crate) fn button(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Reconnect(label) => Some(("reconnect", label)),
            Self::Connect => Some(("connect", "Connect")),
            Self::AskOperator | Self::None => None,
        }
    }
}

impl Metrics {
    pub(crate) fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }
}

impl Severity {
    pub(crate) fn of(state: &str) -> Self {
        match state {
            "connected" | "resting" => Self::Good,
            "pending" | "unresponsive" => Self::Waiting,
            "disabled" => Self::Off,
            _ => Self::Bad,
        }
    }

    /// Returns the label for a group of servers.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Good => "working",
            Self::Waiting => "waiting",
            Self::Bad => "failing",
            Self::Off => "disabled",
            Self::Denied => "denied",
        }
    }

    /// Returns the CSS class of the mark.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Waiting => "waiting",
            Self::Bad => "bad",
            Self::Off => "off",
            Self::Denied => "denied",
        }
    }
}

/// Returns the cause without the stage, which is shown beside it.
pub(crate) fn find_cause(reason: &str) -> &str {
    match reason.split_once(" failed: ") {
        Some((stage, cause)) if !stage.contains(' ') => cause,
        _ => reason,
    }
}

/// Returns the label of a state.
pub(crate) fn say_state(state: &str) -> &str {
    match state {
        "needs-auth" => "needs a credential",
        "unresponsive" => "not answering",
        "pending" => "connecting",
        "resting" => "idle",
        other => other,
    }
}

impl ServerState {
    /// Returns the severity. A server with a fault is failing even if it is connected, because its
    /// lists or calls fail, or if Lockgate waits for it.
    pub(crate) fn severity(&self) -> Severity {
        match Severity::of(&self.state) {
            Severity::Good | Severity::Waiting if self.fault.is_some() => Severity::Bad,
            severity => severity,
        }
    }

    pub(crate) fn state_text(&self) -> &str {
        match &self.fault {
            Some(fault) if Severity::of(&self.state) == Severity::Good => {
                match fault.stage.as_str() {
                    "call" => "calls fail",
                    "list" => "lists fail",
                    _ => "failed",
                }
            }
            _ => say_state(&self.state),
        }
    }

    /// Returns the stage that failed; empty if none did.
    pub(crate) fn stage(&self) -> &str {
        self.fault.as_ref().map_or("", |fault| &fault.stage)
    }

    /// Returns the start of the failure, or of the state.
    pub(crate) fn failing_since(&self) -> &str {
        let fault = self.fault.as_ref().and_then(|fault| fault.since.as_deref());
        fault.unwrap_or(&self.since)
    }

    /// Returns a sentence about the state.
    pub(crate) fn headline(&self) -> String {
        let name = &self.name;
        match (&self.fault, self.state.as_str()) {
            (Some(fault), _) => fault.summary.clone(),
            (None, "connected") => format!("{name} is connected."),
            (None, "resting") => format!("{name} is idle. Lockgate connects at the next call."),
            (None, "disabled") => format!("{name} is disabled: its tools cannot be called."),
            (None, "pending") => format!("Connecting to {name}."),
            (None, _) => format!("{name} is not working."),
        }
    }

    /// Returns the cause; empty if nothing is wrong.
    pub(crate) fn cause(&self) -> String {
        match (&self.fault, self.severity()) {
            (Some(fault), _) => fault.cause.clone(),
            (None, Severity::Good | Severity::Off) => String::new(),
            (None, _) => sentence(find_cause(&self.reason)),
        }
    }

    /// Returns the fix.
    pub(crate) fn advice(&self) -> &str {
        match (&self.fault, self.state.as_str()) {
            (Some(fault), _) => &fault.fix,
            (None, "disabled") => "The configuration disables it, or an operator disconnected it.",
            _ => "",
        }
    }

    /// Returns the action that the visitor can take.
    pub(crate) fn next_step(&self, is_operator: bool) -> NextStep {
        let is_builtin = self.transport.as_deref() == Some("builtin");
        match (self.state.as_str(), is_operator) {
            _ if is_builtin => NextStep::None,
            ("disabled", false) => NextStep::None,
            ("disabled", true) => NextStep::Connect,
            ("resting", _) => NextStep::None,
            ("connected", false) if self.fault.is_none() => NextStep::None,
            (_, false) => NextStep::AskOperator,
            ("connected", true) => NextStep::Reconnect("Reconnect"),
            (_, true) => NextStep::Reconnect("Retry now"),
        }
    }
}

#[cfg(test)]
mod tests;
