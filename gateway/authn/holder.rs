//! Holders of a role in the configuration, named by a role, a principal or a certificate. The
//! permissions of a role are decided elsewhere.

use crate::{KEY, Principal};

/// A set of callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Callers with a role, from any credential.
    Role(Pattern),
    /// API keys with a role.
    KeyRole(String),
    /// Callers with this `issuer|subject`.
    Principal(Pattern),
    /// Callers with this name in their client certificate, or with its fingerprint as `sha256:…`.
    Certificate(Pattern),
}

/// A name, or a prefix of names if it ends with `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    is_prefix: bool,
}

impl Holder {
    /// Parses `role:NAME`, `principal:ISSUER|SUBJECT` or `certificate:NAME`.
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

    pub fn of_key(role: &str) -> Self {
        Self::KeyRole(role.to_owned())
    }

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
    /// Parses a pattern. Returns `None` for an empty text or `*` alone, and for `*` elsewhere.
    fn new(text: &str) -> Option<Self> {
        let start = text.strip_suffix('*');
        let name = start.unwrap_or(text);
        let is_plain = !name.is_empty() && !name.contains('*');
        if !is_plain {
            return None;
        }
        Some(Self { text: name.to_owned(), is_prefix: start.is_some() })
    }

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
