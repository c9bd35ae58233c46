//! `store`: the database of settings changed at run time. Contains secrets and so has no `Debug`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::leaf::{Text, Toggle};

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Store {
    /// PostgreSQL, for gateways that share what people change:
    /// `postgres://USER:PASSWORD@HOST/DATABASE`. A reference: `${STORE_URL}` or `file:PATH`.
    /// Without it a file of SQLite is used.
    pub url: Option<Text>,
    /// The file of SQLite; relative to this file. Default `.lockgate/lockgate.db` beside this file.
    /// The first change makes it.
    pub file: Option<Text>,
    /// Secrets of at least 32 characters, 8 at most: the first seals the credentials of
    /// integrations, all open them. Without one no credential can be stored. References:
    /// `${STORE_KEY}` or `file:PATH`.
    pub keys: Vec<Text>,
    /// `false`: a gateway that starts while the store is away is ready without what is stored.
    pub required: Toggle<true>,
}
