//! Faults of servers and calls: one table of sentences and fixes, by the stage that failed. The
//! API, the console and the command line all read it.

use std::sync::LazyLock;
use std::time::SystemTime;

use lockgate_proxy::{FailingCalls, Gateway};
use lockgate_text::date;
use lockgate_upstream::{ListFailure, StageError, UNREADABLE_LISTS, Upstream, UpstreamState};
use serde::Serialize;

/// A failure in words for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema), schema(as = Fault))]
#[serde(default)]
pub struct Fault {
    /// The stage that failed: `start`, `dns`, `connect`, `tls`, `http`, `auth`, `handshake`,
    /// `list`, `run`, `call`, `schema`, `policy`, `approval`, `pin`, `limit` or `answer`.
    pub stage: String,
    /// What failed.
    pub summary: String,
    /// Why, as far as the reader may know it; empty if the cause is unknown.
    pub cause: String,
    /// How to repair it.
    pub fix: String,
    /// The start of the failure (RFC 3339), if it is not the start of the server's state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

/// One kind of failure.
struct Row {
    stage: &'static str,
    /// Part of the error text; empty for every other failure of this stage.
    mark: &'static str,
    /// Summary of the failure; `{}` is the name of the server or tool.
    summary: &'static str,
    fix: &'static str,
}

/// The first row that matches counts.
static TABLE: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let blocks = include_str!("fault/faults.txt").split("\n\n").skip(1);
    blocks.filter_map(Row::read).collect()
});

impl Row {
    /// Reads a block: the stage and the mark, the summary, the fix.
    fn read(block: &'static str) -> Option<Self> {
        let mut lines = block.lines();
        let (stage, mark) = lines.next()?.split_once(':')?;
        Some(Self { stage, mark: mark.trim(), summary: lines.next()?, fix: lines.next()? })
    }
}

impl Fault {
    /// Returns the fault of a stage. `words` is the error text that selects the row, `cause` the
    /// part of it that the reader may see.
    pub fn new(stage: &str, name: &str, words: &str, cause: &str) -> Self {
        let found = TABLE.iter().find(|row| row.stage == stage && words.contains(row.mark));
        let (summary, fix) = match found {
            Some(row) => (row.summary.replace("{}", name), row.fix),
            None => (format!("{name} failed."), "Look into the log of the gateway."),
        };
        let cause = sentence(cause);
        Self { stage: stage.to_owned(), summary, cause, fix: fix.to_owned(), since: None }
    }

    /// Returns the fault of a server. Without `is_operator` the cause is the reason that every
    /// caller may read.
    pub fn of_server(name: &str, trouble: &StageError, is_operator: bool) -> Self {
        let cause =
            if is_operator { describe_trouble(trouble) } else { trouble.reason().into_owned() };
        Self::new(trouble.step(), name, &trouble.words, &cause)
    }

    /// Returns the fault of a server, without details that the caller may not read. A connected
    /// server has a fault if its lists could not be read the last time, or most calls fail.
    pub fn find(
        gateway: &Gateway,
        server: &dyn Upstream,
        is_operator: bool,
        sees_figures: bool,
    ) -> Option<Self> {
        let status = server.status();
        match (status.state, &status.trouble) {
            (UpstreamState::Disabled, _) => return None,
            (_, Some(trouble)) => {
                return Some(Self::of_server(server.slug(), trouble, is_operator));
            }
            (UpstreamState::Connected | UpstreamState::Resting, None) => {}
            (_, None) => return None,
        }
        if let Some(ListFailure { words, since }) = &status.list_failure {
            let cause = if is_operator { words } else { UNREADABLE_LISTS };
            return Some(Self::new("list", server.slug(), words, cause).since(*since));
        }
        let FailingCalls { failed, calls, since } = gateway.failing_calls_of(server)?;
        // The number of calls to a shared server would reveal the activity of other organisations.
        let cause = if sees_figures {
            format!("{failed} of {calls} calls failed in the last 5 minutes")
        } else {
            "most calls failed in the last 5 minutes".to_owned()
        };
        Some(Self::new("call", server.slug(), "", &cause).since(since))
    }

    fn since(self, since: SystemTime) -> Self {
        Self { since: Some(date::of_time(since)), ..self }
    }
}

/// Returns the words of a failure, with the last line of a program's standard error.
fn describe_trouble(trouble: &StageError) -> String {
    let has_ended = trouble.words.contains("it exited") || trouble.words.contains("was killed");
    match trouble.stderr.iter().rev().find(|line| !line.trim().is_empty()) {
        Some(line) if has_ended => format!("{}: {}", trouble.reason(), line.trim()),
        _ => trouble.words.clone(),
    }
}

/// Returns a text with a capital letter at its start and a full stop at its end.
pub fn sentence(text: &str) -> String {
    let text = text.trim();
    let word = text.split(char::is_whitespace).next().unwrap_or("");
    let mut letters = text.chars();
    let mut sentence = String::with_capacity(text.len() + 1);
    // Addresses and names of files keep their letters.
    if !word.trim_end_matches([':', ',', '.']).contains(['.', ':', '/', '_', '|']) {
        sentence.extend(letters.next().into_iter().flat_map(char::to_uppercase));
    }
    sentence.push_str(letters.as_str());
    if sentence.is_empty() {
        return sentence;
    }
    if !sentence.ends_with(['.', '!', '?', ':']) {
        sentence.push('.');
    }
    sentence
}

#[cfg(test)]
mod tests;
