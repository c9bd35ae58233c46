//! What a credential says of its holder. Nothing in it is self-declared, and nothing in it is a
//! secret.

use std::sync::Arc;

/// The issuer of the user of this machine.
pub const LOCAL: &str = "local";
/// The issuer of API keys.
pub const KEY: &str = "key";
/// The issuer of callers without any credential, where they are let in.
pub const ANONYMOUS: &str = "anonymous";

/// What a credential says of its holder. Lists are bounded where credentials are read.
#[derive(Debug)]
pub struct Identity {
    /// `local`, `key`, `anonymous`, the URL of a token's issuer, or `certificate:` and the name of
    /// an authority.
    pub issuer: Arc<str>,
    pub subject: Arc<str>,
    pub organisation: Option<Arc<str>>,
    pub roles: Box<[Arc<str>]>,
    /// Those granted, and those that they imply.
    pub scopes: Box<[Arc<str>]>,
    /// The software that acts for the subject, as the credential names it (`azp`, `client_id`).
    pub agent: Option<Arc<str>>,
    /// Stands for issuer and subject in limits and tables.
    key: u64,
}

impl Identity {
    /// An identity without organisation, roles, scopes and agent.
    #[must_use]
    pub fn new(issuer: &str, subject: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(&(issuer.len() as u64).to_le_bytes())
            .update(issuer.as_bytes())
            .update(subject.as_bytes());
        let key = hasher
            .finalize()
            .as_bytes()
            .first_chunk::<8>()
            .map_or(0, |first| u64::from_le_bytes(*first));
        Self {
            issuer: issuer.into(),
            subject: subject.into(),
            organisation: None,
            roles: Box::default(),
            scopes: Box::default(),
            agent: None,
            key,
        }
    }

    /// A number for issuer and subject, the same in every process: for limits and tables.
    #[must_use]
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Whether a scope was granted, by itself or by one that implies it. The user of this machine
    /// has every scope.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        &*self.issuer == LOCAL || self.scopes.iter().any(|granted| **granted == *scope)
    }
}
