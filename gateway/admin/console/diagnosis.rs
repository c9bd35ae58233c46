//! What is wrong with a server, in a sentence for the person who can mend it, and what they can do
//! next. It knows what the API says of a server, and no more.

use std::collections::BTreeMap;

use serde::Deserialize;

/// How a server is, as the API says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServerState {
    pub(crate) name: String,
    pub(crate) organization_id: Option<String>,
    pub(crate) state: String,
    pub(crate) stage: Option<String>,
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

/// Calls that ended within one step of time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RecentStep {
    pub(crate) calls: u64,
    pub(crate) failed: u64,
    pub(crate) average_ms: Option<f64>,
}

/// How many of each a server offers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Capabilities {
    pub(crate) tools: usize,
    pub(crate) prompts: usize,
    pub(crate) resources: usize,
}

/// What became of calls.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metrics {
    pub(crate) calls: u64,
    errors: BTreeMap<String, u64>,
    pub(crate) p95_ms: Option<f64>,
}

/// What operators see besides.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Internals {
    pub(crate) trouble: Option<String>,
    pub(crate) stderr: Vec<String>,
    pub(crate) omitted: Vec<String>,
    pub(crate) load: Option<serde_json::Value>,
}

/// How bad a state is: each has a mark of its own shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    Bad,
    Waiting,
    Good,
    Off,
}

/// What somebody can do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// End the connection and connect anew.
    Reconnect(&'static str),
    /// Connect what was disconnected.
    Connect,
    /// Somebody else has to do it.
    AskOperator,
    None,
}

impl NextStep {
    /// What the form is sent to, and what its button says.
    pub(crate) fn button(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Reconnect(label) => Some(("reconnect", label)),
            Self::Connect => Some(("connect", "Connect it")),
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

    /// As people say it of several.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Good => "working",
            Self::Waiting => "waiting",
            Self::Bad => "broken",
            Self::Off => "switched off",
        }
    }

    /// The class of its mark.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Waiting => "waiting",
            Self::Bad => "bad",
            Self::Off => "off",
        }
    }
}

/// Why, without the stage that stands beside it.
pub(crate) fn find_cause(reason: &str) -> &str {
    match reason.split_once(" failed: ") {
        Some((stage, cause)) if !stage.contains(' ') => cause,
        _ => reason,
    }
}

/// A state as people say it.
pub(crate) fn say_state(state: &str) -> &str {
    match state {
        "needs-auth" => "needs a credential",
        "unresponsive" => "does not answer",
        "pending" => "starting",
        "disabled" => "switched off",
        other => other,
    }
}

impl ServerState {
    pub(crate) fn severity(&self) -> Severity {
        Severity::of(&self.state)
    }

    /// The state as people say it.
    pub(crate) fn state_text(&self) -> &str {
        say_state(&self.state)
    }

    /// The server and Lockgate's part in what happened.
    pub(crate) fn headline(&self) -> String {
        let name = &self.name;
        match (self.state.as_str(), self.stage.as_deref()) {
            ("connected", _) => format!("{name} is connected."),
            ("resting", _) => format!("{name} rests: Lockgate connects to it at its next use."),
            ("disabled", _) => format!("{name} is switched off: nobody can call its tools."),
            ("unresponsive", _) => format!("{name} is connected and does not answer."),
            ("needs-auth", _) | (_, Some("auth")) => {
                format!("{name} refuses Lockgate's credential.")
            }
            ("pending", None) => format!("Lockgate is connecting to {name}."),
            (_, Some("start")) => format!("Lockgate could not start {name}."),
            (_, Some("dns")) => format!("Lockgate does not find {name}: its name leads nowhere."),
            (_, Some("tls")) => format!("Lockgate has no encrypted connection to {name}."),
            (_, Some("http")) => format!("{name} answers, and says that it cannot serve Lockgate."),
            (_, Some("connect")) => format!("Lockgate could not reach {name}."),
            (_, Some("handshake")) => {
                format!("{name} answered, but not as an MCP server does.")
            }
            (_, Some("discovery" | "list" | "schema")) => {
                format!("{name} did not say what it offers.")
            }
            (_, Some("run")) => format!("{name} ended while it was in use."),
            _ => format!("{name} does not work."),
        }
    }

    /// Where to look, for somebody who can change it.
    pub(crate) fn advice(&self) -> &'static str {
        match (self.state.as_str(), self.stage.as_deref()) {
            ("connected" | "resting", _) => "",
            ("disabled", _) => "The configuration says so, or an operator has disconnected it.",
            ("needs-auth", _) | (_, Some("auth")) => {
                "Renew the credential that the configuration gives for it; Lockgate then connects \
                 by itself."
            }
            ("unresponsive", _) => "It is slow, or hangs. Calls wait until their time is up.",
            (_, Some("start")) => {
                "Check its command and arguments, and what it wrote to its standard error."
            }
            (_, Some("dns")) => {
                "Check the address for a slip of the pen, and the resolver of this machine."
            }
            (_, Some("tls")) => {
                "Check its certificate: for which name it is, whether it has expired, and whether \
                 this gateway trusts its authority (egress.ca_file)."
            }
            (_, Some("http")) => {
                "Check the path of the address, and what the server's own log says of the request."
            }
            (_, Some("connect")) => {
                "Check its address, whether it runs, and the network between. Lockgate goes on \
                 trying, less and less often."
            }
            (_, Some("handshake")) => {
                "Check that the address is the MCP endpoint itself: often its path is missing."
            }
            (_, Some("discovery" | "list" | "schema")) => {
                "Look at the server's own log: a list was refused, broken or too large."
            }
            (_, Some("run")) => "Read the end of its standard error. Lockgate starts it again.",
            _ => "",
        }
    }

    /// What the visitor can do about it.
    pub(crate) fn next_step(&self, is_operator: bool) -> NextStep {
        let is_builtin = self.transport.as_deref() == Some("builtin");
        match (self.state.as_str(), is_operator) {
            _ if is_builtin => NextStep::None,
            ("disabled", false) => NextStep::None,
            ("disabled", true) => NextStep::Connect,
            ("resting", _) | ("connected", false) => NextStep::None,
            (_, false) => NextStep::AskOperator,
            ("connected", true) => NextStep::Reconnect("Reconnect"),
            (_, true) => NextStep::Reconnect("Try again now"),
        }
    }

    /// One line of a list: what is wrong, or nothing.
    pub(crate) fn summary(&self) -> &str {
        match self.severity() {
            Severity::Good => "",
            _ => find_cause(&self.reason),
        }
    }
}

#[cfg(test)]
mod tests;
