//! The identity that a credential proves. Nothing in it is self-declared. Nothing in it is secret,
//! except for an access token that servers require in exchange.

use std::sync::Arc;

use lockgate_admission::CallerId;

/// The issuer of the user of this machine.
pub const LOCAL: &str = "local";
/// The issuer of API keys.
pub const KEY: &str = "key";
/// The issuer of callers without credentials, where these are accepted.
pub const ANONYMOUS: &str = "anonymous";
/// The beginning of the ids of agents. An API key with such an agent opens that agent's endpoint
/// and nothing else, also once the agent is deleted.
const AGENT_ID: &str = "agt_";
/// The organisation of callers if their credential names none.
pub const DEFAULT_ORGANISATION: &str = "default";

/// The holder of a credential. Lists are bounded where credentials are read.
#[derive(Debug)]
pub struct Identity {
    /// `local`, `key`, `anonymous`, the URL of a token's issuer, or `certificate:` and the name of
    /// an authority.
    pub issuer: Arc<str>,
    pub subject: Arc<str>,
    pub(crate) organisation: Option<Arc<str>>,
    /// The namespace in which a subject is unique: the issuer, and the organisation unless it is
    /// the default.
    realm: Arc<str>,
    pub roles: Box<[Arc<str>]>,
    /// Granted scopes and the scopes that they imply.
    pub scopes: Box<[Arc<str>]>,
    /// The name of an API key, for display in records. It is never used for a decision.
    pub key_name: Option<Arc<str>>,
    /// The software that acts for the subject, according to the credential (`azp`, `client_id`).
    pub agent: Option<Arc<str>>,
    id: CallerId,
    /// The access token, where servers require its exchange.
    pub(crate) token: Option<AccessToken>,
}

/// A verified access token, kept for its exchange.
#[derive(Clone)]
pub struct AccessToken {
    pub text: Arc<str>,
    /// Identifies the token.
    pub digest: [u8; 32],
    /// Unix seconds.
    pub expires: u64,
}

// Shows no token.
lockgate_text::debug_fields!(AccessToken: expires);

impl Identity {
    /// Creates an identity without organisation, roles, scopes or agent.
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
            token: None,
        }
    }

    /// Sets the organisation that the credential names. The same subject in another organisation is
    /// a different caller.
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

    pub(crate) fn acting_in(&self, organisation: &str) -> Self {
        let mut other = Self::new(&self.issuer, &self.subject).in_organisation(Some(organisation));
        other.roles = self.roles.clone();
        other.scopes = self.scopes.clone();
        other.key_name.clone_from(&self.key_name);
        other.agent.clone_from(&self.agent);
        other
    }

    /// Returns the caller's access token, if servers require its exchange.
    pub fn access_token(&self) -> Option<&AccessToken> {
        self.token.as_ref()
    }

    pub fn named_organisation(&self) -> Option<&str> {
        self.organisation.as_deref()
    }

    /// Returns the caller's organisation, which is the default if the credential names none.
    pub fn organisation(&self) -> &str {
        self.named_organisation().unwrap_or(DEFAULT_ORGANISATION)
    }

    /// Returns the namespace in which the subject is unique. State of a caller is keyed by realm
    /// and subject.
    pub fn realm(&self) -> &str {
        &self.realm
    }

    /// Returns a hash of realm and subject for use in tables, the same in every process. A limit
    /// that several organisations share uses [`Identity::caller_id`].
    pub fn key(&self) -> u64 {
        self.id.principal()
    }

    /// Returns the identity used for fair queueing.
    pub fn caller_id(&self) -> CallerId {
        self.id
    }

    /// Returns the agent whose endpoint is the only thing that the credential opens, if it is an
    /// API key that was created for an agent.
    pub fn only_agent(&self) -> Option<&str> {
        let agent = self.agent.as_deref()?;
        if *self.issuer == *KEY && agent.starts_with(AGENT_ID) { Some(agent) } else { None }
    }

    /// Returns whether a scope was granted or implied. The user of this machine has every scope.
    pub fn has_scope(&self, scope: &str) -> bool {
        &*self.issuer == LOCAL || self.scopes.iter().any(|granted| **granted == *scope)
    }
}

pub(crate) fn share(texts: &[impl AsRef<str>]) -> Box<[Arc<str>]> {
    let shared: Vec<_> = texts.iter().map(|text| text.as_ref().into()).collect();
    shared.into()
}

fn find_key(realm: &str, subject: &str) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher
        .update(&(realm.len() as u64).to_le_bytes())
        .update(realm.as_bytes())
        .update(subject.as_bytes());
    let hash = hasher.finalize();
    hash.as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}
