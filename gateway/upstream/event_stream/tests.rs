//! Tests of `event_stream`.

#![allow(clippy::unwrap_used)]
use bytes::BytesMut;
use lockgate_protocol::sse::{comment, encode};
use proptest::prelude::*;

use super::*;

const LIMIT: usize = 1 << 20;

fn decode_chunks<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Event> {
    let mut decoder = Decoder::new(LIMIT);
    let mut events = Vec::new();
    for chunk in chunks {
        decoder.push(Bytes::copy_from_slice(chunk));
        while let Some(event) = decoder.next().unwrap() {
            events.push(event);
        }
    }
    events
}

fn decode(text: &[u8]) -> Vec<Event> {
    decode_chunks([text])
}

fn message(data: &str) -> Event {
    Event { data: Bytes::copy_from_slice(data.as_bytes()), ..Event::default() }
}

fn with_id(id: &str, data: &str) -> Event {
    Event { id: Some(id.into()), ..message(data) }
}

/// Checks every rule of the standard's parsing section, with streams fed whole, byte by byte and
/// split at every point.
#[test]
fn streams_mean_what_the_html_standard_says_however_they_are_cut() {
    let named = |name: &str, data: &str| Event { event: Some(name.into()), ..message(data) };
    let table: Vec<(&[u8], Vec<Event>)> = vec![
        (b"data: a\n\n", vec![message("a")]),
        (b"data: a\r\n\r\n", vec![message("a")]),
        (b"data: a\r\r", vec![message("a")]),
        (
            b"data: a\r\n\ndata: b\n\r\ndata: c\r\n\r",
            vec![message("a"), message("b"), message("c")],
        ),
        (b"data:a\n\n", vec![message("a")]),
        (b"data:  a\n\n", vec![message(" a")]),
        (b"data:\ta\n\n", vec![message("\ta")]),
        (b"data: a\ndata: b\ndata:\n\n", vec![message("a\nb\n")]),
        (b"data:\n\n", vec![message("")]),
        (b"data\n\n", vec![message("")]),
        (b"data\ndata\n\n", vec![message("\n")]),
        (b"data: a: b\n\n", vec![message("a: b")]),
        (b"\xef\xbb\xbfdata: a\n\n", vec![message("a")]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", vec![message("b")]),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", vec![message("a")]),
        (b"\xef\xbb\xbf\ndata: a\n\n", vec![message("a")]),
        (b":\n\n: ping\n\n:data: x\n\ndata: a\n: in between\ndata: b\n\n", vec![message("a\nb")]),
        (b"data: unfinished\n", vec![]),
        (b"data: unfinished", vec![]),
        (b"\n\n\n\r\n\r", vec![]),
        (b"Data: a\n\n", vec![]),
        (b" data: a\n\n", vec![]),
        (b"data : a\n\n", vec![]),
        (b"unknown: a\ndata: b\n\n", vec![message("b")]),
        (b"event: endpoint\ndata: /m?s=1\n\n", vec![named("endpoint", "/m?s=1")]),
        (b"event: message\ndata: a\n\n", vec![message("a")]),
        (b"event: x\nevent\ndata: a\n\n", vec![message("a")]),
        (b"event: x\nevent: y\ndata: a\n\n", vec![named("y", "a")]),
        (b"event: x\n\ndata: a\n\n", vec![message("a")]),
        (b"id: 1\ndata: a\n\ndata: b\n\n", vec![with_id("1", "a"), message("b")]),
        (b"id: 1\n\n", vec![with_id("1", "")]),
        (b"id: 1\ndata:\n\n", vec![with_id("1", "")]),
        (b"id\ndata: a\n\n", vec![with_id("", "a")]),
        (b"id: 1\nid: 2\ndata: a\n\n", vec![with_id("2", "a")]),
        (b"id: a\0b\ndata: a\n\n", vec![message("a")]),
        (b"id: 1\nid: \0\ndata: a\n\n", vec![with_id("1", "a")]),
        (b"retry: 250\n\n", vec![Event { retry: Some(250), ..message("") }]),
        (b"retry: 0042\ndata: a\n\n", vec![Event { retry: Some(42), ..message("a") }]),
        (b"retry: -1\nretry: 1s\nretry: 1.5\nretry:\nretry:  1\ndata: a\n\n", vec![message("a")]),
        (b"retry: 99999999999999999999\n\n", vec![Event { retry: Some(u64::MAX), ..message("") }]),
        (
            b"data: \xff\xfe\n\n",
            vec![Event { data: Bytes::from_static(b"\xff\xfe"), ..Event::default() }],
        ),
        (b"event: \xff\ndata: a\n\n", vec![named("\u{fffd}", "a")]),
        (b"data: a\0b\n\n", vec![message("a\0b")]),
    ];
    for (text, expected) in table {
        let shown = String::from_utf8_lossy(text);
        assert_eq!(decode(text), expected, "whole: {shown:?}");
        assert_eq!(decode_chunks(text.chunks(1)), expected, "byte by byte: {shown:?}");
        for cut in 0..=text.len() {
            let (a, b) = text.split_at(cut);
            assert_eq!(decode_chunks([a, b]), expected, "cut at {cut}: {shown:?}");
            assert_eq!(
                decode_chunks([a, b"", b]),
                expected,
                "cut at {cut} with an empty chunk: {shown:?}"
            );
        }
    }
}

#[test]
fn an_event_of_one_line_in_one_chunk_is_not_copied() {
    let chunk = Bytes::from_static(b": hi\n\nid: 7\ndata: {\"a\":1}\n\ndata: second\n\n");
    let range = chunk.as_ptr_range();
    let mut decoder = Decoder::new(LIMIT);
    decoder.push(chunk);
    for expected in [&b"{\"a\":1}"[..], b"second"] {
        let event = decoder.next().unwrap().unwrap();
        assert_eq!(event.data, expected);
        assert!(range.contains(&event.data.as_ptr()));
    }
}

#[test]
fn chunks_pushed_before_reading_are_read_in_order() {
    let mut decoder = Decoder::new(LIMIT);
    for chunk in ["data: a\r", "\n\r", "\ndata", ": b\n", "\n"] {
        decoder.push(Bytes::from_static(chunk.as_bytes()));
    }
    assert_eq!(decoder.next().unwrap(), Some(message("a")));
    assert_eq!(decoder.next().unwrap(), Some(message("b")));
    assert_eq!(decoder.next().unwrap(), None);
}

#[test]
fn an_event_over_the_limit_fails_and_stays_failed() {
    let too_large: Vec<Vec<Vec<u8>>> = vec![
        vec![b"data: 1234567890123\n\n".to_vec()],
        vec![b"data: 123456".to_vec(), b"7890123".to_vec()],
        vec![b"data: 1\ndata: 2\ndata: 3\n\n".to_vec()],
        vec![b"id: 1\nid: 2\nid: 3\nid: 4\n".to_vec()],
        vec![b": a comment without an end, ".to_vec()],
        std::iter::repeat_n(b"x".to_vec(), 17).collect(),
        std::iter::repeat_n(b"data\n".to_vec(), 9).collect(),
    ];
    for chunks in too_large {
        let mut decoder = Decoder::new(16);
        let failed = chunks.iter().any(|chunk| {
            decoder.push(Bytes::copy_from_slice(chunk));
            decoder.next().is_err()
        });
        assert!(failed, "{chunks:?}");
        decoder.push(Bytes::from_static(b"\n\ndata: a\n\n"));
        assert_eq!(decoder.next(), Err(TooLarge));
        assert!(decoder.input.is_empty());
    }
}

#[test]
fn the_limit_is_for_one_event_and_comments_do_not_count_towards_it() {
    let mut decoder = Decoder::new(16);
    for _ in 0..100 {
        decoder.push(Bytes::from_static(b": twelve bytes\ndata: 1234567890\n\n"));
        assert_eq!(decoder.next(), Ok(Some(message("1234567890"))));
    }
    decoder.push(Bytes::from_static(b"data: 1\n"));
    for _ in 0..100 {
        decoder.push(Bytes::from_static(b":ping\n"));
        assert_eq!(decoder.next(), Ok(None));
    }
}

/// Decodes with the standard's algorithm, written as literally as possible.
fn reference(text: &[u8]) -> Vec<Event> {
    let text = text.strip_prefix(BOM).unwrap_or(text);
    let mut lines = vec![Vec::new()];
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'\r' | b'\n' => {
                at += usize::from(text[at] == b'\r' && text.get(at + 1) == Some(&b'\n'));
                lines.push(Vec::new());
            }
            byte => lines.last_mut().unwrap().push(byte),
        }
        at += 1;
    }
    lines.pop();
    let (mut events, mut event, mut data, mut said) =
        (Vec::new(), Event::default(), Vec::<Vec<u8>>::new(), false);
    for line in lines {
        if line.is_empty() {
            if said {
                event.data = data.join(&b'\n').into();
                event.event = event.event.filter(|name| name != "message" && !name.is_empty());
                events.push(event);
            }
            (event, data, said) = (Event::default(), Vec::new(), false);
            continue;
        }
        let mut parts = line.splitn(2, |b| *b == b':');
        let name = parts.next().unwrap();
        let value = parts.next().unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = String::from_utf8_lossy(value).into_owned();
        match name {
            b"data" => (data.push(value.to_vec()), said = true).0,
            b"event" => event.event = Some(text),
            b"id" if !value.contains(&0) => (event.id = Some(text), said = true).0,
            b"retry" => {
                if let Some(ms) = Some(&text)
                    .filter(|t| t.bytes().all(|b| b.is_ascii_digit()))
                    .and_then(|t| t.parse().ok())
                {
                    (event.retry, said) = (Some(ms), true);
                }
            }
            _ => {}
        }
    }
    events
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            &b"data"[..],
            b"data:",
            b"data: ",
            b"id: ",
            b"event: ",
            b"retry: ",
            b":",
            b" ",
            b"\n",
            b"\r",
            b"\r\n",
            b"\n\n",
            b"\xef\xbb\xbf",
            b"\0",
            b"1",
            b"message",
            b"\xff",
        ])
        .prop_map(<[u8]>::to_vec),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_stream_cut_anywhere_reads_like_the_reference(text in stream(), cuts in prop::collection::vec(0usize..12, 0..60)) {
        let mut rest = &text[..];
        let mut chunks = Vec::new();
        for cut in cuts {
            let (chunk, after) = rest.split_at(cut.min(rest.len()));
            chunks.push(chunk);
            rest = after;
        }
        chunks.push(rest);
        prop_assert_eq!(decode_chunks(chunks), reference(&text));
    }

    #[test]
    fn what_is_encoded_is_decoded(
        id in prop::option::of("[!-~]{1,20}"),
        data in "(\n|\r| |:|data: |\\PC){0,40}",
    ) {
        let mut out = BytesMut::new();
        comment(&mut out);
        encode(&mut out, id.as_deref(), data.as_bytes());
        let events = decode(&out);
        let normal = data.replace("\r\n", "\n").replace('\r', "\n");
        prop_assert_eq!(events, vec![Event { id, ..message(&normal) }]);
    }

    #[test]
    fn memory_stays_below_the_limit(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..60)) {
        let mut decoder = Decoder::new(64);
        for chunk in chunks {
            decoder.push(chunk.into());
            while let Ok(Some(_)) = decoder.next() {}
            let data = match &decoder.data {
                Data::None => 0,
                Data::Line(line) => line.len(),
                Data::Joined(lines) => lines.len(),
            };
            prop_assert!(decoder.partial.len() + data <= 64);
        }
    }
}
