//! Tests of grants in use: renewal and end.

use std::path::Path;
use std::time::{Duration, SystemTime};

use http::StatusCode;
use lockgate_egress::{Connector, Policy};
use lockgate_store::{Keys, Store, StorePlace, Vault};
use url::Url;

use super::*;
use crate::config::{Authentication, ServerConfig};
use crate::records::{AccountObserver, MAX_REVOCATIONS, Storage};
use crate::token_endpoint::{ClientIdentity, write_header};

const ISSUER: &str = "http://127.0.0.1:9";
const SERVER: &str = "http://127.0.0.1:9/mcp";

pub(crate) fn egress() -> lockgate_egress::Config {
    lockgate_egress::Config {
        connect_timeout: Duration::from_secs(5),
        idle_connections: 1,
        idle_timeout: Duration::from_secs(5),
        ..lockgate_egress::Config::default()
    }
}

/// Opens the store in this folder.
pub(crate) fn storage(folder: &Path) -> Storage {
    let keys = Keys(vec!["a-key-of-the-ring-that-is-long-enough".to_owned()]);
    let store = Arc::new(Store::new(StorePlace::File(folder.join("lockgate.db"))));
    Storage { store, vault: Arc::new(Vault::new(&keys).unwrap()) }
}

fn account(storage: Option<Storage>) -> Arc<Account> {
    account_at("", storage)
}

/// Returns an account at a server of this organisation; empty for one of the operator.
fn account_at(organisation: &str, storage: Option<Storage>) -> Arc<Account> {
    let connector = Arc::new(Connector::new(&egress()).unwrap());
    let url = Url::parse(SERVER).unwrap();
    let config = ServerConfig::of_members(Method::User, url, Policy::Operator);
    let records = Records::new(storage);
    let server = AccountServer::new((&organisation.into(), "a"), &config, connector, &records);
    let holder = Holder::new("acme", "keys", "anna");
    Arc::new(Account::new(Some(holder), Arc::new(server), records))
}

/// Returns the account at a gateway with a store in this folder.
fn stored(folder: &Path) -> Arc<Account> {
    account(Some(storage(folder)))
}

/// Returns a grant without a refresh token, of a token that is due and expires in this time.
fn grant(token: &str, left: Duration) -> Grant {
    let now = SystemTime::now();
    Grant {
        header: write_header(token).unwrap(),
        refresh: None,
        scopes: Vec::new(),
        issuer: ISSUER.into(),
        resource: SERVER.into(),
        client: ClientIdentity { id: "gate".into(), authentication: Authentication::None },
        times: Some((now, now + left)),
        connected_at: now,
        upgrades: Vec::new(),
    }
}

#[tokio::test]
async fn no_grant_is_stored_for_a_deleted_integration() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(folder.path());
    let account = account_at("acme", Some(storage.clone()));
    account.load().await.unwrap();
    let refused = account.connect(grant("late", Duration::from_secs(60))).await.unwrap_err();
    assert!(refused.to_string().contains("was deleted"), "{refused}");
    assert!(!account.is_connected());
    assert_eq!(storage.store.find_grant(&account.id).await.unwrap(), None);
}

#[tokio::test]
async fn a_grant_without_a_refresh_token_is_used_until_it_expires() {
    let account = account(None);
    let soon = grant("soon", Duration::from_secs(60));
    account.write(Some(soon.clone()), None, None).await.unwrap();
    assert_eq!(account.header(), Some(soon.header.clone()));
    assert!(account.ready_header().is_some());
    assert!(!account.is_refreshing.load(Ordering::Acquire));
    account.prepare().await.unwrap();
    // A call that the server refuses does not end it either.
    account.note_refusal(StatusCode::FORBIDDEN, std::iter::empty());
    assert_eq!(account.renew(Some(&soon.header)).await, Err(AccountError::Forbidden));
    assert!(account.is_connected());
    account.write(Some(grant("expired", Duration::ZERO)), None, None).await.unwrap();
    assert_eq!(account.prepare().await, Err(AccountError::InvalidGrant));
    assert!(!account.is_connected());
}

#[tokio::test]
async fn tokens_that_were_stored_without_a_response_stay_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let [here, lost] = [stored(folder.path()), stored(folder.path())];
    let left = Duration::from_secs(60);
    here.write(Some(grant("old", left)), None, None).await.unwrap();
    let (_, over, _) = here.current();
    let new = grant("new", left);
    assert!(lost.write(Some(new.clone()), Some(over), None).await.unwrap());
    let mut unwritten = None;
    assert!(here.keep_refreshed(new.clone(), over, &mut unwritten).await.unwrap());
    assert_eq!(here.header(), Some(new.header.clone()));
    // Another grant in its place stays in use too.
    assert!(!here.keep_refreshed(grant("other", left), over, &mut unwritten).await.unwrap());
    assert_eq!(here.header(), Some(new.header));
    assert!(unwritten.is_none());
}

#[tokio::test]
async fn an_account_follows_a_store_that_was_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let [account, backup] = [stored(folder.path()), stored(folder.path())];
    let kept = grant("backup", Duration::from_secs(60));
    backup.write(Some(kept.clone()), None, None).await.unwrap();
    account.needs.lock().revision = 100;
    assert!(account.reload().await.unwrap());
    assert_eq!(account.header(), None);
    account.forget_revision();
    assert!(account.reload().await.unwrap());
    assert_eq!(account.header(), Some(kept.header));
}

#[tokio::test]
async fn concurrent_revocations_are_bounded() {
    let account = account(None);
    let old = grant("old", Duration::from_secs(60));
    let slots = &account.records.revocations;
    let mut held = Vec::new();
    for _ in 1..MAX_REVOCATIONS {
        held.push(slots.try_acquire().unwrap());
    }
    // The authorization server cannot be reached.
    account.revoke(&old).await;
    held.push(slots.try_acquire().unwrap());
    let waiting = tokio::time::timeout(Duration::from_millis(50), account.revoke(&old));
    assert!(waiting.await.is_err());
    held.clear();
    account.revoke(&old).await;
    assert_eq!(slots.available_permits(), MAX_REVOCATIONS);
}

#[tokio::test]
async fn requirements_of_a_server_are_bounded() {
    let account = account(None);
    let refuse = |scope: &str| {
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
        account.note_refusal(StatusCode::FORBIDDEN, std::iter::once(&*challenge));
    };
    refuse(&"x".repeat(129));
    assert_eq!(account.needed_scopes().len(), 0);
    refuse(&"x".repeat(128));
    for number in 1..32 {
        refuse(&format!("scope{number}"));
    }
    assert_eq!(account.needed_scopes().len(), 32);
    refuse("another");
    assert_eq!(account.needed_scopes().len(), 32);
    // Different requirements, each of which was met, up to ten in an hour.
    let account = self::account(None);
    for number in 0..10 {
        account.require(vec![format!("scope{number}")], None);
        assert!(account.may_upgrade(), "{number}");
        let mut grant = grant("token", Duration::from_secs(60));
        grant.scopes = vec![format!("scope{number}")];
        grant.upgrades = account.next_upgrades();
        account.write(Some(grant), None, None).await.unwrap();
    }
    account.require(vec!["another".into()], None);
    assert!(!account.may_upgrade());
}

#[derive(Default)]
struct Heard(Mutex<Vec<&'static str>>);

impl AccountObserver for Heard {
    fn connected(&self, _: &str, _: &Holder) {
        self.0.lock().push("connected");
    }

    fn ended(&self, _: &str, _: &Holder) {
        self.0.lock().push("ended");
    }

    fn record(&self, _: &AccountEvent<'_>) {}

    fn unopened(&self, _: &str) {}
}

#[tokio::test]
async fn other_gateways_hear_of_another_account_but_not_of_a_renewal() {
    let folder = tempfile::tempdir().unwrap();
    let [here, there] = [stored(folder.path()), stored(folder.path())];
    let heard = Arc::new(Heard::default());
    let observer: Arc<dyn AccountObserver> = Arc::clone(&heard) as _;
    there.records.observer.set(Arc::downgrade(&observer)).ok().unwrap();
    let left = Duration::from_secs(60);
    let first = grant("first", left);
    let renewed = Grant { header: grant("renewed", left).header, ..first.clone() };
    let later = first.connected_at + Duration::from_secs(1);
    let other = Grant { connected_at: later, ..grant("other", left) };
    for (grant, news) in [
        (Some(first), vec![]),
        (Some(renewed), vec![]),
        (Some(other), vec!["connected"]),
        (None, vec!["ended"]),
    ] {
        here.write(grant, None, None).await.unwrap();
        there.reload().await.unwrap();
        assert_eq!(std::mem::take(&mut *heard.0.lock()), news);
    }
}
