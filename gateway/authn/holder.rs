//! Who holds a role, as the configuration names it: by a role, a principal or a name of
//! its certificate. It decides nothing about what a role may do.

use crate::{KEY, Principal};

/// One kind of callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Callers with a role, whatever their credential is.
    Role(Pattern),
    /// API keys with a role.
    KeyRole(String),
    /// Callers by `issuer|subject`.
    Principal(Pattern),
    /// Callers by a name of their client certificate, or by its fingerprint as `sha256:…`.
    Certificate(Pattern),
}

/// A name, or with a `*` at the end all names that begin like it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    is_prefix: bool,
}

impl Holder {
    /// Reads `role:NAME`, `principal:ISSUER|SUBJECT` or `certificate:NAME`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once(':')?;
        let pattern = Pattern::new(name)?;
        match kind {
            "role" => Some(Self::Role(pattern)),
            "principal" if name.contains('|') => Some(Self::Principal(pattern)),
            "certificate" if name.contains(':') => Some(Self::Certificate(pattern)),
            _ => None,
        }
    }

    /// API keys with this role.
    #[must_use]
    pub fn of_key(role: &str) -> Self {
        Self::KeyRole(role.to_owned())
    }

    /// Whether it names this caller.
    #[must_use]
    pub fn names(&self, caller: &Principal) -> bool {
        match self {
            Self::Role(pattern) => caller.roles.iter().any(|role| pattern.fits(role)),
            Self::KeyRole(name) => {
                *caller.issuer == *KEY && caller.roles.iter().any(|role| **role == **name)
            }
            Self::Principal(pattern) => {
                pattern.fits(&format!("{}|{}", caller.issuer, caller.subject))
            }
            Self::Certificate(pattern) => pattern.fits_certificate(caller),
        }
    }
}

impl Pattern {
    /// `None` for a text that names nobody, or everybody.
    fn new(text: &str) -> Option<Self> {
        let start = text.strip_suffix('*');
        let name = start.unwrap_or(text);
        let is_plain = !name.is_empty() && !name.contains('*');
        if !is_plain {
            return None;
        }
        Some(Self { text: name.to_owned(), is_prefix: start.is_some() })
    }

    /// Whether it fits a name of the caller's certificate, or its fingerprint.
    fn fits_certificate(&self, caller: &Principal) -> bool {
        let Some(certificate) = caller.certificate() else { return false };
        let fingerprint = format!("sha256:{}", certificate.fingerprint);
        self.fits(&fingerprint) || certificate.names.iter().any(|name| self.fits(name))
    }

    fn fits(&self, name: &str) -> bool {
        if self.is_prefix { name.starts_with(&self.text) } else { name == self.text }
    }
}

#[cfg(test)]
mod tests;
