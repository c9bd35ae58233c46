//! Who asks, as policy sees it: what authentication found out, borrowed. Nothing in it is
//! self-declared by the client.

use std::sync::Arc;

/// The issuer of callers without any credential.
pub const ANONYMOUS: &str = "anonymous";

/// An authenticated caller.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subject<'a> {
    /// Stands for issuer and subject in limits.
    pub key: u64,
    pub issuer: &'a str,
    pub subject: &'a str,
    pub organisation: Option<&'a str>,
    pub roles: &'a [Arc<str>],
    pub scopes: &'a [Arc<str>],
    /// The software that acts for the subject, as the credential names it.
    pub agent: Option<&'a str>,
    pub certificate: Option<Certificate<'a>>,
}

/// The client certificate of the connection, verified.
#[derive(Clone, Copy, Debug)]
pub struct Certificate<'a> {
    /// Every name of its holder, with its kind in front, such as `dns:ci.example.com`.
    pub names: &'a [Box<str>],
    /// SHA-256 in hexadecimal digits.
    pub fingerprint: &'a str,
}

impl Subject<'_> {
    /// How policies and logs name the caller: `issuer|subject`.
    #[must_use]
    pub fn principal(&self) -> String {
        format!("{}|{}", self.issuer, self.subject)
    }

    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.issuer == ANONYMOUS
    }

    /// Every name that the certificate goes by; none without one.
    pub(crate) fn certificates(&self) -> Vec<String> {
        let Some(certificate) = self.certificate else { return Vec::new() };
        let mut all = Vec::with_capacity(certificate.names.len() + 1);
        for name in certificate.names {
            all.push(name.to_string());
        }
        all.push(format!("sha256:{}", certificate.fingerprint));
        all
    }
}
