//! The server's certificate: read from PEM files, read again when they change. A pair that does not load leaves the
//! one in use in place. Which clients may call is not decided here.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config::Tls;

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot use {path}: {cause}")]
    File { path: PathBuf, cause: pem::Error },
    #[error("cannot use {path}: it holds no certificate")]
    Empty { path: PathBuf },
    #[error("{cert} and {key} do not go together: {cause}")]
    Pair { cert: PathBuf, key: PathBuf, cause: rustls::Error },
}

/// A certificate and its key, always the newest pair that loaded.
pub(crate) struct Identity {
    files: Tls,
    current: ArcSwap<ServerConfig>,
    /// What the files looked like when they were last read.
    seen: Mutex<[Stamp; 2]>,
}

/// Tells one version of a file from the next, also when it was replaced by a rename or a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp(Option<(SystemTime, u64, u64)>);

impl Identity {
    pub(crate) fn load(files: Tls) -> Result<Self, TlsError> {
        let seen = stamps(&files);
        let current = ArcSwap::from_pointee(read(&files)?);
        Ok(Self { files, current, seen: Mutex::new(seen) })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.load_full())
    }

    /// Reads the files again if they changed, away from the threads that serve.
    pub(crate) fn look_in_background(self: Arc<Self>) {
        tokio::task::spawn_blocking(move || self.look());
    }

    fn look(&self) {
        // Of several loops that share it, one looks.
        let Some(mut seen) = self.seen.try_lock() else { return };
        let now = stamps(&self.files);
        if *seen == now {
            return;
        }
        *seen = now;
        match read(&self.files) {
            Ok(config) => {
                self.current.store(Arc::new(config));
                tracing::info!(cert = %self.files.cert.display(), "certificate loaded again");
            }
            Err(error) => tracing::warn!(%error, "certificate not loaded: the previous one stays in use"),
        }
    }
}

fn stamps(files: &Tls) -> [Stamp; 2] {
    [stamp(&files.cert), stamp(&files.key)]
}

fn stamp(path: &Path) -> Stamp {
    let Ok(metadata) = std::fs::metadata(path) else { return Stamp(None) };
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let inode = 0;
    Stamp(Some((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), metadata.len(), inode)))
}

fn read(files: &Tls) -> Result<ServerConfig, TlsError> {
    let bad = |path: &Path| {
        let path = path.to_owned();
        move |cause| TlsError::File { path, cause }
    };
    let certificates = CertificateDer::pem_file_iter(&files.cert).map_err(bad(&files.cert))?;
    let certificates: Vec<_> = certificates.collect::<Result<_, _>>().map_err(bad(&files.cert))?;
    if certificates.is_empty() {
        return Err(TlsError::Empty { path: files.cert.clone() });
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(bad(&files.key))?;
    let pair = |cause| TlsError::Pair { cert: files.cert.clone(), key: files.key.clone(), cause };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(pair)?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(pair)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
pub(crate) mod tests;
