//! The limit on a user's access tokens with subscriptions.

use std::time::SystemTime;

use lockgate_accounts::SubjectToken;

use super::*;

fn holder(subject: &str, token: &str) -> Holder {
    let mut digest = [0; 32];
    digest[..token.len()].copy_from_slice(token.as_bytes());
    let token = SubjectToken::new(token, digest, SystemTime::UNIX_EPOCH);
    Holder { token: Some(token.into()), ..Holder::new("acme", "https://i.test", subject) }
}

fn task() -> Topic {
    Topic::Task("own".into())
}

#[test]
fn tokens_of_a_user_share_a_limit() {
    let watches = Watches::default();
    for token in ["1", "2", "3"] {
        assert!(watches.add(&holder("anna", token), task(), 3).is_some());
    }
    assert!(watches.add(&holder("anna", "4"), task(), 3).is_none());
    assert!(watches.add(&holder("anna", "3"), task(), 3).is_some());
    assert!(watches.add(&holder("ben", "4"), task(), 3).is_some());
    for _ in 0..2 {
        assert!(watches.remove_of(&holder("anna", "3"), |topic| topic.is_task("own")));
    }
    assert!(watches.add(&holder("anna", "4"), task(), 3).is_some());
}
