//! Attempts to sign in at an identity provider. Nothing is kept of them here, so that nobody can
//! crowd out those of others: what an attempt is made of is in a cookie of its browser, and its
//! secrets follow from that by one of this process. So an answer counts in the browser that began,
//! once, and for ten minutes.

use std::time::Instant;

use axum::http::HeaderMap;
use lockgate_authn::{Attempt, SignIn};
use lockgate_text::hex;

use super::fields::Fields;
use super::sent_forms::SentForms;
use super::sessions::{NoRandomness, random};
use super::visitor::cookies;

/// How long somebody has to sign in at the provider, in seconds.
pub(crate) const MAX_AGE: u64 = 600;
/// Attempts that one browser has at once: beyond, its oldest ones are given up.
const MAX_OF_BROWSER: usize = 4;
/// Longest address to come back to; who comes from a longer one begins anew.
const MAX_NEXT: usize = 1024;
/// What the names of cookies begin with, over https and on loopback.
const PREFIXES: [&str; 2] = ["__Host-lockgate-sign-in-", "lockgate-sign-in-"];
/// Digits of the state that the name of a cookie has.
const NAME_DIGITS: usize = 8;

/// See the module.
pub struct Attempts {
    secret: [u8; 32],
    start: Instant,
    used: SentForms,
}

/// An attempt that begins.
pub(crate) struct Begun {
    pub(crate) attempt: Attempt,
    /// The cookie's name and value.
    pub(crate) cookie: (String, String),
    /// Names of cookies of older attempts that there is no more room for.
    pub(crate) given_up: Vec<String>,
}

/// An attempt whose answer has come.
pub(crate) struct Answered {
    pub(crate) attempt: Attempt,
    /// The page that its visitor was on.
    pub(crate) next: String,
}

impl Attempts {
    /// # Errors
    /// [`NoRandomness`].
    pub fn new() -> Result<Self, NoRandomness> {
        Ok(Self { secret: random()?, start: Instant::now(), used: SentForms::default() })
    }

    /// Begins one, for somebody who is on the page `next`.
    pub(crate) fn begin(
        &self,
        headers: &HeaderMap,
        next: &str,
        to: &SignIn,
    ) -> Result<Begun, NoRandomness> {
        let next = if next.len() <= MAX_NEXT { next } else { "/console" };
        self.begin_at(headers, next, to, self.start.elapsed().as_secs())
    }

    /// The attempt that an answer with this state belongs to, if this browser has begun it lately
    /// and no other answer has come.
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
        // Hashes are compared, so that the time of comparing tells nothing.
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

    /// What only this process can make of a cookie, for one client of one provider.
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

/// The name of the cookie of an attempt with this state.
pub(crate) fn cookie_name(to: &SignIn, state: &str) -> String {
    let digits: String = state.chars().take(NAME_DIGITS).collect();
    format!("{}{digits}", prefix(to))
}

fn prefix(to: &SignIn) -> &'static str {
    let [secure, loopback] = PREFIXES;
    if to.redirect.scheme() == "https" { secure } else { loopback }
}

/// Attempts of this browser that make room for another one.
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
