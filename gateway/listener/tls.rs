//! The server's certificate and the authorities of client certificates: read from PEM files, all
//! read again when one of them changes. Files that do not load leave those in use in place. Which
//! clients may call is not decided here.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use lockgate_authn::{Certificate, ClientCertificateError};
use parking_lot::Mutex;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config::{Clients, Tls};

/// More than any file of authorities holds.
const MAX_AUTHORITIES: usize = 4096;

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot use {path}: {cause}")]
    File { path: PathBuf, cause: pem::Error },
    #[error("cannot use {path}: it holds no certificate")]
    Empty { path: PathBuf },
    #[error("{cert} and {key} do not go together: {cause}")]
    Pair { cert: PathBuf, key: PathBuf, cause: rustls::Error },
    #[error("{path} holds no authorities of clients: {cause}")]
    Authorities { path: PathBuf, cause: VerifierBuilderError },
    #[error("{path} holds a certificate that cannot be an authority: {cause}")]
    Authority { path: PathBuf, cause: rustls::Error },
}

/// A certificate and its key, always the newest pair that loaded.
pub(crate) struct ServerCertificate {
    files: Tls,
    current: ArcSwap<ServerConfig>,
    /// What the files looked like when they were last read.
    seen: Mutex<[FileStamp; 3]>,
}

/// Tells one version of a file from the next, also when it was replaced by a rename or a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp(Option<(SystemTime, u64, u64)>);

impl ServerCertificate {
    pub(crate) fn load(files: Tls) -> Result<Self, TlsError> {
        let seen = take_stamps(&files);
        let current = ArcSwap::from_pointee(load_config(&files)?);
        Ok(Self { files, current, seen: Mutex::new(seen) })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.load_full())
    }

    /// Reads the files again if they changed, away from the threads that serve.
    pub(crate) fn reload_in_background(self: Arc<Self>) {
        tokio::task::spawn_blocking(move || self.reload_if_changed());
    }

    fn reload_if_changed(&self) {
        // Of several loops that share it, one looks.
        let Some(mut seen) = self.seen.try_lock() else { return };
        let now = take_stamps(&self.files);
        if *seen == now {
            return;
        }
        *seen = now;
        match load_config(&self.files) {
            Ok(config) => {
                self.current.store(Arc::new(config));
                tracing::info!(cert = %self.files.cert.display(), "certificate loaded again");
            }
            Err(error) => {
                tracing::warn!(%error, "certificate not loaded: the previous one stays in use")
            }
        }
    }
}

fn take_stamps(files: &Tls) -> [FileStamp; 3] {
    let clients = files.clients.as_ref().map_or(FileStamp(None), |clients| take_stamp(&clients.ca));
    [take_stamp(&files.cert), take_stamp(&files.key), clients]
}

/// What the client's verified certificate says, if it showed one.
pub(crate) fn read_client_certificate(
    connection: &ServerConnection,
) -> Result<Option<Arc<Certificate>>, ClientCertificateError> {
    let shown = connection.peer_certificates().and_then(|chain| chain.first());
    shown.map(|certificate| Certificate::read(certificate).map(Arc::new)).transpose()
}

fn take_stamp(path: &Path) -> FileStamp {
    let Ok(metadata) = std::fs::metadata(path) else { return FileStamp(None) };
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let inode = 0;
    FileStamp(Some((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), metadata.len(), inode)))
}

fn load_config(files: &Tls) -> Result<ServerConfig, TlsError> {
    let certificates = read_certificates(&files.cert)?;
    if certificates.is_empty() {
        return Err(TlsError::Empty { path: files.cert.clone() });
    }
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|cause| TlsError::File { path: files.key.clone(), cause })?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = match &files.clients {
        Some(clients) => make_verifier(clients, Arc::clone(&provider))?,
        None => WebPkiClientVerifier::no_client_auth(),
    };
    // A new configuration has a new memory of sessions: what another set of authorities let in is
    // not resumed.
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder.with_client_cert_verifier(verifier).with_single_cert(certificates, key)
        });
    let mut config = config.map_err(|cause| TlsError::Pair {
        cert: files.cert.clone(),
        key: files.key.clone(),
        cause,
    })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    read.map_err(|cause| TlsError::File { path: path.to_owned(), cause })
}

fn make_verifier(
    clients: &Clients,
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let path = &clients.ca;
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path)
        .map_err(|cause| TlsError::File { path: path.clone(), cause })?;
    for certificate in certificates.take(MAX_AUTHORITIES) {
        let certificate =
            certificate.map_err(|cause| TlsError::File { path: path.clone(), cause })?;
        let added = roots.add(certificate);
        added.map_err(|cause| TlsError::Authority { path: path.clone(), cause })?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = if clients.required { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|cause| TlsError::Authorities { path: path.clone(), cause })
}

#[cfg(test)]
pub(crate) mod tests;
