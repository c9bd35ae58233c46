//! What a credential says of its holder. Nothing in it is self-declared, and nothing in it is a
//! secret.

use std::sync::Arc;

use lockgate_admission::CallerId;

/// The issuer of the user of this machine.
pub const LOCAL: &str = "local";
/// The issuer of API keys.
pub const KEY: &str = "key";
/// The issuer of callers without any credential, where they are let in.
pub const ANONYMOUS: &str = "anonymous";
/// The organisation of everybody whose credential names none.
pub const DEFAULT_ORGANISATION: &str = "default";

/// What a credential says of its holder. Lists are bounded where credentials are read.
#[derive(Debug)]
pub struct Identity {
    /// `local`, `key`, `anonymous`, the URL of a token's issuer, or `certificate:` and the name of
    /// an authority.
    pub issuer: Arc<str>,
    pub subject: Arc<str>,
    pub(crate) organisation: Option<Arc<str>>,
    /// Within which a subject is one caller: the issuer, and with it the organisation where that is
    /// not the default one.
    realm: Arc<str>,
    pub roles: Box<[Arc<str>]>,
    /// Those granted, and those that they imply.
    pub scopes: Box<[Arc<str>]>,
    /// The name of an API key, for people: it is in records and decides nothing.
    pub key_name: Option<Arc<str>>,
    /// The software that acts for the subject, as the credential names it (`azp`, `client_id`).
    pub agent: Option<Arc<str>>,
    id: CallerId,
}

impl Identity {
    /// An identity without organisation, roles, scopes and agent.
    #[must_use]
    pub fn new(issuer: &str, subject: &str) -> Self {
        let realm: Arc<str> = issuer.into();
        Self {
            issuer: Arc::clone(&realm),
            subject: subject.into(),
            organisation: None,
            id: CallerId::new(DEFAULT_ORGANISATION, find_key(&realm, subject)),
            realm,
            roles: Box::default(),
            scopes: Box::default(),
            agent: None,
            key_name: None,
        }
    }

    /// The same subject as a member of an organisation, as its credential says. A subject of
    /// several organisations is another caller in each.
    #[must_use]
    pub fn in_organisation(mut self, organisation: Option<&str>) -> Self {
        self.organisation = organisation.map(Into::into);
        self.realm = match organisation {
            None | Some(DEFAULT_ORGANISATION) => Arc::clone(&self.issuer),
            Some(organisation) => format!("{}\0{organisation}", self.issuer).into(),
        };
        let key = find_key(&self.realm, &self.subject);
        self.id = CallerId::new(self.organisation(), key);
        self
    }

    /// See [`crate::Principal::acting_in`].
    pub(crate) fn acting_in(&self, organisation: &str) -> Self {
        let mut other = Self::new(&self.issuer, &self.subject).in_organisation(Some(organisation));
        other.roles = self.roles.clone();
        other.scopes = self.scopes.clone();
        other.key_name.clone_from(&self.key_name);
        other.agent.clone_from(&self.agent);
        other
    }

    /// The organisation that the credential names, if it does.
    #[must_use]
    pub fn named_organisation(&self) -> Option<&str> {
        self.organisation.as_deref()
    }

    /// The organisation that the caller belongs to: everybody has one.
    #[must_use]
    pub fn organisation(&self) -> &str {
        self.named_organisation().unwrap_or(DEFAULT_ORGANISATION)
    }

    /// Within which the subject is one caller: what is kept for a caller is bound to the realm and
    /// the subject.
    #[must_use]
    pub fn realm(&self) -> &str {
        &self.realm
    }

    /// A number for realm and subject, the same in every process: for tables. A limit that several
    /// organisations share wants [`Identity::caller_id`].
    #[must_use]
    pub fn key(&self) -> u64 {
        self.id.principal()
    }

    /// As whom the holder takes turns.
    #[must_use]
    pub fn caller_id(&self) -> CallerId {
        self.id
    }

    /// Whether a scope was granted, by itself or by one that implies it. The user of this machine
    /// has every scope.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        &*self.issuer == LOCAL || self.scopes.iter().any(|granted| **granted == *scope)
    }
}

/// Texts as an identity holds them.
pub(crate) fn share(texts: &[impl AsRef<str>]) -> Box<[Arc<str>]> {
    let mut shared = Vec::with_capacity(texts.len());
    for text in texts {
        shared.push(text.as_ref().into());
    }
    shared.into()
}

fn find_key(realm: &str, subject: &str) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher
        .update(&(realm.len() as u64).to_le_bytes())
        .update(realm.as_bytes())
        .update(subject.as_bytes());
    let hash = hasher.finalize();
    match hash.as_bytes().first_chunk() {
        Some(first) => u64::from_le_bytes(*first),
        None => 0,
    }
}
