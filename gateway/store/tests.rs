//! Tests of the store's interface, with SQLite and a real PostgreSQL.

mod daily_calls;
mod files;
mod gateways;
mod grants;
mod killed;
mod known_lists;
mod lost;
mod maintain;
mod postgres;
mod read;
mod tls;
mod usage;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postgres::Postgres;

use crate::connection::Connection;
use crate::file::Access;
use crate::value::{Agent, IntegrationRecord, OrganisationRecords};
use crate::{FoundRecords, PrincipalKey, Reader, Reservation, Store, StoreError, StorePlace};

fn owner(subject: &str) -> PrincipalKey {
    PrincipalKey { issuer: "key".to_owned(), subject: subject.to_owned() }
}

impl Store {
    /// Returns the changes for a reader at this revision.
    async fn load_changed(&self, since: i64) -> Result<Vec<OrganisationRecords>, StoreError> {
        let mut changed = Vec::new();
        let mut reader = Reader::default();
        self.read(&mut reader, |found| match found {
            FoundRecords::Organisation(records) if records.revision > since => {
                changed.push(records)
            }
            _ => {}
        })
        .await?;
        Ok(changed)
    }

    /// Runs statements as a gateway would, in a transaction.
    async fn run(&self, sql: &str) {
        let mut transaction = self.pool().await.unwrap().begin().await.unwrap();
        transaction.run(sql).await.unwrap();
        transaction.commit().await.unwrap();
    }

    async fn count(&self, sql: &str) -> i64 {
        self.connect(Access::Read).await.unwrap().scalar(sql, &[]).await.unwrap()
    }
}

/// Runs a test with a new database of each kind.
async fn on_both(test: impl AsyncFn(StorePlace)) {
    let folder = tempfile::tempdir().unwrap();
    test(StorePlace::File(folder.path().join("data/lockgate.db"))).await;
    if let Some(url) = new_database().await {
        test(StorePlace::Postgres(url)).await;
    }
}

fn store_at(file: &std::path::Path) -> Store {
    Store::new(StorePlace::File(file.to_owned()))
}

/// Creates a database on the shared server.
async fn new_database() -> Option<String> {
    static SERVER: OnceLock<Option<Postgres>> = OnceLock::new();
    static DATABASES: AtomicUsize = AtomicUsize::new(0);
    let url = SERVER.get_or_init(Postgres::start_for_all).as_ref()?.url();
    let name = format!("test{}", DATABASES.fetch_add(1, Ordering::Relaxed));
    let place = StorePlace::Postgres(url.clone());
    let mut connection = Connection::open(&place, Access::Write).await.unwrap();
    connection.run(&format!("CREATE DATABASE {name}")).await.unwrap();
    Some(format!("{}/{name}", url.trim_end_matches("/postgres")))
}

fn integration(organisation: &str, slug: &str) -> IntegrationRecord {
    IntegrationRecord {
        id: format!("int_{organisation}_{slug}"),
        organisation: organisation.to_owned(),
        slug: slug.to_owned(),
        name: format!("The {slug}"),
        name_key: format!("the {slug}"),
        kind: "custom".to_owned(),
        catalogue: None,
        url: "https://mcp.example.com/".to_owned(),
        auth: "api_key".to_owned(),
        source: None,
        auth_header: Some("x-api-key".to_owned()),
        sealed: Some(vec![0, 255, 1, 254]),
        enabled: true,
        version: 1,
        created_at: 1_700_000_000_123,
        updated_at: 1_700_000_000_456,
    }
}

fn agent(organisation: &str, name: &str) -> Agent {
    Agent {
        id: format!("agt_{organisation}_{name}"),
        organisation: organisation.to_owned(),
        name: name.to_owned(),
        name_key: name.to_lowercase(),
        owner_issuer: "key".to_owned(),
        owner_subject: "ann".to_owned(),
        tools: String::new(),
        items: String::new(),
        version: 1,
        created_at: 1_700_000_000_123,
        updated_at: 1_700_000_000_123,
    }
}

async fn add(store: &Store, organisation: &str, slug: &str) {
    let mut change = store.begin(organisation).await.unwrap();
    change.insert_integration(&integration(organisation, slug)).await.unwrap();
    change.commit().await.unwrap();
}

#[tokio::test]
async fn what_is_committed_is_read_back_whole() {
    on_both(async |place| {
        let store = Store::new(place.clone());
        assert!(store.load_changed(0).await.unwrap().is_empty());
        let (wanted, own) = (integration("acme", "github"), agent("acme", "Helper"));
        let mut change = store.begin("acme").await.unwrap();
        change.insert_integration(&wanted).await.unwrap();
        change.insert_agent(&own).await.unwrap();
        assert!(change.assign(&own.id, &wanted.id).await.unwrap());
        assert!(!change.assign(&own.id, &wanted.id).await.unwrap(), "a second time");
        change.commit().await.unwrap();
        // From another program.
        let found = Store::new(place).load_changed(0).await.unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].id, "acme");
        assert_eq!(found[0].integrations, [wanted]);
        assert_eq!(found[0].agents, [own]);
        assert_eq!(found[0].assignments.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn what_is_dropped_or_rolled_back_has_never_been() {
    on_both(async |place| {
        let store = Store::new(place);
        let mut change = store.begin("acme").await.unwrap();
        change.insert_integration(&integration("acme", "one")).await.unwrap();
        drop(change);
        let mut change = store.begin("acme").await.unwrap();
        change.insert_integration(&integration("acme", "two")).await.unwrap();
        change.roll_back().await.unwrap();
        assert!(store.load_changed(0).await.unwrap().is_empty());
        add(&store, "acme", "three").await;
        let found = store.load_changed(0).await.unwrap();
        assert_eq!(found[0].revision, 1, "no revision was used up");
    })
    .await;
}

#[tokio::test]
async fn only_what_changed_since_is_read() {
    on_both(async |place| {
        let store = Store::new(place);
        add(&store, "acme", "one").await;
        add(&store, "other", "one").await;
        let all = store.load_changed(0).await.unwrap();
        assert_eq!(all.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["acme", "other"]);
        add(&store, "acme", "two").await;
        let changed = store.load_changed(all[1].revision).await.unwrap();
        assert_eq!(changed.len(), 1);
        assert_eq!((changed[0].id.as_str(), changed[0].integrations.len()), ("acme", 2));
    })
    .await;
}

#[tokio::test]
async fn rows_of_another_organisation_are_neither_found_nor_changed() {
    on_both(async |place| {
        let store = Store::new(place);
        add(&store, "acme", "one").await;
        let mut change = store.begin("other").await.unwrap();
        assert_eq!(change.find_integration("int_acme_one").await.unwrap(), None);
        assert!(change.is_integration_anywhere("int_acme_one").await.unwrap());
        let foreign = IntegrationRecord { enabled: false, ..integration("acme", "one") };
        change.update_integration(&foreign).await.unwrap();
        change.delete_integration("int_acme_one").await.unwrap();
        assert!(change.list_slugs().await.unwrap().is_empty());
        change.commit().await.unwrap();
        let found = store.load_changed(0).await.unwrap();
        assert_eq!(found[0].integrations, [integration("acme", "one")]);
    })
    .await;
}

#[tokio::test]
async fn an_integration_takes_its_assignments_along() {
    on_both(async |place| {
        let store = Store::new(place);
        add(&store, "acme", "one").await;
        let mut change = store.begin("acme").await.unwrap();
        change.insert_agent(&agent("acme", "a")).await.unwrap();
        change.assign("agt_acme_a", "int_acme_one").await.unwrap();
        assert!(change.unassign("agt_acme_a", "int_acme_one").await.unwrap());
        assert!(!change.unassign("agt_acme_a", "int_acme_one").await.unwrap());
        change.assign("agt_acme_a", "int_acme_one").await.unwrap();
        change.delete_integration("int_acme_one").await.unwrap();
        change.commit().await.unwrap();
        let found = store.load_changed(0).await.unwrap();
        assert!(found[0].assignments.is_empty() && found[0].integrations.is_empty());
        assert_eq!(found[0].agents.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn changes_of_many_at_once_are_in_one_order() {
    on_both(async |place| {
        let stores = [Store::new(place.clone()), Store::new(place)];
        let mut running = Vec::new();
        for number in 0..24 {
            let store = &stores[number % 2];
            running.push(async move { add(store, "acme", &format!("s{number}")).await });
        }
        join_all(running).await;
        let found = stores[0].load_changed(0).await.unwrap();
        assert_eq!((found[0].integrations.len(), found[0].revision), (24, 24));
    })
    .await;
}

async fn join_all(futures: Vec<impl Future<Output = ()>>) {
    let mut pinned: Vec<_> = futures.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|context| {
        pinned.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if pinned.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test]
async fn an_outcome_is_its_principals_alone() {
    on_both(async |place| {
        let store = Store::new(place);
        let kept = Reservation { digest: "d".to_owned(), outcome: "{}".to_owned() };
        let mut change = store.begin("acme").await.unwrap();
        assert_eq!(change.find_outcome(&owner("ann"), "k1").await.unwrap(), None);
        change.keep_outcome(&owner("ann"), "k1", &kept).await.unwrap();
        change.commit().await.unwrap();
        let mut change = store.begin("acme").await.unwrap();
        assert_eq!(change.find_outcome(&owner("ann"), "k1").await.unwrap(), Some(kept));
        assert_eq!(change.find_outcome(&owner("bob"), "k1").await.unwrap(), None);
        drop(change);
        let mut change = store.begin("other").await.unwrap();
        assert_eq!(change.find_outcome(&owner("ann"), "k1").await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn programs_that_start_together_migrate_once() {
    on_both(async |place| {
        let stores: Vec<_> = (0..6).map(|_| Store::new(place.clone())).collect();
        let begin = async |store: &Store| store.begin("acme").await.map(drop).unwrap();
        join_all(stores.iter().map(begin).collect()).await;
        let rows = schema_versions(&stores[0]).await;
        assert_eq!(rows, (1..=crate::schema::NEWEST_VERSION).collect::<Vec<_>>());
    })
    .await;
}

async fn schema_versions(store: &Store) -> Vec<i64> {
    let sql = "SELECT version FROM schema_history ORDER BY version";
    let rows = store.pool().await.unwrap().query(sql, &[]).await.unwrap().rows;
    rows.iter().map(|row| row.first().unwrap()).collect()
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_both_numbers() {
    on_both(async |place| {
        let store = Store::new(place.clone());
        add(&store, "acme", "one").await;
        let newer = "INSERT INTO schema_history (version, applied_at) VALUES (999, 0)";
        store.run(newer).await;
        let error = Store::new(place).load_changed(0).await.unwrap_err();
        assert!(error.is_lasting());
        let words = error.to_string();
        assert!(words.contains("999") && words.contains("newer Lockgate"), "{words}");
    })
    .await;
}

#[tokio::test]
async fn a_change_by_another_gateway_is_heard_of_at_once() {
    let Some(postgres) = Postgres::start() else { return };
    let own = Store::new(StorePlace::Postgres(postgres.url()));
    let other = Store::new(StorePlace::Postgres(postgres.url()));
    own.load_changed(0).await.unwrap();
    let mut follower = own.follow();
    // The first call subscribes.
    follower.wait(Duration::from_secs(2)).await;
    let began = std::time::Instant::now();
    let (_, ()) = tokio::join!(follower.wait(Duration::from_secs(60)), add(&other, "acme", "one"));
    assert!(began.elapsed() < Duration::from_secs(10), "told, not polled");
    assert_eq!(own.load_changed(0).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_database_that_is_away_is_said_to_be_and_used_again_when_it_is_back() {
    let Some(mut postgres) = Postgres::start() else { return };
    let store = Store::new(StorePlace::Postgres(postgres.url()));
    add(&store, "acme", "one").await;
    postgres.stop();
    let error = store.begin("acme").await.map(drop).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
    postgres.run();
    let began = std::time::Instant::now();
    while store.load_changed(0).await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(30));
    }
    add(&store, "acme", "two").await;
    assert_eq!(store.load_changed(0).await.unwrap()[0].integrations.len(), 2);
}
