//! TLS settings of outbound connections: the system's CA certificates plus the operator's, HTTP/1.1
//! by ALPN. Verification cannot be disabled.

use std::path::Path;
use std::sync::Arc;

use lockgate_text::pem;
use rustls::client::Resumption;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::Config;
use crate::error::SetupError;

/// More than any CA bundle contains (Mozilla's has about 150).
const MAX_AUTHORITIES: usize = 4096;

#[derive(PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

/// Creates client settings, to be shared by all connections for session resumption. `own` is
/// presented to servers that request a certificate. Resumption is then disabled, because some of
/// these servers (OpenSSL's, by default) reject resumed sessions.
pub(crate) fn client(
    authorities: &[CertificateDer<'static>],
    own: Option<&Pair>,
) -> Result<Arc<ClientConfig>, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.iter().cloned());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match own {
        Some(own) => builder.with_client_auth_cert(own.chain.clone(), own.key.clone_key())?,
        None => builder.with_no_client_auth(),
    };
    if own.is_some() {
        config.resumption = Resumption::disabled();
    }
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Returns the CA certificates to trust. A machine without a certificate store is not an error
/// here: a TLS handshake then fails.
pub(crate) fn authorities(config: &Config) -> Result<Vec<CertificateDer<'static>>, SetupError> {
    let mut all = system(config.from_environment);
    all.retain(|certificate| check_authority(certificate).is_ok());
    if let Some(path) = config.ca_file.as_deref() {
        match read_authorities(path) {
            Ok(own) => all.extend(own),
            Err(words) => {
                return Err(SetupError::Authorities(format!("{}: {words}", path.display())));
            }
        }
    }
    Ok(all)
}

/// Loads the system's CA certificates; with `from_environment` from `SSL_CERT_FILE` and
/// `SSL_CERT_DIR`.
fn system(from_environment: bool) -> Vec<CertificateDer<'static>> {
    if from_environment || !openssl_probe::has_ssl_cert_env_vars() {
        return rustls_native_certs::load_native_certs().certs;
    }
    let mut all = Vec::new();
    for folder in openssl_probe::candidate_cert_dirs() {
        all.extend(rustls_native_certs::load_certs_from_paths(None, Some(folder)).certs);
    }
    all
}

/// Checks whether a file contains usable CA certificates.
///
/// # Errors
/// The mistake in the file.
pub fn check_authorities(path: &Path) -> Result<(), String> {
    read_authorities(path)?;
    Ok(())
}

fn read_authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let file = CertificateDer::pem_file_iter(path).map_err(|error| pem::describe(&error))?;
    let mut all = Vec::new();
    for certificate in file {
        let certificate = certificate.map_err(|error| pem::describe(&error))?;
        if let Err(error) = check_authority(&certificate) {
            return Err(error.to_string());
        }
        all.push(certificate);
        if all.len() > MAX_AUTHORITIES {
            return Err("too many certificates".into());
        }
    }
    if all.is_empty() {
        return Err("no certificate in this file".into());
    }
    Ok(all)
}

fn check_authority(certificate: &CertificateDer<'static>) -> Result<(), rustls::Error> {
    RootCertStore::empty().add(certificate.clone())
}
