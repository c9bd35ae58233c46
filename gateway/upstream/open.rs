//! Opens a connection to a server as configured: first the transport, then the handshake. A
//! connection declares exactly the capabilities of the client it serves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use lockgate_admission::spawn;
use lockgate_egress::{self as egress, Connector};
use lockgate_text::json;
use serde_json::{Value, json};
use tokio::sync::{Notify, SetOnce};

use crate::call::Identification;
use crate::config::{Config, EraChoice, Transport};
use crate::connection::{CLOSE_GRACE_PERIOD, Connection, ServerTransport};
use crate::duplex::{Bounds, Duplex};
use crate::failure::UpstreamErrorKind;
use crate::handshake::{HandshakeError, Introduction};
use crate::http::{HttpTransport, Remote};
use crate::incoming::{Inbox, Intake};
use crate::own_lists::OwnState;
use crate::receiver::{Acknowledgements, Behind, LastHeard, Pace, Receiver};
use crate::shared::Shared;
use crate::status::{Stage, StageError};
use crate::{handshake, process, sse};

/// Most messages queued for a process that does not read.
const MAX_OUTGOING: usize = 1024;

/// Returns the capabilities that the gateway forwards between legacy servers and clients.
fn bridged() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

/// Opens a connection. Errors on the way to a remote server name its address.
#[inline(never)]
pub(crate) fn open(
    shared: &Shared,
    behind: Behind,
) -> BoxFuture<'_, Result<Connection, HandshakeError>> {
    Box::pin(async move {
        let opened = open_authorized(shared, behind).await;
        opened.map_err(|mut refused| {
            let Some(Remote { url, .. }) = &shared.remote else { return refused };
            let trouble = &mut refused.trouble;
            if let (Stage::Connect, Some(host), Some(port)) =
                (trouble.stage, url.host_str(), url.port_or_known_default())
            {
                let words =
                    trouble.words.strip_prefix("connect failed: ").unwrap_or(&trouble.words);
                // The error of a failed proxy already names the proxy and the server.
                if !words.starts_with("proxy ") {
                    trouble.words = format!("{host}:{port}: {words}");
                }
                if trouble.words.contains("DNS lookup failed")
                    && let Some(hint) = explain_unused_proxy(shared.around.connector.config())
                {
                    trouble.words = format!("{}; {hint}", trouble.words);
                }
            }
            refused
        })
    })
}

/// Opens a connection with a usable credential, and once more with a new one if the server rejects
/// it.
async fn open_authorized(shared: &Shared, behind: Behind) -> Result<Connection, HandshakeError> {
    let Some(authorization) = &shared.around.authorization else {
        return open_there(shared, behind).await;
    };
    if let Err(words) = authorization.prepare().await {
        let refused = HandshakeError::new(Stage::Connect, words);
        return Err(HandshakeError { needs_auth: true, ..refused });
    }
    let used = authorization.header();
    match open_there(shared, behind.clone()).await {
        Err(refused) if refused.needs_auth && authorization.renew(used).await => {
            open_there(shared, behind).await
        }
        opened => opened,
    }
}

async fn open_there(shared: &Shared, behind: Behind) -> Result<Connection, HandshakeError> {
    let config = shared.config.load_full();
    let is_known_legacy =
        config.era == EraChoice::Auto && shared.known_legacy.load(Ordering::Relaxed);
    let era = if is_known_legacy { EraChoice::Legacy } else { config.era };
    // Only the legacy era has connections per client.
    let (choice, owner, capabilities) = match &behind {
        Behind::Anybody => (era, None, json!({})),
        Behind::SingleClient(client) => (era, None, client.capabilities().await),
        Behind::Session(client) => {
            let capabilities = json::from_slice(&client.capabilities).unwrap_or_default();
            (EraChoice::Legacy, client.assertion.clone(), capabilities)
        }
        Behind::Nobody => (EraChoice::Legacy, None, bridged()),
    };
    let is_probe = matches!(behind, Behind::Nobody);
    let stale = if is_probe { &shared.interactive.stale } else { &shared.stale };
    let identification = shared.identify(owner);
    let receiver = Arc::new(Receiver {
        id: shared.id.clone(),
        metrics: Arc::clone(&shared.metrics),
        events: shared.around.events.clone(),
        stale: Arc::clone(stale),
        announced: Arc::clone(&shared.announced),
        own_lists: OwnState::default(),
        behind,
        modern: AtomicBool::new(false),
        over: SetOnce::new(),
        acknowledgements: Acknowledgements::default(),
        logged: Pace::default(),
        task_news: Pace::default(),
        updates: Pace::default(),
        last_heard: LastHeard::of_connection(&shared.last_heard),
    });
    let inbox: Arc<dyn Inbox> = receiver.clone();
    let info = Arc::clone(&shared.around.info);
    let intro = Introduction { info: info.clone(), capabilities };
    let (transport, child) = carry(shared, &inbox, identification.clone()).await?;
    match handshake::open(&transport, choice, &intro).await {
        Ok(peer) => Ok(Connection::new(transport, peer, child, info, receiver)),
        Err(refused) if refused.maybe_sse && matches!(config.transport, Transport::Http { .. }) => {
            let duplex =
                sse_transport(shared, &inbox, identification).await.map_err(|_| refused)?;
            shared.known_sse.store(true, Ordering::Relaxed);
            let transport = ServerTransport::Duplex(duplex);
            let peer = handshake::open(&transport, EraChoice::Legacy, &intro).await?;
            Ok(Connection::new(transport, peer, None, info, receiver))
        }
        Err(mut refused) => {
            if let Some(child) = child {
                end_refused(&mut refused, child, &transport, &config.transport).await;
            }
            Err(refused)
        }
    }
}

/// Ends a child after a failed handshake, and adds its exit status to the error, and a hint if it
/// may lack network settings.
async fn end_refused(
    refused: &mut HandshakeError,
    child: process::Child,
    transport: &ServerTransport,
    configured: &Transport,
) {
    if let ServerTransport::Duplex(duplex) = transport {
        duplex.close();
    }
    let exit = child.close(CLOSE_GRACE_PERIOD).await;
    let StageError { words, stderr, .. } = &mut refused.trouble;
    *stderr = child.stderr_tail();
    *words = format!("{words}; it {exit}");
    if let Transport::Stdio { env, has_network: false, .. } = configured
        && let Some(hint) = explain_withheld(env)
    {
        *words = format!("{words}; {hint}");
    }
}

/// Opens the transport: a process, an HTTP origin or an event stream.
async fn carry(
    shared: &Shared,
    inbox: &Arc<dyn Inbox>,
    identification: Option<Identification>,
) -> Result<(ServerTransport, Option<process::Child>), HandshakeError> {
    let config = shared.config.load_full();
    match (&config.transport, &shared.remote) {
        (Transport::Stdio { command, args, env, cwd, has_network }, _) => {
            let around = &shared.around;
            let name = shared.id.to_string();
            let env = if *has_network { &environment(env, &around.connector) } else { env };
            let guard = &around.guard;
            let started = process::spawn(guard, &name, command, args, env, cwd.as_deref()).await;
            let (child, stdin, stdout) = started?;
            let bounds = bounds(&config);
            let duplex = Duplex::lines(stdout, stdin, bounds, Arc::clone(inbox), intake(shared));
            Ok((ServerTransport::Duplex(duplex), Some(child)))
        }
        (Transport::Http { .. }, Some(remote)) if !shared.known_sse.load(Ordering::Relaxed) => {
            let settings = Arc::clone(&shared.config);
            let inbox = Arc::clone(inbox);
            let transport =
                HttpTransport::new(remote, settings, inbox, intake(shared), identification);
            Ok((ServerTransport::Http(Arc::new(transport)), None))
        }
        _ => {
            let duplex = sse_transport(shared, inbox, identification).await?;
            Ok((ServerTransport::Duplex(duplex), None))
        }
    }
}

async fn sse_transport(
    shared: &Shared,
    inbox: &Arc<dyn Inbox>,
    identification: Option<Identification>,
) -> Result<Arc<Duplex>, HandshakeError> {
    let Some(remote) = &shared.remote else {
        return Err(HandshakeError::new(Stage::Connect, "no URL"));
    };
    let bounds = bounds(&shared.config.load());
    let inbox = Arc::clone(inbox);
    let opened = sse::connect(remote, bounds, inbox, intake(shared), identification).await;
    opened.map_err(|failure| {
        let mut refused = HandshakeError::from(failure);
        refused.trouble.stage = Stage::Connect;
        refused
    })
}

fn intake(shared: &Shared) -> Intake {
    let around = &shared.around;
    let budget = Arc::clone(&around.budget);
    Intake::new(budget, Arc::clone(&around.cpu_pool), &shared.id, shared.searched.clone())
}

fn bounds(config: &Config) -> Bounds {
    let message_bytes = config.message_bytes();
    Bounds { message_bytes, depth: config.limits.depth, outgoing: MAX_OUTGOING }
}

/// Opens the stream on which a legacy server sends messages to a session outside of calls.
/// Returns when it is established, or after a second; the stream is followed until the connection
/// ends. After an interruption, lists and subscribed resources are treated as changed.
pub(crate) async fn follow_session(connection: &Arc<Connection>) {
    let ServerTransport::Http(transport) = &connection.transport else { return };
    let transport = Arc::clone(transport);
    let opened = Arc::new(Notify::new());
    let tell = Arc::clone(&opened);
    let receiver = Arc::clone(&connection.receiver);
    let followed = Arc::downgrade(connection);
    spawn(async move {
        tokio::select! {
            failure = transport.listen(|first| {
                if first {
                    tell.notify_one();
                } else if let Some(connection) = followed.upgrade() {
                    connection.tell_missed();
                }
            }) => {
                tell.notify_one();
                if failure.kind == UpstreamErrorKind::SessionLost {
                    let _ = receiver.over.set(failure.words.to_string());
                }
            }
            _ = receiver.over.wait() => {}
        }
    });
    let _ = tokio::time::timeout(Duration::from_secs(1), opened.notified()).await;
}

/// Proxies, CA certificates and package indexes, as the common programs name them.
const NAMES: [&str; 27] = [
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_TRUSTED_HOST",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_NATIVE_TLS",
    "NPM_CONFIG_REGISTRY",
    "npm_config_registry",
    "NPM_CONFIG_CAFILE",
    "npm_config_cafile",
];

/// Returns the environment of a child with network access: the child's own variables take
/// precedence over the gateway's configuration, and that over the gateway's environment. Some of
/// the values contain passwords.
pub(crate) fn environment(
    own: &BTreeMap<String, String>,
    connector: &Connector,
) -> BTreeMap<String, String> {
    let config = connector.config();
    let inherited = NAMES.into_iter().filter_map(|name| Some((name.to_owned(), variable(name)?)));
    let mut all: BTreeMap<_, _> = inherited.collect();
    if let Some(route) = &config.route {
        let proxy = route.proxy().secret_url().as_str().trim_end_matches('/');
        for name in ["HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"] {
            all.insert(name.to_owned(), proxy.to_owned());
        }
        for name in ["NO_PROXY", "no_proxy"] {
            all.insert(name.to_owned(), route.no_proxy());
        }
    }
    if let Some(file) = &config.ca_file {
        let whole = connector.authorities_file().unwrap_or_else(|error| {
            tracing::warn!(%error, "the file of all authorities could not be written; child \
                processes get `egress.ca_file` only");
            file.clone()
        });
        let whole = whole.to_string_lossy();
        for name in ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT"] {
            all.insert(name.to_owned(), whole.clone().into_owned());
        }
        // Node adds these to its own CA certificates.
        all.insert("NODE_EXTRA_CA_CERTS".to_owned(), file.to_string_lossy().into_owned());
    }
    all.extend(own.clone());
    all
}

/// Suggests `inherit: [network]` for a child that failed at its start, if the gateway has such a
/// variable and the child does not.
pub(crate) fn explain_withheld(own: &BTreeMap<String, String>) -> Option<String> {
    let mut withheld = NAMES.iter().filter(|name| !own.contains_key(**name));
    let name = withheld.find(|name| variable(name).is_some())?;
    Some(format!(
        "{name} is set but not passed to the server: if it needs the network, set `inherit: \
            [network]` beside its `command`"
    ))
}

/// Names a proxy variable that the gateway does not use, after a failed DNS lookup.
pub(crate) fn explain_unused_proxy(config: &egress::Config) -> Option<String> {
    if config.route.is_some() {
        return None;
    }
    let name = ["HTTPS_PROXY", "https_proxy"].into_iter().find(|name| variable(name).is_some())?;
    Some(format!(
        "{name} is set but not used: if the server is behind that proxy, set `egress: {{ \
            from_environment: true }}`"
    ))
}

#[allow(clippy::disallowed_methods, reason = "a child may inherit these of the environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
