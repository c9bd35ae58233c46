//! Tests of `lines`.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use lockgate_admission::budget::Budget;

use super::*;

async fn read(chunks: &[&'static str], limit: usize) -> Vec<Line> {
    let mut input: Box<dyn AsyncRead + Unpin> = Box::new(tokio::io::empty());
    for chunk in chunks {
        input = Box::new(AsyncReadExt::chain(input, chunk.as_bytes()));
    }
    let mut lines = Lines::new(input, limit);
    let mut all = Vec::new();
    while let Some(line) = lines.next().await.unwrap() {
        all.push(line);
    }
    all
}

fn text(text: &'static str) -> Line {
    Line::Text(Bytes::from_static(text.as_bytes()))
}

#[tokio::test]
async fn lines_are_split_however_they_arrive() {
    assert_eq!(read(&["a\nb", "c\r\n\n \r\nd"], 9).await, [text("a"), text("bc"), text("d")]);
    assert_eq!(read(&["\n\n"], 9).await, []);
    assert_eq!(read(&[], 9).await, []);
}

#[tokio::test]
async fn a_line_over_the_limit_is_skipped_and_reading_goes_on() {
    assert_eq!(
        read(&["1234\n", "12345\n", "1234\r\n"], 4).await,
        [text("1234"), Line::TooLong, text("1234")]
    );
    assert_eq!(read(&["1234", "5678", "9\nab\n"], 4).await, [Line::TooLong, text("ab")]);
    assert_eq!(read(&["123456789"], 4).await, [Line::TooLong]);
    assert_eq!(read(&["12345\r"], 4).await, [Line::TooLong]);
}

#[tokio::test]
async fn a_text_is_written_as_one_line() {
    let budget = Arc::new(Budget::new(1 << 20));
    let (sender, texts) = crate::session_client::MessageQueue::new(&budget);
    assert!(sender.send(Text::Whole(Bytes::from_static(b"{\n  \"a\": 1\r\n}"))).await);
    let parts =
        [Bytes::from_static(b"{"), Bytes::from_static(b"\"b\":2"), Bytes::from_static(b"}")];
    assert!(sender.send(Text::Spliced(Box::new(parts))).await);
    assert!(budget.used() > 0);
    drop(sender);
    let mut out = Vec::new();
    write(&mut out, texts).await.unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "{   \"a\": 1  }\n{\"b\":2}\n");
    assert_eq!(budget.used(), 0);
}
