//! The caller of a case: from a file of cases, or from a command line.

use std::sync::Arc;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::{Certificate, Subject};

/// The caller of a case.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Caller {
    /// Default `local`.
    pub issuer: String,
    /// Default `user`.
    pub subject: String,
    pub organisation: Option<String>,
    #[serde(deserialize_with = "words")]
    #[cfg_attr(test, schemars(with = "Vec<String>", extend("default" = [])))]
    pub roles: Vec<Arc<str>>,
    #[serde(deserialize_with = "words")]
    #[cfg_attr(test, schemars(with = "Vec<String>", extend("default" = [])))]
    pub scopes: Vec<Arc<str>>,
    pub agent: Option<String>,
    /// The names of the client certificate, with their kind: `dns:ci.example.com`.
    pub certificates: Vec<Box<str>>,
}

impl Default for Caller {
    fn default() -> Self {
        Self {
            issuer: "local".into(),
            subject: "user".into(),
            organisation: None,
            roles: Vec::new(),
            scopes: Vec::new(),
            agent: None,
            certificates: Vec::new(),
        }
    }
}

impl Caller {
    /// Parses `issuer|subject`, or the name of a key, followed by words such as `role=analyst
    /// organisation=acme`. Single or double quotes enclose blanks: `"certificate:My CA|cn:alice"
    /// organisation='Acme Ltd'`.
    ///
    /// # Errors
    /// Returns the invalid word.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut caller = Self::default();
        for word in &quoted_words(text)? {
            match (word.split_once('='), word.split_once('|')) {
                (Some(("role", value)), _) => caller.roles.push(value.into()),
                (Some(("scope", value)), _) => caller.scopes.push(value.into()),
                (Some(("organisation", value)), _) => caller.organisation = Some(value.into()),
                (Some(("agent", value)), _) => caller.agent = Some(value.into()),
                (Some(("certificate", value)), _) => caller.certificates.push(value.into()),
                (_, Some((issuer, subject))) => {
                    caller.issuer = issuer.into();
                    caller.subject = subject.into();
                }
                (None, None) if !word.is_empty() && !word.contains(':') => {
                    caller.issuer = "key".into();
                    caller.subject = word.as_str().into();
                }
                _ => {
                    return Err(format!(
                        "`{word}` is neither issuer|subject, the name of a key, nor role=, scope=, \
                            organisation=, agent= or certificate="
                    ));
                }
            }
        }
        Ok(caller)
    }

    /// Returns the caller as policies see it.
    #[must_use]
    pub fn subject(&self) -> Subject<'_> {
        Subject {
            key: 0,
            issuer: &self.issuer,
            subject: &self.subject,
            organisation: self.organisation.as_deref(),
            roles: &self.roles,
            scopes: &self.scopes,
            agent: self.agent.as_deref(),
            certificate: match self.certificates.as_slice() {
                [] => None,
                names => Some(Certificate { names, fingerprint: "" }),
            },
        }
    }
}

/// Splits a text into words; quotes enclose blanks, and quotes of the other kind.
fn quoted_words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word = None::<String>;
    let mut open = None;
    for c in text.chars() {
        match (open, c) {
            (Some(quote), c) if c == quote => open = None,
            (None, '"' | '\'') => {
                open = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match open {
        Some(quote) => Err(format!("a {quote} is not closed")),
        None => Ok(words),
    }
}

fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Arc<str>>, D::Error> {
    let mut words = Vec::new();
    for word in Vec::<String>::deserialize(deserializer)? {
        words.push(word.into());
    }
    Ok(words)
}
