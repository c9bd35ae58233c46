//! TLS with a server. `sslmode` decides which part of the certificate is verified; only
//! `verify-full` protects from an attacker on the network.

use std::sync::Arc;

use lockgate_text::pem;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::address::{Address, SslMode};
use crate::error::StoreError;

/// Does the handshake.
pub(super) async fn secure(
    tcp: TcpStream,
    address: &Address,
) -> Result<TlsStream<TcpStream>, StoreError> {
    let Ok(name) = ServerName::try_from(address.host.clone()) else {
        return Err(StoreError::of_tls("the host is not a valid name"));
    };
    let own = address.clone();
    let config = match tokio::task::spawn_blocking(move || read_config(&own)).await {
        Ok(config) => config?,
        Err(_) => return Err(StoreError::stopping()),
    };
    let secured = TlsConnector::from(Arc::new(config)).connect(name, tcp).await;
    secured.map_err(|error| StoreError::of_tls(&error.to_string()))
}

fn read_config(address: &Address) -> Result<ClientConfig, StoreError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions();
    let builder = versions.map_err(refuse)?;
    let builder = match address.ssl_mode {
        SslMode::VerifyFull => builder.with_root_certificates(read_authorities(address)?),
        SslMode::VerifyCa => {
            let authorities = Arc::new(read_authorities(address)?);
            let verifier =
                WebPkiServerVerifier::builder_with_provider(authorities, Arc::clone(&provider));
            let verifier = verifier.build().map_err(refuse)?;
            let lenient = Lenient { provider, authorities: Some(verifier) };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(lenient))
        }
        SslMode::Disable | SslMode::Prefer | SslMode::Require => {
            let lenient = Lenient { provider, authorities: None };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(lenient))
        }
    };
    let Some(cert) = &address.client_cert else { return Ok(builder.with_no_client_auth()) };
    let Some(key) = &address.client_key else { return Ok(builder.with_no_client_auth()) };
    let chain = pem::read_chain(cert).map_err(refuse)?;
    let key = pem::read_key(key).map_err(refuse)?;
    builder.with_client_auth_cert(chain, key).map_err(refuse)
}

/// Returns the authorities of `sslrootcert`, or else the system's.
fn read_authorities(address: &Address) -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    match &address.root_cert {
        Some(file) => {
            for authority in pem::read_chain(file).map_err(refuse)? {
                roots.add(authority).map_err(refuse)?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(roots)
}

#[allow(clippy::needless_pass_by_value, reason = "the form that map_err requires")]
fn refuse(error: impl ToString) -> StoreError {
    StoreError::of_tls(&error.to_string())
}

/// Verifies the certificate for any name, or not at all.
#[derive(Debug)]
struct Lenient {
    provider: Arc<CryptoProvider>,
    authorities: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(verifier) = &self.authorities else { return Ok(ServerCertVerified::assertion()) };
        match verifier.verify_server_cert(certificate, chain, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
