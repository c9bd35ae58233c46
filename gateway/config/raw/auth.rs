//! `auth`: authentication of callers. Contains a secret and so has no `Debug`.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::leaf::{List, Seconds, Text, Whole};

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Auth {
    /// The bearer key that every caller must send, 16–4096 characters. A reference:
    /// `${LOCKGATE_KEY}` or `file:PATH`.
    #[cfg_attr(test, schemars(extend("x-level" = "basic")))]
    pub key: Option<Text>,
    /// File of API keys (YAML or JSON), read again when it changes; `lockgate keys` writes it.
    /// Relative to this file.
    #[cfg_attr(test, schemars(extend("x-level" = "basic")))]
    pub keys_file: Option<Text>,
    /// Callers accepted without a credential: `never` none, `loopback` those on this machine,
    /// `everywhere` all. By default those on this machine, unless an authentication method is
    /// configured.
    pub anonymous: Option<Anonymous>,
    /// Issuers of OAuth access tokens (JWT), by a name of your choice; at most 32.
    pub issuers: BTreeMap<String, Issuer>,
    /// Verified tokens that are cached for at most a minute, 0–1000000.
    pub token_cache: Whole<0, 1_000_000, 10_000>,
    /// Scopes that tokens and keys must have.
    pub scopes: Scopes,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, schemars(inline))]
pub enum Anonymous {
    Never,
    Loopback,
    Everywhere,
}

/// Tokens are accepted if they are signed by this issuer for the endpoint that is called.
#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Issuer {
    /// The `iss` of its tokens, exactly: an https:// URL.
    #[cfg_attr(test, schemars(extend("x-level" = "basic")))]
    pub issuer: Option<Text>,
    /// Address of its keys; by default taken from its metadata.
    pub jwks_uri: Option<Text>,
    /// Audiences accepted at every endpoint, besides the URL of the endpoint itself. Default none.
    pub audiences: List,
    /// Of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 and EdDSA. Default `RS256, PS256,
    /// ES256, ES384, EdDSA`.
    pub algorithms: Option<List>,
    /// Names of its claims.
    pub claims: Claims,
    /// How often its keys are fetched, 10–86400 s.
    pub refresh: Seconds<10, 86_400, 300>,
    /// Least time between two fetches because of unknown keys, 1–3600 s.
    pub cooldown: Seconds<1, 3600, 30>,
    /// How long its keys are used while they cannot be fetched, 0–604800 s.
    pub stale: Seconds<0, 604_800, 86_400>,
    /// Tolerated difference between its clock and the gateway's, 0–300 s.
    pub clock_skew: Seconds<0, 300, 30>,
}

/// Names of claims, or JSON Pointers (`/realm_access/roles`).
#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Claims {
    /// Default `sub`.
    pub subject: Option<Text>,
    /// Default none.
    pub organisation: Option<Text>,
    /// Default none.
    pub roles: Option<Text>,
    /// Default `scope`, else `scp`.
    pub scopes: Option<Text>,
    /// The software that acts on behalf of the subject. Default `client_id`, else `azp`.
    pub agent: Option<Text>,
}

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Scopes {
    /// For every request. Default none.
    pub required: List,
    /// Further scopes for calls of tools: pattern over `server/tool` → scopes.
    pub tools: BTreeMap<String, List>,
    /// Broad scope → scopes that it includes.
    pub implies: BTreeMap<String, List>,
}
