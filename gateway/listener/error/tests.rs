//! Tests of `error`.

#![allow(clippy::unwrap_used)]

use std::collections::HashSet;

use super::*;

#[test]
fn every_refusal_is_told_apart_by_its_words_and_carries_an_error_without_id() {
    let all = [
        (ListenerError::NoHost, 400),
        (ListenerError::Host, 421),
        (ListenerError::Origin, 403),
        (ListenerError::Authorization, 400),
        (ListenerError::Method { allow: "POST" }, 405),
        (ListenerError::ContentType, 415),
        (ListenerError::Accept, 406),
        (ListenerError::TooLarge { limit: 10 }, 413),
        (ListenerError::Slow, 408),
        (ListenerError::Framing, 400),
        (ListenerError::Expectation, 417),
        (ListenerError::Pace, 408),
        (ListenerError::ConnectionBodies { retry_after: Duration::from_millis(6500) }, 503),
        (ListenerError::PrincipalBodies { retry_after: Duration::ZERO }, 503),
        (ListenerError::ConnectionBytes, 503),
        (ListenerError::PrincipalBytes, 503),
        (ListenerError::Broken, 400),
        (ListenerError::Busy, 503),
        (ListenerError::Memory, 503),
        (ListenerError::Streams, 503),
        (ListenerError::CallersStreams(Exhausted::Principal), 503),
        (ListenerError::NoSession, 404),
    ];
    let words: HashSet<_> = all.iter().map(|(refusal, _)| refusal.words()).collect();
    assert_eq!(words.len(), all.len());
    for (refusal, status) in all {
        let response = refusal.response();
        assert_eq!(response.status(), status, "{refusal:?}");
        let text = std::str::from_utf8(response.body()).unwrap();
        assert!(text.starts_with(r#"{"jsonrpc":"2.0","error":{"code":-3"#), "{text}");
        let after = response.headers().get(RETRY_AFTER).and_then(|after| after.to_str().ok());
        let expected = match refusal {
            ListenerError::ConnectionBodies { .. } => Some("7"),
            ListenerError::PrincipalBodies { .. } | ListenerError::Memory => Some("1"),
            _ => None,
        };
        assert_eq!(after, expected, "{refusal:?}");
        assert_eq!(response.headers().contains_key(ALLOW), status == 405, "{refusal:?}");
    }
}
