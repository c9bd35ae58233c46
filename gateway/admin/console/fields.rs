//! Form and query fields as text by name.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::error::PageError;
use super::redirect::PagePath;

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

// A part of a list that a page has read as a whole, with the addresses of the parts beside it.

/// Number of items per page.
const PAGE: usize = 100;

pub(crate) struct ListPart<T> {
    pub(crate) items: Vec<T>,
    /// The position of the first item, from 1.
    pub(crate) first: usize,
    pub(crate) total: usize,
    pub(crate) previous: Option<String>,
    pub(crate) next: Option<String>,
}

impl<T> ListPart<T> {
    /// Returns the page of this number, from 1; the nearest if there is no such page.
    pub(crate) fn cut(all: Vec<T>, page: &str, path: &PagePath) -> Self {
        let total = all.len();
        let page: usize = page.parse().unwrap_or(1);
        let page = page.clamp(1, total.div_ceil(PAGE).max(1));
        let start = (page - 1) * PAGE;
        let items: Vec<T> = all.into_iter().skip(start).take(PAGE).collect();
        let previous = (page > 1).then(|| write_page(path, page - 1));
        let next = (start + items.len() < total).then(|| write_page(path, page + 1));
        Self { items, first: start + 1, total, previous, next }
    }

    pub(crate) fn last(&self) -> usize {
        self.first + self.items.len() - 1
    }
}

fn write_page(path: &PagePath, page: usize) -> String {
    path.clone().with("page", &page.to_string()).into_text()
}

#[cfg(test)]
mod tests;
