//! Sign-in at an OpenID provider (authorization code with PKCE). The gateway is a client of a
//! configured token issuer and applies that issuer's keys, algorithms and claims. Tokens are
//! dropped after the sign-in and never included in errors; the exchange of a code for an ID token
//! is sent once, and redirects are not followed. References: OpenID Connect Core 1.0; RFC 6749,
//! 7636, 9207, 9700.

mod answer;

pub use answer::{Answer, SignInError};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use lockgate_egress::{Connector, client_secret_basic};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::timeout;
use url::Url;
use url::form_urlencoded::Serializer;

use crate::claims::text;
use crate::config::SignIn;
use crate::discovery;
use crate::discovery::{policy_for, post_form, read_address};
use crate::jwks::Issuer;
use crate::principal::Principal;
use crate::scope::Needs;
use crate::token::id_token;
use crate::token::id_token::Expected;
use answer::read_error;

/// Lifetime of cached metadata.
const METADATA_LIFETIME: Duration = Duration::from_secs(3600);
/// Pause after failing to fetch metadata.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);
/// Timeout for finding metadata at all candidate URLs.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum time for which a sign-in waits for a permit to exchange its code.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_EXCHANGES: usize = 16;

/// The gateway as a client of the provider. Visitors need the scopes that every request needs.
pub struct Provider {
    pub config: SignIn,
    issuer: Arc<Issuer>,
    connector: Arc<Connector>,
    needs: Arc<Needs>,
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
    pub(crate) fn new(
        config: SignIn,
        issuer: Arc<Issuer>,
        connector: Arc<Connector>,
        needs: Arc<Needs>,
    ) -> Self {
        let exchanges = Semaphore::new(MAX_EXCHANGES);
        let ends_sessions = AtomicBool::new(false);
        let known = Mutex::default();
        Self { config, issuer, connector, needs, known, exchanges, ends_sessions }
    }

    /// Returns whether the provider supports sign-out, according to its last metadata.
    pub fn ends_sessions(&self) -> bool {
        self.ends_sessions.load(Ordering::Relaxed)
    }

    /// Returns the URL of the provider's sign-out, if supported. The provider asks the visitor to
    /// confirm, because no ID token is kept as a hint. The browser stays there, so that no return
    /// URL has to be registered.
    pub async fn end(&self) -> Option<Url> {
        let metadata = self.metadata().await.ok()?;
        let mut url = metadata.end_session.clone()?;
        url.query_pairs_mut().append_pair("client_id", &self.config.client_id);
        Some(url)
    }

    /// Returns the URL that starts a sign-in, for a redirect of the browser.
    ///
    /// # Errors
    /// The provider cannot be reached.
    pub async fn begin(&self, attempt: &Attempt) -> Result<Url, SignInError> {
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

    /// Completes a sign-in with the parameters that the browser returned: exchanges the code for
    /// the identity that has signed in. The caller ensures that the attempt began in this browser,
    /// and that no attempt is used twice.
    ///
    /// # Errors
    /// [`SignInError`].
    pub async fn finish(
        &self,
        attempt: &Attempt,
        answer: &Answer,
    ) -> Result<Principal, SignInError> {
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
        let needs = &*self.needs;
        let identity = id_token::verify(&granted.id_token, &self.issuer, &expected, needs).await?;
        if needs.base(&identity) { Ok(Principal::new(identity)) } else { Err(SignInError::Scopes) }
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
            discovery::find(issuer, &self.connector, |document| Metadata::read(document, issuer));
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

struct Metadata {
    authorization: Url,
    token: Url,
    /// The sign-out endpoint (OpenID Connect RP-Initiated Logout 1.0), if any.
    end_session: Option<Url>,
    /// Whether the provider includes `iss` in every answer (RFC 9207).
    announces_issuer: bool,
    secret_place: SecretPlace,
}

/// The location of the client secret in a token request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SecretPlace {
    /// `client_secret_basic`
    Header,
    /// `client_secret_post`
    Body,
    /// Neither is accepted, and this gateway supports no other method.
    Nowhere,
}

impl Metadata {
    /// Reads the metadata of a provider. A provider without a list of PKCE methods is accepted: it
    /// may support PKCE, which is always sent, and the nonce protects the sign-in in any case.
    ///
    /// # Errors
    /// A member is missing, or weaker than required.
    fn read(document: &Value, issuer: &str) -> Result<Self, String> {
        if !offers(document, "code_challenge_methods_supported", "S256").unwrap_or(true) {
            return Err("the provider does not support PKCE with S256".into());
        }
        if !offers(document, "response_types_supported", "code").unwrap_or(true) {
            return Err("the provider does not support the response type `code`".into());
        }
        let announced = document.get("authorization_response_iss_parameter_supported");
        Ok(Self {
            authorization: read_address(document, "authorization_endpoint", issuer)?,
            token: read_address(document, "token_endpoint", issuer)?,
            end_session: read_address(document, "end_session_endpoint", issuer).ok(),
            announces_issuer: announced == Some(&Value::Bool(true)),
            secret_place: find_secret_place(document),
        })
    }
}

/// Returns the location of the secret. The default is `client_secret_basic` (RFC 8414, section 2).
fn find_secret_place(document: &Value) -> SecretPlace {
    let list = "token_endpoint_auth_methods_supported";
    let takes_header = offers(document, list, "client_secret_basic");
    match (takes_header, offers(document, list, "client_secret_post")) {
        (None | Some(true), _) => SecretPlace::Header,
        (_, Some(true)) => SecretPlace::Body,
        _ => SecretPlace::Nowhere,
    }
}

/// Returns whether a list contains a word; `None` without a list.
fn offers(document: &Value, list: &str, word: &str) -> Option<bool> {
    let list = document.get(list)?.as_array()?;
    Some(list.iter().any(|item| item == word))
}

struct Granted {
    id_token: String,
    /// `None` if the granted scopes are those requested.
    scopes: Option<String>,
}

impl Provider {
    async fn exchange(
        &self,
        metadata: &Metadata,
        code: &str,
        verifier: &str,
    ) -> Result<Granted, SignInError> {
        let (headers, form) = self.write(metadata.secret_place, code, verifier)?;
        let policy = policy_for(&metadata.token, &self.config.issuer);
        let sent = post_form(&self.connector, &metadata.token, policy, headers, form).await;
        let (status, answer) = sent.map_err(|fault| {
            SignInError::Unreachable(format!("{}: {fault}", metadata.token.path()))
        })?;
        read(status, &answer)
    }

    /// Builds the request, with the client secret where the provider requires it.
    fn write(
        &self,
        place: SecretPlace,
        code: &str,
        verifier: &str,
    ) -> Result<(HeaderMap, String), SignInError> {
        let config = &self.config;
        let mut headers = HeaderMap::new();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, form);
        let mut body = Serializer::new(String::new());
        body.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", config.redirect.as_str())
            .append_pair("code_verifier", verifier);
        match (&config.client_secret, place) {
            (None, _) => {
                body.append_pair("client_id", &config.client_id);
            }
            (Some(secret), SecretPlace::Body) => {
                body.append_pair("client_id", &config.client_id);
                body.append_pair("client_secret", secret);
            }
            (Some(secret), SecretPlace::Header) => {
                let value = client_secret_basic(&config.client_id, secret);
                headers.insert(AUTHORIZATION, value.ok_or(SignInError::Client)?);
            }
            (Some(_), SecretPlace::Nowhere) => return Err(SignInError::Client),
        }
        Ok((headers, body.finish()))
    }
}

fn read(status: StatusCode, answer: &Value) -> Result<Granted, SignInError> {
    if status != StatusCode::OK {
        return Err(text(answer, "error").map_or(SignInError::Malformed, read_error));
    }
    let Some(id_token) = text(answer, "id_token") else { return Err(SignInError::Token) };
    let scopes = text(answer, "scope").map(str::to_owned);
    Ok(Granted { id_token: id_token.to_owned(), scopes })
}

#[cfg(test)]
pub(crate) mod tests;
