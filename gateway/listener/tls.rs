//! The server certificate and the CA certificates for clients. All PEM files are reloaded when any
//! of them changes; on failure the previous files stay in use. Authorization of clients is decided
//! elsewhere.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use lockgate_authn::{Certificate, ClientCertificateError, read_expiry};
use lockgate_text::pem::{self, read_certificates, read_chain, read_key};
use parking_lot::Mutex;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use rustls_pki_types::CertificateDer;
use tokio_rustls::TlsAcceptor;

use crate::config::{ClientAuth, Tls};

/// The reason a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error(transparent)]
    File(#[from] pem::FileError),
    #[error("{cert} and {key} do not match: {cause}")]
    Pair { cert: PathBuf, key: PathBuf, cause: rustls::Error },
    #[error("{path} contains no client certificate authorities: {cause}")]
    Authorities { path: PathBuf, cause: VerifierBuilderError },
    #[error("{path} contains a certificate that cannot be used as an authority: {cause}")]
    Authority { path: PathBuf, cause: rustls::Error },
}

impl Tls {
    /// Checks whether a listener could start with the current files.
    ///
    /// # Errors
    /// The file that cannot be used, and the reason.
    pub fn check(&self) -> Result<(), TlsError> {
        load_material(self)?;
        Ok(())
    }
}

/// The certificate and key of a server: the latest pair that loaded.
pub struct ServerCertificate {
    files: Tls,
    current: ArcSwap<Material>,
    /// The versions of the files when last read.
    seen: Mutex<[FileStamp; 3]>,
}

struct Material {
    config: Arc<ServerConfig>,
    expiry: CertificateExpiry,
}

/// The earliest expiry among the certificates of each file in use, in Unix seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CertificateExpiry {
    pub server: Option<i64>,
    pub client_authorities: Option<i64>,
}

/// Modification time, length and inode: distinguishes versions of a file, even after replacement.
type FileStamp = Option<(i64, i64, u64, u64)>;

impl ServerCertificate {
    pub(crate) fn load(files: Tls) -> Result<Self, TlsError> {
        let seen = take_stamps(&files);
        let current = ArcSwap::from_pointee(load_material(&files)?);
        Ok(Self { files, current, seen: Mutex::new(seen) })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.current.load().config))
    }

    pub fn expiry(&self) -> CertificateExpiry {
        self.current.load().expiry
    }

    /// Reloads changed files on a blocking thread.
    pub(crate) fn reload_in_background(self: Arc<Self>) {
        tokio::task::spawn_blocking(move || self.reload_if_changed());
    }

    fn reload_if_changed(&self) {
        // If several loops share the certificate, only the first checks.
        let Some(mut seen) = self.seen.try_lock() else { return };
        let now = take_stamps(&self.files);
        if *seen == now {
            return;
        }
        *seen = now;
        match load_material(&self.files) {
            Ok(material) => {
                self.current.store(Arc::new(material));
                tracing::info!(cert = %self.files.cert.display(), "certificate reloaded");
            }
            Err(error) => {
                tracing::warn!(%error, "certificate not loaded: the previous one stays in use")
            }
        }
    }
}

fn take_stamps(files: &Tls) -> [FileStamp; 3] {
    let clients = files.client_ca.as_deref().and_then(take_stamp);
    [take_stamp(&files.cert), take_stamp(&files.key), clients]
}

/// Reads the client's verified certificate, if the client presented any.
pub(crate) fn read_client_certificate(
    connection: &ServerConnection,
) -> Result<Option<Arc<Certificate>>, ClientCertificateError> {
    let first = connection.peer_certificates().and_then(|all| all.first());
    Ok(first.map(|certificate| Certificate::read(certificate)).transpose()?.map(Arc::new))
}

fn take_stamp(path: &Path) -> FileStamp {
    let data = std::fs::metadata(path).ok()?;
    Some((data.mtime(), data.mtime_nsec(), data.len(), data.ino()))
}

fn load_material(files: &Tls) -> Result<Material, TlsError> {
    let certificates = read_chain(&files.cert)?;
    let mut expiry =
        CertificateExpiry { server: find_first_expiry(&certificates), client_authorities: None };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = match &files.client_ca {
        Some(path) => {
            let authorities = read_certificates(path)?;
            expiry.client_authorities = find_first_expiry(&authorities);
            make_verifier(path, files.client_auth, authorities, Arc::clone(&provider))?
        }
        None => WebPkiClientVerifier::no_client_auth(),
    };
    let config = Arc::new(make_config(files, certificates, verifier, provider)?);
    Ok(Material { config, expiry })
}

fn find_first_expiry(certificates: &[CertificateDer<'_>]) -> Option<i64> {
    certificates.iter().filter_map(|certificate| read_expiry(certificate)).min()
}

fn make_config(
    files: &Tls,
    certificates: Vec<CertificateDer<'static>>,
    verifier: Arc<dyn ClientCertVerifier>,
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Result<ServerConfig, TlsError> {
    let key = read_key(&files.key)?;
    // A new configuration has a new session cache, so sessions accepted under other CA certificates
    // are not resumed.
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder.with_client_cert_verifier(verifier).with_single_cert(certificates, key)
        });
    let mut config = match config {
        Ok(config) => config,
        Err(cause) => {
            let cert = files.cert.clone();
            return Err(TlsError::Pair { cert, key: files.key.clone(), cause });
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn make_verifier(
    path: &Path,
    client_auth: ClientAuth,
    authorities: Vec<CertificateDer<'static>>,
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in authorities {
        if let Err(cause) = roots.add(certificate) {
            return Err(TlsError::Authority { path: path.to_owned(), cause });
        }
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = match client_auth {
        ClientAuth::Required => builder,
        ClientAuth::Optional => builder.allow_unauthenticated(),
    };
    builder.build().map_err(|cause| TlsError::Authorities { path: path.to_owned(), cause })
}

#[cfg(test)]
pub(crate) mod tests;
