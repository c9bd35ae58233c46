//! The channel to a client while its call runs: progress under the client's own token, log messages
//! at its level, and questions that it supports. Only questions wait for a slow client.

use std::sync::{Arc, OnceLock, Weak};
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
use tokio::sync::{Notify, mpsc};

use crate::pace::{LogPace, Pace, write_log_message};
use crate::response::scrub;
use crate::session::{Log, Session};

/// Messages queued for a slow modern client; further progress and log messages are dropped.
const MAX_BACKLOG: usize = 256;

/// Longest progress token, in bytes of JSON.
const MAX_TOKEN: usize = 256;

pub(crate) enum Destination {
    /// A modern client's response stream.
    Channel(mpsc::Sender<Waiting>, Arc<Budget>),
    /// A resumable stream of a legacy session, created with its first message.
    Log {
        session: Arc<Session>,
        log: OnceLock<Arc<Log>>,
        begun: Notify,
        /// Signals that the client disconnected before there was a stream.
        left: Notify,
    },
}

impl Destination {
    /// Targets a legacy session's stream, which is created with its first message.
    pub(crate) fn of_session(session: Arc<Session>) -> Self {
        Self::Log { session, log: OnceLock::new(), begun: Notify::new(), left: Notify::new() }
    }
}

/// A message queued for a modern client, counted against the byte budget.
pub(crate) struct Waiting {
    pub(crate) text: Bytes,
    _held: Hold,
}

pub(crate) struct CallChannel {
    outlet: Destination,
    /// The client's progress token as JSON text.
    token: Option<Bytes>,
    level: Option<LogLevel>,
    revision: Revision,
    /// Prefix for questions of a server that the client sees only through the gateway.
    label: Option<String>,
    slug: String,
    progress: Mutex<Progress>,
    log_pace: LogPace,
    /// Reserved queue slot for the last progress.
    last_place: Mutex<Option<mpsc::OwnedPermit<Waiting>>>,
    /// Filter for messages to the client.
    response: Option<Arc<Response>>,
    this: Weak<Self>,
}

/// Interval after which progress is retried for a slow client.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Interval of checks for a client's return to its stream.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl CallChannel {
    pub(crate) fn channel() -> (mpsc::Sender<Waiting>, mpsc::Receiver<Waiting>) {
        mpsc::channel(MAX_BACKLOG + 1)
    }

    /// Opens the channel of a request to a server, with the least severe level of log messages, and
    /// the filter for all. With `labelled`, questions name the server.
    pub(crate) fn open(
        outlet: Destination,
        request: &Request,
        (level, revision): (Option<LogLevel>, Revision),
        (slug, labelled): (&str, bool),
        response: Option<Arc<Response>>,
    ) -> Arc<Self> {
        let last_place = match &outlet {
            Destination::Channel(channel, _) => channel.clone().try_reserve_owned().ok(),
            Destination::Log { .. } => None,
        };
        Arc::new_cyclic(|this| Self {
            outlet,
            token: read_token(request),
            level,
            revision,
            label: labelled.then(|| slug.to_owned()),
            slug: slug.to_owned(),
            progress: Mutex::default(),
            log_pace: LogPace::default(),
            last_place: Mutex::new(last_place),
            response,
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

    fn send(&self, text: Vec<u8>) {
        let text = self.clean(text);
        match &self.outlet {
            Destination::Channel(channel, budget) => {
                let mut held = Hold::none(Arc::clone(budget));
                let fits = held.grow_spare(text.len()).is_ok();
                if !fits || channel.try_send(Waiting { text, _held: held }).is_err() {
                    tracing::debug!("a client reads too slowly; a message of its call was dropped");
                }
            }
            Destination::Log { .. } => {
                if let Some(log) = self.begin() {
                    log.push(text.into());
                }
            }
        }
    }

    /// Sends the newest progress if its interval has passed, otherwise schedules it.
    fn send_progress(&self) {
        let mut progress = self.progress.lock();
        let wait = match progress.due(Instant::now()) {
            None => return,
            Some(Err(wait)) => wait,
            Some(Ok(text)) => match &self.outlet {
                // The reserved slot stays free for the last progress; retry later.
                Destination::Channel(channel, _) if channel.capacity() == 0 => {
                    progress.hold(text);
                    RETRY_INTERVAL
                }
                Destination::Channel(..) => return self.send(text),
                Destination::Log { .. } => {
                    if let Some(log) = self.begin() {
                        log.push_progress(self.clean(text));
                    }
                    return;
                }
            },
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
        let Some(text) = self.progress.lock().take_held() else { return };
        let place = self.last_place.lock().take();
        match (&self.outlet, place) {
            (Destination::Channel(_, budget), Some(place)) => {
                let text = self.clean(text);
                let mut held = Hold::none(Arc::clone(budget));
                if held.admit(text.len()).is_ok() {
                    place.send(Waiting { text, _held: held });
                }
            }
            _ => self.send(text),
        }
    }

    /// Asks a legacy client the gateway's own question, an elicitation.
    pub(crate) async fn ask_own(
        &self,
        params: &[u8],
        limit: Duration,
    ) -> Result<Bytes, QuestionError> {
        let Destination::Log { session, .. } = &self.outlet else {
            return Err(QuestionError::Undeclared);
        };
        let Some(log) = self.begin() else { return Err(QuestionError::Undeclared) };
        session.question(log, &self.slug, Method::Elicit, params, Some(limit)).await
    }

    /// Signals that the client disconnected before its call had a stream.
    pub(crate) fn record_departure(&self) {
        if let Destination::Log { left, .. } = &self.outlet {
            left.notify_one();
        }
    }

    /// Completes when a legacy client cannot receive the response any more: its session has ended,
    /// or the client has disconnected or abandoned its stream.
    pub(crate) async fn client_left(&self) {
        let Destination::Log { session, log, left, .. } = &self.outlet else {
            return std::future::pending().await;
        };
        let lost = async {
            loop {
                match log.get() {
                    None => return left.notified().await,
                    Some(log) if log.is_abandoned() => return,
                    Some(_) => tokio::time::sleep(CHECK_INTERVAL).await,
                }
            }
        };
        tokio::select! {
            () = lost => {}
            () = session.over.cancelled() => {}
        }
    }

    /// Returns the stream of a legacy call, creating it if needed.
    fn begin(&self) -> Option<&Arc<Log>> {
        let Destination::Log { session, log, begun, .. } = &self.outlet else { return None };
        let log = log.get_or_init(|| session.new_log());
        begun.notify_one();
        Some(log)
    }

    /// Waits for the first message to a legacy client and returns the stream.
    pub(crate) async fn begun(&self) -> Arc<Log> {
        if let Destination::Log { log, begun, .. } = &self.outlet {
            loop {
                if let Some(log) = log.get() {
                    return Arc::clone(log);
                }
                begun.notified().await;
            }
        }
        std::future::pending().await
    }

    /// Returns the stream of a legacy call, if it has begun.
    pub(crate) fn stream(&self) -> Option<Arc<Log>> {
        match &self.outlet {
            Destination::Log { log, .. } => log.get().cloned(),
            Destination::Channel(..) => None,
        }
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
        self.progress.lock().hold(write::notification(Method::Progress.as_str(), &params));
        self.send_progress();
    }

    fn log(&self, note: &Request) {
        if let Some(level) = self.level
            && let Some(text) = write_log_message(&self.slug, note, level, &self.log_pace)
        {
            self.send(text);
        }
    }

    fn waiting(&self, pause: Option<Duration>) {
        if self.revision >= Revision::V2025_11_25
            && let Some(log) = self.begin()
        {
            log.poll_from_now_on(pause);
        }
    }

    fn ask(&self, method: Method, params: Bytes) -> BoxFuture<'_, Result<Bytes, QuestionError>> {
        Box::pin(async move {
            let Destination::Log { session, .. } = &self.outlet else {
                return Err(QuestionError::Undeclared);
            };
            let Some(log) = self.begin() else { return Err(QuestionError::Undeclared) };
            let mut params = params;
            if let Some(rule) = &self.response
                && let Some(clean) = scrub::question(rule, &params)
            {
                params = clean.into();
            }
            session
                .question(
                    log,
                    &self.slug,
                    method,
                    &question::label(self.label.as_deref(), method, &params),
                    None,
                )
                .await
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

    /// Holds the newest step in place of an earlier unsent step.
    fn hold(&mut self, text: Vec<u8>) {
        self.held = Some(text);
    }

    fn take_held(&mut self) -> Option<Vec<u8>> {
        self.held.take()
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
            progress.hold(step.to_string().into_bytes());
            latest = step;
            let now = begin + Duration::from_micros(200) * step;
            if let Some(Ok(text)) = progress.due(now) {
                told.push(String::from_utf8(text).unwrap().parse::<u32>().unwrap());
            }
        }
        assert!(told.len() > 60 && told.len() < 80, "{}", told.len());
        assert_eq!(told[..20], (1..=20).collect::<Vec<_>>(), "a few are told one by one");
        assert!(told.windows(2).all(|pair| pair[0] < pair[1]));
        let held = progress.take_held().map(|text| String::from_utf8(text).unwrap());
        assert_eq!(
            held,
            Some(latest.to_string()),
            "the last one waits to be told before the answer"
        );
        assert!(progress.due(begin).is_none());
    }
}
