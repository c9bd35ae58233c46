//! Tests of `inspect`: invisible characters in files of skills.

use serde_json::{Value, json};

use super::*;

fn is_hidden(uri: &str, file: &Value) -> bool {
    has_hidden_text(uri, json!([file]).to_string().as_bytes())
}

#[test]
fn a_blob_that_cannot_be_decoded_is_not_clean() {
    // "Ask" and a space without width; "Ask?>".
    for (blob, expected) in [
        ("QXNr", false),
        ("QXNrPz4=", false),
        ("QXNr4oCL", true),
        ("QXNr\n4oCL", true),
        ("QXNrPz4", true),
        ("4oCL4oCL-_", true),
        ("", false),
    ] {
        assert_eq!(is_hidden("skill://a/b.bin", &json!({"blob": blob})), expected, "{blob:?}");
    }
}

#[test]
fn bytes_that_are_not_utf8_do_not_hide_text() {
    let image = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xe2\x80\x8b".as_slice();
    let latin = b"caf\xe9".as_slice();
    let covert = b"Ask\xff\xe2\x80\x8b".as_slice();
    let covert_with_nul = b"Ask\xff\0\xe2\x80\x8b".as_slice();
    for (uri, mime, bytes, expected) in [
        ("skill://a/logo.png", "image/png", image, false),
        ("skill://a/notes.md", "text/markdown", latin, false),
        ("skill://a/SKILL.MD?x#y.png", "image/png", covert, true),
        ("skill://a/SKILL.MD?x#y.png", "image/png", covert_with_nul, true),
        ("skill://a/notes", "TEXT/plain", covert_with_nul, true),
        ("skill://a/notes", "application/octet-stream", covert, true),
        ("skill://a/notes", "application/octet-stream", covert_with_nul, false),
    ] {
        let file = json!({"uri": uri, "blob": STANDARD.encode(bytes), "mimeType": mime});
        assert_eq!(is_hidden("skill://a/x", &file), expected, "{uri} {mime} {bytes:?}");
        assert_eq!(is_hidden(uri, &json!({"mimeType": mime, "blob": file["blob"]})), expected);
    }
}
