//! Marks of gateways: their order and expiry.

use super::{add, on_both};
use crate::database::Store;
use crate::gateways::{GatewayMark, LIFE};

fn mark(id: &str, fingerprint: &str) -> GatewayMark {
    GatewayMark { id: id.to_owned(), fingerprint: fingerprint.to_owned() }
}

#[tokio::test]
async fn gateways_see_each_other_in_the_order_in_which_they_took_their_secret() {
    on_both(async |place| {
        let store = Store::new(place);
        add(&store, "acme", "one").await;
        let [first, second] = [mark("z", "a"), mark("b", "a")];
        assert_eq!(store.renew_gateway(&first).await.unwrap(), std::slice::from_ref(&first));
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        let both = [first.clone(), second.clone()];
        assert_eq!(store.renew_gateway(&second).await.unwrap(), both);
        assert_eq!(store.renew_gateway(&first).await.unwrap(), both, "renewed, it stays the first");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        let changed = mark("z", "b");
        let now = [second.clone(), changed.clone()];
        assert_eq!(store.renew_gateway(&changed).await.unwrap(), now, "another secret comes last");
        store.forget_gateway("b").await.unwrap();
        assert_eq!(store.renew_gateway(&changed).await.unwrap(), [changed]);
    })
    .await;
}

#[tokio::test]
async fn a_gateway_that_was_killed_is_forgotten() {
    on_both(async |place| {
        let store = Store::new(place);
        add(&store, "acme", "one").await;
        store.renew_gateway(&mark("killed", "a")).await.unwrap();
        let pool = store.pool().await.unwrap();
        let age = "UPDATE gateways SET seen_at = seen_at - $1";
        pool.query(age, &[(LIFE + 1).into()]).await.unwrap();
        let own = mark("own", "b");
        assert_eq!(store.renew_gateway(&own).await.unwrap(), [own]);
    })
    .await;
}

#[tokio::test]
async fn a_file_that_is_not_there_is_not_made_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = super::store_at(&folder.path().join("data/lockgate.db"));
    assert_eq!(store.renew_gateway(&mark("own", "a")).await.unwrap(), []);
    assert!(!folder.path().join("data").exists());
}
