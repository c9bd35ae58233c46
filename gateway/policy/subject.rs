//! The caller as policies see it: the result of authentication, borrowed. It contains nothing that
//! the client declares about itself.

use std::sync::Arc;

/// The issuer of callers without a credential.
pub const ANONYMOUS: &str = "anonymous";

/// An authenticated caller.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subject<'a> {
    /// A hash of the principal. Not read by this crate.
    pub key: u64,
    pub issuer: &'a str,
    pub subject: &'a str,
    pub organisation: Option<&'a str>,
    pub roles: &'a [Arc<str>],
    pub scopes: &'a [Arc<str>],
    /// The software that acts for the subject, as named by the credential.
    pub agent: Option<&'a str>,
    pub certificate: Option<Certificate<'a>>,
}

/// The verified client certificate of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Certificate<'a> {
    /// All names of the holder, prefixed with their kind, such as `dns:ci.example.com`.
    pub names: &'a [Box<str>],
    /// SHA-256 in hexadecimal digits.
    pub fingerprint: &'a str,
}

impl Subject<'_> {
    /// Returns the caller's name in policies and logs: `issuer|subject`.
    pub fn principal(&self) -> String {
        format!("{}|{}", self.issuer, self.subject)
    }

    pub fn is_anonymous(&self) -> bool {
        self.issuer == ANONYMOUS
    }

    /// Returns the names and the fingerprint of the certificate; empty without a certificate.
    pub(crate) fn certificates(&self) -> Vec<String> {
        let Some(certificate) = self.certificate else { return Vec::new() };
        let mut all: Vec<_> = certificate.names.iter().map(ToString::to_string).collect();
        all.push(format!("sha256:{}", certificate.fingerprint));
        all
    }
}
