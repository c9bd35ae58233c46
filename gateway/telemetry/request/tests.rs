//! Tests of `request`.

#![allow(clippy::unwrap_used)]

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::Format;
use crate::log::tests::logged;

fn run(tag: Tag, act: impl FnOnce()) {
    let mut future = pin!(within(tag, async { act() }));
    assert!(matches!(
        future.as_mut().poll(&mut Context::from_waker(Waker::noop())),
        Poll::Ready(())
    ));
}

#[test]
fn lines_about_a_request_carry_its_ids_and_others_none() {
    for format in [Format::Text, Format::Json] {
        let lines = logged(format, "info", || {
            run(Tag::new(Some(b"abc-1"), None), || {
                tracing::info!("before");
                has_rpc_id(b"\"r\\u0022\n\xff\"");
                tracing::info!("after");
            });
            run(Tag::new(None, None), || tracing::info!("made"));
            tracing::info!("outside");
        });
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(lines.len(), 4, "{lines:?}");
        if let Format::Json = format {
            let parsed: Vec<serde_json::Value> =
                lines.iter().map(|l| serde_json::from_str(l).unwrap()).collect();
            assert_eq!(
                (&parsed[0]["request_id"], parsed[0].get("rpc_id")),
                (&"abc-1".into(), None)
            );
            assert_eq!(parsed[1]["rpc_id"], "r?u0022??");
            assert!(parsed[2]["request_id"].as_str().unwrap().contains('-'));
            assert_eq!(parsed[3].get("request_id"), None);
        } else {
            assert!(lines[0].ends_with("before request_id=abc-1"), "{}", lines[0]);
            assert!(lines[1].ends_with("request_id=abc-1 rpc_id=r?u0022??"), "{}", lines[1]);
            assert!(lines[3].ends_with("outside"), "{}", lines[3]);
        }
    }
}

#[test]
fn odd_ids_from_outside_are_replaced_and_long_ones_cut() {
    for odd in [&b""[..], b"a b", b"a\nb", b"\"", "ä".as_bytes(), &[b'x'; 65]] {
        assert_eq!(Tag::new(Some(odd), None).given(), None);
    }
    assert_eq!(Tag::new(Some(&[b'x'; 64]), None).given().map(str::len), Some(64));
    let line = logged(Format::Text, "info", || {
        run(Tag::new(None, None), || {
            has_rpc_id(&[b'9'; 256]);
            tracing::info!("x");
        });
    });
    assert!(line.trim_end().ends_with(&format!("rpc_id={}", "9".repeat(MAX_RPC))), "{line}");
    assert_ne!(Tag::new(None, None).to_string(), Tag::new(None, None).to_string());
}
