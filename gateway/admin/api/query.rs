//! Strict parsing of queries: unknown and repeated parameters are errors.

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::access::ORGANISATION;
use super::problem::Problem;

/// A query as `T`, which rejects unknown parameters. `organizationId` is excluded.
pub(crate) struct Query<T>(pub(crate) T);

/// Parses parameters that are not empty.
pub(crate) fn query<T: DeserializeOwned>(given: &[(&str, &str)]) -> Result<Query<T>, Problem> {
    let given = given.iter().filter(|(_, value)| !value.is_empty());
    Ok(Query(parse(given.map(|(name, value)| ((*name).into(), (*value).into())))?))
}

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = parts.uri.query().unwrap_or("");
        Ok(Self(parse(form_urlencoded::parse(query.as_bytes()))?))
    }
}

fn parse<'a, T: DeserializeOwned>(
    query: impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)>,
) -> Result<T, Problem> {
    let mut all = Map::new();
    for (name, value) in query {
        if name == ORGANISATION {
            continue;
        }
        if all.insert(name.to_string(), Value::String(value.into_owned())).is_some() {
            let name: String = name.chars().take(64).collect();
            return Err(Problem::in_query(format!("the parameter `{name}` is repeated")));
        }
    }
    read(all).map_err(Problem::in_query)
}

/// Deserializes parameters; the error names the wrong one.
pub(crate) fn read<T: DeserializeOwned>(all: Map<String, Value>) -> Result<T, String> {
    serde_path_to_error::deserialize(Value::Object(all)).map_err(|error| {
        let path = error.path().to_string();
        let words = error.into_inner().to_string();
        let name: String = path.chars().take(64).collect();
        if path == "." { words } else { format!("`{name}`: {words}") }
    })
}

/// Deserializes a number from text.
pub(crate) fn number<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(D::Error::custom)
}

/// Deserializes a `true` or `false` from text.
pub(crate) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    number(deserializer)
}

#[cfg(test)]
mod tests;
