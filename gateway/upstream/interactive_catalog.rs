//! What a server offers only to clients that it can ask things in the legacy era. It is read on a
//! connection that declares what the gateway carries, which is opened once a client needs to know.
//! Nothing is called on it. A modern server that speaks legacy too is looked at in the same way for
//! legacy clients.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lockgate_protocol::revision::Era;

use crate::call::BackChannel;
use crate::config::EraChoice;
use crate::connection::{Connection, ServerTransport};
use crate::open::{Role, follow_session, open};
use crate::receiver::Over;
use crate::reread::Rereading;
use crate::shared::Shared;
use crate::status::State;
use crate::{config, lists};

/// Pause before a connection that was lost or refused is opened again; doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// What was known for this long starts the pauses anew.
const STABLE: Duration = Duration::from_secs(30);

impl Shared {
    /// Whether clients of this era that can be asked may have connections of their own to the
    /// server behind `connection`.
    fn may_ask(&self, connection: &Connection, era: Era) -> bool {
        let is_open = match connection.era() {
            // The only client has its own lists on the shared connection.
            Era::Legacy => self.around.sole.is_none(),
            Era::Modern => era == Era::Legacy && self.config.load().era == EraChoice::Auto,
        };
        is_open && self.config.load().sessions != config::Sessions::Shared
    }

    /// How the server asks things of modern clients while their calls run.
    pub(crate) fn back_channel(&self) -> BackChannel {
        if self.config.load().sessions == config::Sessions::Shared {
            return BackChannel::None;
        }
        match &*self.live.load() {
            Some(live) if live.era() == Era::Modern => BackChannel::None,
            Some(live) if live.has_no_stream.load(Ordering::Relaxed) => BackChannel::PerCall,
            None if self.config.load().era == EraChoice::Modern => BackChannel::None,
            // One that is not connected may be any server.
            Some(_) | None => BackChannel::PerConnection,
        }
    }

    /// Waits until it is known what is only offered to clients of this era that can be asked, or
    /// cannot be known now.
    pub(crate) async fn wait_for_interactive(&self, era: Era) {
        let state = &self.interactive;
        match &*self.live.load() {
            Some(live) if !self.may_ask(live, era) => return,
            // Which era it has is not known, and modern clients wait for its lists no longer.
            None if era == Era::Modern => return,
            _ => {}
        }
        if !state.wanted.swap(true, Ordering::AcqRel) {
            state.begin.notify_one();
        }
        loop {
            let settling = state.settling.notified();
            let changed = self.changed.notified();
            let hopeless = !matches!(
                self.status.load().state,
                State::Pending | State::Connected | State::Unresponsive
            );
            if hopeless || state.settled.load(Ordering::Acquire) {
                return;
            }
            tokio::select! {
                () = settling => {}
                () = changed => {}
            }
        }
    }
}

/// Keeps what is known up to date, for as long as it is polled.
pub(crate) async fn keep(shared: &Shared, connection: &Connection) {
    let state = &shared.interactive;
    let is_modern = connection.era() == Era::Modern;
    if !is_modern {
        state.dual.store(false, Ordering::Release);
    }
    if !shared.may_ask(connection, Era::Legacy) {
        state.settle();
        return std::future::pending().await;
    }
    while !state.wanted.load(Ordering::Acquire) {
        state.begin.notified().await;
    }
    let mut pause = FIRST_PAUSE;
    loop {
        let began = Instant::now();
        let limit = shared.config.load().start_timeout;
        match tokio::time::timeout(limit, open(shared, Role::Probe)).await {
            Ok(Ok((probe, over))) => {
                state.dual.store(is_modern, Ordering::Release);
                let probe = Arc::new(probe);
                *state.probe.lock() = Some(Arc::clone(&probe));
                follow_session(&probe).await;
                let words = watch(shared, &probe, &over).await;
                tracing::debug!(server = %shared.id, words, "the connection that reads lists for \
                    interactive clients is over");
                state.end().await;
            }
            Ok(Err(refused)) if is_modern => {
                tracing::debug!(server = %shared.id, trouble = %refused.trouble, "it is modern \
                    alone");
                state.dual.store(false, Ordering::Release);
                *state.full.lock() = None;
                let plain = state.plain.lock().clone();
                if let Some(plain) = plain {
                    shared.publish(plain);
                }
                state.settle();
                return std::future::pending().await;
            }
            Ok(Err(refused)) => {
                tracing::info!(server = %shared.id, trouble = %refused.trouble, "no second \
                    connection, so tools for interactive clients alone are not known");
            }
            Err(_) => tracing::info!(server = %shared.id, "no second connection in time"),
        }
        state.settle();
        if began.elapsed() > STABLE {
            pause = FIRST_PAUSE;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Reads the lists, now and whenever they change, until the connection is over; gives the words
/// why.
async fn watch(shared: &Shared, probe: &Connection, over: &Over) -> String {
    let mut rereading = Rereading::new();
    loop {
        let began = Instant::now();
        let config = shared.config.load_full();
        let reading = lists::read(probe, &config.limits, b"{}", shared.hold_lists());
        match tokio::time::timeout(config.start_timeout, reading).await {
            Ok(Ok(full)) => *shared.interactive.full.lock() = Some(full),
            Ok(Err(failure)) => return failure.words.to_string(),
            Err(_) => return "the lists were not read in time".to_owned(),
        }
        let plain = shared.interactive.plain.lock().clone();
        if let Some(plain) = plain {
            shared.publish(plain);
        }
        shared.interactive.settle();
        rereading.read(began, Instant::now());
        // A process is not kept for that alone.
        if matches!(probe.transport, ServerTransport::Duplex(_))
            && probe.peer.transport_name == "stdio"
        {
            shared.interactive.end().await;
            shared.interactive.stale.notified().await;
            return "it has read what there is".to_owned();
        }
        let due = async {
            shared.interactive.stale.notified().await;
            rereading.announce(Instant::now());
            rereading.wait().await;
        };
        tokio::select! {
            words = over.wait() => return words,
            words = probe.exit() => return words,
            () = due => {}
        }
    }
}
