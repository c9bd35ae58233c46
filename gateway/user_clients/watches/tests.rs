//! The limit on a user's access tokens with subscriptions.

use std::time::SystemTime;

use bytes::Bytes;
use lockgate_accounts::SubjectToken;
use lockgate_admission::CallerId;
use lockgate_protocol::revision::Era;

use super::*;

fn holder(subject: &str, token: &str) -> Holder {
    let mut digest = [0; 32];
    digest[..token.len()].copy_from_slice(token.as_bytes());
    let token = SubjectToken::new(token, digest, SystemTime::UNIX_EPOCH);
    Holder { token: Some(token.into()), ..Holder::new("acme", "https://i.test", subject) }
}

fn task() -> WatchedTopic {
    let caller = Caller {
        id: CallerId::alone(1),
        assertion: None,
        capabilities: Bytes::from_static(b"{}"),
        interactive: false,
        log_level: None,
        session: None,
        era: Era::Modern,
    };
    (Topic::Task("own".into()), caller)
}

#[test]
fn tokens_of_a_user_share_a_limit() {
    let watches = Watches::default();
    for token in ["1", "2", "3"] {
        assert!(watches.add(&holder("anna", token), task(), 3).is_some());
    }
    assert!(watches.add(&holder("anna", "4"), task(), 3).is_none());
    let number = watches.add(&holder("anna", "3"), task(), 3);
    assert!(number.is_some());
    assert!(watches.add(&holder("ben", "4"), task(), 3).is_some());
    for _ in 0..2 {
        let removed = number.and_then(|number| watches.remove(number, &task().0));
        assert!(removed == Some(holder("anna", "3")));
    }
    assert!(watches.add(&holder("anna", "4"), task(), 3).is_some());
}
