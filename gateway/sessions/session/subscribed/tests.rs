//! Updates on connections.

use super::*;

#[test]
fn an_update_of_another_account_reaches_no_unconfirmed_subscription() {
    let mut at = AtServer {
        server: ServerId::shared("a"),
        own: "note://one".into(),
        given: None,
        number: 0,
        outcome: oneshot::channel().1.shared(),
    };
    assert!(at.may_stand_on(Subscription::Shared));
    assert!(!at.may_stand_on(Subscription::Account(1)));
    at.given = Some(Subscription::Account(1));
    assert!(at.may_stand_on(Subscription::Account(1)));
    assert!(!at.may_stand_on(Subscription::Account(2)));
}
