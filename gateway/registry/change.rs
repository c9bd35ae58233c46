//! The frame of every change: a transaction with its idempotency key, then what it was is kept,
//! committed and published, or taken back where it was only tried.

use lockgate_store::{Change, Owner, Reservation, StoreError, Vault};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::actor::{Actor, ChangeOptions, Changed, PrincipalKey};
use crate::error::RegistryError;
use crate::field;
use crate::registry::Registry;

/// A change that may begin, or what it was when it was made already.
pub(crate) enum Begun<'a, T> {
    New(Pending<'a>),
    Replayed(Changed<T>),
}

/// A change under way.
pub(crate) struct Pending<'a> {
    pub(crate) change: Change<'a>,
    digest: String,
}

/// What a change asks for, made into a digest: parts that are told apart by their lengths.
pub(crate) struct Digest(Vec<u8>);

impl Digest {
    /// `operation` names the kind of change.
    pub(crate) fn new(operation: &str) -> Self {
        Self(Vec::new()).part(operation.as_bytes())
    }

    pub(crate) fn part(mut self, part: &[u8]) -> Self {
        self.0.extend_from_slice(&(part.len() as u64).to_be_bytes());
        self.0.extend_from_slice(part);
        self
    }

    pub(crate) fn text(self, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.part(b"given").part(text.as_bytes()),
            None => self.part(b"none"),
        }
    }

    pub(crate) fn secret(self, secret: Option<&lockgate_store::Secret>, vault: &Vault) -> Self {
        match secret {
            Some(secret) => self.part(b"given").part(&vault.digest(secret)),
            None => self.part(b"none"),
        }
    }
}

impl Registry {
    /// Begins a change of the actor's organisation.
    pub(crate) async fn begin<T: DeserializeOwned>(
        &self,
        actor: &Actor,
        options: &ChangeOptions,
        digest: Digest,
    ) -> Result<Begun<'_, T>, RegistryError> {
        if let Some(key) = &options.idempotency_key {
            field::idempotency_key(key)?;
        }
        let begun = self.store.begin(&actor.organisation).await;
        let mut change = begun.inspect_err(|error| self.note_failure(error))?;
        let version = options.expected_version.map(|version| version.to_string());
        let digest = lockgate_store::digest(&digest.text(version.as_deref()).0);
        let Some(key) = &options.idempotency_key else {
            return Ok(Begun::New(Pending { change, digest }));
        };
        let Some(kept) = change.find_outcome(owner(&actor.principal), key).await? else {
            return Ok(Begun::New(Pending { change, digest }));
        };
        change.roll_back().await?;
        if kept.digest != digest {
            return Err(RegistryError::IdempotencyKeyReused);
        }
        let outcome = serde_json::from_str::<Changed<T>>(&kept.outcome);
        let mut changed = outcome.map_err(|_| RegistryError::IdempotencyKeyReused)?;
        changed.is_replayed = true;
        Ok(Begun::Replayed(changed))
    }

    /// Makes it so and publishes it; takes it back where it was only tried.
    pub(crate) async fn finish<T: Serialize>(
        &self,
        mut pending: Pending<'_>,
        actor: &Actor,
        options: &ChangeOptions,
        mut changed: Changed<T>,
    ) -> Result<Changed<T>, RegistryError> {
        if options.dry_run {
            pending.change.roll_back().await?;
            changed.is_dry_run = true;
            return Ok(changed);
        }
        if let Some(key) = &options.idempotency_key {
            let outcome = serde_json::to_string(&changed).unwrap_or_default();
            let kept = Reservation { digest: pending.digest, outcome };
            pending.change.keep_outcome(owner(&actor.principal), key, &kept).await?;
        }
        let committed = pending.change.commit().await;
        committed.inspect_err(|error| self.note_failure(error))?;
        // Made it is; whoever cannot read it now learns it from the poll.
        let _ = self.refresh().await;
        Ok(changed)
    }

    /// Keeps why changes are refused, where it is not for this change alone.
    fn note_failure(&self, error: &StoreError) {
        if matches!(error, StoreError::Unavailable(_)) || error.is_lasting() {
            self.note_trouble(Some(error));
        }
    }
}

/// Refuses a change of what somebody else has changed since.
pub(crate) fn check_version(options: &ChangeOptions, current: i64) -> Result<(), RegistryError> {
    match options.expected_version {
        Some(expected) if expected != current => Err(RegistryError::VersionMismatch { current }),
        _ => Ok(()),
    }
}

pub(crate) fn owner(principal: &PrincipalKey) -> Owner<'_> {
    Owner { issuer: &principal.issuer, subject: &principal.subject }
}

/// A new id: nobody can guess one.
pub(crate) fn new_id(prefix: &str) -> Result<String, RegistryError> {
    let mut random = [0; 16];
    let filled = getrandom::fill(&mut random);
    filled.map_err(|_| {
        RegistryError::StoreUnavailable(StoreError::Unavailable("no random bytes".into()))
    })?;
    Ok(format!("{prefix}{}", lockgate_text::hex::encode(&random)))
}
