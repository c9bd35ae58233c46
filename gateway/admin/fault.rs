//! Faults of servers and calls: one table of sentences and fixes, by the stage that failed. The
//! API, the console and the command line all read it.

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

const fn row(
    stage: &'static str,
    mark: &'static str,
    summary: &'static str,
    fix: &'static str,
) -> Row {
    Row { stage, mark, summary, fix }
}

/// The first row that matches counts.
const TABLE: &[Row] = &[
    row(
        "start",
        "exit",
        "{} exited while it was starting.",
        "Read the last lines of its standard error, then check its command, arguments and \
         environment variables.",
    ),
    row(
        "start",
        "does not exist",
        "The program of {} was not found.",
        "Check `command` in the configuration.",
    ),
    row(
        "start",
        "",
        "{} could not be started.",
        "Check its command, its arguments and its standard error.",
    ),
    row(
        "dns",
        "",
        "The host name of {} was not found.",
        "Check the address for a typing error, then the DNS resolver of this machine.",
    ),
    row(
        "connect",
        "refused",
        "{} refused the connection.",
        "Check that the server is running, and the port of its address. Lockgate retries \
         automatically.",
    ),
    row(
        "connect",
        "not allowed",
        "The address of {} is not allowed.",
        "Use a public address, or ask an operator to change `egress.organisations`.",
    ),
    row("connect", "proxy", "The proxy on the way to {} failed.", "Check `egress.proxy`."),
    row(
        "connect",
        "",
        "{} could not be reached.",
        "Check the address, that the server is running, and the network in between. Lockgate \
         retries automatically.",
    ),
    row(
        "tls",
        "not speak TLS",
        "{} does not accept TLS at this address.",
        "Use an http:// address, or the port of the server that accepts TLS.",
    ),
    row(
        "tls",
        "",
        "The TLS connection to {} failed.",
        "Check the server's certificate: its name, its expiry, and that this gateway trusts its \
         authority (`egress.ca_file`).",
    ),
    row(
        "http",
        "404",
        "There is no MCP endpoint at the address of {}.",
        "Check the path of the address: it often ends in /mcp.",
    ),
    row(
        "http",
        "status 5",
        "{} answered with a server error.",
        "Look for the request in the log of the server. Lockgate retries automatically.",
    ),
    row(
        "http",
        "",
        "{} rejected the request.",
        "Check the path of the address, and look for the request in the log of the server.",
    ),
    row(
        "auth",
        "403",
        "{} denies access to Lockgate's credential.",
        "Give this credential access at the server, or use another one.",
    ),
    row(
        "auth",
        "",
        "{} requires a valid credential.",
        "Set a valid credential for this server. Lockgate then connects automatically.",
    ),
    row(
        "handshake",
        "HTML page",
        "{} is not an MCP server: it returned an HTML page.",
        "Check the path of the address: it must be the MCP endpoint, which often ends in /mcp.",
    ),
    row(
        "handshake",
        "JSON-RPC",
        "{} is not an MCP server: its answer is not JSON-RPC.",
        "Check the path of the address: it must be the MCP endpoint, which often ends in /mcp.",
    ),
    row(
        "handshake",
        "not answer",
        "{} did not answer in time.",
        "Check that the server is not overloaded. It has 5 s for the handshake, and \
         `start_timeout` in all.",
    ),
    row(
        "handshake",
        "exit",
        "{} exited during the handshake.",
        "Read the last lines of its standard error, then check its command and arguments.",
    ),
    row(
        "handshake",
        "",
        "{} did not complete the MCP handshake.",
        "Check the path of the address: it must be the MCP endpoint, which often ends in /mcp.",
    ),
    row(
        "list",
        "offers no",
        "{} offers no tools, prompts or resources.",
        "Check the configuration of the server: it may require a credential to list its tools.",
    ),
    row(
        "list",
        "not enough memory",
        "The lists of {} need more memory than there is.",
        "Earlier lists stay in use. Remove tools from the server, or give the gateway more memory.",
    ),
    row("list", "", "{} did not list its tools.", "Look for the request in the log of the server."),
    row(
        "run",
        "exit",
        "{} exited while it was in use.",
        "Read the last lines of its standard error. Lockgate restarts it.",
    ),
    row(
        "run",
        "not answer",
        "{} stopped answering.",
        "Check that the server is not overloaded. Calls wait until their time limit.",
    ),
    row(
        "run",
        "",
        "The connection to {} was lost.",
        "Check that the server is running. Lockgate reconnects automatically.",
    ),
    row(
        "call",
        "isError",
        "{} returned an error.",
        "Read its message below, then change the arguments.",
    ),
    row(
        "call",
        "input_required",
        "{} needs an answer from its caller.",
        "Call it from an MCP client that can show the question: a page cannot answer it.",
    ),
    row(
        "call",
        "",
        "Calls to {} fail.",
        "Call one of its tools and read the error, then look into the log of the server.",
    ),
    row(
        "schema",
        "",
        "The arguments of {} are not valid.",
        "Correct the arguments and call again. Nothing was sent to the server.",
    ),
    row(
        "policy",
        "",
        "A policy denies this call of {}.",
        "Nothing was sent to the server. Ask the authors of the policies to allow the call.",
    ),
    row(
        "approval",
        "it was denied by ",
        "A person denied this call of {}.",
        "Nothing was sent to the server. Ask that person for the reason before you call again.",
    ),
    row(
        "approval",
        "not approved in time",
        "This call of {} was not approved in time.",
        "Nothing was sent to the server. Call again, and ask an approver to decide meanwhile.",
    ),
    row(
        "approval",
        "",
        "This call of {} was not approved.",
        "Nothing was sent to the server. Call again once the cause is removed.",
    ),
    row(
        "pin",
        "",
        "{} is no longer available.",
        "Its server removed it, or its definition changed and is waiting for approval.",
    ),
    row(
        "limit",
        "",
        "A limit was reached before {} was called.",
        "Nothing was sent to the server. Try again later, or ask an operator for a higher limit.",
    ),
    row(
        "answer",
        "",
        "The answer of {} is too large for a page.",
        "The call was made. Use the API or an MCP client to get the whole answer.",
    ),
];

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
