//! Tests of the client certificate.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::Path;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::{HandshakeKind, RootCertStore};
use rustls_pki_types::PrivateKeyDer;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use url::Url;

use super::*;
use crate::tests::scripted::config;
use crate::{Config, Connector, Policy, Target};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Writes a pair into the folder, and returns its certificate.
fn write(folder: &Path, by: &Authority) -> Vec<u8> {
    let key = KeyPair::generate().unwrap();
    let made = CertificateParams::new(vec!["gate".into()]).unwrap().signed_by(&key, by).unwrap();
    std::fs::write(folder.join("cert.pem"), made.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
    made.der().to_vec()
}

fn files(folder: &Path) -> ClientCertificate {
    ClientCertificate { cert: folder.join("cert.pem"), key: folder.join("key.pem") }
}

/// Returns an acceptor that requests a certificate from that CA.
fn acceptor(by: &Authority) -> TlsAcceptor {
    let key = KeyPair::generate().unwrap();
    let made = CertificateParams::new(vec!["localhost".into()]).unwrap().signed_by(&key, by);
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(by.der().clone()).unwrap();
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(vec![made.unwrap().der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(server))
}

/// Returns the certificate presented to the server, with ALPN for HTTP or without, or the reason
/// for a failed connection.
async fn shown(connector: &Connector, server: &TlsAcceptor, alpn: bool) -> Result<Vec<u8>, String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let target = Target::new(&Url::parse(&format!("https://localhost:{port}/")).unwrap()).unwrap();
    let connect = async {
        let connected = if alpn {
            connector.connect(&target, Policy::Operator).await
        } else {
            connector.connect_without_alpn(&target, Policy::Operator, None).await
        };
        // With TLS 1.3, the server rejects the certificate after the handshake.
        let read = connected.unwrap().read(&mut [0]).await;
        read.map_err(|error| crate::describe(&error))
    };
    let accept = async {
        let (tcp, _) = listener.accept().await.unwrap();
        let tls = server.accept(tcp).await.ok()?;
        assert_eq!(tls.get_ref().1.handshake_kind(), Some(HandshakeKind::Full));
        Some(tls.get_ref().1.peer_certificates().unwrap()[0].to_vec())
    };
    let (read, shown) = tokio::join!(connect, accept);
    match shown {
        Some(shown) => Ok(shown),
        None => Err(read.unwrap_err()),
    }
}

fn connector(folder: &TempDir, by: &Authority) -> Connector {
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, by.pem()).unwrap();
    let patient = Duration::from_secs(20);
    Connector::new(&Config { ca_file: Some(file), connect_timeout: patient, ..config() }).unwrap()
}

#[tokio::test]
async fn a_server_that_asks_is_shown_the_certificate_and_others_none() {
    let folder = tempfile::tempdir().unwrap();
    let by = authority();
    let server = acceptor(&by);
    let plain = connector(&folder, &by);
    let cert = write(folder.path(), &by);
    let own = plain.with_client_certificate(files(folder.path())).unwrap();
    for alpn in [true, false] {
        assert_eq!(shown(&own, &server, alpn).await, Ok(cert.clone()));
        let refused = Err("the server requires a client certificate".to_owned());
        assert_eq!(shown(&plain, &server, alpn).await, refused);
        assert_eq!(shown(&own.for_organisation(), &server, alpn).await, refused);
    }
}

#[tokio::test]
async fn a_new_pair_is_shown_from_the_next_handshake_on_and_a_broken_one_never() {
    let folder = tempfile::tempdir().unwrap();
    let by = authority();
    let server = acceptor(&by);
    let plain = connector(&folder, &by);
    let first = write(folder.path(), &by);
    let own = plain.with_client_certificate(files(folder.path())).unwrap();
    assert_eq!(shown(&own, &server, true).await, Ok(first.clone()));
    // Half of the next pair is written, then a file is removed.
    let old = std::fs::read(folder.path().join("key.pem")).unwrap();
    let second = write(folder.path(), &by);
    let new = std::fs::read(folder.path().join("key.pem")).unwrap();
    std::fs::write(folder.path().join("key.pem"), old).unwrap();
    assert_eq!(shown(&own, &server, true).await, Ok(first.clone()));
    std::fs::remove_file(folder.path().join("key.pem")).unwrap();
    assert_eq!(shown(&own, &server, false).await, Ok(first));
    std::fs::write(folder.path().join("key.pem"), new).unwrap();
    assert_eq!(shown(&own, &server, true).await, Ok(second.clone()));
    assert_eq!(shown(&own, &server, false).await, Ok(second));
}

#[test]
fn what_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let by = authority();
    write(folder.path(), &by);
    let good = files(folder.path());
    assert!(good.check().is_ok());
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("empty.pem"), "").unwrap();
    std::fs::write(at("other.pem"), KeyPair::generate().unwrap().serialize_pem()).unwrap();
    for (cert, key, words) in [
        ("none.pem", "key.pem", "none.pem: No such file"),
        ("empty.pem", "key.pem", "empty.pem: it contains no certificate"),
        ("key.pem", "key.pem", "key.pem: it contains no certificate"),
        ("cert.pem", "none.pem", "none.pem: No such file"),
        ("cert.pem", "cert.pem", "cert.pem: it contains no private key"),
        ("cert.pem", "other.pem", "other.pem do not match"),
    ] {
        let files = ClientCertificate { cert: at(cert), key: at(key) };
        let error = files.check().unwrap_err().to_string();
        assert!(error.contains(words), "{cert} {key}: {error}");
        let plain = Connector::new(&config()).unwrap();
        assert!(plain.with_client_certificate(files).is_err());
    }
}
