//! Addresses of pages.

/// A path with a query, percent-encoded where necessary.
#[derive(Clone, Debug)]
pub(crate) struct PagePath(String);

impl PagePath {
    /// Creates a path from unencoded segments. Dot segments are omitted.
    pub(crate) fn new(segments: &[&str]) -> Self {
        let mut path = String::new();
        for segment in segments.iter().filter(|segment| !matches!(**segment, "." | "..")) {
            let encoded: String = form_urlencoded::byte_serialize(segment.as_bytes()).collect();
            path.push('/');
            path.push_str(&encoded.replace('+', "%20"));
        }
        Self(path)
    }

    /// Appends a query parameter, unless `value` is empty.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        if !value.is_empty() {
            self.0.push(if self.0.contains('?') { '&' } else { '?' });
            let end = self.0.len();
            let mut query = form_urlencoded::Serializer::for_suffix(self.0, end);
            self.0 = query.append_pair(name, value).finish();
        }
        self
    }

    /// Returns the address of the page after a cursor, if there is one.
    pub(crate) fn after(self, cursor: Option<&str>) -> Option<String> {
        cursor.map(|cursor| self.with("after", cursor).0)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests;
