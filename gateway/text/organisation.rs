//! Names of organisations. They come from keys, tokens, certificates and requests, and are compared
//! byte for byte, so names that look alike must not both be valid.

/// Longest name, in bytes.
pub const MAX_BYTES: usize = 256;

/// Permitted characters besides letters and digits. The slash is reserved: it separates an
/// organisation from its server in records.
const SIGNS: &str = "-_.:,;@+&'()#!=$%~";

/// Returns the mistake in a name, to be read after "it"; `None` for a valid name.
pub fn find_mistake(name: &str) -> Option<&'static str> {
    if name.is_empty() || name.len() > MAX_BYTES {
        return Some("must have 1 to 256 bytes");
    }
    if name.starts_with(' ') || name.ends_with(' ') || name.contains("  ") {
        return Some("must not begin or end with a space, or have two in a row");
    }
    if name.chars().all(|c| c == ' ' || c.is_alphanumeric() || SIGNS.contains(c)) {
        return None;
    }
    Some("must have only letters, digits, single spaces and the signs -_.:,;@+&'()#!=$%~")
}

#[cfg(test)]
mod tests;
