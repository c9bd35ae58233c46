//! What is wrong with a file of PEM, in words.

use rustls_pki_types::pem::Error;

/// For a message that names the file already.
#[must_use]
pub fn describe(error: &Error) -> String {
    match error {
        Error::MissingSectionEnd { end_marker } => {
            let marker = String::from_utf8_lossy(end_marker);
            format!("it is cut off: its section {} has no end", marker.trim_end())
        }
        Error::IllegalSectionStart { line } => {
            let line = String::from_utf8_lossy(line);
            format!("a section of it does not begin as PEM does: `{}`", line.trim_end())
        }
        Error::Base64Decode(_) => "what stands between its markers is no base64".to_owned(),
        Error::NoItemsFound => "nothing of PEM is in it".to_owned(),
        Error::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
