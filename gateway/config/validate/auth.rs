//! `auth`, `identity` and `admin.sign_in`: authentication methods that can work, and are not weaker
//! than they look; signing keys; sign-in to the console. No message quotes a key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_authn as authn;
use lockgate_authn::signer::{self, SigningKey};
use url::Url;

use super::Check;
use super::secret::MAX_CREDENTIAL;
use super::server_auth::{exchanges_tokens, has_users};
use crate::raw::{Server, SignIn};
use crate::{keys, suggest};

const MAX_ISSUERS: usize = 32;
const PATTERN_BYTES: usize = 1024;
const ALGORITHMS: [&str; 9] =
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];

impl Check<'_> {
    pub fn auth(&mut self) -> authn::Config {
        let root = self.root;
        let mut config = root.auth.clone();
        self.check_scopes(&config.scopes);
        if let Some(key) = &config.key {
            self.key(key);
        }
        self.issuers(&mut config.issuers);
        config.keys = self.keys();
        config.public_url = self.public_url();
        config.certificates = matches!(&root.http.tls, Some(tls) if tls.client_ca.is_some());
        config.keeps_tokens = exchanges_tokens(root);
        self.admission(&config);
        config
    }

    /// Checks that the configured methods admit the intended callers.
    fn admission(&mut self, config: &authn::Config) {
        let path = "auth.anonymous";
        let damaged = self.is_damaged("auth");
        if config.anonymous == authn::Anonymous::Everywhere && !config.scopes.required.is_empty() {
            let hint = "remove it, or remove `auth.scopes.required`";
            let what = "callers without a credential have no scopes, so they are rejected";
            self.warning(path, what, hint);
        } else if config.anonymous == authn::Anonymous::Everywhere {
            let hint = "remove it, unless every client that can reach the gateway may use it";
            self.warning(path, "callers need no credential", hint);
        } else if !config.has_credentials() && !damaged {
            if config.anonymous == authn::Anonymous::Never {
                let hint =
                    "set `auth.key`, `auth.keys_file`, `auth.issuers` or `http.tls.client_ca`";
                let what = "every caller is rejected: no authentication method is configured";
                self.error(path, what, hint);
            } else if self.production {
                let hint = "set `auth: { key: \"${LOCKGATE_KEY}\" }` and that variable, or \
                    `auth.keys_file`, `auth.issuers` or `http.tls.client_ca`";
                self.missing("auth.key", hint);
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
            self.warning("http.public_url", what, hint);
        }
        if config.key.is_some() && !config.scopes.required.is_empty() {
            let hint =
                "create keys with `lockgate keys create --scope …` instead, and remove `auth.key`";
            self.error("auth.scopes.required", "the holder of `auth.key` has no scopes", hint);
        }
    }

    fn keys(&mut self) -> Option<Vec<authn::key::Key>> {
        let file = self.root.auth.keys_file.as_deref()?;
        if !file.exists() {
            let shown = self.shown("auth.keys_file");
            let hint = "create the first key with `lockgate keys create NAME`";
            self.warning("auth.keys_file", format!("there is no such file yet{shown}"), hint);
        }
        Some(keys::read(file, &self.sources.cwd, self.problems))
    }

    fn issuers(&mut self, issuers: &mut BTreeMap<String, authn::Issuer>) {
        self.at_most("auth.issuers", issuers.len(), MAX_ISSUERS, "remove some");
        let mut known = BTreeSet::new();
        for (name, issuer) in issuers {
            self.within("auth.issuers", name, |check| {
                check.issuer(issuer);
                if !known.insert(issuer.issuer.clone()) && !issuer.issuer.is_empty() {
                    check.error("issuer", "is listed twice", "keep one of them");
                }
            });
        }
    }

    fn issuer(&mut self, issuer: &mut authn::Issuer) {
        let path = "issuer";
        let hint = "set it to the `iss` of its tokens, such as https://login.example.com";
        if issuer.issuer.is_empty() {
            return self.absent(path, "is required", hint);
        }
        self.secure_url(path, &issuer.issuer, hint);
        if let Some(text) = &issuer.jwks_uri {
            issuer.jwks = self.secure_url("jwks_uri", text, "it is the address of its keys");
        }
        if let Some(at) = issuer.audiences.iter().position(String::is_empty) {
            let what = "is empty, so a token without an audience would be accepted everywhere";
            let hint = "use the value that the issuer puts into `aud`";
            self.item_error("audiences", at, what, hint);
        }
        issuer.algorithms = self.algorithms(&issuer.algorithm_names);
    }

    fn algorithms(&mut self, named: &[String]) -> Vec<authn::Algorithm> {
        if named.is_empty() {
            self.error("algorithms", "must not be empty", "remove it for the default");
        }
        let mut found = Vec::new();
        for (at, word) in named.iter().enumerate() {
            let known = ALGORITHMS.contains(&word.as_str());
            if let Some(algorithm) = word.parse().ok().filter(|_| known) {
                found.push(algorithm);
                continue;
            }
            let weak = word.starts_with("HS") || word.eq_ignore_ascii_case("none");
            let near = suggest::for_word(word, &ALGORITHMS).filter(|_| !weak);
            let hint = near.unwrap_or("symmetric algorithms and `none` are never accepted".into());
            let what = format!("must be {}", suggest::one_of(&ALGORITHMS));
            self.item_error("algorithms", at, &what, &hint);
        }
        found
    }

    /// Checks for an https address, or http on this machine.
    pub fn secure_url(&mut self, path: &str, text: &str, hint: &str) -> Option<Url> {
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
    fn public_url(&mut self) -> Option<Url> {
        let root = self.root;
        let path = "http.public_url";
        let hint = "such as https://mcp.example.com; it is part of the audience of tokens";
        if let Some(text) = &root.http.public_url {
            let url = super::parse_open_url(text)
                .filter(|url| url.query().is_none() && url.fragment().is_none());
            if !matches!(&url, Some(url) if has_plain_path(url)) {
                self.wrong_value(path, "must be an http:// or https:// address", hint);
            }
            return url;
        }
        let needs_none = root.auth.issuers.is_empty() && root.identity.keys.is_empty();
        if needs_none && !has_users(root) {
            return None;
        }
        let listen = root.listen.replace("localhost:", "127.0.0.1:");
        let url = listen.parse().ok().and_then(|listen| self.local_url(listen));
        if url.is_none() {
            let what = "is required: tokens are issued for the address that clients use";
            self.error(path, what, hint);
        }
        url
    }

    fn check_scopes(&mut self, scopes: &authn::Scopes) {
        self.check_scope_list("auth.scopes.required", &scopes.required);
        for rule in &scopes.tools {
            for glob in &rule.tools {
                self.within("auth.scopes.tools", glob, |check| {
                    check.check_scope_list("", &rule.scopes);
                    let is_sized = (1..=PATTERN_BYTES).contains(&glob.len());
                    if !is_sized || globset::Glob::new(glob).is_err() {
                        check.error("", "is not a pattern", "use *, ?, [a-z] and {a,b}");
                    }
                });
            }
        }
        for (scope, all) in &scopes.implies {
            self.within("auth.scopes.implies", scope, |check| check.check_scope_list("", all));
        }
    }

    pub fn check_scope_list(&mut self, path: &str, scopes: &[String]) {
        let wrong = ("is not a scope", "a scope is ASCII without blanks and quotes");
        self.items(path, scopes, wrong, |scope| authn::is_scope(scope).then_some(()));
    }
}

fn has_plain_path(url: &Url) -> bool {
    url.path().bytes().all(|b| b.is_ascii_alphanumeric() || b"/-_.~".contains(&b))
}

// `identity` and the audiences of servers.

/// Maximum keys of a ring: one signs, and others are being introduced or retired.
const MAX_KEYS: usize = 8;
const AUDIENCE_BYTES: usize = 1024;
const MAKE_ONE: &str = "generate one with `openssl genpkey -algorithm EC -pkeyopt \
    ec_paramgen_curve:P-256 -out identity.pem`, and use a reference: file:identity.pem";

impl Check<'_> {
    /// Returns the settings for signed identities; `None` without a key.
    pub fn identity(&mut self, public_url: Option<&Url>) -> Option<signer::Config> {
        let given = &self.root.identity.keys;
        let path = "identity.keys";
        if given.is_empty() {
            if !self.is_damaged(path) {
                self.refuse_unsigned();
            }
            return None;
        }
        self.at_most(path, given.len(), MAX_KEYS, "remove the oldest");
        let mut keys = Vec::with_capacity(given.len());
        for (at, key) in given.iter().enumerate() {
            let path = self.item_key(path, at);
            match SigningKey::from_pem(key) {
                Ok(key) if keys.contains(&key) => {
                    self.error(&path, "is listed twice", "keep one of them");
                }
                Ok(key) => {
                    self.warn_of_literal(&path);
                    keys.push(key);
                }
                Err(error) => self.error(&path, error.to_string(), MAKE_ONE),
            }
        }
        Some(signer::Config { public_url: public_url?.clone(), keys })
    }

    /// Reports servers that require signatures, because there is no default key.
    fn refuse_unsigned(&mut self) {
        let what = "requires a signing key in `identity.keys`";
        for (slug, server) in &self.root.servers {
            if server.identity.is_some() && server.command.is_none() {
                self.within("servers", slug, |check| check.error("identity", what, MAKE_ONE));
            }
        }
    }

    /// Returns the audience of a server's identity assertions.
    pub fn audience(&mut self, raw: &Server) -> Option<Arc<str>> {
        let path = "identity.audience";
        let hint = "it is the `aud` that the server expects, such as its own address";
        let audience = self.required(path, raw.identity.as_ref()?.audience.as_ref(), hint)?;
        let is_plain = audience.bytes().all(|byte| byte.is_ascii_graphic());
        if !(1..=AUDIENCE_BYTES).contains(&audience.len()) || !is_plain {
            let what = format!("must be 1 to {AUDIENCE_BYTES} ASCII characters without blanks");
            self.error(path, what, hint);
        }
        Some(audience.as_str().into())
    }

    /// Warns of servers that could replay each other's identity assertions.
    pub fn shared_audiences(&mut self, servers: &[lockgate_upstream::Config]) {
        for (at, server) in servers.iter().enumerate() {
            let Some(audience) = &server.identity else { continue };
            let mut before = servers[..at].iter();
            let other = before.find(|other| other.identity.as_ref() == Some(audience));
            if let Some(other) = other {
                let what = format!(
                    "equals that of `servers.{}`: each server could impersonate a caller at the \
                        other",
                    other.slug
                );
                let hint = "use a separate one for each, unless they are the same program";
                let key = "identity.audience";
                self.within("servers", &server.slug, |check| check.warning(key, what, hint));
            }
        }
    }
}

// `admin.sign_in`.

/// The path of the provider's redirect, below the console's address.
const CALLBACK: &str = "/console/sign-in/callback";
/// The scope that makes a request one of OpenID Connect.
const OPENID: &str = "openid";

impl Check<'_> {
    pub fn sign_in(
        &mut self,
        authn: &authn::Config,
        admin: &lockgate_admin::Config,
    ) -> Option<authn::SignIn> {
        let raw = self.root.admin.sign_in.as_ref()?;
        if !admin.api.on_clients_address && (admin.listen.is_none() || !admin.api.on_own_address) {
            let hint = "set `admin.listen` or `admin.api: everywhere`, or remove it";
            self.warning("admin.sign_in", "there is no console to sign in to", hint);
        }
        let issuer = self.sign_in_issuer(raw);
        let client_id = self.client_id(raw.client_id.as_deref());
        if let Some(secret) = &raw.client_secret {
            self.client_secret("admin.sign_in.client_secret", secret);
        }
        let path = "admin.sign_in.scopes";
        self.check_scope_list(path, &raw.scopes);
        if !raw.scopes.iter().any(|scope| scope == OPENID) {
            let hint = "without it the provider does not identify the user";
            self.error(path, "must contain `openid`", hint);
        }
        let mut redirect = self.console_url(raw, authn, admin)?;
        redirect.set_path(CALLBACK);
        Some(authn::SignIn {
            issuer: issuer?,
            client_id: client_id?,
            client_secret: raw.client_secret.clone(),
            scopes: raw.scopes.clone(),
            redirect,
        })
    }

    /// Returns the `iss` of the named issuer.
    fn sign_in_issuer(&mut self, raw: &SignIn) -> Option<String> {
        let path = "admin.sign_in.issuer";
        let hint = "add the provider to `auth.issuers`, and use its name there";
        let name = self.required(path, raw.issuer.as_ref(), hint)?;
        let issuers = &self.root.auth.issuers;
        let Some(issuer) = issuers.get(name) else {
            let names: Vec<_> = issuers.keys().map(|name| name.as_str()).collect();
            let near = suggest::for_word(name, &names);
            let hint = near.unwrap_or_else(|| "add the provider to `auth.issuers`".into());
            self.wrong_value(path, "is not a name in `auth.issuers`", hint);
            return None;
        };
        // An invalid issuer is reported in `auth.issuers`.
        Some(issuer.issuer.clone())
    }

    fn client_id(&mut self, raw: Option<&str>) -> Option<String> {
        let path = "admin.sign_in.client_id";
        let hint = "it is the id that the provider assigned to the gateway at registration";
        let id = self.required(path, raw, hint)?;
        let is_plain = id.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        if id.is_empty() || id.len() > MAX_CREDENTIAL || !is_plain {
            self.wrong_value(path, "is not a valid client id", hint);
        }
        Some(id.to_owned())
    }

    /// Returns the console's address for browsers: the configured one, or the one derived from the
    /// rest of the configuration.
    fn console_url(
        &mut self,
        raw: &SignIn,
        authn: &authn::Config,
        admin: &lockgate_admin::Config,
    ) -> Option<Url> {
        let path = "admin.sign_in.console_url";
        let hint = "such as https://console.example.com; the provider sends browsers back there";
        if let Some(text) = &raw.console_url {
            let url = self.secure_url(path, text, hint)?;
            if url.path() != "/" || url.query().is_some() {
                let what = "must have no path, because the console adds its own";
                self.wrong_value(path, what, hint);
            }
            return Some(url);
        }
        let found = match admin.listen {
            Some(listen) if !admin.api.on_clients_address => self.local_url(listen),
            _ => authn.public_url.clone().filter(is_fit),
        };
        if self.is_damaged("http.public_url") {
            return found;
        }
        self.required(path, found, hint)
    }
}

/// Returns whether the console may have this address: sessions require https or a local address.
fn is_fit(url: &Url) -> bool {
    url.path() == "/" && (url.scheme() == "https" || super::is_local(url))
}
