//! Files as resources: lists, reads, and notifications of changes.

use lockgate_protocol::method::Method;
use lockgate_upstream::{Event, ListKind, Subscription, Topic, UpstreamErrorKind};

use super::*;
use crate::tests::{NOBODY, somebody};

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..500 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never: {what}");
}

#[tokio::test]
async fn files_are_listed_and_read_as_resources() {
    let yard = Yard::new();
    let server = yard.rig.server("file");
    std::fs::write(yard.path("data/with space.bin"), [0xFF, 0]).unwrap();
    let listed = || -> Vec<String> {
        server
            .catalog()
            .items(ListKind::Resources)
            .iter()
            .map(|item| item.key.to_string())
            .collect()
    };
    let uri = |below: &str| format!("file://{}", yard.text(below));
    until("a list", || listed().contains(&uri("data/readme.txt"))).await;
    assert!(listed().contains(&uri("data/with%20space.bin")), "{:?}", listed());
    assert!(
        !listed()
            .iter()
            .any(|uri| uri.contains("private") || uri.contains(".git") || uri.contains(".pem"))
    );
    let read =
        async |uri: String| yard.rig.ask("file", Method::ResourcesRead, &uri, json!({})).await;
    let text = read(uri("data/readme.txt")).await.unwrap();
    assert_eq!(
        (&text["contents"][0]["text"], &text["cacheScope"]),
        (&json!("first\nsecond\nthird\n"), &json!("private"))
    );
}

#[tokio::test]
async fn resources_outside_are_none() {
    let yard = Yard::new();
    let uri = |below: &str| format!("file://{}", yard.text(below));
    let binary = yard.path("data/with space.bin");
    std::fs::write(&binary, [0xFF, 0]).unwrap();
    let read =
        async |uri: String| yard.rig.ask("file", Method::ResourcesRead, &uri, json!({})).await;
    let server = yard.rig.server("file");
    assert_eq!(read(uri("data/with%20space.bin")).await.unwrap()["contents"][0]["blob"], "/wA=");
    for uri in [
        uri("secret.txt"),
        uri("data/../secret.txt"),
        uri("data/%2e%2e/secret.txt"),
        uri("data/private/a.txt"),
        uri("data/src"),
        uri("data/none.txt"),
        yard.text("data/readme.txt"),
        "readme.txt".into(),
    ] {
        assert_eq!(read(uri.clone()).await, Err("-32602 resource not found".into()), "{uri}");
        let topic = Topic::Resource(uri.clone());
        let failure = server.subscribe(&topic, &somebody(), NOBODY).await.unwrap_err();
        assert_eq!(failure.kind, UpstreamErrorKind::NotFound, "{uri}");
    }
}

#[tokio::test]
async fn subscribers_hear_of_changes_and_lists_follow_the_folder() {
    let mut yard = Yard::new();
    let uri = format!("file://{}", yard.text("data/readme.txt"));
    let server = yard.rig.server("file");
    let topic = Topic::Resource(uri.clone());
    server.subscribe(&topic, &somebody(), NOBODY).await.unwrap();
    let secret = Topic::Resource(format!("file://{}", yard.text("secret.txt")));
    assert!(server.subscribe(&secret, &somebody(), NOBODY).await.is_err());
    tokio::time::sleep(Duration::from_millis(200)).await;
    std::fs::write(yard.path("data/readme.txt"), "changed").unwrap();
    let updated = async {
        loop {
            if let Ok(Event::Updated(update)) = yard.rig.heard.recv().await {
                return update.uri.to_string();
            }
        }
    };
    assert_eq!(tokio::time::timeout(Duration::from_secs(10), updated).await.unwrap(), uri);
    server.unsubscribe(&topic, Subscription::Shared).await;
    std::fs::write(yard.path("data/readme.txt"), "changed again").unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    while let Ok(event) = yard.rig.heard.try_recv() {
        assert!(!matches!(event, Event::Updated(_)));
    }
}

#[tokio::test]
async fn a_resource_may_be_larger_than_what_the_tool_reads_at_once_and_says_when_it_is_too_large() {
    let yard = Yard::new();
    let most = config(yard.top.path()).resource_size;
    let read = async |length: usize| {
        std::fs::write(yard.path("data/large.csv"), "x".repeat(length)).unwrap();
        let uri = format!("file://{}", yard.text("data/large.csv"));
        yard.rig.ask("file", Method::ResourcesRead, &uri, json!({})).await
    };
    let whole = read(most).await.unwrap();
    assert_eq!(whole["contents"][0]["text"].as_str().unwrap().len(), most);
    let words = read(most + 1).await.unwrap_err();
    let path = yard.text("data/large.csv");
    let expected = format!(
        "-32603 {path} has {} bytes, more than a resource may have ({most}): read it in parts with the tool `read`",
        most + 1
    );
    assert_eq!(words, expected);
    // A denied file is reported as missing, regardless of its size.
    std::fs::write(yard.path("data/private/large.csv"), "x".repeat(most + 1)).unwrap();
    let uri = format!("file://{}", yard.text("data/private/large.csv"));
    let denied = yard.rig.ask("file", Method::ResourcesRead, &uri, json!({})).await;
    assert_eq!(denied, Err("-32602 resource not found".into()));
}
