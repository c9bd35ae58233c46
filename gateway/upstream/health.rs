//! Health checks of a connected server. After a silent interval, the server gets a cheap request
//! that its era requires it to answer. If it does not, it is unresponsive; it is disconnected once
//! no outstanding request explains its silence.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;

use crate::config::{Health, Settings};
use crate::connection::{Ask, Connection, ServerTransport};

/// Upper bound of the timeout after repeated disconnects.
const MAX_TIMEOUT: Duration = Duration::from_secs(300);
/// Interval between checks of an unresponsive server.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Delay before a second check: after a pause of the gateway's own process, the timeout may fire
/// before a received response is read.
const RECHECK_DELAY: Duration = Duration::from_millis(100);

/// Number of consecutive disconnects for silence. Some servers are busy with a single request for
/// longer than the timeout, so it doubles each time, until a call is answered.
#[derive(Debug, Default)]
pub(crate) struct SilentEnds(AtomicU32);

impl SilentEnds {
    pub(crate) fn record(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn reset(&self) {
        if self.0.load(Ordering::Relaxed) > 0 {
            self.0.store(0, Ordering::Relaxed);
        }
    }

    fn timeout(&self, health: &Health) -> Duration {
        let times = self.0.load(Ordering::Relaxed).min(16);
        let longest = MAX_TIMEOUT.max(health.timeout);
        health.timeout.saturating_mul(1 << times).min(longest)
    }
}

/// Checks for as long as it is polled, and returns the reason for a disconnect. `tell` is called
/// with a reason when the server becomes unresponsive, and with `None` when it recovers.
pub(crate) async fn watch(
    settings: &Settings,
    silent_ends: &SilentEnds,
    connection: &Connection,
    tell: impl Fn(Option<&str>),
) -> String {
    let told = ReportedHealth { is_silent: AtomicBool::new(false), tell };
    loop {
        let health = settings.load().health.clone();
        if health.is_none() {
            told.tell(None);
        }
        tokio::select! {
            words = check_by(health.as_ref(), silent_ends, connection, &told) => return words,
            () = settings.health_changed(health.as_ref()) => {}
        }
    }
}

async fn check_by(
    health: Option<&Health>,
    silent_ends: &SilentEnds,
    connection: &Connection,
    told: &ReportedHealth<impl Fn(Option<&str>)>,
) -> String {
    let Some(health) = health else { return std::future::pending().await };
    let mut check = Check::new(health, silent_ends, connection);
    loop {
        check.silence().await;
        match check.ask().await {
            HealthSignal::Alive => {
                told.tell(None);
                continue;
            }
            HealthSignal::Refused(words) => return words,
            HealthSignal::Nothing => {}
        }
        if check.doubts_question() {
            continue;
        }
        let words = format!(
            "the server did not answer a ping within {} s",
            silent_ends.timeout(health).as_secs()
        );
        told.tell(Some(&words));
        if let Some(words) = check.while_unresponsive(&words).await {
            return words;
        }
        told.tell(None);
    }
}

/// Reports only changes, even if the configuration of checks changes in between.
struct ReportedHealth<F> {
    is_silent: AtomicBool,
    tell: F,
}

impl<F: Fn(Option<&str>)> ReportedHealth<F> {
    fn tell(&self, why: Option<&str>) {
        if why.is_some() != self.is_silent.swap(why.is_some(), Ordering::Relaxed) {
            (self.tell)(why);
        }
    }
}

enum HealthSignal {
    Alive,
    Nothing,
    /// The server rejected the request, or is unreachable.
    Refused(String),
}

struct Check<'a> {
    health: &'a Health,
    silent_ends: &'a SilentEnds,
    connection: &'a Connection,
    question: Option<Method>,
    /// Whether the server has answered this request before, so that silence is significant.
    is_proven: bool,
}

impl<'a> Check<'a> {
    fn new(health: &'a Health, silent_ends: &'a SilentEnds, connection: &'a Connection) -> Self {
        // The handshake of the modern era was the same request. Some legacy servers never answer a
        // ping.
        let modern = connection.era() == Era::Modern;
        let question = if modern { Method::Discover } else { Method::Ping };
        Self { health, silent_ends, connection, question: Some(question), is_proven: modern }
    }

    /// Waits until the server has been silent for the interval.
    async fn silence(&self) {
        loop {
            let due = self.connection.receiver.last_heard.get() + self.health.interval;
            if due <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(due.into()).await;
        }
    }

    async fn ask(&mut self) -> HealthSignal {
        let Some(question) = self.question else {
            tokio::time::sleep(self.health.interval).await;
            return HealthSignal::Alive;
        };
        let sent = Instant::now();
        // Without a limit, so that it does not count towards outstanding work.
        let asked = self.connection.ask(Ask { limit: None, ..Ask::own(question, &[]) });
        match tokio::time::timeout(self.silent_ends.timeout(self.health), asked).await {
            Ok(Ok(_)) => {
                self.is_proven = true;
                self.connection.outstanding.catch_up();
                return HealthSignal::Alive;
            }
            Ok(Err(failure)) if matches!(self.connection.transport, ServerTransport::Http(_)) => {
                let words = format!("a health check failed: {}", failure.words);
                return HealthSignal::Refused(words);
            }
            Ok(Err(_)) | Err(_) => tokio::time::sleep(RECHECK_DELAY).await,
        }
        if self.connection.receiver.last_heard.get() > sent {
            HealthSignal::Alive
        } else {
            HealthSignal::Nothing
        }
    }

    /// Switches to a list request, which this server answered at its start, if it never answered
    /// the current request.
    fn doubts_question(&mut self) -> bool {
        if self.is_proven {
            return false;
        }
        let offers = &self.connection.peer.server.offers;
        self.question = match (offers.tools, offers.prompts, offers.resources) {
            (true, ..) => Some(Method::ToolsList),
            (_, true, _) => Some(Method::PromptsList),
            (.., true) => Some(Method::ResourcesList),
            _ => None,
        };
        self.is_proven = true;
        true
    }

    /// Waits until the server recovers, or returns the reason for a disconnect.
    async fn while_unresponsive(&mut self, words: &str) -> Option<String> {
        let silent_at = self.connection.receiver.last_heard.get();
        loop {
            let heard = self.connection.receiver.last_heard.get();
            if heard > silent_at {
                return None;
            }
            let covered = self.connection.outstanding.covers_until(heard) > Instant::now();
            if !covered && !self.connection.is_asking() {
                let silence = heard.elapsed().as_secs();
                return Some(format!("{words}, and has sent nothing for {silence} s"));
            }
            match self.connection.transport {
                // A late response counts as a sign of life.
                ServerTransport::Duplex(_) => tokio::time::sleep(CHECK_INTERVAL).await,
                ServerTransport::Http(_) => match self.ask().await {
                    HealthSignal::Alive => return None,
                    HealthSignal::Refused(words) => return Some(words),
                    HealthSignal::Nothing => {}
                },
            }
        }
    }
}

#[cfg(test)]
mod tests;
