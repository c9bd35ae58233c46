//! Tests of `sse`.

#![allow(clippy::unwrap_used)]
use bytes::BytesMut;

use super::*;

#[test]
fn writers_write_these_bytes() {
    fn written(write: impl Fn(&mut BytesMut)) -> String {
        let mut out = BytesMut::new();
        write(&mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }
    let table = [
        (written(|out| encode(out, None, b"{}")), "data: {}\n\n"),
        (written(|out| encode(out, Some("s1-4"), b"{}")), "id: s1-4\ndata: {}\n\n"),
        (written(|out| encode(out, Some("a\nevent: x"), b"{}")), "data: {}\n\n"),
        (
            written(|out| encode(out, None, b"a\nb\r\nc\rd\n")),
            "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n",
        ),
        (written(|out| encode(out, None, b"")), "data: \n\n"),
        (written(comment), ":\n\n"),
        (written(|out| retry(out, None, Some("e0"))), "id: e0\ndata: \n\n"),
        (written(|out| retry(out, Some(1500), Some("e0"))), "retry: 1500\nid: e0\ndata: \n\n"),
        (written(|out| endpoint(out, "/m?s=1")), "event: endpoint\ndata: /m?s=1\n\n"),
    ];
    for (bytes, expected) in table {
        assert_eq!(bytes, expected);
    }
}
