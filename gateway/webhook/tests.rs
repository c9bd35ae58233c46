//! Contents and delivery of messages.

use std::time::UNIX_EPOCH;

use super::*;

#[test]
fn a_message_has_a_link_and_not_the_arguments() {
    let waiting = WaitingApproval {
        id: "00ff".into(),
        caller: "key|ann".into(),
        organisation: None,
        tool: "a__wipe".into(),
        server: "a".into(),
        needs: vec!["policy one needs an approval by roles approver".into()],
        asked: UNIX_EPOCH,
        expires: UNIX_EPOCH + Duration::from_secs(300),
        token: "lg1.x.y".into(),
    };
    let base = "https://gate.test/team".parse().unwrap();
    let body: serde_json::Value = serde_json::from_slice(&write_body(&base, &waiting)).unwrap();
    assert_eq!(body["type"], "approval.waiting");
    assert_eq!(body["data"]["link"], "https://gate.test/team/approvals/00ff/open?token=lg1.x.y");
    assert_eq!(body["data"]["expires"], "1970-01-01T00:05:00Z");
    assert!(body["data"].get("arguments").is_none());
}

#[test]
fn what_may_be_a_secret_is_not_shown() {
    let webhook = lockgate_admin::Webhook {
        url: "https://hooks.test/secret-path".into(),
        secret: "whsec_0123".into(),
    };
    let shown = format!("{webhook:?}");
    assert!(!shown.contains("secret-path") && !shown.contains("0123"), "{shown}");
}
