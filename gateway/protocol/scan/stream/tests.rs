//! Tests of `stream`, against the scanner of whole texts.

use super::*;
use crate::scan::Scanner;

/// A visitor that writes its input.
#[derive(Default)]
struct Copy(Vec<u8>);

/// A visitor that collects the parts of a text.
#[derive(Default)]
struct Parts {
    done: Vec<Vec<u8>>,
    open: Vec<u8>,
}

impl Visit for Parts {
    type Error = Fault;

    fn mark(&mut self, byte: u8) -> Result<(), Fault> {
        self.done.push(vec![byte]);
        Ok(())
    }

    fn part(&mut self, _: bool, bytes: &[u8]) -> Result<(), Fault> {
        self.open.extend_from_slice(bytes);
        Ok(())
    }

    fn end(&mut self, key: bool) -> Result<(), Fault> {
        let mut text = std::mem::take(&mut self.open);
        if key {
            text.extend_from_slice(b" (a key)");
        }
        self.done.push(text);
        Ok(())
    }
}

impl Visit for Copy {
    type Error = Fault;

    fn mark(&mut self, byte: u8) -> Result<(), Fault> {
        self.part(false, &[byte])
    }

    fn part(&mut self, _: bool, bytes: &[u8]) -> Result<(), Fault> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn end(&mut self, _: bool) -> Result<(), Fault> {
        Ok(())
    }
}

fn read(
    text: &[u8],
    size: usize,
    max_depth: usize,
    visitor: &mut impl Visit<Error = Fault>,
) -> Result<(), Fault> {
    let mut scanner = StreamScanner::new(max_depth);
    for piece in text.chunks(size.max(1)) {
        scanner.push(piece, visitor)?;
    }
    scanner.finish()
}

fn whole(text: &[u8], max_depth: usize) -> bool {
    let Ok(mut scanner) = Scanner::new(text, max_depth) else { return false };
    scanner.value().is_ok() && scanner.end().is_ok()
}

const TEXTS: [&[u8]; 50] = [
    b"{}",
    b"[]",
    b" { } ",
    b"{\"a\":1}",
    b"{\"a\":[1,2,{\"b\":null}],\"c\":\"d\"}",
    b"[true,false,null]",
    b"[tru]",
    b"[truex]",
    b"[true false]",
    b"[-0,0.5,1e9,1E-9,-1.25e+10]",
    b"[01]",
    b"[1.]",
    b"[.5]",
    b"[-]",
    b"[1e]",
    b"[1e+]",
    b"[+1]",
    b"[1,]",
    b"[,1]",
    b"{,}",
    b"{\"a\"}",
    b"{\"a\":}",
    b"{\"a\":1,}",
    b"{a:1}",
    b"{\"a\" 1}",
    b"{1:1}",
    b"[1}",
    b"{\"a\":1]",
    b"[",
    b"{",
    b"]",
    b"",
    b"  ",
    b"{}{}",
    b"{} x",
    b"[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\ude00\"]",
    b"[\"\\x\"]",
    b"[\"\\u12g4\"]",
    b"[\"\\u12\"]",
    b"[\"a\nb\"]",
    b"[\"\x01\"]",
    b"[\"\xc3\xa9 \xf0\x9f\x98\x80\"]",
    b"[\"\xc3\"]",
    b"[\"\xff\"]",
    b"[\"\xed\xa0\x80\"]",
    b"\xc3\xa9",
    b"[[[[]]]]",
    b"[[[[[]]]]]",
    b"[\"a\",\"b\"",
    b"[\"unclosed]",
];

#[test]
fn it_takes_what_the_scanner_of_whole_texts_takes_however_it_is_cut() {
    for text in TEXTS {
        let expected = whole(text, 4) && matches!(text.trim_ascii().first(), Some(b'{' | b'['));
        for size in 1..=text.len().max(1) {
            let found = read(text, size, 4, &mut Copy::default()).is_ok();
            assert_eq!(found, expected, "{} in pieces of {size}", String::from_utf8_lossy(text));
        }
    }
}

#[test]
fn nothing_is_lost_or_told_twice_however_a_text_is_cut() {
    let text = "{\"a\\u0062\": [ -1.5e3, \"é😀\\n\", { } , [ ] ], \"\":{\"x\":[true,false,null,0]},\"t\":\"\\ud83d\\ude00\"}";
    let tight: String = text.split(' ').collect();
    let mut parts = Parts::default();
    read(text.as_bytes(), text.len(), 8, &mut parts).unwrap();
    for size in 1..text.len() {
        let (mut copy, mut cut) = (Copy::default(), Parts::default());
        read(text.as_bytes(), size, 8, &mut copy).unwrap();
        read(text.as_bytes(), size, 8, &mut cut).unwrap();
        assert_eq!(String::from_utf8(copy.0).unwrap(), tight);
        assert_eq!(cut.done, parts.done);
    }
}

#[test]
fn a_fault_is_named() {
    let fault = |text: &[u8]| read(text, 3, 2, &mut Copy::default()).unwrap_err();
    assert_eq!(fault(b"[[[1]]]"), Fault::Depth);
    assert_eq!(fault(b"[1"), Fault::End);
    assert_eq!(fault(b"[1] 2"), Fault::Trailing);
    assert_eq!(fault(b"[\"\xff\"]"), Fault::Utf8);
    assert_eq!(fault(b"[1 2]"), Fault::Syntax);
}
