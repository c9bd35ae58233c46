//! The state of a server as text: the problem, its cause, the fix and the visitor's next step. All
//! of it comes from the response of the API.

use crate::api::figures::ServerMetrics;
use crate::api::integrations::Integration;
use crate::api::servers::Server;
use crate::fault::{Fault, sentence};

lockgate_text::words! {
    /// The severity of a state. Each is drawn with a mark of a different shape.
    #[derive(PartialOrd, Ord)]
    pub(crate) enum Severity {
        Bad = "bad",
        Waiting = "waiting",
        Good = "good",
        Off = "off",
        /// A policy decision, not a failure.
        Denied = "denied",
    }
}

/// The action that a visitor can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// A form: its target, and the label of its button.
    Button(&'static str, &'static str),
    AskOperator,
    None,
}

impl ServerMetrics {
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

    /// Returns the severity of a server. With a fault it is failing, even if it is connected (its
    /// lists or calls fail) or Lockgate waits for it.
    pub(crate) fn of_server(state: &str, fault: Option<&Fault>) -> Self {
        match Self::of(state) {
            Self::Good | Self::Waiting if fault.is_some() => Self::Bad,
            severity => severity,
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
}

/// Returns the cause without the stage, which is shown beside it.
fn find_cause(reason: &str) -> &str {
    match reason.split_once(" failed: ") {
        Some((stage, cause)) if !stage.contains(' ') => cause,
        _ => reason,
    }
}

/// Returns the label of a state.
fn say_state(state: &str) -> &str {
    match state {
        "needs-auth" => "needs a credential",
        "unresponsive" => "not answering",
        "pending" => "connecting",
        "resting" => "idle",
        other => other,
    }
}

/// Returns the label of a server's state.
pub(crate) fn say_server_state<'a>(state: &'a str, fault: Option<&Fault>) -> &'a str {
    match fault {
        Some(fault) if Severity::of(state) == Severity::Good => match fault.stage.as_str() {
            "call" => "calls fail",
            "list" => "lists fail",
            _ => "failed",
        },
        _ => say_state(state),
    }
}

impl Integration {
    pub(crate) fn severity(&self) -> Severity {
        Severity::of_server(self.state, self.fault.as_ref())
    }

    /// Returns the fault, or the reason of the state in the same form.
    pub(crate) fn describe(&self) -> Fault {
        let cause = sentence(find_cause(&self.reason));
        self.fault.clone().unwrap_or_else(|| Fault { cause, ..Fault::default() })
    }
}

impl Server {
    pub(crate) fn severity(&self) -> Severity {
        Severity::of_server(self.state, self.fault.as_ref())
    }

    /// Returns the fault, or the state in the same form, with its start.
    pub(crate) fn describe(&self) -> Fault {
        let name = &self.name;
        let since = Some(self.since.clone());
        if let Some(fault) = &self.fault {
            return Fault { since: fault.since.clone().or(since), ..fault.clone() };
        }
        let summary = match self.state {
            "connected" => format!("{name} is connected."),
            "resting" => format!("{name} is idle. Lockgate connects at the next call."),
            "disabled" => format!("{name} is disabled: its tools cannot be called."),
            "pending" => format!("Connecting to {name}."),
            _ => format!("{name} is not working."),
        };
        let (cause, fix) = match self.severity() {
            Severity::Good => (String::new(), ""),
            Severity::Off => {
                (String::new(), "The configuration disables it, or an operator disconnected it.")
            }
            _ => (sentence(find_cause(&self.reason)), ""),
        };
        Fault { summary, cause, fix: fix.to_owned(), since, ..Fault::default() }
    }

    /// Returns the action that the visitor can take.
    pub(crate) fn next_step(&self, is_operator: bool) -> NextStep {
        let is_builtin = self.transport == Some("builtin");
        match (self.state, is_operator) {
            _ if is_builtin => NextStep::None,
            ("disabled", false) => NextStep::None,
            ("disabled", true) => NextStep::Button("connect", "Connect"),
            ("resting", _) => NextStep::None,
            ("connected", false) if self.fault.is_none() => NextStep::None,
            (_, false) => NextStep::AskOperator,
            ("connected", true) => NextStep::Button("reconnect", "Reconnect"),
            (_, true) => NextStep::Button("reconnect", "Retry now"),
        }
    }
}

#[cfg(test)]
mod tests;
