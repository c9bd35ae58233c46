//! Items that a server offers only to interactive clients in the legacy era. They are read on a
//! probe connection that declares all capabilities the gateway forwards, opened when a client first
//! needs them. No calls are sent on it. A modern server that also speaks legacy is probed in the
//! same way for legacy clients.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lockgate_protocol::revision::Era;

use crate::call::BackChannel;
use crate::config::{EraChoice, Sessions};
use crate::connection::Connection;
use crate::open::{follow_session, open};
use crate::receiver::Behind;
use crate::refresh::Rereading;
use crate::shared::Shared;
use crate::status::UpstreamState;

/// Pause before a lost or refused connection is reopened; doubles up to `MAX_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(300);
/// A connection that lasted this long resets the pause.
const STABLE_PERIOD: Duration = Duration::from_secs(30);

impl Shared {
    /// Reports whether interactive clients of this era may have their own connections to the server
    /// behind `connection`.
    fn may_ask(&self, connection: &Connection, era: Era) -> bool {
        let is_open = match connection.era() {
            // The only client has its own lists on the shared connection.
            Era::Legacy => self.around.single_client.is_none(),
            Era::Modern => era == Era::Legacy && self.config.load().era == EraChoice::Auto,
        };
        is_open && self.config.load().sessions != Sessions::Shared
    }

    /// Returns how the server sends questions to modern clients during their calls.
    pub(crate) fn back_channel(&self) -> BackChannel {
        if self.config.load().sessions == Sessions::Shared {
            return BackChannel::None;
        }
        match &*self.live.load() {
            Some(live) if live.era() == Era::Modern => BackChannel::None,
            Some(live) if live.has_no_stream.load(Ordering::Relaxed) => BackChannel::PerCall,
            None if self.config.load().era == EraChoice::Modern => BackChannel::None,
            // A server that is not connected may be of any kind.
            Some(_) | None => BackChannel::PerConnection,
        }
    }

    /// Publishes the lists with the current items of the probe connection.
    fn publish_again(&self) {
        let plain = self.interactive.plain.lock().clone();
        if let Some(plain) = plain {
            self.publish(plain);
        }
    }

    /// Waits until the items for interactive clients of this era have been read, or cannot be read
    /// now.
    pub(crate) async fn wait_for_interactive(&self, era: Era) {
        let state = &self.interactive;
        match &*self.live.load() {
            Some(live) if !self.may_ask(live, era) => return,
            // The era is unknown, and modern clients no longer wait for the lists.
            None if era == Era::Modern => return,
            _ => {}
        }
        state.wanted.send_if_modified(|wanted| !std::mem::replace(wanted, true));
        let mut settled = state.settled.subscribe();
        loop {
            let changed = self.changed.notified();
            let hopeless = !matches!(
                self.status.load().state,
                UpstreamState::Pending | UpstreamState::Connected | UpstreamState::Unresponsive
            );
            if hopeless || *settled.borrow_and_update() {
                return;
            }
            tokio::select! {
                _ = settled.changed() => {}
                () = changed => {}
            }
        }
    }
}

/// Keeps these items up to date, for as long as it is polled.
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
    let _ = state.wanted.subscribe().wait_for(|wanted| *wanted).await;
    let mut pause = FIRST_PAUSE;
    loop {
        let began = Instant::now();
        let limit = shared.config.load().start_timeout;
        match tokio::time::timeout(limit, open(shared, Behind::Nobody)).await {
            Ok(Ok(probe)) => {
                state.dual.store(is_modern, Ordering::Release);
                let probe = Arc::new(probe);
                *state.probe.lock() = Some(Arc::clone(&probe));
                follow_session(&probe).await;
                let words = watch(shared, &probe).await;
                tracing::debug!(server = %shared.id, words, "the connection that reads lists for \
                    interactive clients is closed");
                state.end().await;
            }
            Ok(Err(refused)) if is_modern => {
                tracing::debug!(server = %shared.id, trouble = %refused.trouble, "the server \
                    supports modern revisions only");
                state.dual.store(false, Ordering::Release);
                *state.full.lock() = None;
                shared.publish_again();
                state.settle();
                return std::future::pending().await;
            }
            Ok(Err(refused)) => {
                tracing::info!(server = %shared.id, trouble = %refused.trouble, "second \
                    connection failed: tools for interactive clients only are not listed");
            }
            Err(_) => tracing::info!(server = %shared.id, "second connection timed out"),
        }
        state.settle();
        if began.elapsed() > STABLE_PERIOD {
            pause = FIRST_PAUSE;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// Reads the lists, now and on every change, until the connection ends, and returns the reason.
async fn watch(shared: &Shared, probe: &Connection) -> String {
    let mut rereading = Rereading::new();
    loop {
        let began = Instant::now();
        match shared.read_lists(probe, b"{}").await {
            Some(Ok(full)) => *shared.interactive.full.lock() = Some(full),
            Some(Err(failure)) => return failure.words.to_string(),
            None => return "the lists were not read in time".to_owned(),
        }
        shared.publish_again();
        shared.interactive.settle();
        rereading.read(began, Instant::now());
        // A process is not kept for this alone.
        if probe.transport.name() == "stdio" {
            shared.interactive.end().await;
            shared.interactive.stale.notified().await;
            return "the lists are read".to_owned();
        }
        let due = async {
            shared.interactive.stale.notified().await;
            rereading.announce(Instant::now());
            rereading.wait().await;
        };
        tokio::select! {
            words = probe.receiver.over.wait() => return words.clone(),
            words = probe.exit() => return words,
            () = due => {}
        }
    }
}
