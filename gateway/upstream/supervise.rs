//! Keeps a server connected: opens the connection, reads the lists, follows changes, and
//! reconnects with growing pauses. Records failures in the status, in words that a person can act
//! on.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lockgate_admission::spawn;
use lockgate_protocol::jsonrpc::Outcome;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use crate::call::Subscription;
use crate::catalog::Catalog;
use crate::config::Transport;
use crate::connection::{Ask, CLOSE_GRACE_PERIOD, Connection, ServerTransport};
use crate::failure::{Result, UpstreamErrorKind};
use crate::handshake::HandshakeError;
use crate::interactive_catalog;
use crate::lists::NO_LIST_MEMORY;
use crate::open::open;
use crate::receiver::Behind;
use crate::refresh::{CARRIED, Rereading, refresh};
use crate::shared::Shared;
use crate::status::{self, Stage, StageError, UpstreamState};
use crate::topics::Topic;
use crate::{health, lists};

/// Pause before the first restart; doubles up to `MAX_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// A connection that lasted this long resets the pause.
const STABLE_PERIOD: Duration = Duration::from_secs(30);
/// Longest delay of a failure report while the stored lists are loaded.
const RECALL_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for a server to acknowledge a listen.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs until the client is closed.
pub(crate) async fn supervise(shared: Arc<Shared>) {
    let _ = shared.closing.run_until_cancelled(keep_connected(&shared)).await;
    let live = shared.live.swap(None);
    *shared.place.lock() = None;
    shared.interactive.end().await;
    let all = shared.sessions.take().into_iter().chain(live);
    let closing: Vec<_> =
        all.map(|c| spawn(async move { c.close(CLOSE_GRACE_PERIOD).await })).collect();
    for task in closing {
        let _ = task.await;
    }
}

async fn keep_connected(shared: &Arc<Shared>) {
    let mut failures = 0;
    loop {
        shared.rest().await;
        let recalled = shared.recall();
        let began = tokio::time::Instant::now();
        let Ended::Lost(refused) = cycle(shared).await else { continue };
        shared.live.store(None);
        // The failure ends the wait of pending requests, which should find the stored lists.
        if let Some(recalled) = recalled {
            let _ = tokio::time::timeout(RECALL_TIMEOUT, recalled).await;
        }
        failures = if began.elapsed() > STABLE_PERIOD { 1 } else { failures + 1 };
        let failed_after = (refused.trouble.stage != Stage::Run).then(|| began.elapsed());
        shared.recovery.schedule(failed_after, pause(failures));
        shared.known_legacy.store(refused.retry_legacy, Ordering::Relaxed);
        let state =
            if refused.needs_auth { UpstreamState::NeedsAuth } else { UpstreamState::Failed };
        shared.fail(state, &refused.trouble);
        let has_to_rest = tokio::select! {
            () = shared.recovery.wait() => false,
            () = shared.gives_way.notified() => true,
        };
        if has_to_rest || shared.is_unused() {
            shared.begin_rest();
        } else {
            shared.set_status(|status| status.restarts += 1);
        }
    }
}

/// Returns an exponential pause. A jitter of up to a quarter keeps servers from reconnecting in
/// step.
fn pause(failures: u32) -> Duration {
    let base = FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(MAX_PAUSE);
    let mut random = [0u8; 1];
    let _ = getrandom::fill(&mut random);
    base + base.mul_f64(f64::from(random[0]) / 1024.0)
}

/// How a connection ended.
enum Ended {
    Lost(HandshakeError),
    /// The server was idle and rests now.
    Unused,
}

/// Runs a connection from start to end.
async fn cycle(shared: &Arc<Shared>) -> Ended {
    let connection = match connect(shared).await {
        Ok(connected) => connected,
        Err(refused) => return Ended::Lost(refused),
    };
    let hung = health::watch(&shared.config, &shared.silent_ends, &connection, |why| {
        tell_health(shared, why);
    });
    let (words, grace) = tokio::select! {
        words = stay(shared, &connection) => (words, CLOSE_GRACE_PERIOD),
        // A hanging server gets no grace period.
        words = hung => {
            shared.silent_ends.record();
            (words, Duration::ZERO)
        }
        () = shared.unused() => {
            shared.live.store(None);
            shared.begin_rest();
            shared.interactive.end().await;
            shared.part(connection);
            return Ended::Unused;
        }
    };
    shared.live.store(None);
    shared.interactive.end().await;
    let child = connection.child.lock().take();
    let mut refused = HandshakeError::new(Stage::Run, words);
    if let Some(child) = child {
        let exit = child.close(grace).await;
        // The reason may already contain the exit status.
        if !refused.trouble.words.ends_with(&exit) {
            refused.trouble.words = format!("{}; it {exit}", refused.trouble.words);
        }
        refused.trouble.stderr = child.stderr_tail();
    }
    Ended::Lost(refused)
}

/// Connects, reads the lists, and admits calls.
async fn connect(shared: &Arc<Shared>) -> Result<Arc<Connection>, HandshakeError> {
    let _start =
        shared.admit_start().await.map_err(|words| HandshakeError::new(Stage::Start, words))?;
    let limit = shared.config.load().start_timeout;
    let Ok(up) = tokio::time::timeout(limit, bring_up(shared)).await else {
        let seconds = limit.as_secs();
        let is_child = matches!(shared.config.load().transport, Transport::Stdio { .. });
        let (stage, what) = if is_child {
            (Stage::Start, "was not ready")
        } else {
            (Stage::Handshake, "did not answer")
        };
        let words = format!("the server {what} within {seconds} s (start_timeout)");
        return Err(HandshakeError::new(stage, words));
    };
    let (connection, catalog) = up?;
    match catalog {
        Some(catalog) => shared.publish(catalog),
        None => shared.set_list_failure(Some(NO_LIST_MEMORY)),
    }
    let peer = describe_peer(&connection);
    tracing::info!(
        server = %shared.id,
        era = peer.era.as_str(),
        revision = %peer.revision,
        transport = peer.transport,
        "connected"
    );
    if connection.era() == Era::Legacy {
        shared.known_legacy.store(true, Ordering::Relaxed);
        shared.renew_subscriptions(&connection).await;
        updated(shared);
    }
    shared.breaker.success();
    shared.live.store(Some(Arc::clone(&connection)));
    // The limits may have changed since the connection was opened.
    shared.bound_messages();
    shared.set_status(|status| {
        status.state = UpstreamState::Connected;
        status.peer = Some(peer.clone());
        status.trouble = None;
    });
    Ok(connection)
}

fn describe_peer(connection: &Connection) -> status::Peer {
    status::Peer {
        era: connection.era(),
        revision: connection.peer.revision,
        transport: connection.transport.name(),
        name: connection.peer.server.name.clone(),
        version: connection.peer.server.version.clone(),
    }
}

/// Updates the status when a connected server becomes unresponsive or recovers.
fn tell_health(shared: &Shared, why: Option<&str>) {
    match why {
        Some(words) => {
            let stderr = shared.stderr_tail();
            shared.fail(
                UpstreamState::Unresponsive,
                &StageError { stage: Stage::Run, words: words.to_owned(), stderr },
            );
        }
        None => {
            tracing::info!(server = %shared.id, "the server is responsive again");
            shared.set_status(|status| {
                status.state = UpstreamState::Connected;
                status.trouble = None;
            });
        }
    }
}

/// Opens the shared connection and reads the lists. Returns `None` for the lists if there is no
/// memory for them, so that the old lists stay.
async fn bring_up(
    shared: &Arc<Shared>,
) -> Result<(Arc<Connection>, Option<Catalog>), HandshakeError> {
    let single_client = shared.around.single_client.clone();
    let behind = single_client.map_or(Behind::Anybody, Behind::SingleClient);
    let connection = match open(shared, behind.clone()).await {
        Err(refused) if refused.retry_legacy => {
            shared.known_legacy.store(true, Ordering::Relaxed);
            open(shared, behind).await
        }
        other => other,
    }?;
    let limits = shared.config.load().limits.clone();
    let reading = lists::read(&connection, &limits, CARRIED, shared.hold_lists());
    let catalog = match reading.await {
        Ok(catalog) => Some(catalog),
        Err(failure) if failure.kind == UpstreamErrorKind::NoMemory => None,
        Err(failure) => {
            let mut refused = HandshakeError::from(failure);
            refused.trouble.stage = Stage::Discovery;
            refused.trouble.stderr = connection.stderr_tail();
            return Err(refused);
        }
    };
    Ok((Arc::new(connection), catalog))
}

/// Follows a connected server until the connection is lost, and returns the reason.
async fn stay(shared: &Arc<Shared>, connection: &Arc<Connection>) -> String {
    let follow = follow(shared, connection);
    let interactive = interactive_catalog::keep(shared, connection);
    tokio::pin!(follow, interactive);
    let mut rereading = Rereading::new();
    loop {
        tokio::select! {
            words = connection.receiver.over.wait() => return words.clone(),
            words = connection.exit() => return words,
            words = &mut follow => return words,
            () = &mut interactive => {}
            () = shared.stale.notified() => rereading.announce(Instant::now()),
            () = shared.suspect.notified() => rereading.suspect(Instant::now()),
            () = rereading.wait() => {
                let began = Instant::now();
                if let Err(words) = refresh(shared, connection).await {
                    return words;
                }
                rereading.read(began, Instant::now());
                if shared.status.load().fails_to_list() {
                    rereading.retry(Instant::now());
                }
            }
        }
    }
}

/// Follows the stream of change notifications. Returns a reason if it reveals that the connection
/// is lost.
async fn follow(shared: &Arc<Shared>, connection: &Arc<Connection>) -> String {
    match (connection.era(), &connection.transport) {
        (Era::Modern, _) => listen(shared, connection).await,
        (Era::Legacy, ServerTransport::Http(transport)) => {
            let listening = transport.listen(|first| {
                if !first {
                    missed(shared);
                }
            });
            let failure = listening.await;
            if failure.kind == UpstreamErrorKind::SessionLost {
                return failure.words.to_string();
            }
            connection.has_no_stream.store(true, Ordering::Relaxed);
        }
        (Era::Legacy, ServerTransport::Duplex(_)) => {}
    }
    std::future::pending().await
}

/// Treats lists, resources and tasks as changed after a stream was down.
fn missed(shared: &Shared) {
    shared.stale.notify_one();
    updated(shared);
}

/// Reports all subscribed resources and tasks as updated, because notifications may have been
/// missed.
fn updated(shared: &Shared) {
    for topic in shared.topics.on(Subscription::Shared) {
        shared.tell(topic.updated(shared.id.clone(), Subscription::Shared));
    }
}

/// Keeps a `subscriptions/listen` request open, and reopens it when it ends or the subscriptions
/// change. The old stream is kept until the new one is acknowledged, so that nothing is missed in
/// between. Returns if the server offers no such stream.
async fn listen(shared: &Arc<Shared>, connection: &Arc<Connection>) {
    let mut old: Option<AbortOnDropHandle<_>> = None;
    let mut pause = FIRST_PAUSE;
    let mut stood = false;
    loop {
        let (id, acknowledged) = connection.expect_acknowledgement();
        let topics = shared.topics.on(Subscription::Shared);
        let mut held = AbortOnDropHandle::new(spawn(hold(Arc::clone(connection), id, topics)));
        let got = tokio::select! {
            topics = acknowledged => topics.ok(),
            ended = &mut held => match ended {
                // The server has no such stream, and will have none on this connection.
                Ok(Ok(false)) if !stood => return,
                _ => None,
            },
            () = tokio::time::sleep(ACKNOWLEDGE_TIMEOUT) => None,
        };
        drop(old.take());
        if let Some(topics) = got {
            shared.topics.acknowledge(topics);
            match (stood, pause > FIRST_PAUSE) {
                (true, true) => missed(shared),
                (true, false) => {}
                // The lists were just read, but updates before this connection were missed.
                (false, _) => updated(shared),
            }
            (pause, stood) = (FIRST_PAUSE, true);
        } else if pause > MAX_PAUSE && !stood {
            return;
        }
        let ended = held.is_finished()
            || tokio::select! {
                _ = &mut held => true,
                () = shared.topics.changed.notified() => false,
            };
        if ended {
            tokio::time::sleep(pause).await;
            pause *= 2;
        } else {
            old = Some(held);
        }
    }
}

/// Runs a listen stream until it ends. Returns `false` if the server refused it.
async fn hold(connection: Arc<Connection>, id: u64, topics: Vec<Topic>) -> Result<bool> {
    let mut uris = Vec::new();
    let mut tasks = Vec::new();
    for topic in topics {
        match topic {
            Topic::Resource(uri) => uris.push(uri),
            Topic::Task(id) => tasks.push(id),
        }
    }
    let mut filter = json!({
        "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": uris,
    });
    if !tasks.is_empty() {
        filter["taskIds"] = tasks.into();
    }
    let params = [(Key::Notifications, Some(filter.to_string().into_bytes()))];
    let mut ask = Ask::own(Method::Listen, &params);
    ask.id = Some(id);
    ask.capabilities = CARRIED;
    let response = connection.ask(ask).await?;
    Ok(matches!(response.outcome, Outcome::Result(..)))
}
