//! Two gateways on one PostgreSQL.

use std::time::{Duration, Instant};

use super::postgres::Postgres;
use super::*;

async fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    began.elapsed()
}

fn config(postgres: &Postgres) -> Config {
    Config {
        place: StorePlace::Postgres(postgres.url()),
        keys: Keys(vec![KEY.to_owned()]),
        ..Config::default()
    }
}

#[tokio::test]
async fn a_change_is_effective_everywhere_and_an_outage_changes_nothing_that_is_known() {
    let Some(mut postgres) = Postgres::start() else { return };
    let one = open(&config(&postgres)).await;
    let two = open(&config(&postgres)).await;
    let following = Arc::clone(&two);
    let follower = tokio::spawn(async move { following.follow().await });
    let acme = admin("acme");
    let mut changes = two.changes();
    let made = one.create_integration(&acme, new("One"), &plain()).await.unwrap().after.unwrap();
    assert_eq!(one.snapshot("acme").integrations.len(), 1, "where it was made, at once");
    let took = until("heard of", || two.snapshot("acme").integrations.len() == 1).await;
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(&*changes.recv().await.unwrap(), "acme");

    postgres.stop();
    let error = one.enable_integration(&acme, &made.id, false, &plain()).await.unwrap_err();
    assert_eq!(error.code(), "STORE_UNAVAILABLE");
    assert!(one.trouble().is_some());
    assert!(!format!("{error} {:?}", one.trouble()).contains("secret@"));
    assert_eq!(one.snapshot("acme").integrations.len(), 1);
    assert_eq!(one.integration(&acme, &made.id).unwrap(), made);
    until("the other one knows too", || two.trouble().is_some()).await;

    postgres.run();
    until("it is back", || two.trouble().is_none()).await;
    let began = Instant::now();
    while let Err(error) = one.enable_integration(&acme, &made.id, false, &plain()).await {
        assert!(began.elapsed() < Duration::from_secs(20), "{error}");
    }
    assert!(one.trouble().is_none());
    until("heard of again", || two.snapshot("acme").integrations.is_empty()).await;
    follower.abort();
}

#[tokio::test]
async fn a_gateway_that_starts_while_the_store_is_away_learns_all_when_it_is_back() {
    let Some(mut postgres) = Postgres::start() else { return };
    let one = open(&config(&postgres)).await;
    one.create_integration(&admin("acme"), new("One"), &plain()).await.unwrap();
    one.close().await;
    postgres.stop();
    let late = open(&config(&postgres)).await;
    assert!(late.trouble().is_some());
    assert!(late.snapshot("acme").integrations.is_empty());
    let following = Arc::clone(&late);
    let follower = tokio::spawn(async move { following.follow().await });
    postgres.run();
    until("it has learnt", || late.snapshot("acme").integrations.len() == 1).await;
    follower.abort();
}
