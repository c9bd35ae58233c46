//! The fields of a form or a query, as text by name. Pages read the fields that they know.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::error::PageError;

/// Fields of one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

/// Those of the query.
pub(crate) struct QueryFields(pub(crate) Fields);

/// Those of the body, which was found to be of a form of the console.
pub(crate) struct FormFields(pub(crate) Fields);

impl Fields {
    pub(crate) fn parse(text: &[u8]) -> Self {
        let mut fields = Vec::new();
        for (name, value) in form_urlencoded::parse(text) {
            fields.push((name.into_owned(), value.into_owned()));
        }
        Self(fields)
    }

    /// The first value of this name without spaces around it; empty where there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.get_exact(name).trim()
    }

    /// The same as it was typed.
    pub(crate) fn get_exact(&self, name: &str) -> &str {
        for (key, value) in &self.0 {
            if key == name {
                return value;
            }
        }
        ""
    }

    /// The bytes of all names and values.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// Every value of this name, as it was sent.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether there is a field of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }
}

impl<S: Sync> FromRequestParts<S> for QueryFields {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, PageError> {
        Ok(Self(Fields::parse(parts.uri.query().unwrap_or("").as_bytes())))
    }
}

impl<S: Sync> FromRequestParts<S> for FormFields {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, PageError> {
        match parts.extensions.get::<Fields>() {
            Some(fields) => Ok(Self(fields.clone())),
            None => Ok(Self(Fields::default())),
        }
    }
}
