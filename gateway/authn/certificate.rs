//! Client certificates, after TLS has verified them against the operator's authorities: what they
//! call their holder. It verifies nothing itself.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use lockgate_text::hex;
use sha2::{Digest, Sha256};
use x509_parser::asn1_rs::{Tag, ToDer};
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
}

impl Certificate {
    /// Reads a certificate that TLS has verified (DER). Its holder is called by the first URI, else
    /// the first DNS name, else the first e-mail address among its alternative names, else by its
    /// common name; the kind of name is part of it.
    ///
    /// # Errors
    /// [`ClientCertificateError`].
    pub fn read(der: &[u8]) -> Result<Self, ClientCertificateError> {
        let (rest, certificate) =
            X509Certificate::from_der(der).map_err(|_| ClientCertificateError::Unreadable)?;
        if !rest.is_empty() {
            return Err(ClientCertificateError::Unreadable);
        }
        let names = names(&certificate)?;
        let subject = ["uri:", "dns:", "email:", "cn:"]
            .iter()
            .find_map(|kind| names.iter().find(|name| name.starts_with(kind)));
        let subject = subject.ok_or(ClientCertificateError::NoName)?;
        let issuer = distinguished(certificate.issuer()).ok_or(ClientCertificateError::NoName)?;
        let organisation = single(certificate.subject(), X509Name::iter_organization);
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
    let alternative =
        certificate.subject_alternative_name().map_err(|_| ClientCertificateError::Unreadable)?;
    let alternative =
        alternative.iter().flat_map(|extension| &extension.value.general_names).take(MAX_NAMES);
    let named = alternative.filter_map(|name| match name {
        GeneralName::URI(uri) => Some(format!("uri:{}", usable(uri)?)),
        GeneralName::DNSName(name) => Some(format!("dns:{}", usable(name)?.to_ascii_lowercase())),
        GeneralName::RFC822Name(address) => Some(format!("email:{}", usable(address)?)),
        _ => None,
    });
    let mut all: Vec<Box<str>> = named.map(Into::into).collect();
    if let Some(name) = single(certificate.subject(), X509Name::iter_common_name) {
        all.push(format!("cn:{name}").into());
    }
    Ok(all)
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
    first.as_str().ok().and_then(usable)
}

/// A distinguished name as text: two names that differ have texts that differ. Otherwise one
/// attribute of an intermediate authority could spell out the name of another one.
fn distinguished(name: &X509Name<'_>) -> Option<String> {
    let mut all = Vec::new();
    for relative in name.iter_rdn() {
        let attributes = relative.iter().map(attribute).collect::<Option<Vec<_>>>()?;
        all.push(attributes.join(" + "));
    }
    usable(&all.join(", ")).map(str::to_owned)
}

/// One attribute by RFC 4514, sections 2.3 and 2.4: its short name, if that is its alone, and its
/// text, else its DER.
fn attribute(attribute: &AttributeTypeAndValue<'_>) -> Option<String> {
    let kind = attribute.attr_type();
    let value = attribute.attr_value();
    let name = oid2abbrev(kind, oid_registry())
        .ok()
        .filter(|name| oid_registry().iter_by_sn(*name).count() <= 1);
    let name = name.map_or_else(|| kind.to_id_string(), str::to_owned);
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
            escaped(&char::decode_utf16(units).collect::<Result<String, _>>().ok()?)
        }
        _ => format!("#{}", hex::encode(&value.to_der_vec().ok()?)),
    };
    Some(format!("{name}={value}"))
}

/// RFC 4514, section 2.4.
fn escaped(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    let last = text.chars().count().saturating_sub(1);
    for (at, character) in text.chars().enumerate() {
        match character {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => all.extend(['\\', character]),
            '#' if at == 0 => all.push_str("\\#"),
            ' ' if at == 0 || at == last => all.push_str("\\ "),
            control if control.is_control() => {
                let mut bytes = [0; 4];
                all.extend(
                    control.encode_utf8(&mut bytes).bytes().map(|byte| format!("\\{byte:02x}")),
                );
            }
            plain => all.push(plain),
        }
    }
    all
}

fn usable(text: &str) -> Option<&str> {
    ((1..=MAX_TEXT).contains(&text.len()) && !text.chars().any(char::is_control)).then_some(text)
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
