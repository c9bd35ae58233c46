//! Slugs of integrations: unique among the operator's servers and the organisation's own, so that
//! adding a server never renames another.

use std::collections::BTreeSet;

use crate::field::SLUG_CHARS;

/// Fallback for names without ASCII letters or digits.
const PLAIN: &str = "integration";

/// Derives a free slug from a name, with a numeric suffix if necessary.
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
    // One of these numbers is free, because `taken` has fewer entries.
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
