//! Tests of `percent`.

use super::*;

#[test]
fn other_bytes_than_those_to_keep_are_encoded() {
    let encoded = encode("a b/ö%", |byte| byte.is_ascii_alphanumeric() || byte == b'/');
    assert_eq!(encoded, "a%20b/%C3%B6%25");
}

#[test]
fn escapes_are_decoded_once() {
    for (text, bytes, found) in [
        ("", "", false),
        ("a b", "a b", false),
        ("%41%6a%2F", "Aj/", true),
        ("%2541", "%41", true),
        ("%4", "%4", false),
        ("%zz%41", "%zzA", true),
        ("100%", "100%", false),
        ("%+1", "%+1", false),
        ("%%41%4%42", "%A%4B", true),
    ] {
        assert_eq!(decode(text.as_bytes()), found.then(|| bytes.as_bytes().to_vec()), "{text}");
    }
    assert_eq!(decode(b"%ff"), Some(vec![0xff]));
    for (text, bytes) in
        [("%41b", Some("Ab")), ("%2541", Some("%41")), ("%4", None), ("a%", None), ("%zz", None)]
    {
        assert_eq!(decode_strictly(text), bytes.map(|bytes| bytes.as_bytes().to_vec()), "{text}");
    }
}
