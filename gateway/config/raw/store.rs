//! `store`: the database of settings changed at run time. Contains secrets and so has no `Debug`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::leaf::{Text, Toggle};

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Store {
    /// PostgreSQL, for gateways that share changes made at run time:
    /// `postgres://USER:PASSWORD@HOST/DATABASE`. A reference: `${STORE_URL}` or `file:PATH`.
    /// Without it a SQLite file is used.
    pub url: Option<Text>,
    /// The SQLite file; relative to this file. Default `.lockgate/lockgate.db` next to this file.
    /// Created by the first change or counted call.
    pub file: Option<Text>,
    /// Secrets of at least 32 characters, 8 at most: the first encrypts the credentials of
    /// integrations, all decrypt them. Without one no credential can be stored. References:
    /// `${STORE_KEY}` or `file:PATH`.
    pub keys: Vec<Text>,
    /// `false`: a gateway that starts while the store is unavailable is ready without the stored
    /// data.
    pub required: Toggle<true>,
}
