//! The compiled configuration of the request path. Each request uses a single snapshot until its
//! end; a reload replaces the snapshot as a whole.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use lockgate_authn::{Authenticator, Principal, Signer};
use lockgate_policy::{Limiter, Policy};
use lockgate_protocol::name::Naming;
use lockgate_protocol::sealed::{Sealer, SecretError};
use lockgate_search::Synonyms;
use lockgate_upstream::IdentityAssertion;

use crate::Config;
use crate::embeddings::{Embedder, Embeddings};
use crate::rights::CallerRights;
use crate::transport::Endpoint;

/// The configuration of the request path.
pub struct Rules {
    pub config: Config,
    pub authn: Arc<Authenticator>,
    pub policy: lockgate_policy::Config,
    /// The limiter for the policies' rates; shared across reloads.
    pub limiter: Arc<dyn Limiter>,
    /// Signs identity assertions for servers that require them; shared across reloads.
    pub signer: Option<Arc<Signer>>,
    /// Makes vectors, if `tool_search.embeddings` is configured.
    pub embedder: Option<Arc<dyn Embedder>>,
}

/// A configuration error.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    #[error("policy: {0}")]
    Policy(String),
    #[error("secret: {0}")]
    Secret(#[from] SecretError),
}

/// The compiled configuration of the request path.
pub struct Snapshot {
    pub config: Config,
    pub authenticator: Arc<Authenticator>,
    pub policy: Arc<Policy>,
    pub(crate) limiter: Arc<dyn Limiter>,
    pub(crate) signer: Option<Arc<Signer>>,
    pub(crate) naming: Naming,
    pub(crate) synonyms: Synonyms,
    pub(crate) embeddings: Option<Arc<Embeddings>>,
    pub sealer: Arc<Sealer>,
    /// JSON text of our `Implementation`.
    pub info: Arc<[u8]>,
}

impl Snapshot {
    /// Compiles a snapshot. `old` is the replaced snapshot: sealed tokens stay valid across a
    /// reload.
    pub(crate) fn new(rules: Rules, old: Option<&Self>) -> Result<Self, RulesError> {
        let Rules { config, authn, policy, limiter, signer, embedder } = rules;
        let embeddings = embedder.map(|embedder| keep_embeddings(embedder, &config, old));
        let sealer = match (&config.secret, old) {
            (Some(secret), _) => {
                let ring = std::iter::once(secret).chain(&config.old_secrets);
                Arc::new(Sealer::with_ring(ring.map(String::as_bytes))?)
            }
            // Without a configured secret, the sealer lives as long as the process.
            (None, Some(old)) if old.config.secret.is_none() => Arc::clone(&old.sealer),
            (None, _) => Arc::new(Sealer::random()?),
        };
        let mut info =
            serde_json::json!({"name": config.name, "version": env!("CARGO_PKG_VERSION")});
        if let Some(title) = &config.title {
            info["title"] = title.as_str().into();
        }
        let synonyms = config.tool_search.synonyms.iter();
        let synonyms = synonyms.map(|(word, meanings)| (word.as_str(), meanings.as_slice()));
        Ok(Self {
            authenticator: authn,
            limiter,
            signer,
            policy: Arc::new(compile(&policy)?),
            naming: Naming {
                separator: config.names.separator,
                max_length: config.names.max_length,
            },
            synonyms: Synonyms::new(synonyms),
            embeddings,
            sealer,
            info: info.to_string().into_bytes().into(),
            config,
        })
    }
}

/// Returns the vectors of the replaced snapshot if their server is the same.
fn keep_embeddings(
    embedder: Arc<dyn Embedder>,
    config: &Config,
    old: Option<&Snapshot>,
) -> Arc<Embeddings> {
    let server = &config.tool_search.embeddings;
    let kept = old.filter(|old| old.config.tool_search.embeddings == *server);
    match kept.and_then(|old| old.embeddings.as_ref()) {
        Some(known) => Arc::clone(known),
        None => Embeddings::new(embedder, server.as_ref().map_or(Duration::ZERO, |s| s.timeout)),
    }
}

fn compile(policy: &lockgate_policy::Config) -> Result<Policy, RulesError> {
    Policy::compile(policy).map_err(|mistakes| {
        let first = mistakes.first();
        let words = first.map(|mistake| format!("{} {}", mistake.path.join("."), mistake.what));
        RulesError::Policy(words.unwrap_or_default())
    })
}

// Identity assertions for servers that require them: for a caller, according to its request's
// credential, or for the gateway itself when it sends its own requests. They are signed with the
// current keys, which may rotate.

/// Signs assertions for a caller, or for the gateway itself.
pub struct SignedAssertion {
    pub signer: Arc<Signer>,
    pub caller: Option<Principal>,
}

impl Snapshot {
    /// Returns the rights of a caller at an endpoint.
    pub fn rights_of(&self, principal: Principal, endpoint: &Endpoint) -> CallerRights {
        CallerRights::new(&self.policy, principal, endpoint)
    }

    /// Returns the current rights of an earlier caller, or `None` if its credential is no longer
    /// valid.
    pub fn current_rights(&self, caller: &Principal, endpoint: &Endpoint) -> Option<CallerRights> {
        Some(self.rights_of(self.authenticator.current(caller)?, endpoint))
    }

    /// Returns the identity assertion for a caller, if any server requires assertions.
    pub fn assertion(&self, principal: &Principal) -> Option<Arc<dyn IdentityAssertion>> {
        let signer = Arc::clone(self.signer.as_ref()?);
        Some(Arc::new(SignedAssertion { signer, caller: Some(principal.clone()) }))
    }
}

impl IdentityAssertion for SignedAssertion {
    fn sign_for(&self, audience: &Arc<str>) -> Option<HeaderValue> {
        match &self.caller {
            Some(caller) => self.signer.sign_caller(caller, audience),
            None => self.signer.sign_own(audience),
        }
    }
}
