//! `servers.NAME.auth`: one source of credentials for each server, and no way for a secret to reach
//! an authorization server that the operator did not name. No message quotes a secret.

use std::collections::BTreeMap;

use http::HeaderName;
use http::header::AUTHORIZATION;
use lockgate_accounts::{
    Authentication, ClientKey, Config, Listing, Method, PreRegistered, ServerConfig,
};
use lockgate_egress::Policy;
use lockgate_store::Secret;
use url::Url;

use super::secret::MAX_CREDENTIAL;
use super::server::is_own_header;
use super::{Check, is_local};
use crate::raw::{AuthMethod, AuthProvider, Root, Server, ServerAuth};

const MAKE_KEY: &str = "generate one with `openssl genpkey -algorithm EC -pkeyopt \
    ec_paramgen_curve:P-256 -out client.pem`, and use a reference: file:client.pem";

/// Returns whether callers have their own accounts at a server.
pub(super) fn has_users(root: &Root) -> bool {
    let mut auths = root.servers.values().filter_map(|server| server.auth.as_ref());
    if auths.any(|auth| auth.r#type.is_some_and(Method::is_connectable)) {
        return true;
    }
    let mut entries = root.catalogue.values();
    entries.any(|entry| matches!(entry.auth, AuthMethod::User | AuthMethod::UserHeaders))
}

/// Returns whether any server requires the exchange of its callers' access tokens.
pub(super) fn exchanges_tokens(root: &Root) -> bool {
    let mut auths = root.servers.values().filter_map(|server| server.auth.as_ref());
    auths.any(|auth| auth.r#type.is_some_and(Method::exchanges_tokens))
}

/// Returns whether the gateway has to be a registered client with a secret or a key.
fn needs_client(kind: Method, raw: &ServerAuth) -> bool {
    let needs_none = kind.is_connectable() || kind == Method::Wif;
    !needs_none || raw.discovery == Listing::OwnAccount
}

impl Check<'_> {
    /// Returns the settings of accounts, for the servers that have them.
    pub fn accounts(&mut self, public_url: Option<&Url>) -> Config {
        let root = self.root;
        let mut servers = BTreeMap::new();
        for (slug, server) in &root.servers {
            let Some(auth) = &server.auth else { continue };
            let config = self.within("servers", slug, |check| check.server_auth(server, auth));
            servers.extend(config.map(|config| (slug.clone(), config)));
        }
        let secrets = root.secret.iter().chain(&root.old_secrets);
        let link_secrets = secrets.map(|secret| Secret::new(secret.clone())).collect();
        Config { public_url: public_url.cloned(), link_secrets, servers }
    }

    fn server_auth(&mut self, server: &Server, raw: &ServerAuth) -> Option<ServerConfig> {
        let Some(kind) = raw.r#type else {
            let hint = "set `user` (each caller's own account), `user_headers` (each caller's own \
                key), `exchange`, `id_jag`, `client_credentials` or `wif`";
            self.error("auth.type", "is required", hint);
            return None;
        };
        let Some(url) = server.url.as_ref().and_then(|url| Url::parse(url).ok()) else {
            if server.url.is_none() {
                self.error("auth", "is only valid with `url`", "remove it");
            }
            return None;
        };
        if url.scheme() != "https" && !is_local(&url) {
            let what =
                "is not possible over plain http: tokens would cross the network unencrypted";
            self.error("auth", what, "use https:// in `url`");
        }
        if kind == Method::Exchange && self.root.auth.issuers.len() > 1 {
            let what = "sends callers' tokens of all `auth.issuers` to the server's issuer";
            let hint = "use `id_jag`, or a gateway for each issuer of callers";
            self.error("auth.type", what, hint);
        }
        self.auth_headers(server, (kind, raw.discovery));
        self.only_for(kind, raw);
        let issuer = self.account_issuer(raw);
        let mut client = self.account_client(raw);
        if kind == Method::Wif {
            // The token identifies the gateway: it needs no client id, and never registers.
            let id = String::new();
            client = client.or(Some(PreRegistered { id, authentication: Authentication::None }));
        }
        if needs_client(kind, raw) {
            self.own_client(raw, client.as_ref());
        }
        let header = self.key_header(raw);
        if let Some(scopes) = &raw.scopes {
            self.check_scope_list("auth.scopes", scopes);
        }
        Some(ServerConfig {
            method: kind,
            url,
            issuer,
            client,
            scopes: raw.scopes.clone(),
            listing: raw.discovery,
            waits: raw.waits,
            audience: raw.audience.clone(),
            provider: raw.provider.as_ref().and_then(|provider| self.auth_provider(provider)),
            token_file: raw.token_file.clone(),
            header,
            addresses: Policy::Operator,
        })
    }

    /// Rejects settings that this type does not use.
    fn only_for(&mut self, kind: Method, raw: &ServerAuth) {
        let has_page = kind.is_connectable();
        let is_key = kind == Method::UserKey;
        let is_wif = kind == Method::Wif;
        let users = "is only valid with `type: user` and `user_headers`";
        let keys = "is only valid with `type: user_headers`";
        let exchange = "is only valid with `type: exchange`";
        let id_jag = "is only valid with `type: id_jag`";
        let wif = "is only valid with `type: wif`";
        let own = "is only valid with `type: client_credentials`";
        let unused = "is not used with `type: user_headers`";
        for (key, is_given, is_wrong, what) in [
            ("waits", !raw.waits.is_zero(), !has_page, users),
            ("discovery", raw.discovery == Listing::FirstUser, !has_page, users),
            ("header", raw.header.is_some(), !is_key, keys),
            ("audience", raw.audience.is_some(), kind != Method::Exchange, exchange),
            ("provider", raw.provider.is_some(), kind != Method::IdJag, id_jag),
            ("token_file", raw.token_file.is_some(), !is_wif, wif),
            ("client_secret", raw.client_secret.is_some(), is_wif, own),
            ("client_key", raw.client_key.is_some(), is_wif, own),
            ("issuer", raw.issuer.is_some(), is_key, unused),
            ("client_id", raw.client_id.is_some(), is_key, unused),
            ("scopes", raw.scopes.is_some(), is_key, unused),
        ] {
            if is_given && is_wrong {
                self.error(&format!("auth.{key}"), what, "remove it");
            }
        }
        for (key, is_missing, hint) in [
            ("token_file", raw.token_file.is_none(), "it is where the platform writes the token"),
            ("issuer", raw.issuer.is_none(), "it is the only place that the token is sent to"),
        ] {
            if is_wif && is_missing {
                self.error(&format!("auth.{key}"), "is required with `type: wif`", hint);
            }
        }
        if kind == Method::IdJag && raw.provider.is_none() {
            let hint = "set `issuer`, `client_id` and `client_secret` of the callers' provider";
            self.error("auth.provider", "is required with `type: id_jag`", hint);
        }
    }

    fn auth_provider(&mut self, raw: &AuthProvider) -> Option<(String, PreRegistered)> {
        let path = "auth.provider";
        let issuer = raw.issuer.clone();
        let url = issuer.as_deref().and_then(|issuer| Url::parse(issuer).ok());
        if !url.is_some_and(|url| url.scheme() == "https" || is_local(&url)) {
            self.error(path, "requires an `issuer` with https://", "add it");
        }
        let id = raw.client_id.clone();
        let secret = raw.client_secret.as_ref().filter(|secret| !secret.is_empty());
        let Some((id, secret)) = id.zip(secret) else {
            self.error(path, "requires `client_id` and `client_secret`", "add them");
            return None;
        };
        self.warn_of_literal("auth.provider.client_secret");
        let authentication = Authentication::Secret(Secret::new(secret.clone()));
        Some((issuer?, PreRegistered { id, authentication }))
    }

    /// Returns the header of users' keys, and `Authorization` for tokens.
    fn key_header(&mut self, raw: &ServerAuth) -> HeaderName {
        let Some(name) = &raw.header else { return AUTHORIZATION };
        let name = name.to_ascii_lowercase();
        let header = name.parse().ok().filter(|_| !is_own_header(&name));
        if header.is_none() {
            self.error("auth.header", "is not a header for keys", "such as X-Api-Key");
        }
        header.unwrap_or(AUTHORIZATION)
    }

    /// Checks that no header carries another credential on calls.
    fn auth_headers(&mut self, server: &Server, kind: (Method, Listing)) {
        let mut names = server.headers.keys();
        let has_own = names.any(|name| name.eq_ignore_ascii_case("authorization"));
        match kind {
            (method, discovery) if !method.is_per_user() => {
                if has_own {
                    let what = "must not contain Authorization with `auth`";
                    self.error("headers", what, "remove it");
                }
                if discovery != Listing::None {
                    let what = "is not used with the gateway's own account";
                    self.error("auth.discovery", what, "remove it");
                }
            }
            (_, Listing::Static) => {}
            _ if !server.headers.is_empty() => {
                let what = "would be the same for all users, and calls with this `auth.type` \
                    carry the caller's credential alone";
                let hint = "remove them, or set `auth.discovery: static` to read lists with them";
                self.error("headers", what, hint);
            }
            _ => {}
        }
    }

    fn account_issuer(&mut self, raw: &ServerAuth) -> Option<String> {
        let path = "auth.issuer";
        let hint = "it is the `issuer` in the metadata of the authorization server, such as \
            https://login.example.com";
        let Some(issuer) = raw.issuer.clone() else {
            if raw.client_id.is_some() {
                let what = "is required with `client_id`, so that the client is used there alone";
                self.error(path, what, hint);
            }
            return None;
        };
        let url = Url::parse(&issuer).ok();
        let url = url.filter(|url| url.query().is_none() && url.fragment().is_none());
        if !url.is_some_and(|url| url.scheme() == "https" || is_local(&url)) {
            self.wrong_value(path, "must be an https:// address", hint);
        }
        Some(issuer)
    }

    fn account_client(&mut self, raw: &ServerAuth) -> Option<PreRegistered> {
        let secrets = [
            ("client_secret", raw.client_secret.is_some()),
            ("client_key", raw.client_key.is_some()),
            ("client_key_id", raw.client_key_id.is_some()),
        ];
        let Some(id) = raw.client_id.clone() else {
            for (key, is_given) in secrets {
                if is_given {
                    self.error(&format!("auth.{key}"), "requires `client_id`", "add it");
                }
            }
            return None;
        };
        if id.is_empty() || id.len() > MAX_CREDENTIAL || !id.bytes().all(|b| b.is_ascii_graphic()) {
            let hint = "it is the id that the authorization server assigned to the gateway";
            self.error("auth.client_id", "is not a valid client id", hint);
        }
        if raw.client_secret.is_some() && raw.client_key.is_some() {
            let what = "cannot be combined with `client_secret`";
            self.error("auth.client_key", what, "keep one of them");
        }
        if raw.client_key_id.is_some() && raw.client_key.is_none() {
            self.error("auth.client_key_id", "requires `client_key`", "remove it");
        }
        let authentication = match (&raw.client_secret, &raw.client_key) {
            (Some(secret), _) => {
                self.client_secret("auth.client_secret", secret);
                Authentication::Secret(Secret::new(secret.clone()))
            }
            (None, Some(key)) => {
                let Ok(key) = ClientKey::from_pem(key, raw.client_key_id.clone()) else {
                    let what = "is not a P-256 private key in PEM (PKCS #8)";
                    self.error("auth.client_key", what, MAKE_KEY);
                    return None;
                };
                self.warn_of_literal("auth.client_key");
                Authentication::Key(key)
            }
            (None, None) => Authentication::None,
        };
        Some(PreRegistered { id, authentication })
    }

    /// Checks the client of the gateway's own account.
    fn own_client(&mut self, raw: &ServerAuth, client: Option<&PreRegistered>) {
        let is_public = client.is_none_or(|client| client.authentication == Authentication::None);
        if raw.client_key.is_none() && is_public {
            let what = "requires `client_id` and `client_secret` or `client_key`";
            self.error("auth", what, "register the gateway at the authorization server");
        }
    }
}
