//! Access tokens: JWTs of configured issuers, read once and narrowly. Which key verifies a token
//! follows from its issuer and its key id alone; keys and addresses that a token brings along are
//! not looked at. Verified ones are remembered for a moment, by a digest. Pages: RFC 7515, 7519,
//! 8725; basic/authorization (2026-07-28).

pub(crate) mod id_token;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use lockgate_text::json::{self, Reader};
use moka::Expiry;
use moka::sync::Cache;
use serde_json::{Map, Value};

use crate::certificate::Certificate;
use crate::claims;
use crate::fetch::Outside;
use crate::jwks::{self, Issuer, KeySetState};
use crate::principal::Principal;
use crate::refusal::{Refused, Unknown};
use crate::resource::{Names, Resource};
use crate::scope::Needs;

/// Longest token.
const MAX_TOKEN: usize = 16 * 1024;
/// Longest time for which a verified token is remembered.
const MEMORY: Duration = Duration::from_secs(60);
/// Audiences of one token; one with more is refused.
const MAX_AUDIENCES: usize = 64;

/// The issuers, and what was verified lately.
pub(crate) struct Tokens {
    issuers: Vec<Arc<Issuer>>,
    verified: Cache<[u8; 32], Arc<Verified>, std::hash::RandomState>,
    names: Names,
}

/// A token that was good when it was verified.
struct Verified {
    principal: Principal,
    issuer: Arc<Issuer>,
    /// Of the issuer's keys.
    generation: u64,
    audiences: Vec<String>,
    /// One of the audiences is good at every endpoint.
    everywhere: bool,
    /// SHA-256 of the client certificate that its sender has to hold (RFC 8705, section 3).
    bound: Option<[u8; 32]>,
    /// Unix seconds.
    expires: u64,
}

/// Where a token was shown, and on what connection.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) resource: Resource<'a>,
    pub(crate) certificate: Option<&'a Certificate>,
}

/// The members of a token's header that we look at.
struct Header {
    alg: Algorithm,
    kid: Option<String>,
}

/// Why a token is not in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimeFault {
    Unreadable,
    Over,
    Early,
}

/// A token taken apart; nothing of it is verified.
struct Parts<'a> {
    signed: &'a str,
    signature: &'a str,
    header: Header,
    claims: Map<String, Value>,
}

impl Tokens {
    /// Issuers whose configuration is unchanged keep their keys.
    pub(crate) fn start(
        config: &crate::Config,
        outside: &Outside,
        old: Option<&Self>,
    ) -> Option<Self> {
        let names = Names::new(config)?;
        let old = old.map(|old| old.issuers.as_slice()).unwrap_or_default();
        let mut issuers = Vec::new();
        for wanted in &config.issuers {
            issuers.push(match old.iter().find(|issuer| issuer.config == *wanted) {
                Some(kept) => Arc::clone(kept),
                None => Issuer::start(wanted.clone(), outside.clone()),
            });
        }
        Some(Self::with(issuers, names, config.token_cache))
    }

    fn with(issuers: Vec<Arc<Issuer>>, names: Names, capacity: usize) -> Self {
        let capacity = u64::try_from(capacity).unwrap_or(u64::MAX);
        let verified = Cache::builder().max_capacity(capacity).expire_after(UntilExpiry).build();
        Self { issuers, verified, names }
    }

    pub(crate) fn key_sets(&self) -> Vec<KeySetState> {
        self.issuers.iter().map(|issuer| issuer.key_set()).collect()
    }

    pub(crate) fn find_issuer(&self, issuer: &str) -> Option<&Arc<Issuer>> {
        self.issuers.iter().find(|known| known.config.issuer == issuer)
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// The holder of a token; `digest` is of the whole token.
    pub(crate) async fn holder(
        &self,
        token: &str,
        digest: &[u8; 32],
        needs: &Needs,
        shown: Shown<'_>,
    ) -> Result<Principal, Refused> {
        if let Some(known) = self.verified.get(digest).filter(|known| known.is_current()) {
            return self.admit(&known, shown);
        }
        let verified = Arc::new(self.verify(token, needs).await?);
        if verified.expires > now() {
            self.verified.insert(*digest, Arc::clone(&verified));
        }
        self.admit(&verified, shown)
    }

    /// What depends on the request, so that it is asked of remembered tokens too.
    fn admit(
        &self,
        token: &Verified,
        Shown { resource, certificate }: Shown<'_>,
    ) -> Result<Principal, Refused> {
        if token
            .bound
            .is_some_and(|bound| certificate.is_none_or(|certificate| certificate.digest != bound))
        {
            return Err(Unknown::Invalid.into());
        }
        let meant = token.everywhere
            || token.audiences.iter().any(|audience| self.names.is(audience, resource));
        if meant {
            Ok(token.principal.clone())
        } else {
            Err(Refused::known(Unknown::Audience, &token.principal))
        }
    }

    async fn verify(&self, token: &str, needs: &Needs) -> Result<Verified, Refused> {
        let parts = Parts::read(token, is_access_token).ok_or(Unknown::Invalid)?;
        let named = parts.claims.get("iss").and_then(Value::as_str).ok_or(Unknown::Invalid)?;
        let issuer = self
            .issuers
            .iter()
            .find(|issuer| issuer.config.issuer == named)
            .ok_or(Unknown::Invalid)?;
        let generation = parts.check_signature(issuer).await?;
        parts.accept(issuer, generation, needs)
    }
}

impl Header {
    /// `is_type` says which values of `typ` are of tokens for this use.
    fn read(members: &Map<String, Value>, is_type: fn(&str) -> bool) -> Option<Self> {
        // Each changes what the rest means, whatever its value is.
        if ["crit", "enc", "zip", "b64"].iter().any(|name| members.contains_key(*name)) {
            return None;
        }
        if let Some(typ) = members.get("typ")
            && !is_type(bare_type(typ.as_str()?))
        {
            return None;
        }
        let alg = members.get("alg")?.as_str()?.parse().ok()?;
        let kid = match members.get("kid") {
            Some(kid) => Some(kid.as_str()?.to_owned()),
            None => None,
        };
        Some(Self { alg, kid })
    }
}

/// An object whose members stand once each.
fn read_object(text: &[u8]) -> Option<Map<String, Value>> {
    match Reader::exact(json::MAX_DEPTH).read(text) {
        Ok(Value::Object(members)) => Some(members),
        _ => None,
    }
}

impl<'a> Parts<'a> {
    fn read(token: &'a str, is_type: fn(&str) -> bool) -> Option<Self> {
        if token.len() > MAX_TOKEN {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        if claims.contains('.') || signature.is_empty() {
            return None;
        }
        let header = read_object(&URL_SAFE_NO_PAD.decode(header).ok()?)?;
        let header = Header::read(&header, is_type)?;
        let claims = read_object(&URL_SAFE_NO_PAD.decode(claims).ok()?)?;
        Some(Self { signed, signature, header, claims })
    }

    /// Whether a key of the issuer has signed it, with an algorithm that the issuer may use. Gives
    /// the generation of its keys.
    async fn check_signature(&self, issuer: &Issuer) -> Result<u64, Unknown> {
        let algorithm = self.header.alg;
        if !issuer.config.algorithms.contains(&algorithm) {
            return Err(Unknown::Invalid);
        }
        let mut may_ask = true;
        loop {
            // Read before the keys: if they change meanwhile, the token is verified again.
            let generation = issuer.generation();
            let keys = issuer.keys();
            let id = self.header.kid.as_deref();
            let fitting =
                keys.as_ref().map(|keys| jwks::fitting(keys, id, algorithm)).unwrap_or_default();
            if !fitting.is_empty() {
                return match fitting.iter().any(|key| self.is_signed_by(key, algorithm)) {
                    true => Ok(generation),
                    false => Err(Unknown::Invalid),
                };
            }
            let unknown = if keys.is_some() { Unknown::Invalid } else { Unknown::Unavailable };
            if !std::mem::take(&mut may_ask) || !issuer.refreshed().await {
                return Err(unknown);
            }
        }
    }

    /// When it ends, if it is in force now as far as the issuer's clock may differ from ours.
    fn check_times(&self, issuer: &Issuer) -> Result<u64, TimeFault> {
        let now = now();
        let skew = issuer.config.skew.as_secs();
        let expires = seconds(self.claims.get("exp")).ok_or(TimeFault::Unreadable)?;
        if expires.saturating_add(skew) <= now {
            return Err(TimeFault::Over);
        }
        for later in ["nbf", "iat"] {
            if let Some(value) = self.claims.get(later) {
                let begins = seconds(Some(value)).ok_or(TimeFault::Unreadable)?;
                if begins > now.saturating_add(skew) {
                    return Err(TimeFault::Early);
                }
            }
        }
        Ok(expires)
    }

    fn is_signed_by(&self, key: &jwks::Key, algorithm: Algorithm) -> bool {
        let signed = self.signed.as_bytes();
        let verified = jsonwebtoken::crypto::verify(self.signature, signed, &key.key, algorithm);
        verified.unwrap_or(false)
    }

    /// What a good signature leaves to check: times and audience, then who it is.
    fn accept(
        &self,
        issuer: &Arc<Issuer>,
        generation: u64,
        needs: &Needs,
    ) -> Result<Verified, Refused> {
        let config = &issuer.config;
        let identity = claims::identity(&self.claims, &config.issuer, &config.claims, needs);
        let expires = match self.check_times(issuer) {
            Ok(expires) => expires,
            Err(TimeFault::Over) => {
                let who = identity.map(Principal::new);
                return Err(Refused { why: Unknown::Expired, who });
            }
            Err(TimeFault::Early | TimeFault::Unreadable) => return Err(Unknown::Invalid.into()),
        };
        let audiences = audiences(self.claims.get("aud")).ok_or(Unknown::Audience)?;
        let bound = self
            .claims
            .get("cnf")
            .map(|cnf| thumbprint(cnf).ok_or(Unknown::Invalid))
            .transpose()?;
        Ok(Verified {
            principal: Principal::new(identity.ok_or(Unknown::Invalid)?),
            bound,
            issuer: Arc::clone(issuer),
            generation,
            everywhere: audiences.iter().any(|audience| config.audiences.contains(audience)),
            audiences,
            expires,
        })
    }
}

impl Verified {
    /// Whether the keys are the ones that it was verified with. Its time is the cache's business.
    fn is_current(&self) -> bool {
        self.issuer.generation() == self.generation
    }
}

/// A type without the prefix that it may have.
fn bare_type(typ: &str) -> &str {
    let start = typ.get(..12).filter(|start| start.eq_ignore_ascii_case("application/"));
    start.map_or(typ, |_| &typ[12..])
}

/// `JWT` or an access token by RFC 9068; tokens for other uses say so.
fn is_access_token(typ: &str) -> bool {
    typ.eq_ignore_ascii_case("jwt") || typ.eq_ignore_ascii_case("at+jwt")
}

/// What a token is bound to: one certificate. Anything else (`jkt` of RFC 9449, `jwk`) we cannot
/// check, so it is `None`.
fn thumbprint(cnf: &Value) -> Option<[u8; 32]> {
    let members = cnf.as_object().filter(|members| members.len() == 1)?;
    let text = members.get("x5t#S256")?.as_str()?;
    URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}

/// A NumericDate, rounded down.
fn seconds(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    if let Some(whole) = value.as_u64() {
        return Some(whole);
    }
    let real = value.as_f64()?;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within the range just checked"
    )]
    (0.0..9.0e15).contains(&real).then_some(real as u64)
}

/// One text or a list of them; anything else, or nothing, is no audience.
fn audiences(value: Option<&Value>) -> Option<Vec<String>> {
    let many = match value? {
        Value::String(one) => return Some(vec![one.clone()]),
        Value::Array(many) if (1..=MAX_AUDIENCES).contains(&many.len()) => many,
        _ => return None,
    };
    let mut audiences = Vec::new();
    for one in many {
        audiences.push(one.as_str()?.to_owned());
    }
    Some(audiences)
}

/// Unix time in seconds.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Forgets a token when it expires, or after [`MEMORY`].
struct UntilExpiry;

impl Expiry<[u8; 32], Arc<Verified>> for UntilExpiry {
    fn expire_after_create(
        &self,
        _: &[u8; 32],
        token: &Arc<Verified>,
        _: Instant,
    ) -> Option<Duration> {
        Some(Duration::from_secs(token.expires.saturating_sub(now())).min(MEMORY))
    }

    fn expire_after_update(
        &self,
        key: &[u8; 32],
        token: &Arc<Verified>,
        at: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        self.expire_after_create(key, token, at)
    }
}

#[cfg(test)]
pub(crate) mod tests;
