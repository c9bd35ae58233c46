//! Secrets without a characteristic shape that follow a word naming them: `password: …`,
//! `API_KEY=…`, `"client_secret": "…"`. Prose, types, references and placeholders after such a word
//! are kept.

use regex::{Captures, Regex};

/// A word that announces a secret, the separator, and the value. Words with other meanings
/// (`token`, `secret`) count only alone or after a qualifying word: a token for the next page is
/// not a secret.
const KEYED: &str = r#"(?ix)
    (?P<head>
        (?P<sure> pass(?:word|wd|phrase) | \bpwd
          | (?:api|access|private|secret|encryption|signing)[_-]?key )
        | (?:^|[^a-z0-9_-]) (?:[a-z0-9]{1,20}[_-])?
          (?: (?:(?:access|auth|refresh|bearer|bot|deploy|api|personal|session)[_-]?)? token
            | (?:(?:client|app|api|shared|webhook|signing|jwt|consumer)[_-]?)? secret )
    )
    (?P<between> ["'\\]{0,3} [\x20\t]{0,4} (?: := | => | [:=] ) [\x20\t]{0,4} ["'`\\]{0,3} )
    (?P<value> [^\s"'`,;<>(){}\[\]\\]{6,256} )
    (?P<after> [(\[]? )
"#;
/// Minimum length of a secret after an ambiguous word, in bytes.
const MIN_AMBIGUOUS_SECRET: usize = 16;
/// Words that mark a token as a list position or a CSRF token, which is not redacted.
const PLACES: [&str; 6] = ["next", "page", "continuation", "sync", "cursor", "csrf"];

#[derive(Debug)]
pub(super) struct Keyed(Regex);

impl Keyed {
    pub(super) fn compile() -> Result<Self, regex::Error> {
        Ok(Self(Regex::new(KEYED)?))
    }

    /// Redacts such secrets; returns `None` if there are none.
    pub(super) fn replace(&self, text: &str) -> Option<String> {
        let mut changed = false;
        let out = self.0.replace_all(text, |found: &Captures<'_>| {
            let head = part(found, "head");
            let between = part(found, "between");
            let value = part(found, "value");
            let is_place = PLACES.iter().any(|place| head.to_ascii_lowercase().contains(place));
            let long =
                found.name("sure").is_some() || value.len() >= MIN_AMBIGUOUS_SECRET && !is_place;
            if !long || !part(found, "after").is_empty() || !looks_secret(value) {
                return match found.get(0) {
                    Some(whole) => whole.as_str().to_owned(),
                    None => String::new(),
                };
            }
            changed = true;
            format!("{head}{between}[redacted: password]")
        });
        if !changed {
            return None;
        }
        Some(out.into_owned())
    }
}

fn part<'a>(found: &'a Captures<'_>, name: &str) -> &'a str {
    found.name(name).map_or("", |part| part.as_str())
}

/// Returns whether a value is a secret rather than a word, reference, placeholder, path or address.
fn looks_secret(value: &str) -> bool {
    let value = value.trim_end_matches(['.', ',', '!', '?', ':', '*', '|']);
    let letters = value.contains(char::is_alphabetic);
    let digits = value.contains(|c: char| c.is_ascii_digit());
    let signs = value.contains(['!', '@', '#', '%', '^', '&', '*', '+', '?', '~', '|', '$']);
    let is_number = !letters && value.chars().all(|c| c.is_ascii_digit());
    let mixed = letters && (digits || signs) || is_number;
    value.chars().count() >= 6 && mixed && !is_reference(value) && !is_placeholder(value)
}

/// Returns whether a value is a variable, a path, a URL or an email address.
fn is_reference(value: &str) -> bool {
    let dotted = value.contains('.') && value.split('.').all(is_name);
    let is_path = value.starts_with('/')
        || value.starts_with("~/")
        || value.starts_with("./")
        || value.starts_with("../");
    let is_variable = matches!(value.strip_prefix('$'), Some(name) if is_name(name));
    let is_sigil = value.starts_with(['%', '@', '&', '*', '#', '!'])
        && !value.contains(|c: char| c.is_ascii_digit());
    dotted
        || is_mail(value)
        || is_path
        || is_variable
        || is_sigil
        || value.starts_with("${")
        || value.contains("://")
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_mail(value: &str) -> bool {
    let Some((user, host)) = value.split_once('@') else { return false };
    host.contains('.')
        && !user.is_empty()
        && host.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c))
}

fn is_placeholder(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let first = value.chars().next();
    let words =
        ["redacted", "your_", "your-", "yourpass", "xxxx", "changeme", "placeholder", "example"];
    value.chars().all(|c| Some(c) == first) || words.iter().any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests;
