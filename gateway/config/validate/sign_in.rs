//! `admin.sign_in`: sign-in to the console at a token issuer, with a redirect address from the
//! configuration. Requests never determine the address.

use lockgate_authn as authn;
use url::Url;

use super::Check;
use crate::raw::leaf::{List, Text};
use crate::raw::text_of;
use crate::raw::{Root, SignIn};
use crate::suggest;

/// The path of the provider's redirect, below the console's address.
const CALLBACK: &str = "/console/sign-in/callback";
/// The scope that makes a request one of OpenID Connect.
const OPENID: &str = "openid";
/// Maximum length of a client's name and secret in bytes.
const MAX_CREDENTIAL: usize = 4096;

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
        let client_id = self.client_id(raw.client_id.as_ref());
        let client_secret = self.client_secret(raw.client_secret.as_ref());
        let scopes = self.sign_in_scopes(raw.scopes.as_ref());
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
        let Some(Text(name)) = &raw.issuer else {
            let hint = "add the provider to `auth.issuers`, and use its name there";
            self.must_be_given(&path, hint);
            return None;
        };
        let Some(issuer) = root.auth.issuers.get(name) else {
            let shown = self.shown(&path);
            let names: Vec<_> = root.auth.issuers.keys().map(|name| name.as_str()).collect();
            let hint = suggest::for_word(name, &names)
                .unwrap_or_else(|| "add the provider to `auth.issuers`".into());
            self.error(&path, format!("is not a name in `auth.issuers`{shown}"), hint);
            return None;
        };
        // An invalid issuer is reported in `auth.issuers`.
        text_of(&issuer.issuer)
    }

    fn client_id(&mut self, raw: Option<&Text>) -> Option<String> {
        let path = ["admin", "sign_in", "client_id"];
        let hint = "it is the id that the provider assigned to the gateway at registration";
        let Some(Text(id)) = raw else {
            self.must_be_given(&path, hint);
            return None;
        };
        let is_plain = id.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        if id.is_empty() || id.len() > MAX_CREDENTIAL || !is_plain {
            let shown = self.shown(&path);
            self.error(&path, format!("is not a valid client id{shown}"), hint);
        }
        Some(id.clone())
    }

    fn client_secret(&mut self, raw: Option<&Text>) -> Option<String> {
        let path = ["admin", "sign_in", "client_secret"];
        let Text(secret) = raw?;
        if secret.is_empty() || secret.len() > MAX_CREDENTIAL {
            let hint = "remove it for a public client";
            self.error(&path, format!("must have 1 to {MAX_CREDENTIAL} bytes"), hint);
        } else if self.is_literal(&path) {
            let hint = "use a reference: ${VAR} or file:PATH";
            self.warning(&path, "is written in plain text", hint);
        }
        Some(secret.clone())
    }

    fn sign_in_scopes(&mut self, raw: Option<&List>) -> Vec<String> {
        let path = ["admin", "sign_in", "scopes"];
        let Some(List(scopes)) = raw else { return vec![OPENID.to_owned()] };
        self.check_scope_list(&path, scopes);
        if !scopes.contains(&OPENID.to_owned()) {
            let hint = "without it the provider does not identify the user";
            self.error(&path, "must contain `openid`", hint);
        }
        scopes.clone()
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
        if let Some(Text(text)) = &raw.console_url {
            let url = self.secure_url(&path, text, hint)?;
            if url.path() != "/" || url.query().is_some() {
                let shown = self.shown(&path);
                let what = format!("must have no path, because the console adds its own{shown}");
                self.error(&path, what, hint);
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
        if found.is_none() && !self.layers.damaged(&["http", "public_url"]) {
            self.must_be_given(&path, hint);
        }
        found
    }

    fn must_be_given(&mut self, path: &[&str], hint: &str) {
        if !self.layers.damaged(path) {
            self.error(path, "is required", hint);
        }
    }
}

/// Returns whether the console may have this address: sessions require https or a local address.
fn is_fit(url: &Url) -> bool {
    url.path() == "/" && (url.scheme() == "https" || super::is_local(url))
}
