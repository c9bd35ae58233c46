//! Tests of `daily_calls`: sums, retention, and deletion with the integration.

use super::{add, on_both};
use crate::{DailyCalls, KEPT_DAYS, Store};

fn calls(slug: &str, day: i64, calls: i64, failed: i64) -> DailyCalls {
    DailyCalls {
        organisation: "acme".to_owned(),
        integration: format!("int_acme_{slug}"),
        day,
        calls,
        failed,
    }
}

#[tokio::test]
async fn counts_are_added_up_kept_for_their_days_and_gone_with_their_integration() {
    on_both(async |place| {
        let store = Store::new(place);
        let one = ("acme", "int_acme_one");
        assert_eq!(store.list_calls(one, 0).await.unwrap(), []);
        add(&store, "acme", "one").await;
        let foreign = DailyCalls { organisation: "other".to_owned(), ..calls("one", 99, 1, 1) };
        let unknown = calls("two", 100, 5, 5);
        for _ in 0..2 {
            let all = [calls("one", 99, 2, 0), calls("one", 100, 3, 1), unknown.clone()];
            store.add_calls(&all, 100).await.unwrap();
        }
        store.add_calls(&[foreign], 100).await.unwrap();
        let both = [calls("one", 99, 4, 0), calls("one", 100, 6, 2)];
        assert_eq!(store.list_calls(one, 0).await.unwrap(), both);
        assert_eq!(store.list_calls(one, 99).await.unwrap(), both[1..]);
        assert_eq!(store.list_calls(("other", "int_acme_one"), 0).await.unwrap(), []);
        store.add_calls(&[], 99 + KEPT_DAYS).await.unwrap();
        assert_eq!(store.list_calls(one, 0).await.unwrap(), both[1..]);
        let mut change = store.begin("acme").await.unwrap();
        change.delete_integration("int_acme_one").await.unwrap();
        change.commit().await.unwrap();
        add(&store, "acme", "one").await;
        assert_eq!(store.list_calls(one, 0).await.unwrap(), []);
    })
    .await;
}
