//! Whether a connected server still answers. One that was silent for a while is asked something
//! cheap that its era has to answer. One that does not answer is unresponsive; it is given up once
//! nothing that it was asked explains the silence.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;

use crate::config::Health;
use crate::connection::{Ask, Connection, ServerTransport};
use crate::failure::UpstreamError;
use crate::settings::Settings;

/// The longest time for a sign of life that a server gets by being ended again and again.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(300);
/// Between two looks at a server that does not answer.
const LOOK: Duration = Duration::from_millis(200);
/// The gateway itself may have been stopped, and finds its clock ahead of what waits to be read.
const SECOND_LOOK: Duration = Duration::from_millis(100);

/// How often in a row a server was ended because it was silent. Some do one thing at a time for
/// longer than they are given, and each time they are given twice as long, until one of their calls
/// is answered.
#[derive(Debug, Default)]
pub(crate) struct SilentEnds(AtomicU32);

impl SilentEnds {
    pub(crate) fn record(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// A call was answered.
    pub(crate) fn reset(&self) {
        if self.0.load(Ordering::Relaxed) > 0 {
            self.0.store(0, Ordering::Relaxed);
        }
    }

    /// How long the server has for a sign of life.
    fn timeout(&self, health: &Health) -> Duration {
        let times = self.0.load(Ordering::Relaxed).min(16);
        let longest = LONGEST_TIMEOUT.max(health.timeout);
        health.timeout.saturating_mul(1 << times).min(longest)
    }
}

/// Checks for as long as it is polled; gives words when the server has to be given up. `tell` hears
/// why a server has become unresponsive, and nothing when it is that no more.
pub(crate) async fn watch(
    settings: &Settings,
    silent_ends: &SilentEnds,
    connection: &Connection,
    tell: impl Fn(Option<&str>),
) -> String {
    let told = Told { is_silent: AtomicBool::new(false), tell };
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
    told: &Told<impl Fn(Option<&str>)>,
) -> String {
    let Some(health) = health else { return std::future::pending().await };
    let mut check = Check::new(health, silent_ends, connection);
    loop {
        check.silence().await;
        match check.ask().await {
            Heard::Alive => {
                told.tell(None);
                continue;
            }
            Heard::Refused(words) => return words,
            Heard::Nothing => {}
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

/// Tells of changes alone, also where the way of checking changes in between.
struct Told<F> {
    is_silent: AtomicBool,
    tell: F,
}

impl<F: Fn(Option<&str>)> Told<F> {
    fn tell(&self, why: Option<&str>) {
        if why.is_some() != self.is_silent.swap(why.is_some(), Ordering::Relaxed) {
            (self.tell)(why);
        }
    }
}

/// What came of one question.
enum Heard {
    Alive,
    Nothing,
    /// The server is there and does not know us, or nobody is there.
    Refused(String),
}

struct Check<'a> {
    health: &'a Health,
    silent_ends: &'a SilentEnds,
    connection: &'a Connection,
    question: Option<Method>,
    /// The server has answered this question before, so that silence means something.
    is_proven: bool,
}

impl<'a> Check<'a> {
    fn new(health: &'a Health, silent_ends: &'a SilentEnds, connection: &'a Connection) -> Self {
        // The handshake of the modern era was the same question. Some legacy servers never answer a
        // ping.
        let modern = connection.era() == Era::Modern;
        let question = if modern { Method::Discover } else { Method::Ping };
        Self { health, silent_ends, connection, question: Some(question), is_proven: modern }
    }

    /// Waits until the server has said nothing for the interval.
    async fn silence(&self) {
        loop {
            let due = self.connection.last_heard() + self.health.interval;
            if due <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(due.into()).await;
        }
    }

    async fn ask(&mut self) -> Heard {
        let Some(question) = self.question else {
            tokio::time::sleep(self.health.interval).await;
            return Heard::Alive;
        };
        let sent = Instant::now();
        let asked = self.connection.ask(Ask::unbounded(question));
        match tokio::time::timeout(self.silent_ends.timeout(self.health), asked).await {
            Ok(Ok(_)) => {
                self.is_proven = true;
                self.connection.outstanding.catch_up();
                return Heard::Alive;
            }
            Ok(Err(failure)) if matches!(self.connection.transport, ServerTransport::Http(_)) => {
                return Heard::Refused(refusal(&failure));
            }
            Ok(Err(_)) | Err(_) => tokio::time::sleep(SECOND_LOOK).await,
        }
        if self.connection.last_heard() > sent { Heard::Alive } else { Heard::Nothing }
    }

    /// Takes another question, one that this server has answered at its start, if it never answered
    /// this one.
    fn doubts_question(&mut self) -> bool {
        if self.is_proven {
            return false;
        }
        let offers = &self.connection.peer.offers;
        self.question = match (offers.tools, offers.prompts, offers.resources) {
            (true, ..) => Some(Method::ToolsList),
            (_, true, _) => Some(Method::PromptsList),
            (.., true) => Some(Method::ResourcesList),
            _ => None,
        };
        self.is_proven = true;
        true
    }

    /// Until the server is heard again, or is to be given up for these reasons.
    async fn while_unresponsive(&mut self, words: &str) -> Option<String> {
        let silent_at = self.connection.last_heard();
        loop {
            let heard = self.connection.last_heard();
            if heard > silent_at {
                return None;
            }
            let covered = self.connection.outstanding.covers_until(heard) > Instant::now();
            if !covered && !self.connection.is_asking() {
                let silence = heard.elapsed().as_secs();
                return Some(format!("{words}, and has said nothing for {silence} s"));
            }
            match self.connection.transport {
                // An answer that comes late is heard.
                ServerTransport::Duplex(_) => tokio::time::sleep(LOOK).await,
                ServerTransport::Http(_) => match self.ask().await {
                    Heard::Alive => return None,
                    Heard::Refused(words) => return Some(words),
                    Heard::Nothing => {}
                },
            }
        }
    }
}

fn refusal(failure: &UpstreamError) -> String {
    format!("a health check failed: {}", failure.words)
}

#[cfg(test)]
mod tests;
