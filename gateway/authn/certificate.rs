//! Client certificates, after TLS has verified them against the operator's authorities: what they
//! call their holder. It verifies nothing itself.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use lockgate_text::hex;
use lockgate_text::organisation::find_mistake;
use sha2::{Digest, Sha256};
use x509_parser::asn1_rs::{Oid, Tag, ToDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::objects::{oid_registry, oid2abbrev};
use x509_parser::prelude::FromDer;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use crate::identity::Identity;

/// What stands before the authority's name in the issuer of a certificate's holder.
pub const CERTIFICATE: &str = "certificate:";
/// Alternative names that are looked at.
const MAX_NAMES: usize = 64;
/// Longest name.
const MAX_TEXT: usize = 512;

/// A verified client certificate. It holds no key.
pub struct Certificate {
    /// Every alternative name with its kind in front (`uri:`, `dns:`, `email:`), then the common
    /// name (`cn:`).
    pub names: Box<[Box<str>]>,
    /// SHA-256 of the certificate, in lower-case hexadecimal digits.
    pub fingerprint: Box<str>,
    /// The same, as tokens that are bound to a certificate name it.
    pub(crate) digest: [u8; 32],
    /// From when to when it is good, both included: Unix seconds.
    valid: RangeInclusive<i64>,
    pub(crate) identity: Arc<Identity>,
}

/// A certificate that names nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientCertificateError {
    #[error("the client certificate cannot be read")]
    Unreadable,
    #[error("the client certificate has no usable name")]
    NoName,
    #[error("the organisation (O) of the client certificate {0}")]
    Organisation(&'static str),
}

impl Certificate {
    /// Reads a certificate that TLS has verified (DER). Its holder is called by the first URI, else
    /// the first DNS name, else the first e-mail address among its alternative names, else by its
    /// common name; the kind of name is part of it.
    ///
    /// # Errors
    /// [`ClientCertificateError`].
    pub fn read(der: &[u8]) -> Result<Self, ClientCertificateError> {
        let Ok((&[], certificate)) = X509Certificate::from_der(der) else {
            return Err(ClientCertificateError::Unreadable);
        };
        let names = names(&certificate)?;
        let Some(subject) = find_subject(&names) else {
            return Err(ClientCertificateError::NoName);
        };
        let Some(issuer) = distinguished(certificate.issuer()) else {
            return Err(ClientCertificateError::NoName);
        };
        let organisation = single(certificate.subject(), X509Name::iter_organization);
        if let Some(name) = organisation
            && let Some(mistake) = find_mistake(name)
        {
            return Err(ClientCertificateError::Organisation(mistake));
        }
        let identity =
            Identity::new(&format!("{CERTIFICATE}{issuer}"), subject).in_organisation(organisation);
        let digest: [u8; 32] = Sha256::digest(der).into();
        let fingerprint = hex::encode(&digest);
        let validity = certificate.validity();
        let valid = validity.not_before.timestamp()..=validity.not_after.timestamp();
        Ok(Self {
            names: names.into(),
            fingerprint: fingerprint.into(),
            digest,
            valid,
            identity: identity.into(),
        })
    }

    /// Whether it is in date. TLS asks once, when a connection or the session that it resumes
    /// begins; requests come later.
    pub(crate) fn is_in_date(&self, now: u64) -> bool {
        self.valid.contains(&i64::try_from(now).unwrap_or(i64::MAX))
    }
}

/// When a certificate (DER) runs out, in Unix seconds.
#[must_use]
pub fn read_expiry(der: &[u8]) -> Option<i64> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

fn names(certificate: &X509Certificate<'_>) -> Result<Vec<Box<str>>, ClientCertificateError> {
    let Ok(alternative) = certificate.subject_alternative_name() else {
        return Err(ClientCertificateError::Unreadable);
    };
    let mut all = Vec::new();
    if let Some(extension) = alternative {
        for name in extension.value.general_names.iter().take(MAX_NAMES) {
            if let Some(name) = alternative_name(name) {
                all.push(name.into());
            }
        }
    }
    if let Some(name) = single(certificate.subject(), X509Name::iter_common_name) {
        all.push(format!("cn:{name}").into());
    }
    Ok(all)
}

/// An alternative name with its kind in front, if it is of a kind that we use.
fn alternative_name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::URI(uri) => Some(format!("uri:{}", usable(uri)?)),
        GeneralName::DNSName(name) => Some(format!("dns:{}", usable(name)?.to_ascii_lowercase())),
        GeneralName::RFC822Name(address) => Some(format!("email:{}", usable(address)?)),
        _ => None,
    }
}

/// The name that its holder is called by.
fn find_subject(names: &[Box<str>]) -> Option<&str> {
    for kind in ["uri:", "dns:", "email:", "cn:"] {
        for name in names {
            if name.starts_with(kind) {
                return Some(name);
            }
        }
    }
    None
}

/// An attribute that stands once. Of several, none can be trusted to be the one that was meant.
fn single<'a, 'n, I>(
    name: &'a X509Name<'n>,
    attribute: impl FnOnce(&'a X509Name<'n>) -> I,
) -> Option<&'a str>
where
    I: Iterator<Item = &'a AttributeTypeAndValue<'n>>,
    'n: 'a,
{
    let mut all = attribute(name);
    let first = all.next()?;
    if all.next().is_some() {
        return None;
    }
    usable(first.as_str().ok()?)
}

/// A distinguished name as text: two names that differ have texts that differ. Otherwise one
/// attribute of an intermediate authority could spell out the name of another one.
fn distinguished(name: &X509Name<'_>) -> Option<String> {
    let mut all = Vec::new();
    for relative in name.iter_rdn() {
        let mut attributes = Vec::new();
        for one in relative.iter() {
            attributes.push(attribute(one)?);
        }
        all.push(attributes.join(" + "));
    }
    let text = all.join(", ");
    usable(&text)?;
    Some(text)
}

/// One attribute by RFC 4514, sections 2.3 and 2.4: its kind and its text, else its DER.
fn attribute(attribute: &AttributeTypeAndValue<'_>) -> Option<String> {
    let kind = short_name(attribute.attr_type());
    let value = attribute.attr_value();
    let value = match value.tag() {
        Tag::NumericString
        | Tag::PrintableString
        | Tag::Utf8String
        | Tag::Ia5String
        | Tag::VisibleString
        | Tag::GeneralString
        | Tag::T61String => escaped(std::str::from_utf8(value.data).ok()?),
        Tag::BmpString => {
            let units =
                value.data.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            let mut text = String::new();
            for character in char::decode_utf16(units) {
                text.push(character.ok()?);
            }
            escaped(&text)
        }
        _ => format!("#{}", hex::encode(&value.to_der_vec().ok()?)),
    };
    Some(format!("{kind}={value}"))
}

/// The short name of a kind of attributes, if that is its alone, else its number.
fn short_name(kind: &Oid<'_>) -> String {
    match oid2abbrev(kind, oid_registry()) {
        Ok(name) if oid_registry().iter_by_sn(name).count() <= 1 => name.to_owned(),
        _ => kind.to_id_string(),
    }
}

/// RFC 4514, section 2.4.
fn escaped(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        match character {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => all.extend(['\\', character]),
            '#' if at == 0 => all.push_str("\\#"),
            ' ' if at == 0 || at + 1 == text.len() => all.push_str("\\ "),
            control if control.is_control() => {
                for byte in control.encode_utf8(&mut [0; 4]).bytes() {
                    all.push_str(&format!("\\{byte:02x}"));
                }
            }
            plain => all.push(plain),
        }
    }
    all
}

fn usable(text: &str) -> Option<&str> {
    let is_usable = (1..=MAX_TEXT).contains(&text.len()) && !text.contains(char::is_control);
    if is_usable { Some(text) } else { None }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("names", &self.names)
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
