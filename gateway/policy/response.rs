//! The `response` rule: limits on the size, the secrets and the links of results. It works on
//! decoded text and sizes, independent of JSON and the wire format.

mod secrets;

use std::borrow::Cow;

use regex::RegexBuilder;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use secrets::Shapes;

use crate::refusal::{Mistake, mistake};

const MAX_PATTERNS: usize = 64;
/// Length limit of a pattern and of a replacement, in bytes.
const MAX_PATTERN: usize = 1024;
/// Memory limit of a compiled pattern, in bytes.
const MAX_COMPILED: usize = 1 << 20;
const MAX_SCHEMES: usize = 64;

/// Limits of the results that a policy applies to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// Largest result in bytes, as the server wrote it, 1–1073741824. A larger result is replaced
    /// by an error.
    pub max_bytes: Option<u64>,
    /// Patterns whose matches are replaced, in every text of a result.
    pub redact: Vec<Redact>,
    /// Replaces text with the shape of a known secret: cloud keys, tokens, private keys, JWTs, keys
    /// of this gateway, passwords in connection strings and URLs, and values after a word such as
    /// `password` or `api_key`.
    pub secrets: bool,
    /// Schemes that resource links may have, such as `[https, file]`; other links are removed.
    /// Default: all schemes.
    pub link_schemes: Option<Vec<String>>,
}

/// One pattern.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Redact {
    /// A regular expression (no look-around, no back references), at most 1024 bytes.
    pub pattern: String,
    /// The replacement, literally. Default `[redacted]`.
    #[serde(default)]
    pub replace: Option<String>,
}

/// A compiled rule.
#[derive(Clone, Debug)]
pub struct Response {
    max_bytes: Option<u64>,
    patterns: Vec<(regex::Regex, String)>,
    secrets: Option<&'static Shapes>,
    schemes: Option<Vec<String>>,
}

impl Response {
    /// Compiles a rule.
    ///
    /// # Errors
    /// Returns every mistake, with its keys below the rule and a message for the author.
    pub fn compile(spec: &Spec) -> Result<Self, Vec<Mistake>> {
        let mut mistakes = Vec::new();
        if *spec == Spec::default() {
            mistakes.push(mistake(&[], "is empty: leave it out, or set a limit"));
        }
        if let Some(most) = spec.max_bytes
            && !(1..=1 << 30).contains(&most)
        {
            mistakes.push(mistake(&["max_bytes"], "must be from 1 to 1073741824"));
        }
        let patterns = compile_patterns(&spec.redact, &mut mistakes);
        let schemes = spec.link_schemes.as_ref().map(|all| compile_schemes(all, &mut mistakes));
        let secrets = spec.secrets.then(Shapes::get).transpose().unwrap_or_else(|what| {
            mistakes.push(mistake(&["secrets"], what));
            None
        });
        if mistakes.is_empty() {
            return Ok(Self { max_bytes: spec.max_bytes, patterns, secrets, schemes });
        }
        Err(mistakes)
    }

    /// Combines several rules: the smallest size, all patterns, and the schemes that all of them
    /// allow.
    pub fn all<'a>(rules: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut rules = rules.into_iter();
        let mut all = rules.next()?.clone();
        for one in rules {
            all.max_bytes = [all.max_bytes, one.max_bytes].into_iter().flatten().min();
            all.patterns.extend_from_slice(&one.patterns);
            all.secrets = all.secrets.or(one.secrets);
            match (&mut all.schemes, &one.schemes) {
                (Some(all), Some(one)) => all.retain(|scheme| one.contains(scheme)),
                (None, Some(one)) => all.schemes = Some(one.clone()),
                (_, None) => {}
            }
        }
        Some(all)
    }

    /// Returns the size limit that a result exceeds, if it does.
    #[must_use]
    pub fn too_large(&self, bytes: usize) -> Option<u64> {
        self.max_bytes.filter(|most| bytes as u64 > *most)
    }

    /// Returns whether texts must be checked.
    pub fn redacts(&self) -> bool {
        self.secrets.is_some() || !self.patterns.is_empty()
    }

    /// Returns whether links must be checked.
    pub fn judges_links(&self) -> bool {
        self.schemes.is_some()
    }

    /// Redacts a text; returns `None` if it may stay unchanged. For names of members, use
    /// [`Self::redact_key`].
    #[must_use]
    pub fn redact(&self, text: &str) -> Option<String> {
        let mut out = self.redact_key(text).map_or_else(|| Cow::Borrowed(text), Cow::Owned);
        for (pattern, replace) in &self.patterns {
            if let Cow::Owned(changed) = pattern.replace_all(&out, regex::NoExpand(replace)) {
                out = Cow::Owned(changed);
            }
        }
        match out {
            Cow::Owned(changed) if changed != text => Some(changed),
            _ => None,
        }
    }

    /// Redacts the text of a member.
    #[must_use]
    pub fn redact_member(&self, name: &str, text: &str) -> Option<String> {
        if let Some(shapes) = self.secrets
            && let Some(replaced) = shapes.replace_member(name, text)
        {
            return Some(replaced);
        }
        self.redact(text)
    }

    /// Redacts the name of a member. Only known shapes are replaced, because a pattern could break
    /// a name that clients depend on.
    #[must_use]
    pub fn redact_key(&self, text: &str) -> Option<String> {
        self.secrets?.replace(text)
    }

    /// Returns whether the scheme of a link is allowed.
    pub fn allows_link(&self, uri: &str) -> bool {
        let Some(schemes) = &self.schemes else { return true };
        let Some((scheme, _)) = uri.split_once(':') else { return false };
        schemes.contains(&scheme.to_ascii_lowercase())
    }
}

fn compile_patterns(redact: &[Redact], mistakes: &mut Vec<Mistake>) -> Vec<(regex::Regex, String)> {
    if redact.len() > MAX_PATTERNS {
        mistakes.push(mistake(&["redact"], format!("has more than {MAX_PATTERNS} patterns")));
    }
    let mut patterns = Vec::new();
    for (at, redact) in redact.iter().take(MAX_PATTERNS).enumerate() {
        match pattern(redact) {
            Ok(good) => patterns.push(good),
            Err((key, what)) => mistakes.push(mistake(&["redact", &at.to_string(), key], what)),
        }
    }
    patterns
}

fn compile_schemes(all: &[String], mistakes: &mut Vec<Mistake>) -> Vec<String> {
    if all.len() > MAX_SCHEMES {
        mistakes.push(mistake(&["link_schemes"], format!("has more than {MAX_SCHEMES} schemes")));
    }
    let mut schemes = Vec::new();
    for (at, text) in all.iter().take(MAX_SCHEMES).enumerate() {
        match scheme(text) {
            Some(good) => schemes.push(good),
            None => {
                let what = format!("{text:?} is not a scheme");
                mistakes.push(mistake(&["link_schemes", &at.to_string()], what));
            }
        }
    }
    schemes
}

/// Compiles a pattern and its replacement. An error contains the invalid key.
fn pattern(redact: &Redact) -> Result<(regex::Regex, String), (&'static str, String)> {
    let replace = redact.replace.as_deref().unwrap_or("[redacted]");
    if redact.pattern.is_empty() || redact.pattern.len() > MAX_PATTERN {
        return Err(("pattern", format!("must be 1 to {MAX_PATTERN} bytes long")));
    }
    if replace.len() > MAX_PATTERN {
        return Err(("replace", format!("must be at most {MAX_PATTERN} bytes long")));
    }
    let text = &redact.pattern;
    let mut builder = RegexBuilder::new(text);
    let built = builder.size_limit(MAX_COMPILED).dfa_size_limit(MAX_COMPILED).build();
    let regex =
        built.map_err(|error| ("pattern", format!("{text:?} is not a valid pattern: {error}")))?;
    if regex.is_match("") {
        return Err(("pattern", format!("{text:?} matches everywhere")));
    }
    Ok((regex, replace.to_owned()))
}

fn scheme(text: &str) -> Option<String> {
    let is_scheme = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.len() <= 64
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    is_scheme.then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests;
