//! Conversion between bytes and text: UTF-8, base64 (with padding) and hex. Invalid input is
//! rejected, never replaced.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lockgate_text::hex;

use crate::tool::ToolError;

pub(super) const NAMES: [&str; 3] = ["utf-8", "base64", "hex"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Utf8,
    Base64,
    Hex,
}

impl Encoding {
    pub(super) fn of(name: &str) -> Self {
        match name {
            "base64" => Self::Base64,
            "hex" => Self::Hex,
            _ => Self::Utf8,
        }
    }

    pub(super) fn decode(self, text: String) -> Result<Vec<u8>, ToolError> {
        match self {
            Self::Utf8 => Ok(text.into_bytes()),
            Self::Base64 => STANDARD.decode(text.as_bytes()).map_err(|_| {
                ToolError::new(
                    "`content` is not base64 with padding: encode it again, without line breaks",
                )
            }),
            Self::Hex => match hex::decode(text.as_bytes()) {
                Some(bytes) => Ok(bytes),
                None => Err(ToolError::new(
                    "`content` is not hex: write two digits for each byte, without spaces",
                )),
            },
        }
    }

    /// Encodes bytes. Invalid UTF-8 is an error with a hint.
    pub(super) fn encode(self, path: &str, bytes: Vec<u8>) -> Result<String, ToolError> {
        match self {
            Self::Utf8 => String::from_utf8(bytes).map_err(|_| {
                ToolError(format!(
                    "{path} is not UTF-8 text: read it with `encoding` base64 or hex"
                ))
            }),
            Self::Base64 => Ok(STANDARD.encode(bytes)),
            Self::Hex => Ok(hex::encode(&bytes)),
        }
    }
}
