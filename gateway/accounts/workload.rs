//! The token with which the platform identifies the gateway as a workload, such as a projected
//! token of Kubernetes. The platform replaces the file before the token expires, so that it is read
//! for each request.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use lockgate_store::Secret;

use crate::error::{AccountError, Result};

/// Maximum size of the file, in bytes.
const MAX_BYTES: usize = 16 * 1024;

/// Reads the token. The errors quote neither the file nor its path, because callers receive them.
pub(crate) async fn read_token(file: &Path) -> Result<Secret> {
    let path = PathBuf::from(file);
    let read = tokio::task::spawn_blocking(move || read_bounded(&path)).await;
    let bytes = match read {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) => {
            tracing::error!(file = %file.display(), %error, "the token file cannot be read");
            let words = "the token of the workload cannot be read; see the gateway's log";
            return Err(AccountError::Setup(words.into()));
        }
        Err(_) => return Err(AccountError::Internal("the reader of the token has failed")),
    };
    let text = String::from_utf8(bytes).unwrap_or_default();
    let token = text.trim();
    if token.len() > MAX_BYTES || !is_jwt(token) {
        tracing::error!(file = %file.display(), "the token file has no JWT of at most 16 KiB");
        let words = "the token of the workload is not a JWT; see the gateway's log";
        return Err(AccountError::Setup(words.into()));
    }
    Ok(Secret::new(token.to_owned()))
}

#[allow(clippy::disallowed_methods, reason = "reads the token file that the operator has named")]
fn read_bounded(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // A larger file is rejected by its length.
    File::open(file)?.take(MAX_BYTES as u64 + 2).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns whether a text has the form of a signed JWT (RFC 7515, section 7.1).
fn is_jwt(token: &str) -> bool {
    let parts: Vec<&str> = token.split('.').collect();
    parts.len() == 3 && parts.iter().all(|part| is_base64url(part))
}

fn is_base64url(text: &str) -> bool {
    let mut bytes = text.bytes();
    !text.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

#[cfg(test)]
mod tests;
