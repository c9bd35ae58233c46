//! Tests of `refusal`.

#![allow(clippy::unwrap_used)]

use std::collections::HashSet;

use super::*;

#[test]
fn every_refusal_is_told_apart_by_its_words_and_carries_an_error_without_id() {
    let all = [
        (Refusal::NoHost, 400),
        (Refusal::Host, 421),
        (Refusal::Origin, 403),
        (Refusal::Authorization, 400),
        (Refusal::Method { allow: "POST" }, 405),
        (Refusal::ContentType, 415),
        (Refusal::Accept, 406),
        (Refusal::TooLarge { limit: 10 }, 413),
        (Refusal::Slow, 408),
        (Refusal::Framing, 400),
        (Refusal::Expectation, 417),
        (Refusal::Pace, 408),
        (Refusal::ConnectionBodies { retry_after: Duration::from_millis(6500) }, 503),
        (Refusal::PrincipalBodies { retry_after: Duration::ZERO }, 503),
        (Refusal::ConnectionBytes, 503),
        (Refusal::PrincipalBytes, 503),
        (Refusal::Broken, 400),
        (Refusal::Busy, 503),
        (Refusal::Memory, 503),
        (Refusal::Streams, 503),
        (Refusal::CallersStreams, 503),
        (Refusal::NoSession, 404),
    ];
    let words: HashSet<_> = all.iter().map(|(refusal, _)| refusal.wire().2).collect();
    assert_eq!(words.len(), all.len());
    for (refusal, status) in all {
        let response = refusal.response();
        assert_eq!(response.status(), status, "{refusal:?}");
        let text = std::str::from_utf8(response.body()).unwrap();
        assert!(text.starts_with(r#"{"jsonrpc":"2.0","error":{"code":-3"#), "{text}");
        let after = response.headers().get(RETRY_AFTER).and_then(|after| after.to_str().ok());
        let expected = match refusal {
            Refusal::ConnectionBodies { .. } => Some("7"),
            Refusal::PrincipalBodies { .. } | Refusal::Memory => Some("1"),
            _ => None,
        };
        assert_eq!(after, expected, "{refusal:?}");
        assert_eq!(response.headers().contains_key(ALLOW), status == 405, "{refusal:?}");
    }
}
