//! Tests of reading: changes, and replacement of the whole database.

use std::collections::BTreeMap;

use super::{add, integration, on_both, owner, store_at};
use crate::{FoundRecords, Reader, Reservation, Store, StoreError, StorePlace};

/// A gateway that follows the store.
#[derive(Default)]
struct KnownRecords {
    reader: Reader,
    /// Slugs by organisation.
    slugs: BTreeMap<String, Vec<String>>,
    looks: usize,
}

impl KnownRecords {
    async fn look(&mut self, store: &Store) -> Result<(), StoreError> {
        let Self { reader, slugs, looks } = self;
        *looks = 0;
        let take = |found| match found {
            FoundRecords::Organisation(records) => {
                *looks += 1;
                let own = records.integrations.into_iter().map(|one| one.slug).collect();
                slugs.insert(records.id, own);
            }
            FoundRecords::All(ids) => slugs.retain(|id, _| ids.contains(id)),
        };
        store.read(reader, take).await
    }

    fn shown(&self) -> String {
        let shown = self.slugs.iter().map(|(id, slugs)| format!("{id}: {}", slugs.join(" ")));
        shown.collect::<Vec<_>>().join("; ")
    }
}

#[tokio::test]
async fn only_what_has_changed_is_read_again() {
    on_both(async |place| {
        let store = Store::new(place);
        let mut known = KnownRecords::default();
        known.look(&store).await.unwrap();
        add(&store, "acme", "one").await;
        add(&store, "other", "one").await;
        known.look(&store).await.unwrap();
        assert_eq!((known.shown().as_str(), known.looks), ("acme: one; other: one", 2));
        known.look(&store).await.unwrap();
        assert_eq!(known.looks, 0);
        add(&store, "acme", "two").await;
        known.look(&store).await.unwrap();
        assert_eq!((known.shown().as_str(), known.looks), ("acme: one two; other: one", 1));
    })
    .await;
}

#[tokio::test]
async fn a_clock_that_goes_back_has_everything_read() {
    on_both(async |place| {
        let store = Store::new(place);
        add(&store, "acme", "one").await;
        add(&store, "acme", "two").await;
        add(&store, "other", "one").await;
        let mut known = KnownRecords::default();
        known.look(&store).await.unwrap();
        // Like an older dump restored with `psql`, or a standby that lagged behind.
        let back = "UPDATE clock SET revision = 1; UPDATE organisations SET revision = 1; \
            DELETE FROM integrations WHERE slug = 'two'; \
            DELETE FROM integrations WHERE organisation = 'other'; \
            DELETE FROM organisations WHERE id = 'other'";
        store.run(back).await;
        known.look(&store).await.unwrap();
        assert_eq!(known.shown(), "acme: one");
        add(&store, "acme", "three").await;
        known.look(&store).await.unwrap();
        assert_eq!(known.shown(), "acme: one three");
    })
    .await;
}

#[tokio::test]
async fn another_epoch_has_everything_read() {
    on_both(async |place| {
        let store = Store::new(place);
        add(&store, "acme", "one").await;
        let mut known = KnownRecords::default();
        known.look(&store).await.unwrap();
        // Like a dump of another gateway restored with `psql`, with a clock that is ahead.
        let other = "UPDATE clock SET revision = 9, epoch = 'another'; \
            UPDATE integrations SET slug = 'changed'";
        store.run(other).await;
        known.look(&store).await.unwrap();
        assert_eq!(known.shown(), "acme: changed");
    })
    .await;
}

#[tokio::test]
async fn a_file_that_takes_the_place_of_another_is_read_and_changed() {
    let folder = tempfile::tempdir().unwrap();
    let [own, other] = ["own.db", "other.db"].map(|name| folder.path().join(name));
    let store = store_at(&own);
    add(&store, "acme", "one").await;
    add(&store, "gone", "one").await;
    let mut known = KnownRecords::default();
    known.look(&store).await.unwrap();
    store.back_up(&other).await.unwrap();
    let put_back = store_at(&other);
    let mut change = put_back.begin("acme").await.unwrap();
    change.delete_integration("int_acme_one").await.unwrap();
    change.insert_integration(&integration("acme", "other")).await.unwrap();
    change.commit().await.unwrap();
    put_back.close().await;
    std::fs::remove_file(folder.path().join("own.db-wal")).unwrap();
    std::fs::rename(&other, &own).unwrap();
    known.look(&store).await.unwrap();
    assert_eq!(known.shown(), "acme: other; gone: one");
    add(&store, "acme", "new").await;
    known.look(&store).await.unwrap();
    assert_eq!(known.shown(), "acme: new other; gone: one");
}

#[tokio::test]
async fn a_file_that_is_lost_takes_nothing_along() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own.db");
    // A store that only read, and a store that also wrote.
    add(&store_at(&own), "acme", "one").await;
    let store = store_at(&own);
    let mut known = KnownRecords::default();
    known.look(&store).await.unwrap();
    std::fs::rename(&own, folder.path().join("away.db")).unwrap();
    for _ in 0..2 {
        let error = known.look(&store).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
        let error = store.begin("acme").await.map(drop).unwrap_err();
        assert!(error.to_string().contains("own.db was removed"), "{error}");
        assert!(!own.exists());
    }
    assert_eq!(known.shown(), "acme: one");
    std::fs::rename(folder.path().join("away.db"), &own).unwrap();
    add(&store, "acme", "two").await;
    known.look(&store).await.unwrap();
    assert_eq!(known.shown(), "acme: one two");
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_left_out_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_at(&folder.path().join("own.db"));
    add(&store, "acme", "one").await;
    add(&store, "acme", "two").await;
    add(&store, "other", "one").await;
    let odd = "UPDATE integrations SET version = 'many' WHERE slug = 'two'";
    store.run(odd).await;
    let mut known = KnownRecords::default();
    known.look(&store).await.unwrap();
    assert_eq!(known.shown(), "acme: one; other: one");
    let error = store.check().await.unwrap_err();
    assert!(error.to_string().contains("int_acme_two"), "{error}");
}

#[tokio::test]
async fn what_can_be_read_and_not_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own.db");
    let first = store_at(&own);
    add(&first, "acme", "one").await;
    first.close().await;
    // A format that SQLite reads but does not write (sqlite.org/fileformat2.html, 1.3.3).
    let mut bytes = std::fs::read(&own).unwrap();
    bytes[18] = 3;
    std::fs::write(&own, bytes).unwrap();
    let mut databases = vec![store_at(&own)];
    if let Some(url) = super::new_database().await {
        let first = Store::new(StorePlace::Postgres(url.clone()));
        add(&first, "acme", "one").await;
        let standby = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET \
            default_transaction_read_only = on', current_database()); END $$";
        first.run(standby).await;
        databases.push(Store::new(StorePlace::Postgres(url)));
    }
    for store in databases {
        let mut known = KnownRecords::default();
        known.look(&store).await.unwrap();
        assert_eq!(known.shown(), "acme: one", "{}", store.kind());
        for error in [store.prepare().await, store.begin("acme").await.map(drop)] {
            let error = error.unwrap_err();
            assert!(error.is_read_only(), "{error:?}");
        }
    }
}

#[tokio::test]
async fn outcomes_of_one_principal_are_bounded_and_the_oldest_go() {
    on_both(async |place| {
        let owner = owner("ann");
        let store = Store::new(place);
        let kept = Reservation { digest: "d".to_owned(), outcome: "{}".to_owned() };
        let mut change = store.begin("acme").await.unwrap();
        let many = "INSERT INTO outcomes (organisation, issuer, subject, key, digest, outcome, \
            expires_at) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE \
            i < 1200) SELECT 'acme', 'key', 'ann', 'k' || i, 'd', '{}', i FROM n";
        change.transaction.run(many).await.unwrap();
        change.keep_outcome(&owner, "new", &kept).await.unwrap();
        change.commit().await.unwrap();
        let count = "SELECT COUNT(*) FROM outcomes";
        assert_eq!(store.count(count).await, 1000);
        let mut change = store.begin("acme").await.unwrap();
        assert_eq!(change.find_outcome(&owner, "new").await.unwrap(), Some(kept.clone()));
        assert_eq!(change.find_outcome(&owner, "k1200").await.unwrap(), None, "its time is over");
        // The key of an expired outcome is free even before the outcome is purged.
        change.keep_outcome(&owner, "k1200", &kept).await.unwrap();
        change.commit().await.unwrap();
        store.purge().await.unwrap();
        assert_eq!(store.count(count).await, 2);
    })
    .await;
}
