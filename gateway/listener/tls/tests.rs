//! Tests of `tls`.

#![allow(clippy::unwrap_used)]

use tempfile::TempDir;

use super::*;

pub(crate) fn write_pair(folder: &TempDir, name: &str) -> (Tls, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let files = Tls {
        cert: folder.path().join("cert.pem"),
        key: folder.path().join("key.pem"),
        ..Tls::default()
    };
    for (path, text) in
        [(&files.cert, made.cert.pem()), (&files.key, made.signing_key.serialize_pem())]
    {
        // Replaced by rename rather than overwritten, as certificate tools do.
        let fresh = path.with_extension("new");
        std::fs::write(&fresh, text).unwrap();
        std::fs::rename(&fresh, path).unwrap();
    }
    (files, made.cert.der().clone())
}

#[test]
fn a_changed_pair_is_loaded_and_a_broken_one_is_not() {
    let folder = TempDir::new().unwrap();
    let (files, _) = write_pair(&folder, "localhost");
    let identity = ServerCertificate::load(files.clone()).unwrap();
    let first = identity.current.load_full();
    identity.reload_if_changed();
    assert!(Arc::ptr_eq(&first, &identity.current.load_full()), "nothing changed");

    write_pair(&folder, "localhost");
    identity.reload_if_changed();
    let second = identity.current.load_full();
    assert!(!Arc::ptr_eq(&first, &second));

    std::fs::write(&files.key, "garbage").unwrap();
    identity.reload_if_changed();
    std::fs::remove_file(&files.cert).unwrap();
    identity.reload_if_changed();
    assert!(Arc::ptr_eq(&second, &identity.current.load_full()), "the working pair stays");
}

#[test]
fn errors_name_the_file() {
    let folder = TempDir::new().unwrap();
    let (files, _) = write_pair(&folder, "localhost");
    let fails = |files: &Tls| ServerCertificate::load(files.clone()).err().unwrap().to_string();

    let missing = Tls { cert: folder.path().join("none.pem"), ..files.clone() };
    assert!(fails(&missing).contains("none.pem"));
    let swapped = Tls { cert: files.key.clone(), key: files.cert.clone(), ..Tls::default() };
    assert!(fails(&swapped).contains("contains no certificate"));
    let clients = |ca: &Path| Tls { client_ca: Some(ca.into()), ..files.clone() };
    assert!(ServerCertificate::load(clients(&files.cert)).is_ok());
    assert!(fails(&clients(&folder.path().join("none.pem"))).contains("none.pem"));
    assert!(fails(&clients(&files.key)).contains("contains no client certificate authorities"));
    let other = TempDir::new().unwrap();
    let (foreign, _) = write_pair(&other, "localhost");
    let mixed = Tls { cert: files.cert, key: foreign.key, ..Tls::default() };
    assert!(fails(&mixed).contains("do not match"));
}
