//! Credentials in what servers say: taken out as they are, percent-encoded, and in base64 whatever
//! stands before them. Other encodings are not looked for.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Shorter values of headers are no secrets, but parts of words.
const SHORTEST: usize = 8;
/// What stands in their place.
const HIDDEN: &str = "[redacted]";

/// The text without the value of a header.
pub(crate) fn hide(words: &str, value: &str) -> String {
    let secret = value.strip_prefix("Bearer ").unwrap_or(value);
    if secret.len() < SHORTEST {
        return words.to_owned();
    }
    let mut shown = words.replace(secret, HIDDEN);
    for form in encoded(secret) {
        shown = shown.replace(&form, HIDDEN);
    }
    shown
}

/// What is sure to be in an encoded text that holds the secret.
fn encoded(secret: &str) -> Vec<String> {
    let mut forms = Vec::new();
    forms.extend(percent(secret).into_iter().filter(|form| form != secret));
    for before in 0..3 {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(secret.as_bytes());
        // Signs at both ends also hold bits of what stands beside it.
        let first = (before * 8).div_ceil(6);
        let end = bytes.len() * 8 / 6;
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            let text = engine.encode(&bytes);
            forms.extend(text.get(first..end).map(str::to_owned));
        }
    }
    forms
}

/// Everything but letters, digits and the four signs that need it nowhere, with digits of both
/// cases.
fn percent(secret: &str) -> [String; 2] {
    let mut forms = [String::new(), String::new()];
    for byte in secret.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            forms.iter_mut().for_each(|form| form.push(char::from(byte)));
        } else {
            forms[0].push_str(&format!("%{byte:02X}"));
            forms[1].push_str(&format!("%{byte:02x}"));
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "canary/3f9a+K9=";

    #[test]
    fn a_credential_is_hidden_in_every_encoding_that_is_cheap_to_find() {
        let lower = "canary%2f3f9a%2bK9%3d";
        for said in [SECRET, "canary%2F3f9a%2BK9%3D", lower] {
            let shown = hide(&format!("bad token {said}!"), &format!("Bearer {SECRET}"));
            assert_eq!(shown, "bad token [redacted]!", "{said}");
        }
        for before in ["", "u", "me:", "Bearer ", "user:"] {
            for after in ["", "x", "xy", "xyz"] {
                for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
                    let said = engine.encode(format!("{before}{SECRET}{after}"));
                    let shown = hide(&said, SECRET);
                    assert!(shown.contains(HIDDEN), "{before}{after}: {said}");
                    let bits = shown.replace(HIDDEN, "");
                    let most = 6 + 2 * (before.len() + after.len());
                    assert!(bits.len() <= most, "{before}{after}: {shown}");
                }
            }
        }
    }

    #[test]
    fn short_values_and_other_words_stay() {
        assert_eq!(hide("the value en is short", "en"), "the value en is short");
        assert_eq!(hide("nothing of it", SECRET), "nothing of it");
    }
}
