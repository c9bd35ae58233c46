//! Client certificates, after TLS has verified them against the operator's authorities: what they call their holder.
//! It verifies nothing itself.

/// A verified client certificate. It holds no key.
#[derive(Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Its holder, with the kind of the name in front: `uri:`, `dns:`, `email:` or `cn:`.
    pub subject: Box<str>,
    /// Every alternative name, with its kind in front.
    pub names: Box<[Box<str>]>,
    /// SHA-256 of the certificate, in lower-case hexadecimal digits.
    pub fingerprint: Box<str>,
}
