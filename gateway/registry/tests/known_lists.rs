//! Lists kept across a restart: a single write for many changes, and no caller waits for it.

use super::{Rig, admin, open_one};
use crate::*;

fn lists(integration: &Integration, content: &str) -> KnownLists {
    KnownLists {
        organisation: integration.organisation.clone(),
        integration: integration.id.clone(),
        version: integration.version,
        read_at: 1_700_000_000_123,
        content: content.as_bytes().to_vec(),
    }
}

#[tokio::test]
async fn the_newest_lists_are_there_after_a_restart() {
    let rig = Rig::new().await;
    let one = rig.create(&admin("acme"), open_one("One")).await;
    let two = rig.create(&admin("other"), open_one("Two")).await;
    for content in ["first", "second", "last"] {
        rig.registry.keep_lists(lists(&one, content));
    }
    rig.registry.keep_lists(lists(&two, "of two"));
    assert_eq!(rig.registry.find_lists("acme", &one.id).await, None, "nobody waited for it");
    rig.registry.close().await;
    let later = rig.another(&[]).await;
    assert_eq!(later.find_lists("acme", &one.id).await, Some(lists(&one, "last")));
    assert_eq!(later.find_lists("other", &two.id).await, Some(lists(&two, "of two")));
    assert_eq!(later.find_lists("acme", &two.id).await, None);
}

#[tokio::test]
async fn lists_are_written_while_it_follows() {
    let rig = Rig::new().await;
    let one = rig.create(&admin("acme"), open_one("One")).await;
    let following = std::sync::Arc::clone(&rig.registry);
    let following = tokio::spawn(async move { following.follow().await });
    rig.registry.keep_lists(lists(&one, "kept"));
    let written = async {
        while rig.registry.find_lists("acme", &one.id).await.is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), written).await.unwrap();
    following.abort();
}
