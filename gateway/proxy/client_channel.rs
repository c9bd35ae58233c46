//! The channel to a client while its call runs: progress under the client's own token, log messages
//! at its level, and questions that it supports. Only questions wait for a slow client.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lockgate_admission::budget::{Budget, Hold};
use lockgate_admission::spawn;
use lockgate_policy::response::Response;
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Revision;
use lockgate_protocol::write::{self, Object};
use lockgate_protocol::{question, scan};
use lockgate_upstream::{BoxFuture, ClientChannel, LogLevel, QuestionError};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::authorize::Permitted;
use crate::context::RequestContext;
use crate::response::scrub;

/// Messages queued for a slow modern client; further progress and log messages are dropped.
const MAX_BACKLOG: usize = 256;

/// Longest progress token, in bytes of JSON.
const MAX_TOKEN: usize = 256;

/// The way of a call's messages to its client. By default, the client cannot be asked, and the call
/// ends with the exchange.
pub trait Outlet: Send + Sync {
    /// Sends an optional message, which is dropped if the client reads too slowly.
    fn send(&self, text: Bytes);

    /// Returns whether progress has to wait for the client.
    fn is_full(&self) -> bool {
        false
    }

    /// Sends progress, which may replace unread progress.
    fn send_progress(&self, text: Bytes) {
        self.send(text);
    }

    /// Sends the last progress, ahead of the response.
    fn send_last(&self, text: Bytes) {
        self.send(text);
    }

    /// Asks the client a question of a server, or one of the gateway with its own time limit.
    fn ask<'a>(
        &'a self,
        _slug: &'a str,
        _method: Method,
        _params: &'a [u8],
        _limit: Option<Duration>,
    ) -> BoxFuture<'a, Result<Bytes, QuestionError>> {
        Box::pin(std::future::ready(Err(QuestionError::Undeclared)))
    }

    /// Lets the client poll for the rest of the stream after a pause.
    fn poll_from_now_on(&self, _pause: Option<Duration>) {}

    /// Completes when the client cannot receive the response any more.
    fn client_left(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// Returns whether a message has begun a stream, which the response must go to.
    fn has_stream(&self) -> bool {
        false
    }
}

/// A modern client's response stream.
struct ResponseStream {
    channel: mpsc::Sender<Waiting>,
    budget: Arc<Budget>,
    /// Reserved queue slot for the last progress.
    last_place: Mutex<Option<mpsc::OwnedPermit<Waiting>>>,
}

/// Opens the outlet to a modern client, and returns the queue of its messages.
pub(crate) fn open_response_stream(
    budget: &Arc<Budget>,
) -> (Arc<dyn Outlet>, mpsc::Receiver<Waiting>) {
    let (channel, receiver) = mpsc::channel(MAX_BACKLOG + 1);
    let last_place = Mutex::new(channel.clone().try_reserve_owned().ok());
    (Arc::new(ResponseStream { channel, budget: Arc::clone(budget), last_place }), receiver)
}

impl Outlet for ResponseStream {
    fn send(&self, text: Bytes) {
        let mut held = Hold::none(Arc::clone(&self.budget));
        let fits = held.grow_spare(text.len()).is_ok();
        if !fits || self.channel.try_send(Waiting { text, _held: held }).is_err() {
            tracing::debug!("a client reads too slowly; a message of its call was dropped");
        }
    }

    fn is_full(&self) -> bool {
        self.channel.capacity() == 0
    }

    fn send_last(&self, text: Bytes) {
        let Some(place) = self.last_place.lock().take() else { return self.send(text) };
        let mut held = Hold::none(Arc::clone(&self.budget));
        if held.admit(text.len()).is_ok() {
            place.send(Waiting { text, _held: held });
        }
    }
}

/// A message queued for a modern client, counted against the byte budget.
pub(crate) struct Waiting {
    pub(crate) text: Bytes,
    _held: Hold,
}

/// The channel of a call to its client.
pub struct CallChannel {
    outlet: Arc<dyn Outlet>,
    /// The number of the caller's principal.
    principal: u64,
    /// The client's progress token as JSON text.
    token: Option<Bytes>,
    level: Option<LogLevel>,
    revision: Revision,
    slug: String,
    /// Whether questions name the server, which the client sees only through the gateway.
    labelled: bool,
    progress: Mutex<Progress>,
    log_pace: LogPace,
    /// Filter for messages to the client.
    response: Option<Arc<Response>>,
    this: Weak<Self>,
}

/// Interval after which progress is retried for a slow client.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

impl CallChannel {
    /// Opens the channel of a call, with the least severe level of log messages.
    pub(crate) fn open(
        outlet: Arc<dyn Outlet>,
        context: &RequestContext,
        permitted: &Permitted,
        level: Option<LogLevel>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            outlet,
            principal: context.caller.id.principal(),
            token: read_token(&context.request),
            level,
            revision: context.revision,
            slug: permitted.server().slug().to_owned(),
            labelled: context.view.namespaced,
            progress: Mutex::default(),
            log_pace: LogPace::default(),
            response: permitted.shared_response(),
            this: this.clone(),
        })
    }

    /// Applies the response filter.
    fn clean(&self, text: Vec<u8>) -> Bytes {
        if let Some(rule) = &self.response
            && let Some(clean) = scrub::message(rule, &text)
        {
            return clean.into();
        }
        text.into()
    }

    /// Sends the newest progress if its interval has passed, otherwise schedules it.
    fn send_progress(&self) {
        let mut progress = self.progress.lock();
        let wait = match progress.due(Instant::now()) {
            None => return,
            Some(Err(wait)) => wait,
            // The reserved slot stays free for the last progress; retry later.
            Some(Ok(text)) if self.outlet.is_full() => {
                progress.held = Some(text);
                RETRY_INTERVAL
            }
            Some(Ok(text)) => return self.outlet.send_progress(self.clean(text)),
        };
        if !std::mem::replace(&mut progress.timer, true) {
            let talk = Weak::clone(&self.this);
            spawn(async move {
                tokio::time::sleep(wait).await;
                if let Some(talk) = talk.upgrade() {
                    talk.progress.lock().timer = false;
                    talk.send_progress();
                }
            });
        }
    }

    /// Sends the held progress at the end of the call, ahead of the response.
    pub(crate) fn finish(&self) {
        let held = self.progress.lock().held.take();
        if let Some(text) = held {
            self.outlet.send_last(self.clean(text));
        }
    }

    /// Asks a legacy client the gateway's own question, an elicitation.
    pub(crate) async fn ask_own(
        &self,
        params: &[u8],
        limit: Duration,
    ) -> Result<Bytes, QuestionError> {
        self.outlet.ask(&self.slug, Method::Elicit, params, Some(limit)).await
    }

    /// Completes when a legacy client cannot receive the response any more: its session has ended,
    /// or the client has disconnected or abandoned its stream.
    pub(crate) async fn client_left(&self) {
        self.outlet.client_left().await;
    }

    /// Returns whether a message to a legacy client has begun a stream.
    pub(crate) fn has_stream(&self) -> bool {
        self.outlet.has_stream()
    }
}

/// Returns the progress token of a request if it is a number or a string.
fn read_token(request: &Request) -> Option<Bytes> {
    let token = request.meta(Key::ProgressToken)?;
    let is_number = matches!(token.first(), Some(b'-' | b'0'..=b'9'));
    if token.len() > MAX_TOKEN || !is_number && scan::as_str(token).is_none() {
        return None;
    }
    Some(Bytes::copy_from_slice(token))
}

fn read_progress(note: &Request) -> Option<f64> {
    std::str::from_utf8(note.param(Key::Progress)?).ok()?.parse().ok()
}

impl ClientChannel for CallChannel {
    fn principal(&self) -> u64 {
        self.principal
    }

    fn wants_progress(&self) -> bool {
        self.token.is_some()
    }

    fn progress(&self, note: &Request) {
        let Some(token) = &self.token else { return };
        let Some(value) = read_progress(note) else { return };
        if !self.progress.lock().grows(value) {
            return;
        }
        let mut params = Vec::with_capacity(note.text.len());
        let mut object = Object::open(&mut params);
        object.raw("progressToken", token);
        for member in note.params() {
            match &*member.name(&note.text) {
                "progressToken" | "_meta" => {}
                "message" if self.revision < Revision::V2025_03_26 => {}
                _ => object.copy(member.key.of(&note.text), member.value.of(&note.text)),
            }
        }
        object.close();
        self.progress.lock().held = Some(write::notification(Method::Progress.as_str(), &params));
        self.send_progress();
    }

    fn log(&self, note: &Request) {
        if let Some(level) = self.level
            && let Some(text) = write_log_message(&self.slug, note, level, &self.log_pace)
        {
            self.outlet.send(self.clean(text));
        }
    }

    fn waiting(&self, pause: Option<Duration>) {
        if self.revision >= Revision::V2025_11_25 {
            self.outlet.poll_from_now_on(pause);
        }
    }

    fn ask(&self, method: Method, params: Bytes) -> BoxFuture<'_, Result<Bytes, QuestionError>> {
        Box::pin(async move {
            let mut params = params;
            if let Some(rule) = &self.response
                && let Some(clean) = scrub::question(rule, &params)
            {
                params = clean.into();
            }
            let label = self.labelled.then_some(&*self.slug);
            let params = question::label(label, method, &params);
            self.outlet.ask(&self.slug, method, &params, None).await
        })
    }
}

// Throttling of a call's progress: a burst of steps, then the newest step at intervals. The last
// step is sent before the response.

/// Interval between steps after the burst.
const STEP_INTERVAL: Duration = Duration::from_millis(100);
/// Steps that are sent immediately.
const MAX_BURST: u32 = 20;

struct Progress {
    last: Option<f64>,
    pace: Pace,
    /// The newest step that has not been sent.
    held: Option<Vec<u8>>,
    /// Whether a timer is set for `held`.
    timer: bool,
}

impl Default for Progress {
    fn default() -> Self {
        Self { last: None, pace: Pace::new(STEP_INTERVAL, MAX_BURST), held: None, timer: false }
    }
}

impl Progress {
    /// Records a step and returns whether it is an increase; progress may only grow.
    fn grows(&mut self, value: f64) -> bool {
        let grows = self.last.is_none_or(|last| value > last);
        if grows {
            self.last = Some(value);
        }
        grows
    }

    /// Returns the step to send now, or the time to wait; `None` if no step is held.
    fn due(&mut self, now: Instant) -> Option<Result<Vec<u8>, Duration>> {
        self.held.as_ref()?;
        match self.pace.admit(now) {
            Ok(()) => self.held.take().map(Ok),
            Err(wait) => Some(Err(wait)),
        }
    }
}

// Rate limits for messages to a client: an initial burst, then a fixed rate; and log messages of
// servers in the form sent to clients.

/// A rate limit of one message per interval, with bursts.
#[derive(Clone, Copy, Debug)]
struct Pace {
    interval: Duration,
    /// Maximum lead over the fixed rate.
    most_ahead: Duration,
    /// The instant at which the fixed rate catches up with the messages sent so far.
    sent_until: Option<Instant>,
}

impl Pace {
    const fn new(interval: Duration, burst: u32) -> Self {
        Self { interval, most_ahead: interval.saturating_mul(burst - 1), sent_until: None }
    }

    /// Counts a message.
    ///
    /// # Errors
    /// The time until the message would be admitted.
    fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        let until = self.sent_until.map_or(now, |until| until.max(now));
        let ahead = until.duration_since(now);
        if ahead > self.most_ahead {
            return Err(ahead - self.most_ahead);
        }
        self.sent_until = Some(until + self.interval);
        Ok(())
    }
}

/// Interval between log messages of a call or session once its burst is used up.
const LOG_INTERVAL: Duration = Duration::from_millis(20);
const LOG_BURST: u32 = 100;

/// The rate limit for the log messages of a call or session. Warnings and above have a separate
/// limit, so that a flood of minor messages cannot suppress them.
pub struct LogPace(Mutex<[Pace; 2]>);

impl Default for LogPace {
    fn default() -> Self {
        Self(Mutex::new([Pace::new(LOG_INTERVAL, LOG_BURST); 2]))
    }
}

impl LogPace {
    /// Returns whether a message of this severity may be sent now; otherwise it is dropped.
    fn admits(&self, severity: LogLevel, now: Instant) -> bool {
        let [minor, major] = &mut *self.0.lock();
        let pace = if severity < LogLevel::Warning { minor } else { major };
        pace.admit(now).is_ok()
    }
}

/// Writes a log message for a client with this minimum level; the logger names the server. Returns
/// `None` if the message is below the level or over the rate limit.
pub fn write_log_message(
    slug: &str,
    note: &Request,
    level: LogLevel,
    pace: &LogPace,
) -> Option<Vec<u8>> {
    let severity = LogLevel::parse(&note.param_str(Key::Level)?)?;
    if severity < level || !pace.admits(severity, Instant::now()) {
        return None;
    }
    let mut params = Vec::with_capacity(note.text.len() + slug.len());
    let mut object = Object::open(&mut params);
    object.string("level", severity.as_str());
    match note.param_str(Key::Logger) {
        Some(logger) => object.string("logger", &format!("{slug}/{logger}")),
        None => object.string("logger", slug),
    }
    if let Some(data) = note.param(Key::Data) {
        object.raw("data", data);
    }
    object.close();
    Some(write::notification(Method::Message.as_str(), &params))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_steps_become_a_few_and_the_newest_is_told() {
        let mut progress = Progress::default();
        let begin = Instant::now();
        let mut told = Vec::new();
        let mut latest = 0;
        // 25,000 in five seconds.
        for step in 1..=25_000_u32 {
            assert!(progress.grows(f64::from(step)) && !progress.grows(f64::from(step)));
            progress.held = Some(step.to_string().into_bytes());
            latest = step;
            let now = begin + Duration::from_micros(200) * step;
            if let Some(Ok(text)) = progress.due(now) {
                told.push(String::from_utf8(text).unwrap().parse::<u32>().unwrap());
            }
        }
        assert!(told.len() > 60 && told.len() < 80, "{}", told.len());
        assert_eq!(told[..20], (1..=20).collect::<Vec<_>>(), "a few are told one by one");
        assert!(told.windows(2).all(|pair| pair[0] < pair[1]));
        let held = progress.held.take().map(|text| String::from_utf8(text).unwrap());
        assert_eq!(
            held,
            Some(latest.to_string()),
            "the last one waits to be told before the answer"
        );
        assert!(progress.due(begin).is_none());
    }

    #[test]
    fn of_many_log_messages_a_few_pass_each_second_and_warnings_among_them() {
        let pace = LogPace::default();
        let began = Instant::now();
        let mut passed = 0;
        // 30,000 messages in five seconds.
        for n in 0..30_000_u32 {
            let now = began + Duration::from_secs(5) * n / 30_000;
            passed += u32::from(pace.admits(LogLevel::Info, now));
        }
        assert!((340..=360).contains(&passed), "{passed}");
        assert!(pace.admits(LogLevel::Error, began + Duration::from_secs(5)));
    }
}
