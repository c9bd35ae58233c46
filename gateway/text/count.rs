//! Numbers with nouns in messages: `1 server`, `2 policies`. Only regular nouns are supported.

use std::fmt::Display;

/// Formats a number with its noun, given in the singular.
pub fn count<N: Copy + Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    if number == N::from(1) {
        return format!("{number} {noun}");
    }
    match noun.strip_suffix('y') {
        Some(stem) => format!("{number} {stem}ies"),
        None => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests;
