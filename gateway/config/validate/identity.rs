//! `identity` and `admin.sign_in`: signing keys with their issuer's address, and sign-in to the
//! console with a redirect address from the configuration. No message quotes a key.

use std::sync::Arc;

use lockgate_authn as authn;
use lockgate_authn::signer::{self, SigningKey};
use url::Url;

use super::Check;
use super::secret::MAX_CREDENTIAL;
use crate::raw::{Root, Server, SignIn};
use crate::suggest;

/// Maximum keys of a ring: one signs, and others are being introduced or retired.
const MAX_KEYS: usize = 8;
const AUDIENCE_BYTES: usize = 1024;
const MAKE_ONE: &str = "generate one with `openssl genpkey -algorithm EC -pkeyopt \
    ec_paramgen_curve:P-256 -out identity.pem`, and use a reference: file:identity.pem";

impl Check<'_> {
    /// Returns the settings for signed identities; `None` without a key.
    pub fn identity(&mut self, root: &Root, public_url: Option<&Url>) -> Option<signer::Config> {
        let given = &root.identity.keys;
        let path = ["identity", "keys"];
        if given.is_empty() {
            if !self.layers.damaged(&path) {
                self.refuse_unsigned(root);
            }
            return None;
        }
        self.at_most(&path, given.len(), MAX_KEYS, "remove the oldest");
        let mut keys = Vec::with_capacity(given.len());
        for (number, key) in given.iter().enumerate() {
            let path = ["identity", "keys", &number.to_string()];
            let Some(key) = self.signing_key(&path, key) else { continue };
            if keys.contains(&key) {
                self.error(&path, "is listed twice", "keep one of them");
            }
            keys.push(key);
        }
        Some(signer::Config { public_url: public_url?.clone(), keys })
    }

    fn signing_key(&mut self, path: &[&str], key: &str) -> Option<SigningKey> {
        match SigningKey::from_pem(key) {
            Ok(key) => {
                self.warn_of_literal(path);
                Some(key)
            }
            Err(error) => {
                self.error(path, error.to_string(), MAKE_ONE);
                None
            }
        }
    }

    /// Reports servers that require signatures, because there is no default key.
    fn refuse_unsigned(&mut self, root: &Root) {
        for (slug, server) in &root.servers {
            if server.identity.is_some() && server.command.is_none() {
                let path = ["servers", slug, "identity"];
                self.error(&path, "requires a signing key in `identity.keys`", MAKE_ONE);
            }
        }
    }

    /// Returns the audience of a server's identity assertions.
    pub fn audience(&mut self, slug: &str, raw: &Server) -> Option<Arc<str>> {
        let path = ["servers", slug, "identity", "audience"];
        let hint = "it is the `aud` that the server expects, such as its own address";
        let audience = self.required(&path, raw.identity.as_ref()?.audience.as_ref(), hint)?;
        let is_plain = audience.bytes().all(|byte| byte.is_ascii_graphic());
        if !(1..=AUDIENCE_BYTES).contains(&audience.len()) || !is_plain {
            let what = format!("must be 1 to {AUDIENCE_BYTES} ASCII characters without blanks");
            self.error(&path, what, hint);
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
                let path = ["servers", &server.slug, "identity", "audience"];
                let what = format!(
                    "equals that of `servers.{}`: each server could impersonate a caller at the \
                        other",
                    other.slug
                );
                let hint = "use a separate one for each, unless they are the same program";
                self.warning(&path, what, hint);
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
        root: &Root,
        authn: &authn::Config,
        admin: &lockgate_admin::Config,
    ) -> Option<authn::SignIn> {
        let raw = root.admin.sign_in.as_ref()?;
        if !admin.api.on_clients_address && (admin.listen.is_none() || !admin.api.on_own_address) {
            let hint = "set `admin.listen` or `admin.api: everywhere`, or remove it";
            self.warning(&["admin", "sign_in"], "there is no console to sign in to", hint);
        }
        let issuer = self.sign_in_issuer(root, raw);
        let client_id = self.client_id(raw.client_id.as_deref());
        let path = ["admin", "sign_in", "client_secret"];
        let client_secret = self.client_secret(&path, raw.client_secret.as_deref());
        let scopes = self.sign_in_scopes(raw.scopes.as_deref());
        let mut redirect = self.console_url(root, raw, authn, admin)?;
        redirect.set_path(CALLBACK);
        Some(authn::SignIn {
            issuer: issuer?,
            client_id: client_id?,
            client_secret,
            scopes,
            redirect,
        })
    }

    /// Returns the `iss` of the named issuer.
    fn sign_in_issuer(&mut self, root: &Root, raw: &SignIn) -> Option<String> {
        let path = ["admin", "sign_in", "issuer"];
        let hint = "add the provider to `auth.issuers`, and use its name there";
        let name = self.required(&path, raw.issuer.as_ref(), hint)?;
        let Some(issuer) = root.auth.issuers.get(name) else {
            let names: Vec<_> = root.auth.issuers.keys().map(|name| name.as_str()).collect();
            let hint = suggest::for_word(name, &names)
                .unwrap_or_else(|| "add the provider to `auth.issuers`".into());
            self.wrong_value(&path, "is not a name in `auth.issuers`", hint);
            return None;
        };
        // An invalid issuer is reported in `auth.issuers`.
        issuer.issuer.clone()
    }

    fn client_id(&mut self, raw: Option<&str>) -> Option<String> {
        let path = ["admin", "sign_in", "client_id"];
        let hint = "it is the id that the provider assigned to the gateway at registration";
        let id = self.required(&path, raw, hint)?;
        let is_plain = id.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        if id.is_empty() || id.len() > MAX_CREDENTIAL || !is_plain {
            self.wrong_value(&path, "is not a valid client id", hint);
        }
        Some(id.to_owned())
    }

    fn sign_in_scopes(&mut self, raw: Option<&[String]>) -> Vec<String> {
        let path = ["admin", "sign_in", "scopes"];
        let Some(scopes) = raw else { return vec![OPENID.to_owned()] };
        self.check_scope_list(&path, scopes);
        if !scopes.contains(&OPENID.to_owned()) {
            let hint = "without it the provider does not identify the user";
            self.error(&path, "must contain `openid`", hint);
        }
        scopes.to_vec()
    }

    /// Returns the console's address for browsers: the configured one, or the one derived from the
    /// rest of the configuration.
    fn console_url(
        &mut self,
        root: &Root,
        raw: &SignIn,
        authn: &authn::Config,
        admin: &lockgate_admin::Config,
    ) -> Option<Url> {
        let path = ["admin", "sign_in", "console_url"];
        let hint = "such as https://console.example.com; the provider sends browsers back there";
        if let Some(text) = &raw.console_url {
            let url = self.secure_url(&path, text, hint)?;
            if url.path() != "/" || url.query().is_some() {
                let what = "must have no path, because the console adds its own";
                self.wrong_value(&path, what, hint);
            }
            return Some(url);
        }
        let found = match admin.listen {
            Some(listen) if !admin.api.on_clients_address => {
                let scheme = if root.http.tls.is_some() { "https" } else { "http" };
                match Url::parse(&format!("{scheme}://{listen}")) {
                    Ok(url) if listen.ip().is_loopback() && listen.port() != 0 => Some(url),
                    _ => None,
                }
            }
            _ => authn.public_url.clone().filter(is_fit),
        };
        if self.layers.damaged(&["http", "public_url"]) {
            return found;
        }
        self.required(&path, found, hint)
    }
}

/// Returns whether the console may have this address: sessions require https or a local address.
fn is_fit(url: &Url) -> bool {
    url.path() == "/" && (url.scheme() == "https" || super::is_local(url))
}
