//! Slugs of integrations: unique among the operator's servers and the organisation's own, so that a
//! stranger's server never renames yours.

use std::collections::BTreeSet;

use crate::field::SLUG_CHARS;

/// What to call what has no letter of ASCII in its name.
const PLAIN: &str = "integration";

/// A slug made of a name, that no other has: with a number behind it where that is needed.
pub fn derive(name: &str, taken: &BTreeSet<String>) -> String {
    let mut slug = String::new();
    for c in name.chars() {
        if slug.len() == SLUG_CHARS {
            break;
        }
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let base = slug.trim_end_matches('-');
    let base = if base.is_empty() { PLAIN } else { base };
    if !taken.contains(base) {
        return base.to_owned();
    }
    // Of so many numbers one is free, because fewer are taken.
    for number in 2..=taken.len() + 2 {
        let end = format!("-{number}");
        let kept = base.len().min(SLUG_CHARS - end.len());
        let slug = format!("{}{end}", base[..kept].trim_end_matches('-'));
        if !taken.contains(&slug) {
            return slug;
        }
    }
    base.to_owned()
}

#[cfg(test)]
mod tests;
