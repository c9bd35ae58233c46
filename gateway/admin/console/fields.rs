//! Form and query fields as text by name.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::error::PageError;

#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

/// The fields of the query.
pub(crate) struct QueryFields(pub(crate) Fields);

/// The fields of the body, which `form_guard` has checked.
pub(crate) struct FormFields(pub(crate) Fields);

impl Fields {
    pub(crate) fn parse(text: &[u8]) -> Self {
        let mut fields = Vec::new();
        for (name, value) in form_urlencoded::parse(text) {
            fields.push((name.into_owned(), value.into_owned()));
        }
        Self(fields)
    }

    /// Returns the first value of this name, trimmed; empty if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.get_exact(name).trim()
    }

    /// Returns the first value of this name, untrimmed; empty if there is none.
    pub(crate) fn get_exact(&self, name: &str) -> &str {
        for (key, value) in &self.0 {
            if key == name {
                return value;
            }
        }
        ""
    }

    /// Returns the memory that the fields occupy, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let texts: usize = self.0.iter().map(|(name, value)| name.len() + value.len()).sum();
        texts + self.0.len() * size_of::<(String, String)>()
    }

    /// Returns all values of this name, untrimmed.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns whether there is a field of this name.
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
