//! Tests of `pem`.

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::*;

#[test]
fn each_mistake_is_told_in_words() {
    for (text, words) in [
        ("-----BEGIN CERTIFICATE-----\nMIIB\n", "section CERTIFICATE has no end"),
        ("-----BEGIN CERTIFICATE\nMIIB\n", "does not begin as PEM does: `-----BEGIN CERTIFICATE`"),
        ("-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n", "no base64"),
        ("", "nothing of PEM"),
    ] {
        let error = CertificateDer::from_pem_slice(text.as_bytes()).unwrap_err();
        assert!(describe(&error).contains(words), "{text:?}: {}", describe(&error));
    }
}
