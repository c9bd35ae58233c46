//! Tests of `connection`.

use super::*;

#[test]
fn answers_are_read_however_they_are_cut() {
    let whole = b"+OK\r\n:-42\r\n-NOSCRIPT No matching script.\r\n$5\r\na\r\nbc\r\n$0\r\n\r\n";
    let expected = [
        Reply::Text("OK".into()),
        Reply::Number(-42),
        Reply::Error("NOSCRIPT No matching script.".into()),
        Reply::Text("a\r\nbc".into()),
        Reply::Text(Bytes::new()),
    ];
    for step in 1..=whole.len() {
        let mut input = BytesMut::new();
        let mut replies = Vec::new();
        for piece in whole.chunks(step) {
            input.extend_from_slice(piece);
            while let Some(reply) = take_reply(&mut input).unwrap() {
                replies.push(reply);
            }
        }
        assert_eq!(replies, expected, "pieces of {step}");
        assert!(input.is_empty());
    }
}

#[test]
fn what_is_no_answer_or_too_large_is_refused() {
    let endless = [b'+'].repeat(MAX_LINE + 2);
    let large = format!("${}\r\n", MAX_TEXT + 1);
    let cases: [&[u8]; 8] = [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\r\n",
        b":1.5\r\n",
        b"$-1\r\n",
        b"$2\r\nabc\r\n",
        b"*1\r\n:1\r\n",
        large.as_bytes(),
        &endless,
    ];
    for case in cases {
        let mut input = BytesMut::from(case);
        assert_eq!(take_reply(&mut input), Err(Malformed), "{:?}", String::from_utf8_lossy(case));
    }
}
