//! Tests of token responses.

use http::StatusCode;
use serde_json::{Value, json};

use super::{Tokens, read_error, read_tokens};
use crate::error::AccountError;

fn read(status: StatusCode, answer: &Value) -> Result<Tokens, AccountError> {
    if status == StatusCode::OK { read_tokens(answer) } else { Err(read_error(status, answer)) }
}

#[test]
fn tokens_are_read() {
    let answer = json!({
        "access_token": "canary", "token_type": "bearer", "expires_in": "60",
        "refresh_token": "r", "scope": "a b",
    });
    let tokens = read(StatusCode::OK, &answer).unwrap();
    assert_eq!(tokens.header, "Bearer canary");
    assert!(tokens.header.is_sensitive());
    assert_eq!(tokens.lifetime.unwrap().as_secs(), 60);
    assert_eq!(tokens.scopes.as_deref(), Some(&["a".to_owned(), "b".to_owned()][..]));
    assert_eq!(tokens.refresh.as_ref().unwrap().expose(), "r");
    assert!(!format!("{tokens:?}").contains("canary"));
}

#[test]
fn other_responses_are_errors_without_their_texts() {
    for (answer, expected) in [
        (json!({}), "no access token"),
        (json!({"access_token": "canary"}), "not a bearer token"),
        (json!({"access_token": "canary", "token_type": "N_A"}), "not a bearer token"),
        (json!({"access_token": "canary\n", "token_type": "Bearer"}), "cannot be sent"),
        (json!({"access_token": "can ary", "token_type": "Bearer"}), "cannot be sent"),
    ] {
        let error = read(StatusCode::OK, &answer).unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("canary"), "{error}");
    }
}

#[test]
fn only_invalid_grant_ends_a_grant() {
    let error = |status: u16, code: &str| {
        let status = StatusCode::from_u16(status).unwrap();
        read(status, &json!({"error": code, "error_description": "canary"})).unwrap_err()
    };
    assert_eq!(error(400, "invalid_grant"), AccountError::InvalidGrant);
    assert_eq!(error(401, "invalid_client"), AccountError::InvalidClient);
    assert_eq!(error(400, "invalid_scope"), AccountError::Refused("invalid_scope".into()));
    assert_eq!(error(400, "<b>"), AccountError::Refused("an unreadable error code".into()));
    for status in [429, 500, 503] {
        assert!(error(status, "invalid_grant").is_transient(), "{status}");
    }
    let of_a_proxy = read(StatusCode::UNAUTHORIZED, &json!(null)).unwrap_err();
    assert!(of_a_proxy.is_transient(), "{of_a_proxy}");
}
