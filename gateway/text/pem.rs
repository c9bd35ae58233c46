//! Certificates and keys in PEM files, and descriptions of mistakes in such files.

use std::path::{Path, PathBuf};

use rustls_pki_types::pem::{Error, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// More than any certificate file contains.
const MAX_CERTIFICATES: usize = 4096;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot use {path}: {}", describe(cause))]
    Broken { path: PathBuf, cause: Error },
    #[error("cannot use {path}: it contains no certificate")]
    NoCertificate { path: PathBuf },
    #[error("cannot use {path}: it contains no private key, or an encrypted one")]
    NoKey { path: PathBuf },
}

/// Reads the certificates of a file, in their order; possibly none.
///
/// # Errors
/// The file cannot be read, or is not PEM.
pub fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let all = CertificateDer::pem_file_iter(path).and_then(|all| {
        let first = all.take(MAX_CERTIFICATES);
        first.collect()
    });
    all.map_err(|cause| FileError::Broken { path: path.to_owned(), cause })
}

/// Reads a certificate with its chain.
///
/// # Errors
/// The file cannot be read, or contains no certificate.
pub fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let chain = read_certificates(path)?;
    if chain.is_empty() {
        return Err(FileError::NoCertificate { path: path.to_owned() });
    }
    Ok(chain)
}

/// Reads a private key.
///
/// # Errors
/// The file cannot be read, or contains no usable key.
pub fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    PrivateKeyDer::from_pem_file(path).map_err(|cause| match cause {
        // The encryption headers of older programs are not base64.
        Error::NoItemsFound | Error::Base64Decode(_) => FileError::NoKey { path: path.to_owned() },
        cause => FileError::Broken { path: path.to_owned(), cause },
    })
}

/// Describes an error for a message that already names the file.
pub fn describe(error: &Error) -> String {
    match error {
        Error::MissingSectionEnd { end_marker } => {
            let marker = String::from_utf8_lossy(end_marker);
            format!("it is cut off: its section {} has no end", marker.trim_end())
        }
        Error::IllegalSectionStart { line } => {
            let line = String::from_utf8_lossy(line);
            format!("a section of it has an invalid start: `{}`", line.trim_end())
        }
        Error::Base64Decode(_) => "the text between its markers is not base64".to_owned(),
        Error::NoItemsFound => "it contains no PEM".to_owned(),
        Error::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
