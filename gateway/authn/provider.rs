//! Signing in at an OpenID provider (authorization code with PKCE), as a client of one of the
//! issuers of tokens: keys, algorithms and claims are the issuer's. No token outlives the sign-in,
//! and none is in an error. Pages: OpenID Connect Core 1.0; RFC 6749, 7636, 9207, 9700.

mod answer;
mod error;
mod metadata;
mod token_request;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::timeout;
use url::Url;

pub use answer::Answer;
pub use error::SignInError;

use crate::config::SignIn;
use crate::discovery;
use crate::fetch::Outside;
use crate::identity::Identity;
use crate::jwks::Issuer;
use crate::scope::Needs;
use crate::token::id_token::{self, Expected};
use metadata::Metadata;

/// How long metadata are used.
const FRESH: Duration = Duration::from_secs(3600);
/// How long a provider that was not there is not asked again.
const REST: Duration = Duration::from_secs(5);
/// Longest time to find metadata, wherever they are.
const TIMEOUT: Duration = Duration::from_secs(15);
/// How long an answer waits for its turn.
const TURN: Duration = Duration::from_secs(5);
/// Codes that are exchanged at once.
const MAX_EXCHANGES: usize = 16;

/// See the module.
pub(crate) struct Provider {
    config: SignIn,
    issuer: Arc<Issuer>,
    outside: Outside,
    /// Held while they are fetched, so that they are fetched once.
    known: Mutex<Option<Known>>,
    exchanges: Semaphore,
    /// It signs people out, as its metadata said last.
    ends_sessions: AtomicBool,
}

/// What a fetch has brought.
struct Known {
    at: Instant,
    found: Result<Arc<Metadata>, String>,
}

/// What belongs to one attempt to sign in. Nobody can guess any of it.
#[derive(Clone)]
pub struct Attempt {
    pub state: String,
    pub nonce: String,
    /// 43 to 128 characters, for PKCE.
    pub verifier: String,
}

impl Provider {
    pub(crate) fn new(config: SignIn, issuer: Arc<Issuer>, outside: Outside) -> Self {
        let exchanges = Semaphore::new(MAX_EXCHANGES);
        let ends_sessions = AtomicBool::new(false);
        Self { config, issuer, outside, known: Mutex::default(), exchanges, ends_sessions }
    }

    /// Whether it can be asked to sign people out, as far as that is known.
    pub(crate) fn ends_sessions(&self) -> bool {
        self.ends_sessions.load(Ordering::Relaxed)
    }

    /// Where the browser goes to be signed out at the provider. It asks its visitor there, because
    /// no token is kept to show; and it ends there, so that nothing more has to be registered.
    pub(crate) async fn end(&self) -> Option<Url> {
        let metadata = self.metadata().await.ok()?;
        let mut url = metadata.end_session.clone()?;
        url.query_pairs_mut().append_pair("client_id", &self.config.client_id);
        Some(url)
    }

    pub(crate) fn config(&self) -> &SignIn {
        &self.config
    }

    /// Where the browser goes to sign in.
    pub(crate) async fn begin(&self, attempt: &Attempt) -> Result<Url, SignInError> {
        let metadata = self.metadata().await?;
        let mut url = metadata.authorization.clone();
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&attempt.verifier));
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.config.client_id)
            .append_pair("redirect_uri", self.config.redirect.as_str())
            .append_pair("scope", &self.config.scopes.join(" "))
            .append_pair("state", &attempt.state)
            .append_pair("nonce", &attempt.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        Ok(url)
    }

    /// Who has signed in, by what the browser has brought back for an attempt.
    pub(crate) async fn finish(
        &self,
        attempt: &Attempt,
        answer: &Answer,
        needs: &Needs,
    ) -> Result<Identity, SignInError> {
        // They wait in line, so that many at once are slow and none is turned away for others.
        let Ok(Ok(_place)) = timeout(TURN, self.exchanges.acquire()).await else {
            return Err(SignInError::Busy);
        };
        let metadata = self.metadata().await?;
        let code = answer.code(&self.config.issuer, metadata.announces_issuer)?;
        let granted = self.exchange(&metadata, code, &attempt.verifier).await?;
        let expected = Expected {
            client_id: &self.config.client_id,
            nonce: &attempt.nonce,
            granted: &granted.scopes.unwrap_or_else(|| self.config.scopes.join(" ")),
        };
        let identity = id_token::verify(&granted.id_token, &self.issuer, &expected, needs).await?;
        if needs.base(&identity) { Ok(identity) } else { Err(SignInError::Scopes) }
    }

    async fn metadata(&self) -> Result<Arc<Metadata>, SignInError> {
        self.find_metadata().await.map_err(SignInError::Unreachable)
    }

    /// The metadata, fetched by one for all who wait.
    async fn find_metadata(&self) -> Result<Arc<Metadata>, String> {
        let mut known = self.known.lock().await;
        if let Some(Known { at, found }) = &*known {
            let life = if found.is_ok() { FRESH } else { REST };
            if at.elapsed() < life {
                return found.clone();
            }
        }
        let issuer = &self.config.issuer;
        let finding =
            discovery::find(issuer, &self.outside, |document| Metadata::read(document, issuer));
        let found = match timeout(TIMEOUT, finding).await {
            Ok(found) => found.map(Arc::new),
            Err(_) => Err(format!("no metadata within {} s", TIMEOUT.as_secs())),
        };
        if let Ok(metadata) = &found {
            self.ends_sessions.store(metadata.end_session.is_some(), Ordering::Relaxed);
        }
        *known = Some(Known { at: Instant::now(), found: found.clone() });
        found
    }
}

#[cfg(test)]
pub(crate) mod tests;
