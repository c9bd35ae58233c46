//! Signatures of requests, and the statuses that allow a retry.

use super::*;

/// Checks the example of the reference implementation.
#[test]
fn the_signature_is_that_of_standard_webhooks() {
    let secret = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    let signed =
        sign(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, br#"{"test": 2432232314}"#);
    assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

#[test]
fn only_what_may_pass_is_tried_again() {
    for (status, again) in
        [(500, true), (503, true), (429, true), (408, true), (400, false), (410, false)]
    {
        let answer = Answer { status: StatusCode::from_u16(status).unwrap(), retry_after: None };
        assert_eq!(answer.may_pass(), again, "{status}");
    }
}

#[test]
fn when_to_come_again_is_read_in_seconds() {
    for (said, wanted) in [("7", Some(7)), (" 7 ", Some(7)), ("soon", None), ("-1", None)] {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(said))]);
        assert_eq!(retry_after(&headers), wanted.map(Duration::from_secs), "{said}");
    }
}
