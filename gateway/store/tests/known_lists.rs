//! Tests of `known_lists`: retention, and the integrations that the lists belong to.

use super::{add, integration, on_both};
use crate::{KnownLists, MAX_LISTS, Store};

fn lists(slug: &str, version: i64, content: Vec<u8>) -> KnownLists {
    KnownLists {
        organisation: "acme".to_owned(),
        integration: format!("int_acme_{slug}"),
        version,
        read_at: 1_700_000_000_123,
        content,
    }
}

async fn find(store: &Store, slug: &str) -> Option<KnownLists> {
    store.find_lists("acme", &format!("int_acme_{slug}")).await.unwrap()
}

#[tokio::test]
async fn a_store_of_the_first_schema_goes_on_with_what_it_has() {
    on_both(async |place| {
        let first = Store::of_schema(place.clone(), 1);
        add(&first, "acme", "one").await;
        first.close().await;
        let store = Store::new(place);
        assert_eq!(store.check().await.unwrap().schema, 1, "to look at it changes nothing");
        assert_eq!(store.load_changed(0).await.unwrap()[0].integrations.len(), 1);
        assert_eq!(store.check().await.unwrap().schema, crate::schema::NEWEST_VERSION);
        let known = lists("one", 1, b"[]".to_vec());
        store.keep_lists(std::slice::from_ref(&known)).await.unwrap();
        assert_eq!(find(&store, "one").await, Some(known));
    })
    .await;
}

#[tokio::test]
async fn lists_go_with_their_integration_and_with_its_version() {
    on_both(async |place| {
        let store = Store::new(place);
        add(&store, "acme", "one").await;
        let before = store.load_changed(0).await.unwrap()[0].revision;
        let old = lists("one", 1, vec![0, 255]);
        let new = KnownLists { read_at: 1_700_000_000_456, content: vec![7], ..old.clone() };
        for known in [&old, &new] {
            store.keep_lists(std::slice::from_ref(known)).await.unwrap();
            assert_eq!(find(&store, "one").await.as_ref(), Some(known));
        }
        assert!(store.load_changed(before).await.unwrap().is_empty(), "they are no change");
        let foreign = store.find_lists("other", "int_acme_one").await.unwrap();
        assert_eq!(foreign, None);
        let another = KnownLists { organisation: "other".to_owned(), ..old.clone() };
        let later = KnownLists { version: 2, ..old.clone() };
        store.keep_lists(&[another, later, lists("two", 1, vec![1])]).await.unwrap();
        assert_eq!(find(&store, "one").await, Some(new));
        assert_eq!(find(&store, "two").await, None);

        let mut change = store.begin("acme").await.unwrap();
        let changed = crate::IntegrationRecord { version: 2, ..integration("acme", "one") };
        change.update_integration(&changed).await.unwrap();
        change.commit().await.unwrap();
        assert_eq!(find(&store, "one").await, None, "of a version that is gone");
        store.keep_lists(&[lists("one", 2, vec![2])]).await.unwrap();
        assert!(find(&store, "one").await.is_some());
        let mut change = store.begin("acme").await.unwrap();
        change.delete_integration("int_acme_one").await.unwrap();
        change.insert_integration(&changed).await.unwrap();
        change.commit().await.unwrap();
        assert_eq!(find(&store, "one").await, None, "it went with its integration");
    })
    .await;
}

#[tokio::test]
async fn lists_are_kept_up_to_a_size() {
    on_both(async |place| {
        let store = Store::new(place);
        add(&store, "acme", "one").await;
        add(&store, "acme", "two").await;
        let largest = lists("one", 1, vec![1; MAX_LISTS]);
        let larger = lists("two", 1, vec![1; MAX_LISTS + 1]);
        store.keep_lists(&[largest.clone(), larger]).await.unwrap();
        assert_eq!(find(&store, "one").await, Some(largest));
        assert_eq!(find(&store, "two").await, None);
    })
    .await;
}
