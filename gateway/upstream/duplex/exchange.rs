//! The input of a connection and its dispatch: responses go to calls, progress to client
//! channels, the rest to the inbox. Invalid messages are dropped and counted; they never end the
//! connection.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::FutureExt;
use lockgate_admission::budget::{Budget, Full, Hold};
use lockgate_admission::reader::{UNBUDGETED_BYTES, counted};
use lockgate_admission::spawn;
use lockgate_protocol::jsonrpc::{Message, MessageError, Request, Response};
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::scan::as_number;
use lockgate_protocol::{code, write};
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use super::calls::{Calls, FoundCall};
use super::line::{Addressee, Ends, Line};
use crate::call::IdentityAssertion;
use crate::failure::{Result, UpstreamError, UpstreamErrorKind};
use crate::incoming::{Inbox, Intake};
use crate::outstanding::OpenQuestions;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Longest incoming message, in bytes.
    pub message_bytes: usize,
    /// Deepest nesting of an incoming message.
    pub depth: usize,
    /// Most messages in the outgoing queue.
    pub outgoing: usize,
}

/// Most open questions of a server.
const MAX_OPEN_QUESTIONS: usize = 32;
/// Number of dropped messages logged as warnings per connection.
const MAX_WARNINGS: u64 = 3;

/// The sending side of a connection. None of its methods waits.
pub(crate) trait Outgoing: Send + Sync + 'static {
    /// Queues a message.
    fn send(&self, message: QueuedMessage) -> Result<()>;
    /// Withdraws a request. Returns true if no byte of it was or will be sent.
    fn withdraw(&self, id: u64) -> bool;
    /// Accepts no further messages; the queue is still sent.
    fn close(&self);
    fn is_open(&self) -> bool;
    /// Ends the connection. Returns the requests of which nothing was sent.
    fn end(&self) -> Vec<u64>;
}

/// Most queued bytes; a single message may be longer.
const MAX_QUEUED: usize = 64 << 20;

/// A message to the server, on behalf of the caller, or of the connection's owner.
pub(crate) struct QueuedMessage {
    /// Present if it is a request.
    pub(crate) id: Option<u64>,
    pub(crate) text: Bytes,
    pub(crate) assertion: Option<Arc<dyn IdentityAssertion>>,
}

/// Messages that wait to be sent.
pub(crate) struct MessageQueue {
    pub(crate) messages: VecDeque<QueuedMessage>,
    bytes: usize,
    capacity: usize,
    /// Whether no further messages are accepted.
    pub(crate) is_closed: bool,
    /// The error of a message beyond the capacity.
    overflow: &'static str,
}

impl MessageQueue {
    pub(crate) fn new(capacity: usize, overflow: &'static str) -> Self {
        Self { messages: VecDeque::new(), bytes: 0, capacity, is_closed: false, overflow }
    }

    /// Adds a message, unless there are too many messages or bytes.
    pub(crate) fn push(&mut self, message: QueuedMessage) -> Result<()> {
        if self.is_closed {
            return Err(UpstreamError::closed());
        }
        let is_full =
            self.messages.len() >= self.capacity || self.bytes + message.text.len() > MAX_QUEUED;
        if is_full && !self.messages.is_empty() {
            return Err(UpstreamErrorKind::Overloaded.error(self.overflow));
        }
        self.bytes += message.text.len();
        self.messages.push_back(message);
        Ok(())
    }

    pub(crate) fn pop(&mut self) -> Option<QueuedMessage> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.text.len();
        Some(message)
    }

    /// Removes a request, except among the first `started` messages. Returns whether it was found.
    pub(crate) fn withdraw(&mut self, id: u64, started: usize) -> bool {
        let mut waiting = self.messages.iter().skip(started);
        let Some(at) = waiting.position(|message| message.id == Some(id)) else { return false };
        let withdrawn = self.messages.remove(at + started);
        self.bytes -= withdrawn.map_or(0, |message| message.text.len());
        true
    }

    /// Removes all messages and accepts no further ones. Returns the requests, except among the
    /// first `started` messages.
    pub(crate) fn end(&mut self, started: usize) -> Vec<u64> {
        self.is_closed = true;
        self.bytes = 0;
        let unsent = self.messages.drain(..).skip(started);
        unsent.filter_map(|message| message.id).collect()
    }
}

/// Charges a message to the memory budget until it is sent.
///
/// # Errors
/// There is no memory for it; nothing was sent.
pub(crate) fn count_outgoing(text: Bytes, budget: &Arc<Budget>) -> Result<Bytes> {
    if text.len() <= UNBUDGETED_BYTES {
        return Ok(text);
    }
    let mut hold = Hold::none(Arc::clone(budget));
    hold.admit(text.len()).map_err(|Full| {
        UpstreamErrorKind::Overloaded
            .error("not enough memory for the request (limits.bytes_in_flight)")
    })?;
    Ok(counted(text, hold))
}

pub(crate) struct Exchange {
    pub(super) calls: Calls,
    pub(super) outgoing: Arc<dyn Outgoing>,
    inbox: Arc<dyn Inbox>,
    intake: Intake,
    /// Limit of an incoming message.
    message_bytes: AtomicUsize,
    depth: AtomicUsize,
    questions: Arc<OpenQuestions>,
    /// The tasks of this connection; `None` once it has ended.
    tasks: Mutex<Option<Vec<AbortHandle>>>,
    dropped: AtomicU64,
    /// The span in which the connection was created: adds the server to warnings.
    span: tracing::Span,
}

impl Exchange {
    pub(crate) fn new(
        outgoing: Arc<dyn Outgoing>,
        bounds: Bounds,
        inbox: Arc<dyn Inbox>,
        intake: Intake,
    ) -> Arc<Self> {
        Arc::new(Self {
            calls: Calls::default(),
            outgoing,
            inbox,
            intake,
            message_bytes: AtomicUsize::new(bounds.message_bytes),
            depth: AtomicUsize::new(bounds.depth),
            questions: Arc::default(),
            tasks: Mutex::new(Some(Vec::new())),
            dropped: AtomicU64::new(0),
            span: tracing::Span::current(),
        })
    }

    /// Changes the limits of later messages. An open event stream keeps its event size.
    pub(crate) fn bound_messages(&self, message_bytes: usize, depth: usize) {
        self.message_bytes.store(message_bytes, Ordering::Relaxed);
        self.depth.store(depth, Ordering::Relaxed);
    }

    pub(super) fn message_bytes(&self) -> usize {
        self.message_bytes.load(Ordering::Relaxed)
    }

    fn depth(&self) -> usize {
        self.depth.load(Ordering::Relaxed)
    }

    /// Spawns a task that is aborted when the connection ends. For the few tasks with the lifetime
    /// of the connection.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // Spawned outside the lock: a runtime that is shutting down drops the task at once, which
        // ends the connection.
        let task = spawn(task).abort_handle();
        match &mut *self.tasks.lock() {
            Some(tasks) => tasks.push(task),
            None => task.abort(),
        }
    }

    /// Reports whether the connection accepts requests, unless its queue is full.
    pub(crate) fn is_open(&self) -> bool {
        !self.calls.is_over() && self.outgoing.is_open()
    }

    pub(crate) fn is_asking(&self) -> bool {
        self.questions.len() > 0
    }

    /// Ends the connection: fails all calls, aborts all tasks, notifies the inbox. Further calls
    /// have no effect.
    pub(crate) fn end(&self, words: &str) {
        let Some(tasks) = self.tasks.lock().take() else { return };
        let waiting = self.calls.end();
        let unsent = self.outgoing.end();
        for (id, answer) in waiting {
            let failure = UpstreamErrorKind::Lost
                .error("the connection to the server was lost before its response");
            let _ =
                answer.send(Err(if unsent.contains(&id) { failure } else { failure.after_send() }));
        }
        self.questions.abort_all();
        for task in tasks {
            task.abort();
        }
        self.inbox.closed(words.to_owned());
    }

    pub(crate) fn fail(&self, id: u64, failure: UpstreamError) {
        self.calls.settle(id, Err(failure));
    }

    /// Fails the call in flight, if there is exactly one.
    pub(crate) fn fail_only(&self, failure: UpstreamError) {
        if let Some(id) = self.calls.only() {
            self.fail(id, failure);
        }
    }

    pub(crate) fn heard(&self) {
        self.inbox.heard();
    }

    pub(crate) async fn message(self: &Arc<Self>, text: Bytes) {
        match self.intake.parse(text.clone(), self.depth()).await {
            Ok(Ok(message)) => self.dispatch(message),
            Ok(Err(refusal)) => self.refused(&text, refusal),
            Err(failure) => self.give_up(&Ends::of(&text), failure),
        }
    }

    fn dispatch(self: &Arc<Self>, message: Message) {
        match message {
            Message::Response(response) => self.response(response),
            Message::Notification(note) => self.notification(note),
            Message::Request(question) => self.question(question),
        }
    }

    /// Handles a message that was dropped for lack of memory or time, given its start.
    fn give_up(&self, ends: &Ends, failure: UpstreamError) {
        self.fail_addressee(ends, true, failure);
        self.drop_message("a message that could not be buffered", ends);
    }

    /// Handles an oversized message, given its ends.
    fn too_large(&self, ends: &Ends, complete: bool) {
        let failure = UpstreamError::too_large("the server's response is too large");
        self.fail_addressee(ends, !complete, failure);
        if !complete {
            self.drop_message("a message that is too large", ends);
        }
    }

    /// Fails the call that a dropped message answers. With `guesses`, a message of unknown
    /// addressee is attributed to the only call in flight.
    fn fail_addressee(&self, ends: &Ends, guesses: bool, failure: UpstreamError) {
        match ends.addressee() {
            Addressee::Call(id) => self.fail(id, failure),
            Addressee::Unknown if guesses => self.fail_only(failure),
            Addressee::Nobody | Addressee::Unknown => {}
        }
    }

    pub(super) async fn line(self: &Arc<Self>, line: Line) {
        match line {
            Line::Text(text) => self.message(text).await,
            Line::TooLong(ends) => self.too_large(&ends, false),
            Line::NoMemory(ends) => self.give_up(&ends, UpstreamError::no_memory()),
            Line::Skipped(ends) => self.too_large(&ends, true),
        }
    }

    /// Handles the input after the last line end: a complete message is dispatched, a partial
    /// message is lost with the connection.
    pub(super) async fn last(self: &Arc<Self>, text: Bytes) {
        if let Ok(Ok(message)) = self.intake.parse(text, self.depth()).await {
            self.dispatch(message);
        }
    }

    fn response(&self, response: Response) {
        let text = response.text.clone();
        let id = response.number();
        let found = id.map_or(FoundCall::Never, |id| self.calls.settle(id, Ok(response)));
        match found {
            FoundCall::Waiting => {}
            FoundCall::Late => {
                tracing::debug!(parent: &self.span, id, "late response dropped")
            }
            FoundCall::Never => {
                self.drop_message("a response with an unknown id", &Ends::of(&text))
            }
        }
    }

    fn notification(&self, note: Request) {
        match note.method {
            Method::Progress => {
                // Progress of a finished call is dropped.
                if let Some(token) = note.param(Key::ProgressToken)
                    && let Some(id) = as_number(token)
                    && let Some(channel) = self.calls.channel(id)
                {
                    channel.progress(&note);
                }
            }
            Method::Cancelled if self.questions.take_back(&note) => {}
            _ => self.inbox.notification(note, self.calls.running()),
        }
    }

    fn question(self: &Arc<Self>, question: Request) {
        if !self.inbox.answers() {
            let ends = Ends::of(&question.text);
            return self.drop_message("a request, which modern servers must not send", &ends);
        }
        let id = Bytes::copy_from_slice(question.id());
        if self.questions.contains(&id) {
            return self.drop_message(
                "a request with the id of a pending request",
                &Ends::of(&question.text),
            );
        }
        if self.questions.len() >= MAX_OPEN_QUESTIONS {
            let words = "too many requests of this server are pending";
            return self.reply(write::error(Some(&id), code::INTERNAL, words, None).into());
        }
        let mut answer = self.inbox.question(question, self.calls.running());
        // A ping is answered immediately; only questions that have to wait get a task.
        if let Some(text) = (&mut answer).now_or_never() {
            return self.reply(text);
        }
        let answer = self.questions.answer(id, answer);
        let exchange = Arc::clone(self);
        spawn(async move {
            if let Some(text) = answer.await {
                exchange.reply(text);
            }
        });
    }

    fn reply(&self, text: Bytes) {
        let reply = QueuedMessage { id: None, text, assertion: None };
        if let Err(failure) = self.outgoing.send(reply) {
            tracing::debug!(parent: &self.span, %failure, "an answer to the server was not sent");
        }
    }

    /// Handles an invalid message. If it is a response, its call fails at once; otherwise it is
    /// only dropped.
    fn refused(&self, text: &[u8], refusal: MessageError) {
        let ends = Ends::of(text);
        let words = format!("the server's response is not a valid message ({refusal})");
        self.fail_addressee(&ends, false, UpstreamError::garbage(words));
        self.drop_message("an invalid message", &ends);
    }

    fn drop_message(&self, what: &str, ends: &Ends) {
        let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
        if dropped <= MAX_WARNINGS {
            let start = ends.excerpt();
            tracing::warn!(parent: &self.span, dropped, start, "the server sent {what}; it was \
                dropped");
        }
    }

    #[cfg(test)]
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
