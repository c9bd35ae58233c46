//! Sign-in attempts at an identity provider. The server stores none, so that clients cannot evict
//! the attempts of others. The data of an attempt is in a cookie, and its secrets are derived from
//! that cookie with a secret of this process. A response is therefore accepted only in the browser
//! that started the attempt, once, and within ten minutes.

use std::time::Instant;

use axum::http::HeaderMap;
use lockgate_authn::{Attempt, SignIn};
use lockgate_text::hex;

use super::fields::Fields;
use super::sent_forms::SentForms;
use super::sessions::{NoRandomness, random};
use super::visitor::cookies;

/// Time limit for signing in at the provider, in seconds.
pub(crate) const MAX_AGE: u64 = 600;
/// Concurrent attempts per browser; beyond it, the oldest are dropped.
const MAX_OF_BROWSER: usize = 4;
/// Maximum length of the return address; a longer one is replaced by the first page.
const MAX_NEXT: usize = 1024;
/// Prefixes of the cookie names, for https and for loopback.
const PREFIXES: [&str; 2] = ["__Host-lockgate-sign-in-", "lockgate-sign-in-"];
/// Number of state digits in a cookie name.
const NAME_DIGITS: usize = 8;

/// Starts and verifies sign-in attempts.
pub struct Attempts {
    secret: [u8; 32],
    start: Instant,
    used: SentForms,
}

/// A started attempt.
pub(crate) struct Begun {
    pub(crate) attempt: Attempt,
    /// The name and value of the cookie.
    pub(crate) cookie: (String, String),
    /// Names of the cookies of older attempts to delete.
    pub(crate) given_up: Vec<String>,
}

/// The attempt that a response belongs to.
pub(crate) struct Answered {
    pub(crate) attempt: Attempt,
    /// The return address of the visitor.
    pub(crate) next: String,
}

impl Attempts {
    /// Creates the state with a random secret.
    ///
    /// # Errors
    /// [`NoRandomness`].
    pub fn new() -> Result<Self, NoRandomness> {
        Ok(Self { secret: random()?, start: Instant::now(), used: SentForms::default() })
    }

    /// Starts an attempt that returns to the page `next`.
    pub(crate) fn begin(
        &self,
        headers: &HeaderMap,
        next: &str,
        to: &SignIn,
    ) -> Result<Begun, NoRandomness> {
        let next = if next.len() <= MAX_NEXT { next } else { "/console" };
        self.begin_at(headers, next, to, self.start.elapsed().as_secs())
    }

    /// Returns the attempt for a state, if this browser started it within [`MAX_AGE`] seconds and
    /// it has had no response yet.
    pub(crate) fn find(&self, headers: &HeaderMap, state: &str, to: &SignIn) -> Option<Answered> {
        self.find_at(headers, state, to, self.start.elapsed().as_secs())
    }

    fn begin_at(
        &self,
        headers: &HeaderMap,
        next: &str,
        to: &SignIn,
        now: u64,
    ) -> Result<Begun, NoRandomness> {
        let id = hex::encode(&random::<32>()?);
        let mut value = form_urlencoded::Serializer::new(String::new());
        value.append_pair("id", &id).append_pair("at", &now.to_string()).append_pair("next", next);
        let value = value.finish();
        let attempt = self.derive(&value, to);
        let cookie = (cookie_name(to, &attempt.state), value);
        Ok(Begun { attempt, cookie, given_up: find_oldest(headers, to) })
    }

    fn find_at(&self, headers: &HeaderMap, state: &str, to: &SignIn, now: u64) -> Option<Answered> {
        let name = cookie_name(to, state);
        let (_, value) = cookies(headers).find(|(other, _)| *other == name)?;
        let attempt = self.derive(value, to);
        // Comparing hashes leaks nothing about the state through timing.
        if blake3::hash(attempt.state.as_bytes()) != blake3::hash(state.as_bytes()) {
            return None;
        }
        let fields = Fields::parse(value.as_bytes());
        let began: u64 = fields.get("at").parse().ok()?;
        if now.checked_sub(began)? >= MAX_AGE {
            return None;
        }
        if !self.used.remember(SentForms::key_of(&name, state.as_bytes())) {
            return None;
        }
        Some(Answered { attempt, next: fields.get("next").to_owned() })
    }

    /// Derives the secrets of an attempt from its cookie, for one client of one provider.
    fn derive(&self, cookie: &str, to: &SignIn) -> Attempt {
        Attempt {
            state: self.derive_for("state", cookie, to),
            nonce: self.derive_for("nonce", cookie, to),
            verifier: self.derive_for("verifier", cookie, to),
        }
    }

    fn derive_for(&self, purpose: &str, cookie: &str, to: &SignIn) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        for part in [purpose, cookie, &to.issuer, &to.client_id, to.redirect.as_str()] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// Returns the name of the cookie for an attempt with this state.
pub(crate) fn cookie_name(to: &SignIn, state: &str) -> String {
    let digits: String = state.chars().take(NAME_DIGITS).collect();
    format!("{}{digits}", prefix(to))
}

fn prefix(to: &SignIn) -> &'static str {
    let [secure, loopback] = PREFIXES;
    if to.redirect.scheme() == "https" { secure } else { loopback }
}

/// Returns the cookies of the oldest attempts, which make room for a new attempt.
fn find_oldest(headers: &HeaderMap, to: &SignIn) -> Vec<String> {
    let mut known: Vec<(u64, &str)> = Vec::new();
    for (name, value) in cookies(headers) {
        if name.starts_with(prefix(to)) {
            let began = Fields::parse(value.as_bytes()).get("at").parse();
            known.push((began.unwrap_or(0), name));
        }
    }
    known.sort_unstable();
    let kept = known.len().min(MAX_OF_BROWSER - 1);
    known.truncate(known.len() - kept);
    known.into_iter().map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests;
