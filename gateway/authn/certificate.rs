//! Client certificates that TLS has verified against the operator's CA certificates, and the
//! identities they contain. Signatures are not verified here.

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

/// The prefix of the issuer of a certificate's holder, followed by the CA's name.
pub const CERTIFICATE: &str = "certificate:";
/// Maximum number of alternative names; the rest are ignored.
const MAX_NAMES: usize = 64;
/// Maximum length of a name, in bytes.
const MAX_TEXT: usize = 512;

/// A verified client certificate, without its private key.
pub struct Certificate {
    /// Alternative names, each with its kind as a prefix (`uri:`, `dns:`, `email:`), then the
    /// common name (`cn:`).
    pub names: Box<[Box<str>]>,
    /// SHA-256 of the certificate, in lowercase hexadecimal digits.
    pub fingerprint: Box<str>,
    /// The fingerprint in binary, as in certificate-bound tokens.
    pub(crate) digest: [u8; 32],
    /// Validity in Unix seconds, both ends included.
    valid: RangeInclusive<i64>,
    pub(crate) identity: Arc<Identity>,
}

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
    /// Reads a certificate (DER) that TLS has verified. The subject is the first URI, else the
    /// first DNS name, else the first e-mail address among the alternative names, else the common
    /// name; it includes the kind of name.
    pub fn read(der: &[u8]) -> Result<Self, ClientCertificateError> {
        let Ok((&[], certificate)) = X509Certificate::from_der(der) else {
            return Err(ClientCertificateError::Unreadable);
        };
        let names = names(&certificate)?;
        let subject = find_subject(&names).ok_or(ClientCertificateError::NoName)?;
        let issuer = distinguished(certificate.issuer()).ok_or(ClientCertificateError::NoName)?;
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

    /// Returns whether the certificate is in date. TLS checks this only at the beginning of a
    /// connection or of the session that it resumes; requests arrive later.
    pub(crate) fn is_in_date(&self, now: u64) -> bool {
        self.valid.contains(&i64::try_from(now).unwrap_or(i64::MAX))
    }
}

/// Returns the expiry of a DER certificate, in Unix seconds.
pub fn read_expiry(der: &[u8]) -> Option<i64> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

fn names(certificate: &X509Certificate<'_>) -> Result<Vec<Box<str>>, ClientCertificateError> {
    let alternative =
        certificate.subject_alternative_name().map_err(|_| ClientCertificateError::Unreadable)?;
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

fn alternative_name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::URI(uri) => Some(format!("uri:{}", usable(uri)?)),
        GeneralName::DNSName(name) => Some(format!("dns:{}", usable(name)?.to_ascii_lowercase())),
        GeneralName::RFC822Name(address) => Some(format!("email:{}", usable(address)?)),
        _ => None,
    }
}

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

/// Returns an attribute that occurs once. Of several values, none can be trusted to be the intended
/// value.
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
    if all.next().is_some() { None } else { usable(first.as_str().ok()?) }
}

/// Formats a distinguished name. Different names have different texts; otherwise an attribute of an
/// intermediate CA could imitate another CA's name.
fn distinguished(name: &X509Name<'_>) -> Option<String> {
    let mut all = Vec::new();
    for relative in name.iter_rdn() {
        let attributes: Option<Vec<_>> = relative.iter().map(attribute).collect();
        all.push(attributes?.join(" + "));
    }
    let text = all.join(", ");
    usable(&text)?;
    Some(text)
}

/// Formats an attribute by RFC 4514, sections 2.3 and 2.4: its type with its text, else its DER.
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

/// Returns the short name of an attribute type if it is unambiguous, else the object identifier.
fn short_name(kind: &Oid<'_>) -> String {
    match oid2abbrev(kind, oid_registry()) {
        Ok(name) if oid_registry().iter_by_sn(name).count() <= 1 => name.to_owned(),
        _ => kind.to_id_string(),
    }
}

/// Escapes a text by RFC 4514, section 2.4.
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

lockgate_text::debug_fields!(Certificate: names, fingerprint);

#[cfg(test)]
mod tests;
