//! The gateway's client certificate, for servers that request one: two PEM files, read again for
//! each handshake, so that rotation needs no restart. If a new pair fails to load, the current pair
//! stays in use.

use std::path::PathBuf;
use std::sync::Arc;

use lockgate_text::pem::{read_chain, read_key};
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls_pki_types::CertificateDer;

use crate::error::CertificateError;
use crate::tls::{self, Pair};

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
        match read_key(&self.key) {
            Ok(key) => Ok(Pair { chain, key }),
            Err(error) => Err(CertificateError::Key(error)),
        }
    }

    fn make_config(
        &self,
        authorities: &[CertificateDer<'static>],
        pair: &Pair,
    ) -> Result<Arc<ClientConfig>, CertificateError> {
        tls::client(authorities, Some(pair)).map_err(|cause| {
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

#[cfg(test)]
mod tests;
