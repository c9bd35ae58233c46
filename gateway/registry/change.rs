//! The frame of every change: a transaction with its idempotency key, then what it was is kept,
//! committed and published, or taken back where it was only tried.

use std::time::Duration;

use lockgate_admission::{CallerId, Permit};
use lockgate_store::{Change, IntegrationRecord, Owner, Reservation, StoreError, Vault};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::actor::{Actor, ChangeOptions, Changed, PrincipalKey, Role};
use crate::error::RegistryError;
use crate::field;
use crate::registry::Registry;

/// How long a change waits for its turn.
const TURN: Duration = Duration::from_secs(8);
/// Bytes of what is kept for an idempotency key.
const MAX_OUTCOME: usize = 64 << 10;

/// A change that may begin, or what it was when it was made already.
pub(crate) enum Begun<'a, T> {
    New(Pending<'a>),
    Replayed(Changed<T>),
}

/// A change under way.
pub(crate) struct Pending<'a> {
    pub(crate) change: Change<'a>,
    digest: String,
    /// Until it is made.
    _turn: Permit,
}

/// What has to be there for a change.
pub(crate) enum Wanted<'a> {
    Nothing,
    Agent(&'a str),
    Integration(&'a str),
    Both { agent: &'a str, integration: &'a str },
}

/// What a change asks for, made into a digest: parts that are told apart by their lengths. With a
/// secret there is one for each key of the ring, that of the first before the others, so that a
/// change is known again after the ring has got a new key.
pub(crate) struct Digest(Vec<Vec<u8>>);

impl Digest {
    /// `operation` names the kind of change.
    pub(crate) fn new(operation: &str) -> Self {
        Self(vec![Vec::new()]).part(operation.as_bytes())
    }

    pub(crate) fn part(mut self, part: &[u8]) -> Self {
        for parts in &mut self.0 {
            append(parts, part);
        }
        self
    }

    pub(crate) fn text(self, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.part(b"given").part(text.as_bytes()),
            None => self.part(b"none"),
        }
    }

    pub(crate) fn secret(self, secret: Option<&lockgate_store::Secret>, vault: &Vault) -> Self {
        let Some(secret) = secret else { return self.part(b"none") };
        let mut all = Vec::new();
        for parts in self.part(b"given").0 {
            for digest in vault.digests(secret) {
                let mut parts = parts.clone();
                append(&mut parts, &digest);
                all.push(parts);
            }
        }
        Self(all)
    }

    fn finish(self) -> Vec<String> {
        let mut digests = Vec::with_capacity(self.0.len());
        for parts in &self.0 {
            digests.push(lockgate_store::digest(parts));
        }
        digests
    }
}

fn append(parts: &mut Vec<u8>, part: &[u8]) {
    parts.extend_from_slice(&(part.len() as u64).to_be_bytes());
    parts.extend_from_slice(part);
}

impl Registry {
    /// Begins a change of the actor's organisation.
    pub(crate) async fn begin<T: DeserializeOwned>(
        &self,
        actor: &Actor,
        options: &ChangeOptions,
        digest: Digest,
        wanted: Wanted<'_>,
    ) -> Result<Begun<'_, T>, RegistryError> {
        wanted.check_ids()?;
        if let Some(key) = &options.idempotency_key {
            field::idempotency_key(key)?;
        }
        let turn = self.take_turn(&actor.organisation).await?;
        // An answer that is kept may be of what is gone since.
        if options.idempotency_key.is_none() {
            self.refuse_unknown(actor, options, &wanted).await?;
        }
        let mut change = self.noting(self.store.begin(&actor.organisation).await)?;
        let version = options.expected_version.map(|version| version.to_string());
        let digests = digest.text(version.as_deref()).finish();
        let digest = digests.first().cloned().unwrap_or_default();
        let Some(key) = &options.idempotency_key else {
            return Ok(Begun::New(Pending { change, digest, _turn: turn }));
        };
        let Some(kept) = change.find_outcome(owner(&actor.principal), key).await? else {
            return Ok(Begun::New(Pending { change, digest, _turn: turn }));
        };
        change.roll_back().await?;
        if !digests.contains(&kept.digest) {
            return Err(RegistryError::IdempotencyKeyReused);
        }
        let Ok(mut changed) = serde_json::from_str::<Changed<T>>(&kept.outcome) else {
            return Err(RegistryError::IdempotencyKeyReused);
        };
        changed.is_replayed = true;
        changed.is_dry_run = options.dry_run;
        Ok(Begun::Replayed(changed))
    }

    /// Waits for the organisation's turn, so that one with many changes does not hold up others.
    async fn take_turn(&self, organisation: &str) -> Result<Permit, RegistryError> {
        let turn = self.turns.acquire(CallerId::of_organisation(organisation));
        match tokio::time::timeout(TURN, turn).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(StoreError::Busy("too many changes wait").into()),
        }
    }

    /// Refuses what cannot be before all others wait for it. What another gateway made just now is
    /// looked for; whether it is so is decided within the change.
    async fn refuse_unknown(
        &self,
        actor: &Actor,
        options: &ChangeOptions,
        wanted: &Wanted<'_>,
    ) -> Result<(), RegistryError> {
        if self.check_known(actor, options, wanted).is_ok() || self.refresh().await.is_err() {
            return Ok(());
        }
        self.check_known(actor, options, wanted)
    }

    fn check_known(
        &self,
        actor: &Actor,
        options: &ChangeOptions,
        wanted: &Wanted<'_>,
    ) -> Result<(), RegistryError> {
        let version = match wanted {
            Wanted::Nothing => return Ok(()),
            Wanted::Agent(id) => self.agent(actor, id)?.version,
            Wanted::Integration(id) => self.integration(actor, id)?.version,
            Wanted::Both { agent, integration } => {
                self.agent(actor, agent)?;
                // Operators hear of those of other organisations, which are not known here.
                if actor.role != Role::Operator {
                    self.integration(actor, integration)?;
                }
                return Ok(());
            }
        };
        match options.expected_version {
            // A greater one may be known elsewhere already.
            Some(expected) if expected < version => {
                Err(RegistryError::VersionMismatch { current: version })
            }
            _ => Ok(()),
        }
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
            if outcome.len() > MAX_OUTCOME {
                pending.change.roll_back().await?;
                return Err(RegistryError::OutcomeTooLarge { most: MAX_OUTCOME });
            }
            let kept = Reservation { digest: pending.digest, outcome };
            let keeping = pending.change.keep_outcome(owner(&actor.principal), key, &kept).await;
            self.noting(keeping)?;
        }
        self.noting(pending.change.commit().await)?;
        self.note_written();
        // Made it is; whoever cannot read it now learns it from the poll.
        let _ = self.refresh().await;
        Ok(changed)
    }
}

/// An integration of the actor's organisation.
pub(crate) async fn find_integration(
    change: &mut Change<'_>,
    id: &str,
) -> Result<IntegrationRecord, RegistryError> {
    match change.find_integration(id).await? {
        Some(record) => Ok(record),
        None => Err(RegistryError::IntegrationNotFound),
    }
}

impl Wanted<'_> {
    /// Refuses what is no id at all.
    fn check_ids(&self) -> Result<(), RegistryError> {
        match self {
            Wanted::Nothing => Ok(()),
            Wanted::Agent(id) => check_agent_id(id),
            Wanted::Integration(id) => check_integration_id(id),
            Wanted::Both { agent, integration } => {
                check_agent_id(agent)?;
                check_integration_id(integration)
            }
        }
    }
}

fn check_agent_id(id: &str) -> Result<(), RegistryError> {
    if is_id(id, "agt_") { Ok(()) } else { Err(RegistryError::AgentNotFound) }
}

fn check_integration_id(id: &str) -> Result<(), RegistryError> {
    if is_id(id, "int_") { Ok(()) } else { Err(RegistryError::IntegrationNotFound) }
}

/// Whether an id is one that [`new_id`] makes.
fn is_id(id: &str, prefix: &str) -> bool {
    let digits = id.strip_prefix(prefix).unwrap_or("");
    digits.len() == 32 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
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
    if getrandom::fill(&mut random).is_err() {
        let why = StoreError::Unavailable("no random bytes".into());
        return Err(RegistryError::StoreUnavailable(why));
    }
    Ok(format!("{prefix}{}", lockgate_text::hex::encode(&random)))
}
