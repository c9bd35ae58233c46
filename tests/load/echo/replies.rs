//! The bytes of the echo server's JSON replies. Lists are rendered once; only the id varies.

use std::fmt::Write;

use bytes::{Bytes, BytesMut};

use crate::wire::{LEGACY, MODERN};

/// The legacy revisions with Streamable HTTP.
pub const LEGACY_REVISIONS: [&str; 3] = ["2025-03-26", "2025-06-18", LEGACY];

/// The bytes after the echoed text in each era.
pub const LEGACY_END: &str = r#""}],"isError":false}}"#;
pub const MODERN_END: &str = r#""}],"isError":false,"resultType":"complete"}}"#;

const SERVER: &str = r#"{"name":"echo","version":"1"}"#;

fn around(id: &[u8], after: &[u8]) -> Bytes {
    const BEFORE: &[u8] = br#"{"jsonrpc":"2.0","id":"#;
    let mut bytes = BytesMut::with_capacity(BEFORE.len() + id.len() + after.len());
    bytes.extend_from_slice(BEFORE);
    bytes.extend_from_slice(id);
    bytes.extend_from_slice(after);
    bytes.freeze()
}

/// Returns the bytes before the echoed text.
pub fn text_before(id: &[u8]) -> Bytes {
    around(id, br#","result":{"content":[{"type":"text","text":""#)
}

pub fn nothing(id: &[u8]) -> Bytes {
    around(id, br#","result":{}}"#)
}

pub fn error(id: &[u8], code: i32, words: &str) -> Bytes {
    around(id, format!(r#","error":{{"code":{code},"message":"{words}"}}}}"#).as_bytes())
}

pub fn unreadable() -> Bytes {
    Bytes::from_static(
        br#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"not a JSON object"}}"#,
    )
}

pub fn unsupported(id: &[u8], requested: Option<&[u8]>) -> Bytes {
    let requested = String::from_utf8_lossy(requested.unwrap_or_default()).into_owned();
    let after = format!(
        r#","error":{{"code":-32022,"message":"unsupported protocol version","data":{{"supported":["{MODERN}"],"requested":"{requested}"}}}}}}"#
    );
    around(id, after.as_bytes())
}

pub fn discover(id: &[u8]) -> Bytes {
    let after = format!(
        r#","result":{{"resultType":"complete","supportedVersions":["{MODERN}"],"capabilities":{{"tools":{{}}}},"ttlMs":60000,"cacheScope":"public","_meta":{{"io.modelcontextprotocol/serverInfo":{SERVER}}}}}}}"#
    );
    around(id, after.as_bytes())
}

pub fn initialized(id: &[u8], agreed: &str) -> Bytes {
    let after = format!(
        r#","result":{{"protocolVersion":"{agreed}","capabilities":{{"tools":{{}}}},"serverInfo":{SERVER}}}}}"#
    );
    around(id, after.as_bytes())
}

/// Returns the first event of a listen. Nothing changes here, so no notification type is accepted.
pub fn acknowledged(id: &[u8]) -> Bytes {
    let mut event = BytesMut::from(
        &br#"data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{},"_meta":{"io.modelcontextprotocol/subscriptionId":"#[..],
    );
    event.extend_from_slice(id);
    event.extend_from_slice(b"}}}\n\n");
    event.freeze()
}

/// The results of `tools/list` in both eras.
pub struct Lists {
    modern: Vec<u8>,
    legacy: Vec<u8>,
}

impl Lists {
    pub fn new(tools: usize) -> Self {
        let mut all = String::from(
            r#"{"name":"echo","description":"Returns its text","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}"#,
        );
        for number in 1..tools {
            // Writing to a string cannot fail.
            let _ = write!(
                all,
                r#",{{"name":"tool_{number:04}","title":"Tool {number}","description":"Looks up record {number} of the collection and returns its fields as text, newest first.","inputSchema":{{"type":"object","properties":{{"query":{{"type":"string","description":"Words to look for"}},"limit":{{"type":"integer","minimum":1,"maximum":100}}}},"required":["query"]}},"annotations":{{"readOnlyHint":true}}}}"#
            );
        }
        Self {
            modern: format!(
                r#","result":{{"tools":[{all}],"resultType":"complete","ttlMs":60000,"cacheScope":"public"}}}}"#
            )
            .into_bytes(),
            legacy: format!(r#","result":{{"tools":[{all}]}}}}"#).into_bytes(),
        }
    }

    pub fn modern(&self, id: &[u8]) -> Bytes {
        around(id, &self.modern)
    }

    pub fn legacy(&self, id: &[u8]) -> Bytes {
        around(id, &self.legacy)
    }
}
