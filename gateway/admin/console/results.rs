//! Results of forms, kept for the page that the browser is redirected to, so that going back or
//! reloading submits nothing again: notices, and calls with their outcome. They are held in memory,
//! bounded, and visible only to their visitor.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::Stream;
use futures_util::stream::unfold;
use lockgate_admission::spawn;
use lockgate_text::hex;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::diagnosis::Severity;
use super::form::Fields;
use super::render::{MOST_SHOWN, REST, TOO_LARGE, show_json, show_text, text_of};
use super::sessions::evict_oldest;
use crate::api::call::{CallMessages, CallProgress, MessageLog};
use crate::api::problem::Problem;
use crate::fault::Fault;

/// Maximum number of results of all visitors. Above it, the organisation with the largest share
/// loses its oldest, so that no organisation cancels the calls of another.
const MAX_RESULTS: usize = 256;
/// Maximum total size.
const MAX_BYTES: usize = 32 << 20;
/// Size of a result beside its texts, in bytes.
const BASE_BYTES: usize = 1 << 10;

#[derive(Clone)]
pub(crate) enum Kept {
    Notice(Notice),
    Call(Arc<KeptCall>),
}

#[derive(Clone, Debug)]
pub(crate) struct Notice {
    pub(crate) severity: Severity,
    pub(crate) text: String,
}

struct Entry {
    /// The unmasked token of the visitor's forms.
    owner: String,
    organisation: String,
    name: String,
    kept: Kept,
}

impl Entry {
    /// Returns the organisation, and its share of the limits in bytes.
    fn share(&self) -> (&str, usize) {
        (&self.organisation, self.kept.bytes().max(MAX_BYTES / MAX_RESULTS))
    }
}

/// The stored results of all visitors.
#[derive(Default)]
pub(crate) struct Results(Mutex<VecDeque<Entry>>);

impl Kept {
    fn bytes(&self) -> usize {
        BASE_BYTES
            + match self {
                Self::Notice(notice) => notice.text.len(),
                Self::Call(call) => call.bytes(),
            }
    }
}

impl Results {
    /// Stores a result of a visitor of an organisation, and returns its name.
    pub(crate) fn keep(&self, (owner, organisation): (&str, &str), kept: Kept) -> String {
        // Without random bytes the result is lost, and nothing else.
        let Some(name) = hex::random::<12>() else { return String::new() };
        self.0.lock().push_back(Entry {
            owner: owner.to_owned(),
            organisation: organisation.to_owned(),
            name: name.clone(),
            kept,
        });
        self.evict();
        name
    }

    /// Drops results above the limits, such as after a call has ended. A running call that is
    /// dropped is cancelled.
    pub(crate) fn evict(&self) {
        let mut entries = self.0.lock();
        let mut total: usize = entries.iter().map(|entry| entry.kept.bytes()).sum();
        while entries.len() > MAX_RESULTS || total > MAX_BYTES {
            let Some(dropped) = evict_oldest(&mut entries, Entry::share) else { break };
            total = total.saturating_sub(dropped.kept.bytes());
        }
    }

    /// Returns the number of running calls of a visitor.
    pub(crate) fn count_running(&self, owner: &str) -> usize {
        let entries = self.0.lock();
        let own = entries.iter().filter(|entry| entry.owner == owner);
        let running =
            own.filter(|entry| matches!(&entry.kept, Kept::Call(call) if call.outcome().is_none()));
        running.count()
    }

    /// Returns a result by name, if this visitor owns it.
    pub(crate) fn find(&self, owner: &str, name: &str) -> Option<Kept> {
        if name.is_empty() {
            return None;
        }
        let entries = self.0.lock();
        let mut own = entries.iter().filter(|entry| entry.owner == owner);
        own.find(|entry| entry.name == name).map(|entry| entry.kept.clone())
    }
}

/// Time after which the page of a running call is shown.
const QUICK_CALL: Duration = Duration::from_secs(1);
/// Minimum interval of signals that the messages of a call have changed.
const MIN_SIGNAL_INTERVAL: Duration = Duration::from_millis(300);

/// The form that a call was made with.
pub(crate) struct CallForm {
    /// The name of the tool or prompt, or the URI of the resource.
    pub(crate) name: String,
    pub(crate) typed: Fields,
    /// The arguments as JSON.
    pub(crate) arguments: String,
}

/// A call with its form.
pub(crate) struct KeptCall {
    pub(crate) form: CallForm,
    messages: CallMessages,
    outcome: Arc<OnceLock<CallOutcome>>,
    task: AbortHandle,
}

impl KeptCall {
    /// Starts a call. `at_end` runs once there is an outcome.
    pub(super) fn start<F: Future<Output = CallOutcome> + Send + 'static>(
        form: CallForm,
        make: impl FnOnce(CallMessages) -> F,
        at_end: impl FnOnce() + Send + 'static,
    ) -> Self {
        let messages = CallMessages::default();
        let outcome = Arc::new(OnceLock::new());
        let call = make(messages.clone());
        let ending = messages.clone();
        let made = Arc::clone(&outcome);
        let task = spawn(async move {
            let _ = made.set(call.await);
            ending.end();
            at_end();
        });
        Self { form, messages, outcome, task: task.abort_handle() }
    }

    /// Returns the outcome; `None` while the call runs.
    pub(crate) fn outcome(&self) -> Option<&CallOutcome> {
        self.outcome.get()
    }

    /// Waits until the call ends, but not longer than a page may take.
    pub(crate) async fn wait_briefly(&self) {
        let mut log = self.messages.subscribe();
        let _ = timeout(QUICK_CALL, log.wait_for(|log| log.has_ended)).await;
    }

    /// Cancels the call if it still runs.
    pub(crate) fn cancel(&self) {
        self.task.abort();
        let _ = self.outcome.set(CallOutcome::cancelled());
        self.messages.end();
    }

    pub(crate) fn log(&self) -> MessageLog {
        let mut log = self.messages.read();
        for line in &mut log.lines {
            line.text = show_text(&line.text);
        }
        log
    }

    /// Signals changes of the messages, the first immediately, until the call has ended.
    pub(crate) fn changes(&self) -> impl Stream<Item = ()> + Send + use<> {
        let mut log = self.messages.subscribe();
        log.mark_changed();
        unfold(Some(log), |log| async move {
            let mut log = log?;
            log.changed().await.ok()?;
            sleep(MIN_SIGNAL_INTERVAL).await;
            let has_ended = log.borrow_and_update().has_ended;
            Some(((), (!has_ended).then_some(log)))
        })
    }

    /// Returns the memory that the call occupies, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let lines: usize = self.messages.read().lines.iter().map(|line| line.text.len()).sum();
        let outcome = self.outcome.get().map_or(0, CallOutcome::bytes);
        self.form.typed.bytes() + self.form.arguments.len() + lines + outcome
    }
}

impl Drop for KeptCall {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl CallProgress {
    /// Returns the position in percent, if the total is known.
    pub(crate) fn percent(&self) -> Option<f64> {
        let total = self.total.filter(|total| *total > 0.0)?;
        Some((self.progress / total * 100.0).clamp(0.0, 100.0).round())
    }
}

// The outcome of a call made from a page: the result of the tool, prompt or resource, or the
// fault.

/// Error code of a reached limit of the gateway.
const OVERLOADED: &str = "OVERLOADED";
/// Maximum number of result parts that a page shows.
const MAX_PARTS: usize = 100;
/// Maximum size of all images of a result together, in bytes.
const MAX_IMAGE: usize = 2 << 20;
/// Image types that cannot contain scripts.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

pub(crate) struct CallOutcome {
    /// The failure; `None` if the call succeeded.
    pub(crate) fault: Option<Fault>,
    pub(crate) parts: Vec<CallPart>,
    /// The server failed, and returned no result.
    pub(crate) is_of_server: bool,
    pub(crate) milliseconds: u128,
}

pub(crate) enum CallPart {
    /// The label, which may be empty, and the text.
    Text(String, String),
    /// The media type and the bytes.
    Image(String, Vec<u8>),
    /// A link to a resource: its URI and name.
    Link(String, String),
}

impl CallPart {
    fn bytes(&self) -> usize {
        match self {
            Self::Text(label, text) => label.len() + text.len(),
            Self::Image(_, bytes) => bytes.len(),
            Self::Link(uri, name) => uri.len() + name.len(),
        }
    }
}

impl CallOutcome {
    /// Returns whether it succeeded, a policy or a person denied it, or it failed.
    pub(crate) fn severity(&self) -> Severity {
        match self.fault.as_ref().map(|fault| fault.stage.as_str()) {
            None => Severity::Good,
            Some("policy" | "approval") => Severity::Denied,
            Some(_) => Severity::Bad,
        }
    }

    /// Returns the memory that the outcome occupies, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let fault = self.fault.as_ref().map_or(0, |fault| fault.cause.len());
        self.parts.iter().map(CallPart::bytes).sum::<usize>() + fault
    }

    fn new(fault: Option<Fault>, parts: Vec<CallPart>) -> Self {
        Self { fault, parts, is_of_server: false, milliseconds: 0 }
    }

    /// Creates the outcome of a `CallToolResult`, `GetPromptResult` or `ReadResourceResult`.
    pub(crate) fn of_result(name: &str, result: &Value) -> Self {
        let parts = show_parts(result);
        if result.get("isError") != Some(&Value::Bool(true)) {
            return Self::new(None, parts);
        }
        if let Some(CallPart::Text(_, text)) = parts.first()
            && let Some(fault) = find_denial(name, text)
        {
            return Self::new(Some(fault), Vec::new());
        }
        Self::new(Some(Fault::new("call", name, "isError", "")), parts)
    }

    /// Creates the outcome of a call that the visitor cancelled.
    pub(crate) fn cancelled() -> Self {
        let fault = Fault {
            stage: "call".into(),
            summary: "The call was cancelled.".into(),
            cause: String::new(),
            fix: "A server that had the call was told to stop, and may have acted before.".into(),
            since: None,
        };
        Self::new(Some(fault), Vec::new())
    }

    /// Creates the outcome of a call without a result.
    pub(crate) fn of_error(error: &Problem, name: &str, is_resource: bool) -> Self {
        let fault = match find_denial(name, error.detail()) {
            // A limit of waiting approvals is worded as a denial.
            Some(denial) if error.code() != OVERLOADED => denial,
            _ => {
                let (stage, mark) = match (error.status().as_u16(), is_resource) {
                    // It need not be in a list, and has no arguments.
                    (400 | 404, true) => ("call", "resource"),
                    _ => find_stage(error),
                };
                Fault::new(stage, name, mark, error.detail())
            }
        };
        let is_of_server = fault.stage == "call";
        Self { is_of_server, ..Self::new(Some(fault), Vec::new()) }
    }
}

/// Returns the fault of a call that the gateway denied because of its arguments, or because it was
/// not approved: such denials are tool errors, for models to read, and name the policy to the
/// caller. A server that imitates them misleads only about its own tool.
fn find_denial(name: &str, text: &str) -> Option<Fault> {
    if let Some(rest) = text.strip_prefix("the call was not made, refused") {
        let cause = rest.strip_prefix(" by ").unwrap_or(text);
        return Some(Fault::new("approval", name, text, cause));
    }
    text.starts_with("refused by policy ").then(|| Fault::new("policy", name, "", text))
}

/// Returns the stage that failed, and the text that selects its row in the table of faults.
fn find_stage(error: &Problem) -> (&'static str, &'static str) {
    match (error.status().as_u16(), error.code()) {
        (_, TOO_LARGE) => ("answer", ""),
        (400 | 422, _) => ("schema", ""),
        (403, _) => ("policy", ""),
        (404, _) => ("pin", ""),
        (413 | 429, _) | (503, OVERLOADED) => ("limit", ""),
        (428, _) => ("call", "input_required"),
        _ => ("call", ""),
    }
}

/// Returns the parts of a result, up to the limits of a page.
fn show_parts(result: &Value) -> Vec<CallPart> {
    let mut parts = Vec::new();
    let mut room = (MOST_SHOWN, MAX_IMAGE);
    for member in ["content", "messages", "contents"] {
        let all = result.get(member).and_then(Value::as_array);
        for part in all.into_iter().flatten() {
            if room.0 == 0 || parts.len() == MAX_PARTS {
                parts.push(CallPart::Text(String::new(), REST.trim_start().to_owned()));
                return parts;
            }
            parts.push(show_part(part, &mut room));
        }
    }
    if let Some(structured) = result.get("structuredContent") {
        parts.push(CallPart::Text("Structured content".into(), show_json(structured)));
    }
    parts
}

/// Converts content of a tool result or resource, or a prompt message.
fn show_part(part: &Value, room: &mut (usize, usize)) -> CallPart {
    let role = text_of(part, "role");
    let content = part.get("content").filter(|content| content.is_object()).unwrap_or(part);
    let inner = content.get("resource").unwrap_or(content);
    let label = if role.is_empty() { text_of(inner, "uri") } else { role };
    if text_of(content, "type") == "resource_link" {
        return CallPart::Link(
            text_of(content, "uri").to_owned(),
            text_of(content, "name").to_owned(),
        );
    }
    if let Some(image) = read_image(inner, &mut room.1) {
        return image;
    }
    let shown = match inner.get("text") {
        Some(Value::String(text)) => show_text(text),
        _ => show_json(part),
    };
    room.0 = room.0.saturating_sub(shown.len());
    CallPart::Text(label.to_owned(), shown)
}

/// Decodes an image that is within the limit and of a type without scripts.
fn read_image(content: &Value, room: &mut usize) -> Option<CallPart> {
    let kind = text_of(content, "mimeType");
    if !IMAGES.contains(&kind) {
        return None;
    }
    let data = match text_of(content, "data") {
        "" => text_of(content, "blob"),
        data => data,
    };
    if data.is_empty() || data.len() / 4 * 3 > *room {
        return None;
    }
    let bytes = STANDARD.decode(data).ok()?;
    *room = room.saturating_sub(bytes.len());
    Some(CallPart::Image(kind.to_owned(), bytes))
}

#[cfg(test)]
mod tests;
