//! Bytes as text and back: UTF-8, base64 (with padding) and hex. What does not fit is refused, never replaced.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

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
                ToolError::new("`content` is not base64 with padding: encode it again, without line breaks")
            }),
            Self::Hex => unhex(text.as_bytes())
                .ok_or_else(|| ToolError::new("`content` is not hex: write two digits for each byte, without spaces")),
        }
    }

    /// UTF-8 is refused when it is none, with a hint.
    pub(super) fn encode(self, path: &str, bytes: Vec<u8>) -> Result<String, ToolError> {
        match self {
            Self::Utf8 => String::from_utf8(bytes)
                .map_err(|_| ToolError(format!("{path} is not UTF-8 text: read it with `encoding` base64 or hex"))),
            Self::Base64 => Ok(STANDARD.encode(bytes)),
            Self::Hex => Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(*high)? * 16 + digit(*low)?),
        _ => None,
    });
    pairs.collect()
}
