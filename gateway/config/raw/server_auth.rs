//! `servers.NAME.auth`: the gateway as an OAuth client of a server. Holds secrets and so has no
//! `Debug`.

use lockgate_accounts::{Listing, Method};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::leaf::{List, Seconds, Text};

/// The account with which calls are made.
#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ServerAuth {
    /// `user`: each caller connects its own account in a browser, and calls use no other.
    /// `user_headers`: each caller enters its own key once. `client_credentials`: the gateway's own
    /// account, for all callers. `wif`: the same, with the token of the workload in `token_file`.
    /// `exchange`: the caller's access token is exchanged at `issuer` (RFC 8693). `id_jag`: it is
    /// exchanged for an identity assertion of `provider`, which `issuer` accepts. Required.
    pub r#type: Option<Method>,
    /// The only authorization server to use, by its exact `issuer`. Required with `client_id` and
    /// `wif`.
    /// Default: the one that the server names.
    pub issuer: Option<Text>,
    /// The gateway's client id there. Default with `user`: the gateway registers itself.
    pub client_id: Option<Text>,
    /// The client secret; none for a public client. A reference: `${CLIENT_SECRET}` or `file:PATH`.
    pub client_secret: Option<Text>,
    /// Instead of a secret, a private key (P-256, PEM, PKCS #8) that signs assertions
    /// (`private_key_jwt`). A reference: `file:PATH` or `${CLIENT_KEY}`.
    pub client_key: Option<Text>,
    /// The `kid` of the assertions.
    pub client_key_id: Option<Text>,
    /// The scopes that may be requested. Default: those that the server asks for.
    pub scopes: Option<List>,
    /// With `wif`, the file with the token that the platform issues to the gateway, such as a
    /// projected token of Kubernetes; read for each request to `issuer`. Required.
    pub token_file: Option<Text>,
    /// With `user_headers`, the header of the key. Default: `Authorization: Bearer`.
    pub header: Option<Text>,
    /// With `exchange`, the name of the server at `issuer`, if it requires one.
    pub audience: Option<Text>,
    /// With `id_jag`, the identity provider of the callers, at which the gateway is a client.
    pub provider: Option<AuthProvider>,
    /// Unless `client_credentials` or `wif`, the credential that reads the lists: `none`, `static`
    /// (`headers`, which are sent for no call), `first_user` (the lists of the first user that
    /// connects, for all), `per_user` (each user's own lists, for that user alone) or
    /// `client_credentials` (the gateway's own account).
    pub discovery: Listing,
    /// With `user` and `user_headers`, how long a call waits for the account, after its client was
    /// asked to open the page, 0–600 s.
    pub waits: Seconds<0, 600, 0>,
}

/// An identity provider that issues identity assertions.
#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct AuthProvider {
    /// Its exact `issuer`. Required.
    pub issuer: Option<Text>,
    /// The gateway's client id there. Required.
    pub client_id: Option<Text>,
    /// The client secret. A reference: `${PROVIDER_SECRET}` or `file:PATH`. Required.
    pub client_secret: Option<Text>,
}
