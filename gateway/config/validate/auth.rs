//! `auth`: authentication methods that can work, and are not weaker than they look.

use std::net::SocketAddr;

use lockgate_authn as authn;
use url::Url;

use super::Check;
use super::server_auth::{exchanges_tokens, has_users};
use crate::raw::{self, Root};
use crate::{keys, suggest};

const MAX_ISSUERS: usize = 32;
const PATTERN_BYTES: usize = 1024;
const ALGORITHMS: [(&str, authn::Algorithm); 9] = [
    ("RS256", authn::Algorithm::RS256),
    ("RS384", authn::Algorithm::RS384),
    ("RS512", authn::Algorithm::RS512),
    ("PS256", authn::Algorithm::PS256),
    ("PS384", authn::Algorithm::PS384),
    ("PS512", authn::Algorithm::PS512),
    ("ES256", authn::Algorithm::ES256),
    ("ES384", authn::Algorithm::ES384),
    ("EdDSA", authn::Algorithm::EdDSA),
];
const DEFAULT: [&str; 5] = ["RS256", "PS256", "ES256", "ES384", "EdDSA"];

impl Check<'_> {
    pub fn auth(&mut self, root: &Root) -> authn::Config {
        let raw = &root.auth;
        self.check_scopes(&raw.scopes);
        let config = authn::Config {
            role_holders: authn::RoleHolders::default(),
            key: self.key(raw.key.as_deref()),
            keys: self.keys(root),
            keys_file: raw.keys_file.clone(),
            issuers: self.issuers(raw),
            token_cache: raw.token_cache,
            public_url: self.public_url(root),
            certificates: matches!(&root.http.tls, Some(tls) if tls.client_ca.is_some()),
            anonymous: raw.anonymous.unwrap_or_default(),
            scopes: raw.scopes.clone(),
            // Set once the console's address is known.
            sign_in: None,
            keeps_tokens: exchanges_tokens(root),
            // Set from `identity`, which is a separate section.
            signer: None,
        };
        self.admission(&config);
        config
    }

    /// Checks that the configured methods admit the intended callers.
    fn admission(&mut self, config: &authn::Config) {
        let path = ["auth", "anonymous"];
        let damaged = self.layers.damaged(&["auth"]);
        if config.anonymous == authn::Anonymous::Everywhere && !config.scopes.required.is_empty() {
            let hint = "remove it, or remove `auth.scopes.required`";
            let what = "callers without a credential have no scopes, so they are rejected";
            self.warning(&path, what, hint);
        } else if config.anonymous == authn::Anonymous::Everywhere {
            let hint = "remove it, unless every client that can reach the gateway may use it";
            self.warning(&path, "callers need no credential", hint);
        } else if !config.has_credentials() && !damaged {
            if config.anonymous == authn::Anonymous::Never {
                let hint =
                    "set `auth.key`, `auth.keys_file`, `auth.issuers` or `http.tls.client_ca`";
                let what = "every caller is rejected: no authentication method is configured";
                self.error(&path, what, hint);
            } else if self.production {
                let hint = "set `auth: { key: \"${LOCKGATE_KEY}\" }` and that variable, or \
                    `auth.keys_file`, `auth.issuers` or `http.tls.client_ca`";
                self.missing(&["auth", "key"], hint);
            }
        }
        let hint = match config.anonymous {
            authn::Anonymous::Loopback => Some("set `auth.anonymous: never`"),
            authn::Anonymous::Default if !config.has_credentials() && !self.production => {
                Some("set `auth.key`, `auth.keys_file`, `auth.issuers` or `http.tls.client_ca`")
            }
            _ => None,
        };
        if let Some(hint) = hint
            && let Some(url) = &config.public_url
            && !super::is_local(url)
            && !damaged
        {
            let what = "callers behind a proxy on this machine appear local, and local callers \
                need no credential";
            self.warning(&["http", "public_url"], what, hint);
        }
        if config.key.is_some() && !config.scopes.required.is_empty() {
            let hint =
                "create keys with `lockgate keys create --scope …` instead, and remove `auth.key`";
            let path = ["auth", "scopes", "required"];
            self.error(&path, "the holder of `auth.key` has no scopes", hint);
        }
    }

    fn keys(&mut self, root: &Root) -> Option<Vec<authn::key::Key>> {
        let file = root.auth.keys_file.as_deref()?;
        if !file.exists() {
            let shown = self.shown(&["auth", "keys_file"]);
            let hint = "create the first key with `lockgate keys create NAME`";
            self.warning(&["auth", "keys_file"], format!("there is no such file yet{shown}"), hint);
        }
        let read = keys::read(file, &self.sources.cwd, self.problems);
        self.wrong |= read.is_none();
        read
    }

    fn issuers(&mut self, raw: &raw::Auth) -> Vec<authn::Issuer> {
        self.at_most(&["auth", "issuers"], raw.issuers.len(), MAX_ISSUERS, "remove some");
        let mut all: Vec<authn::Issuer> = Vec::new();
        for (name, raw) in &raw.issuers {
            if let Some(issuer) = self.issuer(name, raw) {
                if all.iter().any(|other| other.issuer == issuer.issuer) {
                    let path = ["auth", "issuers", name, "issuer"];
                    self.error(&path, "is listed twice", "keep one of them");
                }
                all.push(issuer);
            }
        }
        all
    }

    fn issuer(&mut self, name: &str, raw: &raw::Issuer) -> Option<authn::Issuer> {
        let path = ["auth", "issuers", name, "issuer"];
        let hint = "set it to the `iss` of its tokens, such as https://login.example.com";
        let issuer = self.required(&path, raw.issuer.as_ref(), hint)?;
        self.secure_url(&path, issuer, hint);
        let jwks = match &raw.jwks_uri {
            Some(text) => {
                let path = ["auth", "issuers", name, "jwks_uri"];
                self.secure_url(&path, text, "it is the address of its keys")
            }
            None => None,
        };
        if let Some(at) = raw.audiences.iter().position(String::is_empty) {
            let what = "is empty, so a token without an audience would be accepted everywhere";
            let hint = "use the value that the issuer puts into `aud`";
            self.item_error(&["auth", "issuers", name, "audiences"], at, what, hint);
        }
        Some(authn::Issuer {
            issuer: issuer.clone(),
            jwks,
            audiences: raw.audiences.clone(),
            algorithms: self.algorithms(name, raw.algorithms.as_deref()),
            claims: raw.claims.clone(),
            refresh: raw.refresh,
            cooldown: raw.cooldown,
            stale: raw.stale,
            skew: raw.clock_skew,
        })
    }

    fn algorithms(&mut self, name: &str, raw: Option<&[String]>) -> Vec<authn::Algorithm> {
        let named = match raw {
            Some(named) => named.iter().map(String::as_str).collect(),
            None => DEFAULT.to_vec(),
        };
        let path = ["auth", "issuers", name, "algorithms"];
        if named.is_empty() {
            self.error(&path, "must not be empty", "remove it for the default");
        }
        let names = ALGORITHMS.map(|(name, _)| name);
        let mut found = Vec::new();
        for (at, word) in named.iter().enumerate() {
            match ALGORITHMS.iter().find(|(name, _)| name == word) {
                Some((_, algorithm)) => found.push(*algorithm),
                None => {
                    let weak = word.starts_with("HS") || word.eq_ignore_ascii_case("none");
                    let hint = match suggest::for_word(word, &names) {
                        Some(near) if !weak => near,
                        _ => "symmetric algorithms and `none` are never accepted".into(),
                    };
                    let what = format!("must be {}", suggest::one_of(&names));
                    self.item_error(&path, at, &what, &hint);
                }
            }
        }
        found
    }

    /// Checks for an https address, or http on this machine.
    pub fn secure_url(&mut self, path: &[&str], text: &str, hint: &str) -> Option<Url> {
        let url = super::parse_open_url(text).filter(|url| url.fragment().is_none());
        let Some(url) = url else {
            self.wrong_value(path, "must be an https:// address", hint);
            return None;
        };
        if url.scheme() == "http" && !super::is_local(&url) {
            let what =
                "must be https: plain HTTP lets an attacker on the network forge credentials";
            self.wrong_value(path, what, hint);
        }
        Some(url)
    }

    /// Returns the gateway's address for clients: the configured one, or a loopback `listen`.
    fn public_url(&mut self, root: &Root) -> Option<Url> {
        let path = ["http", "public_url"];
        let hint = "such as https://mcp.example.com; it is part of the audience of tokens";
        if let Some(text) = &root.http.public_url {
            let url = super::parse_open_url(text)
                .filter(|url| url.query().is_none() && url.fragment().is_none());
            if !matches!(&url, Some(url) if has_plain_path(url)) {
                self.wrong_value(&path, "must be an http:// or https:// address", hint);
            }
            return url;
        }
        let needs_none = root.auth.issuers.is_empty() && root.identity.keys.is_empty();
        if needs_none && !has_users(root) {
            return None;
        }
        let listen = root.listen.as_deref().unwrap_or(super::LISTEN);
        let listen = listen.replace("localhost:", "127.0.0.1:");
        match listen.parse::<SocketAddr>() {
            Ok(listen) if listen.ip().is_loopback() && listen.port() != 0 => {
                let scheme = if root.http.tls.is_some() { "https" } else { "http" };
                Url::parse(&format!("{scheme}://{listen}")).ok()
            }
            _ => {
                let what = "is required: tokens are issued for the address that clients use";
                self.error(&path, what, hint);
                None
            }
        }
    }

    fn check_scopes(&mut self, scopes: &authn::Scopes) {
        self.check_scope_list(&["auth", "scopes", "required"], &scopes.required);
        for rule in &scopes.tools {
            for glob in &rule.tools {
                let path = ["auth", "scopes", "tools", glob];
                self.check_scope_list(&path, &rule.scopes);
                let is_sized = (1..=PATTERN_BYTES).contains(&glob.len());
                if !is_sized || globset::Glob::new(glob).is_err() {
                    self.error(&path, "is not a pattern", "use *, ?, [a-z] and {a,b}");
                }
            }
        }
        for (scope, all) in &scopes.implies {
            self.check_scope_list(&["auth", "scopes", "implies", scope], all);
        }
    }

    pub fn check_scope_list(&mut self, path: &[&str], scopes: &[String]) {
        let wrong = ("is not a scope", "a scope is ASCII without blanks and quotes");
        self.items(path, scopes, wrong, |scope| authn::is_scope(scope).then_some(()));
    }
}

fn has_plain_path(url: &Url) -> bool {
    url.path().bytes().all(|b| b.is_ascii_alphanumeric() || b"/-_.~".contains(&b))
}
