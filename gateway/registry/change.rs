//! The frame of every change: a transaction with its idempotency key. At the end the outcome is
//! stored, committed and published; a dry run is rolled back.

use std::fmt;
use std::time::{Duration, Instant};

use lockgate_admission::{CallerId, Permit, Role};
use lockgate_store::{Change, IntegrationRecord, Reservation, Secret, StoreError, Vault};
use lockgate_text::{hex, json};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::actor::{Actor, ChangeOptions, Changed};
use crate::error::{RegistryError, Result};
use crate::field;
use crate::registry::Registry;

/// How long a change waits for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(8);
/// A change that has waited longer for its turn is refused at once if the store is unavailable.
const SHORT_WAIT: Duration = Duration::from_millis(500);
/// Timeout of beginning a change in the store.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum size in bytes of an outcome stored for an idempotency key.
const MAX_OUTCOME: usize = 64 << 10;

/// A change that may begin, or the stored outcome of an earlier change with the same key.
pub(crate) enum Begun<'a, T> {
    New(Pending<'a>),
    Replayed(Changed<T>),
}

pub(crate) struct Pending<'a> {
    pub(crate) change: Change<'a>,
    digest: String,
    /// Held until the change is committed.
    turn: Permit,
}

/// Begins a change and returns it, or returns the stored outcome of an earlier change from the
/// calling function.
macro_rules! begin {
    ($registry:ident, $actor:expr, $options:expr, $digest:expr, $wanted:expr) => {
        match $registry.begin($actor, $options, $digest, $wanted).await? {
            $crate::change::Begun::Replayed(changed) => return Ok(changed),
            $crate::change::Begun::New(pending) => pending,
        }
    };
}

pub(crate) use begin;

/// The ids of the agent and of the integration that a change requires.
pub(crate) type RequiredRecords<'a> = (Option<&'a str>, Option<&'a str>);

/// Digest of a change's parameters. Secrets yield a digest per key of the ring, the first key's
/// before the others, so that a repeated change is still recognised after a key was added to the
/// ring.
pub(crate) struct Digest(Vec<Vec<u8>>);

impl Digest {
    /// Starts the digest of a change. `Debug` omits the secrets among the parameters.
    pub(crate) fn new(operation: &str, parameters: &impl fmt::Debug) -> Self {
        Self(vec![format!("{operation} {parameters:?}").into_bytes()])
    }

    /// Adds the secrets of a change.
    pub(crate) fn secrets<'s>(
        mut self,
        secrets: impl IntoIterator<Item = &'s Secret>,
        vault: &Vault,
    ) -> Self {
        for secret in secrets {
            let digests = vault.digests(secret);
            if let [parameters] = &*self.0 {
                self.0 = vec![parameters.clone(); digests.len()];
            }
            for (text, digest) in self.0.iter_mut().zip(digests) {
                text.extend(digest);
            }
        }
        self
    }

    fn finish(self, expected_version: Option<i64>) -> Vec<String> {
        let finished = self.0.into_iter().map(|mut text| {
            text.extend_from_slice(format!("{expected_version:?}").as_bytes());
            lockgate_store::digest(&text)
        });
        finished.collect()
    }
}

impl Registry {
    pub(crate) async fn begin<T: DeserializeOwned>(
        &self,
        actor: &Actor,
        options: &ChangeOptions,
        digest: Digest,
        wanted: RequiredRecords<'_>,
    ) -> Result<Begun<'_, T>> {
        check_ids(wanted)?;
        if let Some(key) = &options.idempotency_key {
            field::idempotency_key(key)?;
        }
        let turn = self.take_turn(&actor.organisation).await?;
        let beginning = self.begin_in_store(actor, options, wanted);
        let mut change = match tokio::time::timeout(BEGIN_TIMEOUT, beginning).await {
            Ok(begun) => begun?,
            Err(_) => {
                let error = StoreError::no_answer();
                self.note_failure(&error);
                return Err(error.into());
            }
        };
        let digests = digest.finish(options.expected_version);
        let digest = digests.first().cloned().unwrap_or_default();
        let Some(key) = &options.idempotency_key else {
            return Ok(Begun::New(Pending { change, digest, turn }));
        };
        let Some(kept) = change.find_outcome(&actor.principal, key).await? else {
            return Ok(Begun::New(Pending { change, digest, turn }));
        };
        change.roll_back().await?;
        if !digests.contains(&kept.digest) {
            return Err(RegistryError::IdempotencyKeyReused);
        }
        let Ok(mut changed) = json::from_str::<Changed<T>>(&kept.outcome) else {
            return Err(RegistryError::IdempotencyKeyReused);
        };
        changed.is_replayed = true;
        changed.is_dry_run = options.dry_run;
        Ok(Begun::Replayed(changed))
    }

    /// Begins a transaction, unless the change is impossible.
    async fn begin_in_store(
        &self,
        actor: &Actor,
        options: &ChangeOptions,
        wanted: RequiredRecords<'_>,
    ) -> Result<Change<'_>> {
        // A stored outcome may concern a record that has been deleted since.
        if options.idempotency_key.is_none() {
            self.refuse_unknown(actor, options, wanted).await?;
        }
        Ok(self.noting(self.store.begin(&actor.organisation).await)?)
    }

    /// Waits for the organisation's turn. Turns keep one organisation's changes from delaying
    /// others.
    async fn take_turn(&self, organisation: &str) -> Result<Permit> {
        let began = Instant::now();
        let turn = self.turns.acquire(CallerId::of_organisation(organisation));
        let Ok(Ok(permit)) = tokio::time::timeout(TURN_TIMEOUT, turn).await else {
            return Err(StoreError::Busy("too many changes are waiting").into());
        };
        // Earlier changes have already found the store unavailable.
        if began.elapsed() > SHORT_WAIT && self.is_away() {
            return Err(StoreError::no_answer().into());
        }
        Ok(permit)
    }

    /// Rejects an impossible change before it waits for the store's lock. Refreshes first, in case
    /// another gateway has just created the record; the check within the change is authoritative.
    async fn refuse_unknown(
        &self,
        actor: &Actor,
        options: &ChangeOptions,
        wanted: RequiredRecords<'_>,
    ) -> Result<()> {
        if self.check_known(actor, options, wanted).is_ok() || self.refresh().await.is_err() {
            return Ok(());
        }
        self.check_known(actor, options, wanted)
    }

    fn check_known(
        &self,
        actor: &Actor,
        options: &ChangeOptions,
        wanted: RequiredRecords<'_>,
    ) -> Result<()> {
        let version = match wanted {
            (None, None) => return Ok(()),
            (Some(id), None) => self.agent(actor, id)?.version,
            (None, Some(id)) => self.integration(actor, id)?.version,
            (Some(agent), Some(integration)) => {
                self.agent(actor, agent)?;
                // The integration may be another organisation's, for which operators get their own
                // error.
                if actor.role != Role::Operator {
                    self.integration(actor, integration)?;
                }
                return Ok(());
            }
        };
        match options.expected_version {
            // Another gateway may have made a newer version already.
            Some(expected) if expected < version => {
                Err(RegistryError::VersionMismatch { current: version })
            }
            _ => Ok(()),
        }
    }

    /// Commits and publishes the change; rolls back a dry run.
    pub(crate) async fn finish<T: Serialize>(
        &self,
        mut pending: Pending<'_>,
        actor: &Actor,
        options: &ChangeOptions,
        mut changed: Changed<T>,
    ) -> Result<Changed<T>> {
        if options.dry_run {
            pending.change.roll_back().await?;
            changed.is_dry_run = true;
            return Ok(changed);
        }
        if let Some(key) = &options.idempotency_key {
            let outcome = serde_json::to_string(&changed).unwrap_or_default();
            if outcome.len() > MAX_OUTCOME {
                pending.change.roll_back().await?;
                return Err(RegistryError::OutcomeTooLarge { most: MAX_OUTCOME });
            }
            let kept = Reservation { digest: pending.digest, outcome };
            let keeping = pending.change.keep_outcome(&actor.principal, key, &kept).await;
            self.noting(keeping)?;
        }
        let Pending { change, turn, .. } = pending;
        self.noting(change.commit().await)?;
        // The next change begins while this one is read.
        drop(turn);
        self.note_written();
        // The change is committed. If this read fails, the next poll loads it.
        let _ = self.refresh().await;
        Ok(changed)
    }
}

pub(crate) async fn find_integration(
    change: &mut Change<'_>,
    id: &str,
) -> Result<IntegrationRecord> {
    change.find_integration(id).await?.ok_or(RegistryError::IntegrationNotFound)
}

fn check_ids((agent, integration): RequiredRecords<'_>) -> Result<()> {
    if agent.is_some_and(|id| !is_id(id, "agt_")) {
        return Err(RegistryError::AgentNotFound);
    }
    if integration.is_some_and(|id| !is_id(id, "int_")) {
        return Err(RegistryError::IntegrationNotFound);
    }
    Ok(())
}

/// Returns whether an id has the form that [`new_id`] generates.
fn is_id(id: &str, prefix: &str) -> bool {
    let digits = id.strip_prefix(prefix).unwrap_or("");
    digits.len() == 32 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Rejects a change if the record has been changed since the caller read it.
pub(crate) fn check_version(options: &ChangeOptions, current: i64) -> Result<()> {
    match options.expected_version {
        Some(expected) if expected != current => Err(RegistryError::VersionMismatch { current }),
        _ => Ok(()),
    }
}

/// Returns a new random id that cannot be guessed.
pub(crate) fn new_id(prefix: &str) -> Result<String> {
    let random = hex::random::<16>().ok_or_else(|| {
        RegistryError::StoreUnavailable(StoreError::Unavailable("no random bytes".into()))
    });
    Ok(format!("{prefix}{}", random?))
}
