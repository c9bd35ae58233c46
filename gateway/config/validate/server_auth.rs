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

/// Returns the path of a key of `auth`.
fn auth_key<'a>(slug: &'a str, key: &'a str) -> [&'a str; 4] {
    ["servers", slug, "auth", key]
}

impl Check<'_> {
    /// Returns the settings of accounts, for the servers that have them.
    pub fn accounts(&mut self, root: &Root, public_url: Option<&Url>) -> Config {
        let mut servers = BTreeMap::new();
        for (slug, server) in &root.servers {
            if let Some(auth) = &server.auth
                && let Some(config) = self.server_auth(slug, server, auth)
            {
                if config.method == Method::Exchange && root.auth.issuers.len() > 1 {
                    let what = "sends callers' tokens of all `auth.issuers` to the server's issuer";
                    let hint = "use `id_jag`, or a gateway for each issuer of callers";
                    self.error(&auth_key(slug, "type"), what, hint);
                }
                servers.insert(slug.clone(), config);
            }
        }
        let secrets = root.secret.iter().chain(&root.old_secrets);
        let link_secrets = secrets.map(|secret| Secret::new(secret.clone())).collect();
        Config { public_url: public_url.cloned(), link_secrets, servers }
    }

    fn server_auth(
        &mut self,
        slug: &str,
        server: &Server,
        raw: &ServerAuth,
    ) -> Option<ServerConfig> {
        let path = ["servers", slug, "auth"];
        let Some(kind) = raw.r#type else {
            let hint = "set `user` (each caller's own account), `user_headers` (each caller's own \
                key), `exchange`, `id_jag`, `client_credentials` or `wif`";
            self.error(&auth_key(slug, "type"), "is required", hint);
            return None;
        };
        let Some(url) = server.url.as_ref().and_then(|url| Url::parse(url).ok()) else {
            if server.url.is_none() {
                self.error(&path, "is only valid with `url`", "remove it");
            }
            return None;
        };
        if url.scheme() != "https" && !is_local(&url) {
            let what =
                "is not possible over plain http: tokens would cross the network unencrypted";
            self.error(&path, what, "use https:// in `url`");
        }
        self.auth_headers(slug, server, (kind, raw.discovery));
        self.only_for(slug, kind, raw);
        let issuer = self.account_issuer(slug, raw);
        let mut client = self.account_client(slug, raw);
        if kind == Method::Wif {
            // The token identifies the gateway: it needs no client id, and never registers.
            let id = String::new();
            client = client.or(Some(PreRegistered { id, authentication: Authentication::None }));
        }
        if needs_client(kind, raw) {
            self.own_client(slug, raw, client.as_ref());
        }
        let header = self.key_header(slug, kind, raw);
        if let Some(scopes) = &raw.scopes {
            self.check_scope_list(&auth_key(slug, "scopes"), scopes);
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
            provider: raw.provider.as_ref().and_then(|provider| self.auth_provider(slug, provider)),
            token_file: raw.token_file.clone(),
            header,
            addresses: Policy::Operator,
        })
    }

    /// Rejects settings that this type does not use.
    fn only_for(&mut self, slug: &str, kind: Method, raw: &ServerAuth) {
        let has_page = kind.is_connectable();
        let is_first = raw.discovery == Listing::FirstUser;
        let is_wif = kind == Method::Wif;
        for (key, is_wrong, types) in [
            ("waits", !has_page && !raw.waits.is_zero(), "user` and `user_headers"),
            ("discovery", !has_page && is_first, "user` and `user_headers"),
            ("audience", kind != Method::Exchange && raw.audience.is_some(), "exchange"),
            ("provider", kind != Method::IdJag && raw.provider.is_some(), "id_jag"),
            ("token_file", kind != Method::Wif && raw.token_file.is_some(), "wif"),
            ("client_secret", is_wif && raw.client_secret.is_some(), "client_credentials"),
            ("client_key", is_wif && raw.client_key.is_some(), "client_credentials"),
        ] {
            if is_wrong {
                let what = format!("is only valid with `type: {types}`");
                self.error(&auth_key(slug, key), what, "remove it");
            }
        }
        for (key, is_missing, hint) in [
            ("token_file", raw.token_file.is_none(), "it is where the platform writes the token"),
            ("issuer", raw.issuer.is_none(), "it is the only place that the token is sent to"),
        ] {
            if is_wif && is_missing {
                self.error(&auth_key(slug, key), "is required with `type: wif`", hint);
            }
        }
        for (key, is_given) in [
            ("issuer", raw.issuer.is_some()),
            ("client_id", raw.client_id.is_some()),
            ("scopes", raw.scopes.is_some()),
        ] {
            if kind == Method::UserKey && is_given {
                let what = "is not used with `type: user_headers`";
                self.error(&auth_key(slug, key), what, "remove it");
            }
        }
        if kind == Method::IdJag && raw.provider.is_none() {
            let hint = "set `issuer`, `client_id` and `client_secret` of the callers' provider";
            self.error(&auth_key(slug, "provider"), "is required with `type: id_jag`", hint);
        }
    }

    fn auth_provider(&mut self, slug: &str, raw: &AuthProvider) -> Option<(String, PreRegistered)> {
        let path = ["servers", slug, "auth", "provider"];
        let issuer = raw.issuer.clone();
        let url = issuer.as_deref().and_then(|issuer| Url::parse(issuer).ok());
        if !url.is_some_and(|url| url.scheme() == "https" || is_local(&url)) {
            self.error(&path, "requires an `issuer` with https://", "add it");
        }
        let id = raw.client_id.clone();
        let secret = raw.client_secret.as_ref().filter(|secret| !secret.is_empty());
        let Some((id, secret)) = id.zip(secret) else {
            self.error(&path, "requires `client_id` and `client_secret`", "add them");
            return None;
        };
        self.warn_of_literal(&["servers", slug, "auth", "provider", "client_secret"]);
        let authentication = Authentication::Secret(Secret::new(secret.clone()));
        Some((issuer?, PreRegistered { id, authentication }))
    }

    /// Returns the header of users' keys, and `Authorization` for tokens.
    fn key_header(&mut self, slug: &str, kind: Method, raw: &ServerAuth) -> HeaderName {
        let Some(name) = raw.header.clone() else { return AUTHORIZATION };
        let path = auth_key(slug, "header");
        if kind != Method::UserKey {
            self.error(&path, "is only valid with `type: user_headers`", "remove it");
        }
        match name.to_ascii_lowercase().parse() {
            Ok(header) if !is_own_header(&name.to_ascii_lowercase()) => header,
            _ => {
                self.error(&path, "is not a header for keys", "such as X-Api-Key");
                AUTHORIZATION
            }
        }
    }

    /// Checks that no header carries another credential on calls.
    fn auth_headers(&mut self, slug: &str, server: &Server, kind: (Method, Listing)) {
        let path = ["servers", slug, "headers"];
        let mut names = server.headers.keys();
        let has_own = names.any(|name| name.eq_ignore_ascii_case("authorization"));
        match kind {
            (method, discovery) if !method.is_per_user() => {
                if has_own {
                    self.error(&path, "must not contain Authorization with `auth`", "remove it");
                }
                if discovery != Listing::None {
                    let what = "is not used with the gateway's own account";
                    self.error(&auth_key(slug, "discovery"), what, "remove it");
                }
            }
            (_, Listing::Static) => {}
            _ if !server.headers.is_empty() => {
                let what = "would be the same for all users, and calls with this `auth.type` \
                    carry the caller's credential alone";
                let hint = "remove them, or set `auth.discovery: static` to read lists with them";
                self.error(&path, what, hint);
            }
            _ => {}
        }
    }

    fn account_issuer(&mut self, slug: &str, raw: &ServerAuth) -> Option<String> {
        let path = auth_key(slug, "issuer");
        let hint = "it is the `issuer` in the metadata of the authorization server, such as \
            https://login.example.com";
        let Some(issuer) = raw.issuer.clone() else {
            if raw.client_id.is_some() {
                let what = "is required with `client_id`, so that the client is used there alone";
                self.error(&path, what, hint);
            }
            return None;
        };
        let url = Url::parse(&issuer).ok();
        let url = url.filter(|url| url.query().is_none() && url.fragment().is_none());
        if !url.is_some_and(|url| url.scheme() == "https" || is_local(&url)) {
            self.wrong_value(&path, "must be an https:// address", hint);
        }
        Some(issuer)
    }

    fn account_client(&mut self, slug: &str, raw: &ServerAuth) -> Option<PreRegistered> {
        let secrets = [
            ("client_secret", raw.client_secret.is_some()),
            ("client_key", raw.client_key.is_some()),
            ("client_key_id", raw.client_key_id.is_some()),
        ];
        let Some(id) = raw.client_id.clone() else {
            for (key, is_given) in secrets {
                if is_given {
                    self.error(&auth_key(slug, key), "requires `client_id`", "add it");
                }
            }
            return None;
        };
        if id.is_empty() || id.len() > MAX_CREDENTIAL || !id.bytes().all(|b| b.is_ascii_graphic()) {
            let hint = "it is the id that the authorization server assigned to the gateway";
            self.error(&auth_key(slug, "client_id"), "is not a valid client id", hint);
        }
        if raw.client_secret.is_some() && raw.client_key.is_some() {
            let what = "cannot be combined with `client_secret`";
            self.error(&auth_key(slug, "client_key"), what, "keep one of them");
        }
        if raw.client_key_id.is_some() && raw.client_key.is_none() {
            self.error(&auth_key(slug, "client_key_id"), "requires `client_key`", "remove it");
        }
        let authentication = match (&raw.client_secret, &raw.client_key) {
            (Some(secret), _) => {
                self.client_secret(&auth_key(slug, "client_secret"), Some(secret.as_str()));
                Authentication::Secret(Secret::new(secret.clone()))
            }
            (None, Some(key)) => {
                let Ok(key) = ClientKey::from_pem(key, raw.client_key_id.clone()) else {
                    let what = "is not a P-256 private key in PEM (PKCS #8)";
                    self.error(&auth_key(slug, "client_key"), what, MAKE_KEY);
                    return None;
                };
                self.warn_of_literal(&auth_key(slug, "client_key"));
                Authentication::Key(key)
            }
            (None, None) => Authentication::None,
        };
        Some(PreRegistered { id, authentication })
    }

    /// Checks the client of the gateway's own account.
    fn own_client(&mut self, slug: &str, raw: &ServerAuth, client: Option<&PreRegistered>) {
        let is_public = client.is_none_or(|client| client.authentication == Authentication::None);
        if raw.client_key.is_none() && is_public {
            let path = ["servers", slug, "auth"];
            let what = "requires `client_id` and `client_secret` or `client_key`";
            self.error(&path, what, "register the gateway at the authorization server");
        }
    }
}
