//! `catalogue.NAME`: servers that organisations may add.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::leaf::Text;

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct CatalogueEntry {
    /// Its display name, at most 100 characters. Default: the name of the entry.
    pub title: Option<Text>,
    /// Its purpose, in at most 1000 bytes.
    pub description: Option<Text>,
    /// Address of the server, for Streamable HTTP. Not shown to organisations.
    pub url: Option<Text>,
    /// The credential required from the organisation: `none`, `api_key` (in `header`) or
    /// `bearer_token`; or from each of its members: `user` (an account, by OAuth) or
    /// `user_headers` (a key).
    pub auth: AuthMethod,
    /// The header that carries the key, with `api_key` and `user_headers`. Default with
    /// `user_headers`: `Authorization: Bearer`.
    pub header: Option<Text>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(test, schemars(inline))]
pub enum AuthMethod {
    #[default]
    None,
    ApiKey,
    BearerToken,
    User,
    UserHeaders,
}
