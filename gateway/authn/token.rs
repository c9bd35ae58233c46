//! Access tokens: JWTs of configured issuers, parsed strictly. Issuer and key id alone select the
//! key that verifies a token; keys and URLs in the token are ignored. Verified tokens are cached
//! briefly by their digest. References: RFC 7515, 7519, 8725; basic/authorization (2026-07-28).

pub(crate) mod id_token;
mod parts;

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use moka::Expiry;
use moka::sync::Cache;
use serde_json::Value;

use parts::{Parts, TokenFault};

use crate::certificate::Certificate;
use crate::claims;
use crate::identity::AccessToken;
use crate::jwks::{Issuer, KeySetState};
use crate::principal::{AuthnError, Principal, RefusedCaller};
use crate::resource::{Names, Resource};
use crate::scope::Needs;
use lockgate_egress::Connector;
use lockgate_text::date::now;

/// Maximum time for which a verified token is cached.
const MAX_CACHE_LIFETIME: Duration = Duration::from_secs(60);
/// Maximum number of audiences; a token with more is rejected.
const MAX_AUDIENCES: usize = 64;

pub(crate) struct Tokens {
    issuers: Vec<Arc<Issuer>>,
    verified: Cache<[u8; 32], Arc<Verified>, std::hash::RandomState>,
    names: Names,
    keeps_tokens: bool,
}

/// A token that was valid when it was verified.
struct Verified {
    principal: Principal,
    issuer: Arc<Issuer>,
    /// Generation of the issuer's keys at that time.
    generation: u64,
    audiences: Vec<String>,
    /// Whether any of the audiences is valid at every endpoint.
    everywhere: bool,
    /// SHA-256 of the client certificate that the sender must hold (RFC 8705, section 3).
    bound: Option<[u8; 32]>,
    /// Unix seconds.
    expires: u64,
}

/// The endpoint and the client certificate that a token was presented with.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) resource: Resource<'a>,
    pub(crate) certificate: Option<&'a Certificate>,
}

impl Tokens {
    /// Starts the issuers. Issuers with an unchanged configuration keep their keys.
    pub(crate) fn start(
        config: &crate::Config,
        connector: &Arc<Connector>,
        old: Option<&Self>,
    ) -> Option<Self> {
        let names = Names::new(config)?;
        let old = old.map_or(&[][..], |old| &old.issuers);
        let mut issuers = Vec::new();
        for wanted in config.issuers.values() {
            issuers.push(match old.iter().find(|issuer| issuer.config == *wanted) {
                Some(kept) => Arc::clone(kept),
                None => Issuer::start(wanted.clone(), Arc::clone(connector)),
            });
        }
        let kept = config.keeps_tokens;
        Some(Self { keeps_tokens: kept, ..Self::with(issuers, names, config.token_cache) })
    }

    fn with(issuers: Vec<Arc<Issuer>>, names: Names, capacity: usize) -> Self {
        let capacity = u64::try_from(capacity).unwrap_or(u64::MAX);
        let verified = Cache::builder().max_capacity(capacity).expire_after(UntilExpiry).build();
        Self { issuers, verified, names, keeps_tokens: false }
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

    /// Returns the holder of a token; `digest` is of the whole token.
    pub(crate) async fn holder(
        &self,
        token: &str,
        digest: &[u8; 32],
        needs: &Needs,
        shown: Shown<'_>,
    ) -> Result<Principal, RefusedCaller> {
        if let Some(known) = self.verified.get(digest)
            && known.is_current()
        {
            return self.admit(&known, shown);
        }
        let verified = Arc::new(self.verify(token, needs).await?);
        if verified.expires > now() {
            self.verified.insert(*digest, Arc::clone(&verified));
        }
        self.admit(&verified, shown)
    }

    /// Checks audience and certificate, which depend on the request, also for cached tokens.
    fn admit(
        &self,
        token: &Verified,
        Shown { resource, certificate }: Shown<'_>,
    ) -> Result<Principal, RefusedCaller> {
        if let Some(bound) = token.bound
            && !matches!(certificate, Some(held) if held.digest == bound)
        {
            return Err(token.unbound());
        }
        let meant = token.everywhere
            || token.audiences.iter().any(|audience| self.names.is(audience, resource));
        if meant {
            Ok(token.principal.clone())
        } else {
            Err(RefusedCaller::known(AuthnError::Audience, &token.principal))
        }
    }

    async fn verify(&self, token: &str, needs: &Needs) -> Result<Verified, RefusedCaller> {
        let (parts, issuer) = self.read(token).map_err(|fault| fault.refuse(token))?;
        let generation =
            parts.check_signature(issuer).await.map_err(|fault| fault.refuse(token))?;
        parts.accept(issuer, generation, (needs, self.keeps_tokens.then_some(token)))
    }

    fn read<'a>(&self, token: &'a str) -> Result<(Parts<'a>, &Arc<Issuer>), TokenFault> {
        let parts = Parts::read(token, is_access_token)?;
        let issuer = claims::text(&parts.claims, "iss").and_then(|named| self.find_issuer(named));
        let issuer = issuer.ok_or(TokenFault::Issuer)?;
        Ok((parts, issuer))
    }
}

impl Parts<'_> {
    /// Checks times, audience and identity of a token with a valid signature.
    fn accept(
        &self,
        issuer: &Arc<Issuer>,
        generation: u64,
        (needs, kept): (&Needs, Option<&str>),
    ) -> Result<Verified, RefusedCaller> {
        let config = &issuer.config;
        let identity = claims::identity(&self.claims, &config.issuer, &config.claims, needs);
        let expires = match self.check_times(issuer) {
            Ok(expires) => expires,
            Err(TokenFault::Expired) => {
                let who = identity.map(Principal::new);
                return Err(RefusedCaller { why: AuthnError::Expired, who, token: None });
            }
            Err(fault) => return Err(fault.refuse(self.signed)),
        };
        let Some(audiences) = audiences(self.claims.get("aud")) else {
            return Err(AuthnError::Audience.into());
        };
        let bound = self.bound().map_err(|fault| fault.refuse(self.signed))?;
        let Some(mut identity) = identity else {
            let subject = claims::find_text(&self.claims, &config.claims.subject);
            let claim = if subject.is_some() { "organisation" } else { "sub" };
            return Err(TokenFault::Claim(claim).refuse(self.signed));
        };
        identity.token = kept.map(|text| AccessToken {
            digest: *blake3::hash(text.as_bytes()).as_bytes(),
            text: text.into(),
            expires,
        });
        Ok(Verified {
            principal: Principal::new(identity),
            bound,
            issuer: Arc::clone(issuer),
            generation,
            everywhere: audiences.iter().any(|audience| config.audiences.contains(audience)),
            audiences,
            expires,
        })
    }

    /// Returns the certificate that the token is bound to, if any.
    fn bound(&self) -> Result<Option<[u8; 32]>, TokenFault> {
        let Some(cnf) = self.claims.get("cnf") else { return Ok(None) };
        thumbprint(cnf).map(Some).ok_or(TokenFault::Claim("cnf"))
    }
}

impl Verified {
    /// Returns the refusal of a sender without the certificate that the token is bound to.
    fn unbound(&self) -> RefusedCaller {
        let mut refused = TokenFault::Binding.refuse("");
        if let Some(token) = &mut refused.token {
            token.issuer = Some(self.issuer.config.issuer.as_str().into());
        }
        refused
    }

    /// Returns whether the issuer's keys are unchanged. The cache handles the token's expiry.
    fn is_current(&self) -> bool {
        self.issuer.generation() == self.generation
    }
}

/// Accepts `JWT` and the type of RFC 9068; tokens for other uses have other types.
fn is_access_token(typ: &str) -> bool {
    typ.eq_ignore_ascii_case("jwt") || typ.eq_ignore_ascii_case("at+jwt")
}

/// Returns the certificate in a `cnf` claim. Returns `None` for any other confirmation method
/// (`jkt` of RFC 9449, `jwk`), because this gateway cannot check it.
fn thumbprint(cnf: &Value) -> Option<[u8; 32]> {
    let members = cnf.as_object()?;
    if members.len() != 1 {
        return None;
    }
    let text = members.get("x5t#S256")?.as_str()?;
    URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}

/// Reads a single audience or a list. Returns `None` for any other value and for an empty list.
fn audiences(value: Option<&Value>) -> Option<Vec<String>> {
    let many = match value? {
        Value::String(one) => return Some(vec![one.clone()]),
        Value::Array(many) if (1..=MAX_AUDIENCES).contains(&many.len()) => many,
        _ => return None,
    };
    let texts = many.iter().map(|one| one.as_str().map(str::to_owned));
    texts.collect()
}

/// Evicts a token when it expires, or after [`MAX_CACHE_LIFETIME`].
struct UntilExpiry;

impl Expiry<[u8; 32], Arc<Verified>> for UntilExpiry {
    fn expire_after_create(
        &self,
        _: &[u8; 32],
        token: &Arc<Verified>,
        _: Instant,
    ) -> Option<Duration> {
        Some(Duration::from_secs(token.expires.saturating_sub(now())).min(MAX_CACHE_LIFETIME))
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
