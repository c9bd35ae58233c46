//! `WWW-Authenticate` (RFC 9110, section 11.6.1; RFC 6750, section 3; RFC 9728, section 5.1):
//! several challenges in one header, quoted strings and `token68` credentials.

use serde::{Deserialize, Serialize};

/// Maximum number of parameters that are read from a header.
const MAX_PARAMETERS: usize = 64;
/// Maximum length of `acr_values`, in bytes.
const MAX_ACR_VALUES: usize = 512;

/// The parameters of a `Bearer` challenge that the gateway uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Challenge {
    pub resource_metadata: Option<String>,
    pub scope: Option<String>,
    pub error: Option<String>,
    /// Of a required sign-in (RFC 9470).
    pub acr_values: Option<String>,
    pub max_age: Option<String>,
}

/// A sign-in that a server requires for an operation (RFC 9470).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StepUp {
    pub(crate) acr_values: Option<String>,
    /// Maximum age of the sign-in, in seconds.
    pub(crate) max_age: Option<u64>,
}

impl Challenge {
    /// Reads all `WWW-Authenticate` headers of a response. Parameters of the first `Bearer`
    /// challenge that has them apply.
    pub fn read<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut found: Option<Self> = None;
        for header in headers {
            for (scheme, name, value) in parse(header) {
                if !scheme.eq_ignore_ascii_case("bearer") {
                    continue;
                }
                let challenge = found.get_or_insert_default();
                let place = match &*name.to_ascii_lowercase() {
                    "resource_metadata" => &mut challenge.resource_metadata,
                    "scope" => &mut challenge.scope,
                    "error" => &mut challenge.error,
                    "acr_values" => &mut challenge.acr_values,
                    "max_age" => &mut challenge.max_age,
                    _ => continue,
                };
                place.get_or_insert(value);
            }
        }
        found
    }

    /// Returns the scopes of the challenge.
    pub fn scopes(&self) -> Vec<String> {
        let scope = self.scope.as_deref().unwrap_or("");
        scope.split_ascii_whitespace().map(str::to_owned).collect()
    }

    /// Returns the sign-in that the server requires, if the user's last one does not suffice.
    pub(crate) fn step_up(&self) -> Option<StepUp> {
        if self.error.as_deref() != Some("insufficient_user_authentication") {
            return None;
        }
        let max_age = self.max_age.as_deref().and_then(|seconds| seconds.parse().ok());
        let acr_values = self.acr_values.clone();
        let acr_values = acr_values.filter(|values| values.len() <= MAX_ACR_VALUES);
        Some(StepUp { acr_values, max_age })
    }

    /// Returns whether the token lacks a scope.
    pub fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}

/// Returns scheme, name and value of each parameter; a challenge without parameters has an empty
/// name. Reading stops at the first syntax error.
fn parse(header: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    let mut rest = header;
    let mut scheme = String::new();
    while found.len() < MAX_PARAMETERS {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let (word, after) = take_token(rest);
        if word.is_empty() {
            break;
        }
        let value = after.trim_start_matches([' ', '\t']);
        if let Some(value) = value.strip_prefix('=')
            && !scheme.is_empty()
        {
            let Some((value, after)) = take_value(value.trim_start_matches([' ', '\t'])) else {
                break;
            };
            found.push((scheme.clone(), word.to_owned(), value));
            rest = after;
            continue;
        }
        scheme = word.to_owned();
        found.push((scheme.clone(), String::new(), String::new()));
        rest = skip_token68(after);
    }
    found
}

fn take_token(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)));
    let end = end.unwrap_or(text.len());
    text.split_at(end)
}

/// Returns a token or the content of a quoted string, and the text after it.
fn take_value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        // Scopes and addresses appear unquoted, although they are not tokens.
        let end = text.find([',', ' ', '\t', '"']).unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return Some((value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.push(chars.next()?.1),
            c => value.push(c),
        }
    }
    None
}

/// Skips credentials such as `YWJj==` after a scheme, which are no parameters.
fn skip_token68(after: &str) -> &str {
    let text = after.trim_start_matches([' ', '\t']);
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "-._~+/".contains(c)));
    let end = end.unwrap_or(text.len());
    let rest = text[end..].trim_start_matches('=');
    let is_ended = rest.trim_start_matches([' ', '\t']).starts_with(',') || rest.is_empty();
    if end > 0 && is_ended && text.len() < after.len() { rest } else { after }
}

#[cfg(test)]
mod tests;
