//! Lists of texts as a JSON text, for log fields, which cannot be lists.

use std::fmt;

use serde::Serialize;

/// Displays texts as a JSON array.
#[derive(Clone, Copy)]
pub struct JsonList<'a, T>(pub &'a [T]);

impl<T: Serialize> fmt::Display for JsonList<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self.0).map_err(|_| fmt::Error)?)
    }
}
