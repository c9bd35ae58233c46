//! Tests of `sslmode` against a server that requires TLS.

use super::postgres::Postgres;
use crate::{Store, StorePlace};

#[tokio::test]
async fn each_ssl_mode_verifies_its_part_of_the_certificate() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = made.cert.pem();
    let Some(server) = Postgres::start_with_tls(&certificate, &made.signing_key.serialize_pem())
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("root.pem");
    std::fs::write(&file, certificate).unwrap();
    let root = format!("sslrootcert={}", file.display());
    for (parameters, mistake) in [
        ("sslmode=require".to_owned(), None),
        ("sslmode=prefer".to_owned(), None),
        ("sslmode=disable".to_owned(), Some("it rejected the user")),
        ("sslmode=verify-ca".to_owned(), Some("invalid peer certificate")),
        (format!("sslmode=verify-ca&{root}"), None),
        (format!("sslmode=verify-full&{root}"), Some("the certificate is for another host")),
        (format!("sslmode=verify-full&{root}&host=localhost"), None),
        ("sslmode=verify-full&sslrootcert=/none.pem".to_owned(), Some("/none.pem")),
    ] {
        let url = format!("{}?{parameters}", server.url());
        let checked = Store::new(StorePlace::Postgres(url)).check().await;
        match (checked, mistake) {
            (Ok(_), None) => {}
            (Err(error), Some(mistake)) => {
                assert!(error.to_string().contains(mistake), "{parameters}: {error}");
            }
            (checked, _) => panic!("{parameters}: {checked:?}"),
        }
    }
}
