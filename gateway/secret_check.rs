//! Detects gateways that share a store but not a `secret`, so that they cannot open each other's
//! tokens. The latest one is not ready, the earlier ones stay ready. Only fingerprints are
//! compared.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockgate_config::Config;
use lockgate_protocol::sealed::fingerprint;
use lockgate_registry::Registry;
use lockgate_store::{GatewayMark, Store};
use lockgate_text::hex;
use parking_lot::Mutex;

/// Interval between comparisons.
const INTERVAL: Duration = Duration::from_secs(5);
/// Interval while the secrets differ or the comparison fails.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of a comparison, and of the removal of the mark.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Random bytes of a gateway's id.
const ID_BYTES: usize = 16;

/// Compares this gateway's secret with those of the other gateways of its store.
pub(crate) struct SecretCheck {
    id: String,
    /// The shared store; `None` if not configured.
    store: Option<Arc<Store>>,
    /// Fingerprints of the secrets that open tokens, starting with the sealing one.
    ring: Mutex<Vec<String>>,
    verdict: Mutex<Verdict>,
    is_marked: AtomicBool,
}

/// Whether the gateways of a store can open each other's tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Verdict {
    #[default]
    Agrees,
    /// An earlier gateway seals with a secret that this one lacks.
    DiffersFromEarlier,
    /// A later gateway seals with a secret that this one lacks.
    DiffersFromLater,
}

impl SecretCheck {
    pub(crate) fn new(config: &Config, registry: Option<&Arc<Registry>>) -> Self {
        Self {
            // Without an id, the check is off.
            id: hex::random::<ID_BYTES>().unwrap_or_default(),
            store: registry.map(|registry| registry.storage().0),
            ring: Mutex::new(fingerprints(config)),
            verdict: Mutex::default(),
            is_marked: AtomicBool::new(false),
        }
    }

    /// Applies the secrets of a new configuration.
    pub(crate) fn adopt(&self, config: &Config) {
        *self.ring.lock() = fingerprints(config);
    }

    /// Returns whether this gateway must not receive requests, because it cannot open the tokens of
    /// earlier gateways.
    pub(crate) fn is_different(&self) -> bool {
        *self.verdict.lock() == Verdict::DiffersFromEarlier
    }

    /// Compares this gateway's secrets with those of the others. Returns whether they agree;
    /// `false` if the comparison failed.
    pub(crate) async fn look(&self) -> bool {
        let Some(store) = &self.store else { return true };
        let ring = self.ring.lock().clone();
        let Some(own) = ring.first() else { return true };
        if self.id.is_empty() {
            return true;
        }
        let own = GatewayMark { id: self.id.clone(), fingerprint: own.clone() };
        let Ok(renewed) = tokio::time::timeout(TIMEOUT, store.renew_gateway(&own)).await else {
            return false;
        };
        match renewed {
            Ok(marks) => {
                self.is_marked.store(true, Ordering::Relaxed);
                let verdict = compare(&self.id, &ring, &marks);
                self.set_verdict(verdict);
                verdict == Verdict::Agrees
            }
            Err(error) => {
                tracing::debug!(%error, "the secrets of other gateways cannot be compared");
                false
            }
        }
    }

    /// Repeats the comparison. Never returns.
    pub(crate) async fn watch(&self) {
        let mut agrees = true;
        loop {
            tokio::time::sleep(if agrees { INTERVAL } else { RETRY_INTERVAL }).await;
            agrees = self.look().await;
        }
    }

    /// Removes this gateway's mark, so that gateways with another secret can start at once.
    pub(crate) async fn leave(&self) {
        let Some(store) = &self.store else { return };
        if !self.is_marked.load(Ordering::Relaxed) {
            return;
        }
        // If this fails, the mark expires after 30 s.
        let _ = tokio::time::timeout(TIMEOUT, store.forget_gateway(&self.id)).await;
    }

    fn set_verdict(&self, now: Verdict) {
        let before = std::mem::replace(&mut *self.verdict.lock(), now);
        if before == now {
            return;
        }
        match now {
            Verdict::Agrees => tracing::info!("all gateways of the store have the same secret"),
            Verdict::DiffersFromEarlier => tracing::error!(
                "not ready: another gateway of this store uses a `secret` that this one does not \
                 have, so sessions, cursors and answers of its clients would fail here. Set the \
                 same `secret`, or add the other one to `old_secrets`"
            ),
            Verdict::DiffersFromLater => tracing::error!(
                "a gateway that was started later on this store uses a `secret` that this one \
                 does not have, so its clients would fail here. Set the same `secret` there, or \
                 add that one to `old_secrets` here"
            ),
        }
    }
}

/// Returns the fingerprints of the secrets in a configuration.
fn fingerprints(config: &Config) -> Vec<String> {
    let secrets = config.proxy.secret.iter().chain(&config.proxy.old_secrets);
    secrets.filter_map(|secret| fingerprint(secret.as_bytes()).ok()).collect()
}

/// Compares the ring of a gateway with the marks of all gateways, which start with the earliest.
fn compare(id: &str, ring: &[String], marks: &[GatewayMark]) -> Verdict {
    let mut verdict = Verdict::Agrees;
    let mut is_earlier = true;
    for mark in marks {
        if mark.id == id {
            is_earlier = false;
        } else if !ring.contains(&mark.fingerprint) {
            if is_earlier {
                return Verdict::DiffersFromEarlier;
            }
            verdict = Verdict::DiffersFromLater;
        }
    }
    verdict
}

#[cfg(test)]
mod tests;
