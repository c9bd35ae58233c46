//! Tests of `pem`.

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::*;

#[test]
fn each_mistake_is_told_in_words() {
    for (text, words) in [
        ("-----BEGIN CERTIFICATE-----\nMIIB\n", "section CERTIFICATE has no end"),
        ("-----BEGIN CERTIFICATE\nMIIB\n", "has an invalid start: `-----BEGIN CERTIFICATE`"),
        ("-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n", "not base64"),
        ("", "no PEM"),
    ] {
        let error = CertificateDer::from_pem_slice(text.as_bytes()).unwrap_err();
        assert!(describe(&error).contains(words), "{text:?}: {}", describe(&error));
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_cannot_be_used_is_named() {
    for (file, chain, key) in [
        ("/none/x.pem", "/none/x.pem: No such file", "/none/x.pem: No such file"),
        (
            "/dev/null",
            "/dev/null: it contains no certificate",
            "/dev/null: it contains no private key",
        ),
    ] {
        let file = Path::new(file);
        let error = read_chain(file).unwrap_err().to_string();
        assert!(error.contains(chain), "{error}");
        let error = read_key(file).unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    }
    assert!(read_certificates(Path::new("/dev/null")).unwrap().is_empty());
}
