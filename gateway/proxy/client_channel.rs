//! The way back to a client while its call runs: progress under its own token, log messages at its
//! level, questions that it declared it can answer. Nothing here waits for a slow client, except a
//! question.

mod progress;

use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lockgate_policy::response::Response;
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::meta;
use lockgate_protocol::method::Method;
use lockgate_protocol::question;
use lockgate_protocol::revision::Revision;
use lockgate_protocol::scan;
use lockgate_protocol::write::{self, Object};
use lockgate_upstream::{BoxFuture, ClientChannel, LogLevel, QuestionError};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use crate::log_message::write_log_message;
use crate::pace::LogPace;
use crate::response::scrub;
use crate::session::{Log, Session};
use lockgate_admission::budget::{Budget, Hold};
use progress::Progress;

/// Messages that wait for a modern client which reads slowly; further progress and logs are
/// dropped.
const BACKLOG: usize = 256;

/// Longest progress token, in bytes of JSON.
const MAX_TOKEN: usize = 256;

/// Where the messages of one call go.
pub(crate) enum Destination {
    /// A modern client's response stream.
    Channel(mpsc::Sender<Waiting>, Arc<Budget>),
    /// A legacy session's stream, kept so that it can be resumed. It is made when there is
    /// something to say.
    Log {
        session: Arc<Session>,
        log: OnceLock<Arc<Log>>,
        begun: Notify,
        /// Told when the client leaves before there is a stream.
        left: Notify,
    },
}

impl Destination {
    /// A stream of a legacy session, once there is something to say.
    pub(crate) fn of_session(session: Arc<Session>) -> Self {
        Self::Log { session, log: OnceLock::new(), begun: Notify::new(), left: Notify::new() }
    }
}

/// A message that waits for a modern client, and what it takes of the account while it does.
pub(crate) struct Waiting {
    pub(crate) text: Bytes,
    _held: Hold,
}

/// The client channel of one call.
pub(crate) struct CallChannel {
    outlet: Destination,
    /// The client's progress token as JSON text.
    token: Option<Bytes>,
    level: Option<LogLevel>,
    revision: Revision,
    /// Whose words these are, where the client only knows the gateway.
    label: Option<String>,
    slug: String,
    progress: Mutex<Progress>,
    log_pace: LogPace,
    /// A place among the messages that wait, for the last progress.
    last_place: Mutex<Option<mpsc::OwnedPermit<Waiting>>>,
    /// What may come back.
    response: Option<Arc<Response>>,
    this: Weak<Self>,
}

/// When progress is tried again that a client was too slow to take.
const RETRY: Duration = Duration::from_millis(100);
/// Pause between two looks whether a client has come back to its stream.
const LOOK: Duration = Duration::from_secs(1);

impl CallChannel {
    pub(crate) fn channel() -> (mpsc::Sender<Waiting>, mpsc::Receiver<Waiting>) {
        mpsc::channel(BACKLOG + 1)
    }

    pub(crate) fn new(
        outlet: Destination,
        request: &Request,
        level: Option<LogLevel>,
        revision: Revision,
        slug: &str,
        labelled: bool,
    ) -> Self {
        let last_place = match &outlet {
            Destination::Channel(channel, _) => channel.clone().try_reserve_owned().ok(),
            Destination::Log { .. } => None,
        };
        Self {
            outlet,
            token: read_token(request),
            level,
            revision,
            label: if labelled { Some(slug.to_owned()) } else { None },
            slug: slug.to_owned(),
            progress: Mutex::default(),
            log_pace: LogPace::default(),
            last_place: Mutex::new(last_place),
            response: None,
            this: Weak::new(),
        }
    }

    /// The same with what policy says of what may come back.
    pub(crate) fn with(self, response: Option<Arc<Response>>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self { response, this: this.clone(), ..self })
    }

    /// As much of a message as its client may see.
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

    /// Sends the newest progress if it is time for it, and otherwise later.
    fn send_progress(&self) {
        let mut progress = self.progress.lock();
        let wait = match progress.due(Instant::now()) {
            None => return,
            Some(Err(wait)) => wait,
            Some(Ok(text)) => match &self.outlet {
                // It does not take the place of the last one, and is tried again when there is
                // another.
                Destination::Channel(channel, _) if channel.capacity() == 0 => {
                    progress.hold(text);
                    RETRY
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
            tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                if let Some(talk) = talk.upgrade() {
                    talk.progress.lock().timer = false;
                    talk.send_progress();
                }
            });
        }
    }

    /// The call is over: what was held back of its progress goes before the answer.
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

    /// Asks a legacy client something of the gateway's own: an elicitation.
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

    /// The client has gone away before its call had a stream.
    pub(crate) fn record_departure(&self) {
        if let Destination::Log { left, .. } = &self.outlet {
            left.notify_one();
        }
    }

    /// Ready when a legacy client cannot hear the answer of its call any more: its session is over,
    /// it has left, or it has lost the stream and does not come back.
    pub(crate) async fn client_left(&self) {
        let Destination::Log { session, log, left, .. } = &self.outlet else {
            return std::future::pending().await;
        };
        let lost = async {
            loop {
                match log.get() {
                    None => return left.notified().await,
                    Some(log) if log.is_abandoned() => return,
                    Some(_) => tokio::time::sleep(LOOK).await,
                }
            }
        };
        tokio::select! {
            () = lost => {}
            () = session.over.cancelled() => {}
        }
    }

    /// The stream of a legacy call, made now if there is none yet.
    fn begin(&self) -> Option<&Arc<Log>> {
        let Destination::Log { session, log, begun, .. } = &self.outlet else { return None };
        let log = log.get_or_init(|| session.new_log());
        begun.notify_one();
        Some(log)
    }

    /// Waits until there is something to say to a legacy client; gives the stream.
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

    /// The stream of a legacy call, if there was something to say.
    pub(crate) fn stream(&self) -> Option<Arc<Log>> {
        match &self.outlet {
            Destination::Log { log, .. } => log.get().cloned(),
            Destination::Channel(..) => None,
        }
    }
}

/// The progress token of a request, if it is a number or a text.
fn read_token(request: &Request) -> Option<Bytes> {
    let token = request.meta(meta::PROGRESS_TOKEN)?;
    let is_number = matches!(token.first(), Some(b'-' | b'0'..=b'9'));
    if token.len() > MAX_TOKEN || !is_number && scan::as_str(token).is_none() {
        return None;
    }
    Some(Bytes::copy_from_slice(token))
}

fn read_progress(note: &Request) -> Option<f64> {
    std::str::from_utf8(note.param("progress")?).ok()?.parse().ok()
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
