//! Sign-in at an OpenID provider (authorization code with PKCE). The gateway is a client of a
//! configured token issuer and applies that issuer's keys, algorithms and claims. Tokens are
//! dropped after the sign-in and never included in errors. References: OpenID Connect Core 1.0; RFC
//! 6749, 7636, 9207, 9700.

mod answer;
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

pub use answer::{Answer, SignInError};

use crate::config::SignIn;
use crate::discovery::{self, Outside};
use crate::identity::Identity;
use crate::jwks::Issuer;
use crate::scope::Needs;
use crate::token::id_token::{self, Expected};
use metadata::Metadata;

/// Lifetime of cached metadata.
const METADATA_LIFETIME: Duration = Duration::from_secs(3600);
/// Pause after failing to fetch metadata.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);
/// Timeout for finding metadata at all candidate URLs.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum time for which a sign-in waits for a permit to exchange its code.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_EXCHANGES: usize = 16;

pub(crate) struct Provider {
    config: SignIn,
    issuer: Arc<Issuer>,
    outside: Outside,
    /// Locked during a fetch, so that concurrent callers share its result.
    known: Mutex<Option<CachedMetadata>>,
    exchanges: Semaphore,
    /// Whether the last metadata had an end-session endpoint.
    ends_sessions: AtomicBool,
}

struct CachedMetadata {
    at: Instant,
    found: Result<Arc<Metadata>, String>,
}

/// The secrets of an attempt to sign in. Each must be unguessable.
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

    pub(crate) fn ends_sessions(&self) -> bool {
        self.ends_sessions.load(Ordering::Relaxed)
    }

    /// Returns the URL to sign out at the provider. The provider asks the visitor to confirm,
    /// because no ID token is kept as a hint. The browser stays there, so that no return URL has to
    /// be registered.
    pub(crate) async fn end(&self) -> Option<Url> {
        let metadata = self.metadata().await.ok()?;
        let mut url = metadata.end_session.clone()?;
        url.query_pairs_mut().append_pair("client_id", &self.config.client_id);
        Some(url)
    }

    pub(crate) fn config(&self) -> &SignIn {
        &self.config
    }

    /// Returns the URL to sign in at the provider.
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

    /// Exchanges the code in the answer, and returns the identity that has signed in.
    pub(crate) async fn finish(
        &self,
        attempt: &Attempt,
        answer: &Answer,
        needs: &Needs,
    ) -> Result<Identity, SignInError> {
        // Sign-ins queue for a permit, so that a burst is delayed instead of rejected.
        let Ok(Ok(_place)) = timeout(PERMIT_TIMEOUT, self.exchanges.acquire()).await else {
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

    /// Returns the metadata. Concurrent callers share a single fetch.
    async fn find_metadata(&self) -> Result<Arc<Metadata>, String> {
        let mut known = self.known.lock().await;
        if let Some(CachedMetadata { at, found }) = &*known {
            let life = if found.is_ok() { METADATA_LIFETIME } else { FAILURE_PAUSE };
            if at.elapsed() < life {
                return found.clone();
            }
        }
        let issuer = &self.config.issuer;
        let finding =
            discovery::find(issuer, &self.outside, |document| Metadata::read(document, issuer));
        let found = match timeout(DISCOVERY_TIMEOUT, finding).await {
            Ok(found) => found.map(Arc::new),
            Err(_) => Err(format!("no metadata within {} s", DISCOVERY_TIMEOUT.as_secs())),
        };
        if let Ok(metadata) = &found {
            self.ends_sessions.store(metadata.end_session.is_some(), Ordering::Relaxed);
        }
        *known = Some(CachedMetadata { at: Instant::now(), found: found.clone() });
        found
    }
}

#[cfg(test)]
pub(crate) mod tests;
