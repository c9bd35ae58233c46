//! Tests of grants: concurrent changes, leases, sealing for one place, and key rotation.

use lockgate_text::date::now_ms;

use super::*;
use crate::{AccountRecord, GrantFilter, GrantRecord, Keys, Secret, Vault};

const OLD: &str = "an-old-key-of-the-ring-that-is-long-enough";
const NEW: &str = "a-new-key-of-the-ring-that-is-long-enough";

fn vault(keys: &[&str]) -> Vault {
    Vault::new(&Keys(keys.iter().map(|key| (*key).to_owned()).collect())).unwrap()
}

fn record(subject: &str, vault: &Vault) -> GrantRecord {
    let mut record = GrantRecord {
        id: format!("con_{subject}"),
        organisation: "acme".into(),
        issuer: "keys".into(),
        subject: subject.into(),
        server: "tickets".into(),
        state: "connected".into(),
        about: "{}".into(),
        ..GrantRecord::default()
    };
    record.seal(vault, &Secret::new(format!("token of {subject}"))).unwrap();
    record
}

#[tokio::test]
async fn of_two_changes_of_a_revision_the_first_is_made() {
    on_both(async |place| {
        let store = Store::new(place);
        let vault = vault(&[NEW]);
        let anna = record("anna", &vault);
        assert_eq!(store.find_grant(&anna.id).await.unwrap(), None);
        let first = store.write_grant(&anna, None, None).await.unwrap().unwrap();
        // One gateway refreshes, the others wait, until the lease or the revision ends.
        assert!(store.lease_grant(&anna.id, first).await.unwrap());
        assert!(!store.lease_grant(&anna.id, first).await.unwrap());
        store.end_lease(&anna.id, first).await.unwrap();
        assert!(store.lease_grant(&anna.id, first).await.unwrap());
        let ended = GrantRecord { sealed: None, state: "disconnected".into(), ..anna.clone() };
        let second = store.write_grant(&ended, Some(first), None).await.unwrap().unwrap();
        assert!(second > first);
        // The refresh that was in flight restores nothing.
        assert_eq!(store.write_grant(&anna, Some(first), None).await.unwrap(), None);
        assert!(!store.lease_grant(&anna.id, second).await.unwrap());
        assert_eq!(store.grant_revision().await.unwrap(), second);
        let changed = store.changed_grants(first).await.unwrap();
        assert_eq!((changed.len(), changed[0].sealed.as_ref()), (1, None));
        assert_eq!(store.list_grants(GrantFilter::default()).await.unwrap(), []);
        store.write_grant(&record("ben", &vault), None, None).await.unwrap();
        for (filter, count) in [
            (GrantFilter::default(), 1),
            (GrantFilter { organisation: "acme", ..GrantFilter::default() }, 1),
            (GrantFilter { organisation: "other", ..GrantFilter::default() }, 0),
            (GrantFilter { issuer: "keys", subject: "anna", ..GrantFilter::default() }, 0),
            (GrantFilter { server: "tickets", ..GrantFilter::default() }, 1),
        ] {
            let listed = store.list_grants(filter).await.unwrap();
            assert_eq!(listed.len(), count, "{filter:?}");
            assert!(listed.iter().all(|record| record.sealed.is_none()));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_integration_gets_no_grant() {
    on_both(async |place| {
        let store = std::sync::Arc::new(Store::new(place));
        let anna = record("anna", &vault(&[NEW]));
        let tickets = IntegrationRecord { auth: "user".into(), ..integration("acme", "tickets") };
        let mut change = store.begin("acme").await.unwrap();
        change.insert_integration(&tickets).await.unwrap();
        change.commit().await.unwrap();
        assert!(store.write_grant(&anna, None, Some("user")).await.unwrap().is_some());
        // Another method of authentication, and another server.
        assert_eq!(store.write_grant(&anna, None, Some("user_headers")).await.unwrap(), None);
        let elsewhere = GrantRecord { server: "other".into(), ..anna.clone() };
        assert_eq!(store.write_grant(&elsewhere, None, Some("user")).await.unwrap(), None);
        // A deletion in progress comes first.
        let mut change = store.begin("acme").await.unwrap();
        change.delete_integration(&tickets.id).await.unwrap();
        let late = GrantRecord { id: "con_late".into(), ..anna.clone() };
        let writing = std::sync::Arc::clone(&store);
        let writing =
            tokio::spawn(async move { writing.write_grant(&late, None, Some("user")).await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        change.commit().await.unwrap();
        assert_eq!(writing.await.unwrap().unwrap(), None);
        assert_eq!(store.find_grant("con_late").await.unwrap(), None);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_organisation_gets_no_grant() {
    on_both(async |place| {
        let store = std::sync::Arc::new(Store::new(place));
        let anna = record("anna", &vault(&[NEW]));
        store.begin("acme").await.unwrap().commit().await.unwrap();
        let first = store.write_grant(&anna, None, None).await.unwrap().unwrap();
        // A deletion in progress comes first.
        let mut change = store.begin("acme").await.unwrap();
        assert!(change.delete_organisation().await.unwrap());
        let late = GrantRecord { id: "con_late".into(), ..anna.clone() };
        let (writing, later) = (std::sync::Arc::clone(&store), late.clone());
        let writing = tokio::spawn(async move { writing.write_grant(&later, None, None).await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        change.commit().await.unwrap();
        assert_eq!(writing.await.unwrap().unwrap(), None);
        assert_eq!(store.find_grant("con_late").await.unwrap(), None);
        // Grants end there, and begin elsewhere.
        let ended = GrantRecord { sealed: None, state: "disconnected".into(), ..anna.clone() };
        assert!(store.write_grant(&ended, Some(first), None).await.unwrap().is_some());
        assert_eq!(store.write_grant(&anna, None, None).await.unwrap(), None);
        let elsewhere =
            GrantRecord { id: "con_other".into(), organisation: "other".into(), ..anna.clone() };
        assert!(store.write_grant(&elsewhere, None, None).await.unwrap().is_some());
        // A change that is rolled back creates nothing.
        store.begin("acme").await.unwrap().roll_back().await.unwrap();
        assert_eq!(store.write_grant(&late, None, None).await.unwrap(), None);
        store.begin("acme").await.unwrap().commit().await.unwrap();
        assert!(store.write_grant(&late, None, None).await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn a_moved_row_does_not_open_and_rotation_keeps_all() {
    on_both(async |place| {
        let store = Store::new(place);
        let old = vault(&[OLD]);
        let (anna, mut ben) = (record("anna", &old), record("ben", &old));
        store.write_grant(&anna, None, None).await.unwrap();
        let content = Secret::new("verifier".into());
        let names = ("id".to_owned(), "owner".to_owned());
        let kept = AccountRecord::seal(&old, names, &content, i64::MAX).unwrap();
        store.keep_account_record(&kept, 8).await.unwrap();
        // The tokens of Anna in the row of Ben.
        ben.sealed.clone_from(&anna.sealed);
        store.write_grant(&ben, None, None).await.unwrap();
        assert!(ben.open(&old).is_err());
        let both = vault(&[NEW, OLD]);
        let done = store.reseal_accounts(&both).await.unwrap();
        assert_eq!((done.resealed, done.current), (2, 0));
        assert_eq!(done.unusable, ["con_ben"]);
        let again = store.reseal_accounts(&both).await.unwrap();
        assert_eq!((again.resealed, again.current, again.unusable.len()), (0, 2, 1));
        let new = vault(&[NEW]);
        let anna = store.find_grant(&anna.id).await.unwrap().unwrap();
        assert_eq!(anna.open(&new).unwrap().unwrap().expose(), "token of anna");
        let kept = store.find_account_record("id").await.unwrap().unwrap();
        assert_eq!(kept.open(&new).unwrap().expose(), "verifier");
        assert!(store.drop_account_record("id").await.unwrap());
        assert!(!store.drop_account_record("id").await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn the_oldest_records_of_an_owner_are_dropped() {
    on_both(async |place| {
        let store = Store::new(place);
        let vault = vault(&[NEW]);
        for number in 0..4 {
            let names = (format!("id{number}"), "owner".to_owned());
            let end = now_ms() + 60_000 + number;
            let record = AccountRecord::seal(&vault, names, &Secret::new("x".into()), end);
            store.keep_account_record(&record.unwrap(), 2).await.unwrap();
        }
        let names = ("expired".to_owned(), "other".to_owned());
        let expired = AccountRecord::seal(&vault, names, &Secret::new("x".into()), 1).unwrap();
        store.keep_account_record(&expired, 2).await.unwrap();
        let mut found = Vec::new();
        for id in ["id0", "id1", "id2", "id3", "expired"] {
            found.extend(store.find_account_record(id).await.unwrap().map(|record| record.id));
        }
        assert_eq!(found, ["id2", "id3"]);
        store.purge_accounts().await.unwrap();
        assert!(!store.drop_account_record("expired").await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn readers_do_not_wait_for_the_attempts_of_others_to_open_the_store() {
    // Connections are accepted, and get no response.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://gate@{}/gate?sslmode=disable", silent.local_addr().unwrap());
    let store = Store::new(StorePlace::Postgres(url));
    let began = std::time::Instant::now();
    let found = tokio::join!(store.find_grant("a"), store.find_grant("b"), store.find_grant("c"));
    assert!(found.0.is_err() && found.1.is_err() && found.2.is_err());
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}
