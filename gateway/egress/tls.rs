//! TLS settings of outbound connections: the system's CA certificates plus the operator's, HTTP/1.1
//! by ALPN. Verification cannot be disabled. The gateway's client certificate is read again for
//! each handshake, so that rotation needs no restart.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lockgate_text::pem;
use lockgate_text::pem::{read_chain, read_key};
use parking_lot::Mutex;
use rustls::client::Resumption;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::Config;
use crate::error::{CertificateError, SetupError};

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
    let folders = openssl_probe::candidate_cert_dirs();
    folders
        .flat_map(|at| rustls_native_certs::load_certs_from_paths(None, Some(at)).certs)
        .collect()
}

/// Checks whether a file contains usable CA certificates.
///
/// # Errors
/// The mistake in the file.
pub fn check_authorities(path: &Path) -> Result<(), String> {
    read_authorities(path).map(drop)
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
    if all.is_empty() { Err("no certificate in this file".into()) } else { Ok(all) }
}

fn check_authority(certificate: &CertificateDer<'static>) -> Result<(), rustls::Error> {
    RootCertStore::empty().add(certificate.clone())
}

/// The paths of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// With its chain.
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl ClientCertificate {
    /// Checks whether the files can currently be used.
    ///
    /// # Errors
    /// The unusable file, and the reason.
    pub fn check(&self) -> Result<(), CertificateError> {
        self.make_config(&[], &self.read()?)?;
        Ok(())
    }

    fn read(&self) -> Result<Pair, CertificateError> {
        let chain = read_chain(&self.cert).map_err(CertificateError::Cert)?;
        let key = read_key(&self.key).map_err(CertificateError::Key)?;
        Ok(Pair { chain, key })
    }

    fn make_config(
        &self,
        authorities: &[CertificateDer<'static>],
        pair: &Pair,
    ) -> Result<Arc<ClientConfig>, CertificateError> {
        client(authorities, Some(pair)).map_err(|cause| {
            let cert = self.cert.clone();
            CertificateError::Pair { cert, key: self.key.clone(), cause }
        })
    }
}

pub(crate) struct OwnCertificate {
    files: ClientCertificate,
    authorities: Arc<[CertificateDer<'static>]>,
    current: Mutex<Current>,
}

struct Current {
    pair: Pair,
    config: Arc<ClientConfig>,
    /// Why the current files are not in use; empty while they are.
    trouble: String,
}

impl OwnCertificate {
    pub(crate) fn load(
        files: ClientCertificate,
        authorities: Arc<[CertificateDer<'static>]>,
    ) -> Result<Self, CertificateError> {
        let pair = files.read()?;
        let config = files.make_config(&authorities, &pair)?;
        let current = Mutex::new(Current { pair, config, trouble: String::new() });
        Ok(Self { files, authorities, current })
    }

    /// Returns the configuration for a new handshake. Reads files, on a blocking thread.
    pub(crate) async fn config(self: &Arc<Self>) -> Arc<ClientConfig> {
        let own = Arc::clone(self);
        match tokio::task::spawn_blocking(move || own.read_again()).await {
            Ok(config) => config,
            // The runtime is shutting down.
            Err(_) => Arc::clone(&self.current.lock().config),
        }
    }

    fn read_again(&self) -> Arc<ClientConfig> {
        let mut current = self.current.lock();
        if let Err(error) = self.take_over(&mut current) {
            let words = error.to_string();
            if current.trouble != words {
                tracing::warn!(
                    error = words,
                    "client certificate not loaded: the previous one stays in use"
                );
                current.trouble = words;
            }
        }
        Arc::clone(&current.config)
    }

    fn take_over(&self, current: &mut Current) -> Result<(), CertificateError> {
        let pair = self.files.read()?;
        if current.pair != pair {
            current.config = self.files.make_config(&self.authorities, &pair)?;
            current.pair = pair;
            let cert = self.files.cert.display();
            tracing::info!(%cert, "client certificate reloaded");
        }
        current.trouble.clear();
        Ok(())
    }
}
