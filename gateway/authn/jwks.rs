//! The keys of an issuer, fetched in the background and replaced as a set. They remain in use for a
//! limited time while fetching fails. A key is only valid for the algorithm it was made for, and
//! symmetric keys are never accepted. Requests do not fetch; they may trigger an early fetch, at a
//! limited rate, and wait for it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse,
};
use jsonwebtoken::{Algorithm, DecodingKey};
use lockgate_admission::{Waits, spawn};
use lockgate_egress::{Connector, Policy};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use url::Url;

use crate::discovery::fetch_json;
use crate::{config, discovery};

/// Maximum number of keys in a set; the rest are ignored.
const MAX_KEYS: usize = 64;
/// Maximum number of keys tried for a key id: each costs a verification of every bad token.
const MAX_SAME: usize = 4;
/// Time for which a request waits for keys. After a fetch has taken longer, the next request starts
/// a second fetch beside it.
const KEYS_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_FETCHES: usize = 2;
/// Maximum number of requests waiting for an issuer's keys; the rest are rejected.
const MAX_WAITING: usize = 16;
/// Pause after the first failure; doubles up to the refresh interval.
const FIRST_PAUSE: Duration = Duration::from_secs(2);

pub(crate) struct Issuer {
    pub(crate) config: config::Issuer,
    keys: ArcSwapOption<Vec<Key>>,
    /// Incremented whenever the keys change, so that cached tokens are verified again.
    generation: AtomicU64,
    attempts: watch::Sender<u64>,
    waiting: AtomicUsize,
    wanted: Arc<Notify>,
    state: Mutex<JwksState>,
}

#[derive(Default)]
struct JwksState {
    /// The set as fetched, to detect changes.
    text: Value,
    last_attempt: Option<Instant>,
    last_success: Option<Instant>,
    /// Start of the running fetch, or of the latest if two run.
    running: Option<Instant>,
    /// Whether there was an early fetch, during the cooldown, since the last regular one. One is
    /// allowed, because an issuer may replace its keys right after they were fetched.
    has_hurried: bool,
    /// Whether the running fetch is an early fetch.
    hurries: bool,
}

/// The current state of an issuer's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySetState {
    pub issuer: String,
    pub keys: usize,
    /// Time since the last successful fetch.
    pub age: Option<Duration>,
}

pub(crate) struct Key {
    id: Option<Box<str>>,
    algorithms: Vec<Algorithm>,
    pub(crate) key: DecodingKey,
}

impl Issuer {
    /// Starts an issuer. Its keys are fetched in the background until it is dropped.
    pub(crate) fn start(config: config::Issuer, connector: Arc<Connector>) -> Arc<Self> {
        let issuer = Arc::new(Self::new(config));
        issuer.state.lock().running = Some(Instant::now());
        spawn(follow(Arc::downgrade(&issuer), Arc::clone(&issuer.wanted), connector));
        issuer
    }

    fn new(config: config::Issuer) -> Self {
        Self {
            config,
            keys: ArcSwapOption::empty(),
            generation: AtomicU64::new(0),
            attempts: watch::Sender::new(0),
            waiting: AtomicUsize::new(0),
            wanted: Arc::new(Notify::new()),
            state: Mutex::default(),
        }
    }

    /// Creates an issuer without a background task.
    #[cfg(test)]
    pub(crate) fn with_keys(config: config::Issuer, keys: Value) -> Arc<Self> {
        let issuer = Arc::new(Self::new(config));
        issuer.put(keys);
        issuer.state.lock().has_hurried = true;
        issuer
    }

    #[cfg(test)]
    pub(crate) fn put(&self, keys: Value) {
        self.take(Ok(keys), 0);
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn key_set(&self) -> KeySetState {
        let keys = self.keys.load().as_ref().map_or(0, |keys| keys.len());
        KeySetState {
            issuer: self.config.issuer.clone(),
            keys,
            age: self.state.lock().last_success.map(|last| last.elapsed()),
        }
    }

    pub(crate) fn keys(&self) -> Option<Arc<Vec<Key>>> {
        self.keys.load_full()
    }

    /// Waits for the running fetch, or for a new fetch if the cooldown permits it. Returns whether
    /// a fetch has finished.
    pub(crate) async fn refreshed(&self) -> bool {
        let mut attempts = self.attempts.subscribe();
        {
            let mut state = self.state.lock();
            if !state.want(self.config.cooldown) {
                return false;
            }
            if !matches!(state.running, Some(began) if began.elapsed() < KEYS_TIMEOUT) {
                state.running = Some(Instant::now());
                self.wanted.notify_one();
            }
        }
        let Some(_place) = Waits::begin_within(&self.waiting, MAX_WAITING) else { return false };
        matches!(tokio::time::timeout(KEYS_TIMEOUT, attempts.changed()).await, Ok(Ok(())))
    }

    /// Applies the result of a fetch. Returns the pause until the next fetch, and the failures so
    /// far.
    fn take(&self, fetched: Result<Value, String>, failures: u32) -> (Duration, u32) {
        let mut state = self.state.lock();
        (state.running, state.last_attempt) = (None, Some(Instant::now()));
        state.has_hurried &= std::mem::take(&mut state.hurries);
        let issuer = &self.config.issuer;
        let next = match self.read(fetched) {
            Ok((text, keys)) => {
                state.last_success = Some(Instant::now());
                if state.text != text || self.keys.load().is_none() {
                    match keys.len() {
                        0 => tracing::warn!(
                            issuer,
                            "an issuer has no usable key: its tokens are refused"
                        ),
                        keys => tracing::info!(issuer, keys, "keys of an issuer loaded"),
                    }
                    state.text = text;
                    self.replace(Some(keys));
                }
                (self.config.refresh, 0)
            }
            Err(error) => {
                let old =
                    matches!(state.last_success, Some(at) if at.elapsed() < self.config.stale);
                tracing::warn!(issuer, %error, kept = old, "keys of an issuer cannot be fetched");
                if !old && self.keys.load().is_some() {
                    self.replace(None);
                }
                let pause =
                    FIRST_PAUSE.saturating_mul(1 << failures.min(16)).min(self.config.refresh);
                (pause, failures.saturating_add(1))
            }
        };
        drop(state);
        self.attempts.send_modify(|attempts| *attempts = attempts.wrapping_add(1));
        next
    }

    fn read(&self, fetched: Result<Value, String>) -> Result<(Value, Vec<Key>), String> {
        let set = fetched?;
        let keys = parse(&set, &self.config.algorithms)?;
        Ok((set, keys))
    }

    fn replace(&self, keys: Option<Vec<Key>>) {
        self.keys.store(keys.map(Arc::new));
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}

impl JwksState {
    /// Returns whether a request may wait for a fetch, which its caller starts if none is running.
    fn want(&mut self, cooldown: Duration) -> bool {
        let pauses = matches!(self.last_attempt, Some(at) if at.elapsed() < cooldown);
        if self.running.is_some() || !pauses {
            return true;
        }
        self.hurries = !std::mem::replace(&mut self.has_hurried, true);
        self.hurries
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        // Wakes the task, which ends because the issuer is gone.
        self.wanted.notify_one();
    }
}

async fn follow(issuer: Weak<Issuer>, wanted: Arc<Notify>, connector: Arc<Connector>) {
    let mut failures = 0;
    loop {
        let Some(wanting) = issuer.upgrade() else { return };
        let config = wanting.config.clone();
        wanting.state.lock().running.get_or_insert_with(Instant::now);
        drop(wanting);
        let fetched = fetch_any(&config, &connector, &wanted).await;
        let Some(found) = issuer.upgrade() else { return };
        let (pause, failed) = found.take(fetched, failures);
        failures = failed;
        drop(found);
        let _ = tokio::time::timeout(pause, wanted.notified()).await;
    }
}

/// Fetches the keys. If a fetch hangs, a request for keys starts a second fetch beside it.
async fn fetch_any(
    config: &config::Issuer,
    connector: &Arc<Connector>,
    wanted: &Notify,
) -> Result<Value, String> {
    let mut fetches = FuturesUnordered::new();
    fetches.push(fetch(config, connector));
    loop {
        tokio::select! {
            Some(fetched) = fetches.next() => {
                if fetched.is_ok() || fetches.is_empty() {
                    return fetched;
                }
            }
            () = wanted.notified(), if fetches.len() < MAX_FETCHES => {
                fetches.push(fetch(config, connector));
            }
        }
    }
}

async fn fetch(config: &config::Issuer, connector: &Arc<Connector>) -> Result<Value, String> {
    if let Some(url) = &config.jwks {
        return fetch_json(connector, url, Policy::Operator).await;
    }
    let url = discover(&config.issuer, connector).await?;
    fetch_json(connector, &url, discovery::policy_for(&url, &config.issuer)).await
}

async fn discover(issuer: &str, connector: &Arc<Connector>) -> Result<Url, String> {
    discovery::find(issuer, connector, |document| {
        discovery::read_address(document, "jwks_uri", issuer)
    })
    .await
}

/// Parses the usable keys of a set, and ignores others. A set without any is valid: an issuer
/// revokes its keys that way.
fn parse(set: &Value, allowed: &[Algorithm]) -> Result<Vec<Key>, String> {
    let Some(Value::Array(all)) = set.get("keys") else {
        return Err("the response is not a key set".into());
    };
    let keys: Vec<_> = all.iter().take(MAX_KEYS).filter_map(|key| usable(key, allowed)).collect();
    Ok(keys)
}

fn usable(key: &Value, allowed: &[Algorithm]) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(key.clone()).ok()?;
    let common = &jwk.common;
    let is_for_signatures = matches!(&common.public_key_use, None | Some(PublicKeyUse::Signature));
    let may_verify =
        common.key_operations.as_ref().is_none_or(|all| all.contains(&KeyOperations::Verify));
    let mut algorithms = possible(&jwk.algorithm);
    if let Some(pinned) = common.key_algorithm {
        algorithms.retain(|algorithm| same(*algorithm, pinned));
    }
    algorithms.retain(|algorithm| allowed.contains(algorithm));
    if !is_for_signatures || !may_verify || algorithms.is_empty() {
        return None;
    }
    let id = common.key_id.as_deref().map(Into::into);
    Some(Key { id, algorithms, key: DecodingKey::from_jwk(&jwk).ok()? })
}

/// Returns the algorithms that a key of this kind supports; none for symmetric keys.
fn possible(parameters: &AlgorithmParameters) -> Vec<Algorithm> {
    use Algorithm as A;
    match parameters {
        AlgorithmParameters::RSA(_) => {
            vec![A::RS256, A::RS384, A::RS512, A::PS256, A::PS384, A::PS512]
        }
        AlgorithmParameters::EllipticCurve(ec) if ec.curve == EllipticCurve::P256 => vec![A::ES256],
        AlgorithmParameters::EllipticCurve(ec) if ec.curve == EllipticCurve::P384 => vec![A::ES384],
        AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
            vec![A::EdDSA]
        }
        _ => Vec::new(),
    }
}

fn same(algorithm: Algorithm, pinned: KeyAlgorithm) -> bool {
    pinned.to_string().parse() == Ok(algorithm)
}

/// Returns the keys for a key id and an algorithm: up to [`MAX_SAME`] if the issuer uses the id
/// more than once. Without a key id, exactly one key must support the algorithm.
pub(crate) fn fitting<'a>(keys: &'a [Key], id: Option<&str>, algorithm: Algorithm) -> Vec<&'a Key> {
    let mut fitting = Vec::new();
    for key in keys {
        let named = id.is_none() || key.id.as_deref() == id;
        if named && key.algorithms.contains(&algorithm) && fitting.len() < MAX_SAME {
            fitting.push(key);
        }
    }
    if id.is_none() && fitting.len() > 1 { Vec::new() } else { fitting }
}

#[cfg(test)]
mod tests;
