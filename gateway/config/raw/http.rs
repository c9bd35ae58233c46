//! `admin` and `approvals`: the interfaces for operators.

use lockgate_admin::Ready;

use super::leaf::{List, Text};

lockgate_text::settings! {
    pub struct Admin as "Admin" {
        /// Separate address for `/healthz`, `/readyz`, `/metrics` and the API, served by its own
        /// thread; without it they are on `listen`. TLS, limits, Host and Origin are as on
        /// `listen`; health and metrics are also answered without TLS and credentials.
        pub listen: Option<String> = Option<Text>,
        /// A bearer token for the complete `/metrics`, with names of servers, tools and rules,
        /// without any other permission; at least 16 characters. A reference: `${SCRAPE_TOKEN}` or
        /// `file:PATH`.
        pub scrape_token: Option<String> = Option<Text>,
        /// Where the API (`/api`) is served: `auto`, `everywhere` or `off`. It is on
        /// `admin.listen`, and with `everywhere` also on `listen`, as with `auto` in development.
        /// Default `auto`.
        pub api: ApiPlace,
        /// Operators of the whole gateway: `role:NAME`, `certificate:dns:NAME`, or `principal:` and
        /// a caller as in policies; a final `*` matches any suffix. Default: API keys with the role
        /// `operator`. In development also the user of this machine.
        pub operators: Option<Vec<String>> = Option<List>,
        /// Administrators of their own organisation, in the same form. Default: API keys with the
        /// role `admin`.
        pub admins: Option<Vec<String>> = Option<List>,
        /// Further roles that administrators may give to keys of their organisation, besides their
        /// own roles. Default: none.
        pub grants: Option<Vec<String>> = Option<List>,
        /// Address of a registry (API v0.1) whose remote servers administrators can add, such as
        /// `https://registry.modelcontextprotocol.io`. Default: none.
        pub import_registry: Option<String> = Option<Text>,
        /// When `/readyz` returns 200: `started`, once every server of `servers` is connected or
        /// has failed; `any`, while at least one is connected; `all`, while all enabled ones are.
        /// Default `started`.
        pub ready: Ready,
        /// Signing in to the console through an identity provider (OpenID Connect).
        pub sign_in: Option<SignIn>,
    }

    /// The gateway as a client of an OpenID provider. Holds a secret and so has no Debug.
    pub struct SignIn as "SignIn" {
        /// The provider, by its name in `auth.issuers`, whose keys, algorithms, clock skew and
        /// claims apply.
        pub issuer: Option<String> = Option<Text>,
        /// The gateway's client id at the provider.
        pub client_id: Option<String> = Option<Text>,
        /// The gateway's client secret at the provider; none for a public client. A reference:
        /// `${SIGN_IN_SECRET}` or `file:PATH`.
        pub client_secret: Option<String> = Option<Text>,
        /// Scopes requested from the provider; must include `openid`. Default `openid`.
        pub scopes: Option<Vec<String>> = Option<List>,
        /// Address of the console for browsers, such as `https://console.example.com`; the provider
        /// redirects them to `/console/sign-in/callback` there. By default `http.public_url` or
        /// `admin.listen`, depending on where the console is served.
        pub console_url: Option<String> = Option<Text>,
    }

    /// Where the API is served.
    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    pub enum ApiPlace { #[default] Auto, Everywhere, Off }

    pub struct Approvals as "Approvals" {
        /// Receives a message when a call starts to wait for approvers other than its caller.
        pub webhook: Option<Webhook>,
    }

    pub struct Webhook as "Webhook" {
        /// Address of the messages, which contain a link to the call; requires `http.public_url`.
        pub url: Option<String> = Option<Text>,
        /// Key that signs the messages (Standard Webhooks): `whsec_` and 24 to 64 random bytes in
        /// base64. A reference: `${WEBHOOK_SECRET}` or `file:PATH`.
        pub secret: Option<String> = Option<Text>,
    }
}
