//! `auth` and `identity`: authentication of callers, and signing of their identities. Contains
//! secrets and so has no `Debug`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use lockgate_authn::{Anonymous, Claims, Scopes};

use super::leaf::{List, Seconds, Text, Whole};

lockgate_text::settings! {
    pub struct Auth as "Auth" {
        /// The bearer key that every caller must send, 16–4096 characters. A reference:
        /// `${LOCKGATE_KEY}` or `file:PATH`.
        pub key: Option<String> = Option<Text>,
        /// File of API keys (YAML or JSON), read again when it changes; `lockgate keys` writes it.
        /// Relative to this file.
        pub keys_file: Option<PathBuf> = Option<Text>,
        /// Callers accepted without a credential: `never` none, `loopback` those on this machine,
        /// `everywhere` all. By default those on this machine, unless an authentication method is
        /// configured.
        pub anonymous: Option<Anonymous>,
        /// Issuers of OAuth access tokens (JWT), by a name of your choice; at most 32.
        pub issuers: BTreeMap<String, Issuer>,
        /// Verified tokens that are cached for at most a minute, 0–1000000.
        pub token_cache: usize = Whole<0, 1_000_000, 10_000>,
        /// Scopes that tokens and keys must have.
        pub scopes: Scopes,
    }

    /// Tokens are accepted if they are signed by this issuer for the endpoint that is called.
    pub struct Issuer as "Issuer" {
        /// The `iss` of its tokens, exactly: an https:// URL.
        pub issuer: Option<String> = Option<Text>,
        /// Address of its keys; by default taken from its metadata.
        pub jwks_uri: Option<String> = Option<Text>,
        /// Audiences accepted at every endpoint, besides the URL of the endpoint itself. Default
        /// none.
        pub audiences: Vec<String> = List,
        /// Of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 and EdDSA. Default `RS256,
        /// PS256, ES256, ES384, EdDSA`.
        pub algorithms: Option<Vec<String>> = Option<List>,
        /// Names of its claims.
        pub claims: Claims,
        /// How often its keys are fetched, 10–86400 s.
        pub refresh: Duration = Seconds<10, 86_400, 300>,
        /// Least time between two fetches because of unknown keys, 1–3600 s.
        pub cooldown: Duration = Seconds<1, 3600, 30>,
        /// How long its keys are used while they cannot be fetched, 0–604800 s.
        pub stale: Duration = Seconds<0, 604_800, 86_400>,
        /// Tolerated difference between its clock and the gateway's, 0–300 s.
        pub clock_skew: Duration = Seconds<0, 300, 30>,
    }

    pub struct Identity as "Identity" {
        /// Private keys (P-256, PEM, PKCS #8), 8 at most, for `servers.NAME.identity`: the first
        /// signs, all are published at `/.well-known/jwks.json`. References: `file:PATH` or
        /// `${IDENTITY_KEY}`. The same on every replica.
        pub keys: Vec<String> = Vec<Text>,
    }
}
