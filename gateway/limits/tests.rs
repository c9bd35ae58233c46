//! Tests with a real Redis: several limiters share it, like several gateways.

mod redis;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_egress::Connector;
use lockgate_policy::file::Key;
use lockgate_policy::{Allowance, LimitKey, Limiter, Quota, Reached, Subject, WhenAway};

use crate::connection::{Connection, Reply, Report};
use crate::{Config, Shared, UrlError};
use redis::Redis;

const SUBJECT: Subject<'static> = Subject {
    key: 1,
    issuer: "https://issuer.example",
    subject: "ann@example.com",
    organisation: Some("acme"),
    roles: &[],
    scopes: &[],
    agent: None,
    certificate: None,
};
const SECRET: &str = "1f0c9e7ab35d2468fd1ac0e5b7943628";

fn quota(number: u32, period: u64, burst: u32, when_away: WhenAway) -> Quota {
    let [number, burst] = [number, burst].map(|number| NonZeroU32::new(number).unwrap());
    let rate = Some((number, Duration::from_secs(period), burst));
    Quota { rate, concurrency: None, when_away }
}

fn connector() -> Arc<Connector> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let config = lockgate_egress::Config {
        connect_timeout: Duration::from_secs(5),
        idle_connections: 1,
        idle_timeout: Duration::from_secs(1),
        ..lockgate_egress::Config::default()
    };
    Arc::new(Connector::new(&config).unwrap())
}

fn config(redis: &Redis) -> Config {
    Config::new(&redis.url(), "lockgate", SECRET).unwrap()
}

async fn until(what: &str, check: impl Fn() -> bool) {
    let began = Instant::now();
    while !check() {
        assert!(began.elapsed() < Duration::from_secs(10), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns limiters of separate gateways that have reached the store.
async fn gateways(redis: &Redis, count: usize) -> Vec<Arc<Shared>> {
    let mut all = Vec::new();
    for _ in 0..count {
        let shared = Shared::start(config(redis), connector());
        until("the store is there", || !shared.is_away()).await;
        all.push(shared);
    }
    all
}

fn passes(shared: &Shared, policy: &str, quota: &Quota, subject: &Subject<'_>) -> bool {
    let key = LimitKey::new(&[Key::Principal], subject, None);
    shared.take(Allowance { policy, quota }, &key).is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_gateways_let_pass_what_one_would() {
    let Some(redis) = Redis::start() else { return };
    let all = gateways(&redis, 3).await;
    // 600 per minute, like a policy without `burst`.
    let quota = quota(600, 60, 600, WhenAway::Local);
    let began = Instant::now();
    let mut passed = 0;
    let mut refused = 0;
    while began.elapsed() < Duration::from_secs(4) {
        for shared in &all {
            for _ in 0..5 {
                let pass = passes(shared, "p", &quota, &SUBJECT);
                passed += i32::from(pass);
                refused += i32::from(!pass);
            }
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let allowed = 600.0 + began.elapsed().as_secs_f64() * 10.0;
    let beyond = f64::from(passed) - allowed;
    assert!((-6.0..=6.0).contains(&beyond), "{passed} of {allowed}, {refused} refused");
    // Another caller has a separate allowance.
    let other = Subject { subject: "bob@example.com", ..SUBJECT };
    assert!(all.iter().all(|shared| passes(shared, "p", &quota, &other)));
}

/// Sends requests until `wanted` have passed.
async fn use_up(shared: &Shared, quota: &Quota, wanted: u32) {
    let mut used = 0;
    let began = Instant::now();
    while used < wanted {
        assert!(began.elapsed() < Duration::from_secs(10), "{used} of {wanted}");
        used += u32::from(passes(shared, "p", quota, &SUBJECT));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_gateway_used_is_missing_at_the_other_until_it_is_given_back() {
    let Some(redis) = Redis::start() else { return };
    let all = gateways(&redis, 2).await;
    let quota = quota(10, 24 * 3600, 10, WhenAway::Local);
    use_up(&all[0], &quota, 10).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    // A gateway without counts of the allowance lets some requests pass ahead of the store.
    let ahead = (0..10).filter(|_| passes(&all[1], "p", &quota, &SUBJECT)).count();
    assert!((1..=4).contains(&ahead), "{ahead}");
    until("it knows", || !passes(&all[1], "p", &quota, &SUBJECT)).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let key = LimitKey::new(&[Key::Principal], &SUBJECT, None);
    for _ in 0..6 {
        all[0].give_back(Allowance { policy: "p", quota: &quota }, &key);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    // The requests passed ahead are subtracted from those returned.
    let left = 6 - ahead;
    let mut passed = 0;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        passed += usize::from(passes(&all[0], "p", &quota, &SUBJECT));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(passed, left);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_policy_says_what_holds_while_the_store_is_away() {
    let Some(mut redis) = Redis::start() else { return };
    let shared = gateways(&redis, 1).await.remove(0);
    let [local, allow, deny] = [WhenAway::Local, WhenAway::Allow, WhenAway::Deny]
        .map(|when_away| quota(5, 3600, 5, when_away));
    let count = |policy: &str, quota: &Quota| {
        (0..20).filter(|_| passes(&shared, policy, quota, &SUBJECT)).count()
    };
    redis.stop();
    until("it is away", || shared.is_away()).await;
    assert_eq!([count("l", &local), count("a", &allow), count("d", &deny)], [5, 20, 0]);
    let key = LimitKey::new(&[Key::Principal], &SUBJECT, None);
    let refused = shared.take(Allowance { policy: "d", quota: &deny }, &key).unwrap_err();
    assert!(matches!(refused, Reached::Unavailable(_)), "{refused:?}");
    redis.run();
    until("it is back", || !shared.is_away()).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    // The requests admitted during the outage were reported to a store without data.
    let other = gateways(&redis, 1).await.remove(0);
    for (policy, quota) in [("l", &local), ("a", &allow)] {
        let _ = passes(&other, policy, quota, &SUBJECT);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!passes(&other, policy, quota, &SUBJECT), "{policy}");
        assert!(!passes(&shared, policy, quota, &SUBJECT), "{policy}");
    }
    assert!(passes(&shared, "d", &deny, &SUBJECT));
}

/// As in docs/policy.md: requests beyond that during the outage are not charged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_outage_a_policy_owes_at_most_twice_its_burst() {
    let Some(mut redis) = Redis::start() else { return };
    let shared = gateways(&redis, 1).await.remove(0);
    // The capacity regains a request every 720 s.
    let allow = quota(5, 3600, 5, WhenAway::Allow);
    redis.stop();
    until("it is away", || shared.is_away()).await;
    assert!((0..1_000).all(|_| passes(&shared, "p", &allow, &SUBJECT)));
    redis.run();
    until("it is back", || !shared.is_away()).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let key = LimitKey::new(&[Key::Principal], &SUBJECT, None);
    let refused = shared.take(Allowance { policy: "p", quota: &allow }, &key).unwrap_err();
    let Reached::Rate(wait) = refused else { panic!("{refused:?}") };
    // Ten of five are charged, so the next request passes when six are regained.
    let six = 6.0 * 720.0;
    assert!((six - 60.0..=six).contains(&wait.as_secs_f64()), "{wait:?}");
}

/// The host accepts the connection but sends nothing, not even in the TLS handshake.
#[tokio::test]
async fn a_store_that_never_greets_is_not_waited_for() {
    let silent = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("rediss://127.0.0.1:{}", silent.local_addr().unwrap().port());
    let config = Config::new(&url, "lockgate", SECRET).unwrap();
    let began = Instant::now();
    let opened = Connection::open(&connector(), &config).await;
    let Err(error) = opened else { panic!("it is open") };
    assert_eq!(error.to_string(), "no connection within 2 s");
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[tokio::test]
async fn the_script_counts_by_the_clock_of_the_store_and_its_keys_expire() {
    let Some(redis) = Redis::start() else { return };
    let mut connection = Connection::open(&connector(), &config(&redis)).await.unwrap();
    let report = |passed, each, burst| Report { name: [7; 16], passed, each, burst };
    let mut left = async |report: Report| connection.report("x", &[report]).await.unwrap()[0];
    let hour = 3_600e6;
    assert_eq!(left(report(0, hour, 10)).await, 10_000);
    assert_eq!(left(report(4, hour, 10)).await, 6_000);
    assert_eq!(left(report(-1, hour, 10)).await, 7_000);
    // Returns beyond the full allowance are dropped.
    assert_eq!(left(report(-100, hour, 10)).await, 10_000);
    // A changed rate keeps the usage.
    assert_eq!(left(report(8, hour, 10)).await, 2_000);
    assert_eq!(left(report(0, 2.0 * hour, 20)).await, 12_000);
    assert_eq!(left(report(0, hour, 5)).await, -3_000);
    // The debt is at most the full allowance.
    assert_eq!(left(report(1_000, hour, 5)).await, -5_000);
    // At ten per second, some are replenished.
    assert_eq!(left(report(-100, hour, 5)).await, 5_000);
    let began = Instant::now();
    assert!(left(report(5, 100_000.0, 5)).await <= 100);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let back = left(report(0, 100_000.0, 5)).await;
    assert!((2_900..=5_000).contains(&back), "{back}");
    let name = format!("x:rate:{}", "07".repeat(16));
    let expires = async |connection: &mut Connection| match connection.ask(&["PTTL", &name]).await {
        Ok(Reply::Number(milliseconds)) => milliseconds,
        other => panic!("{other:?}"),
    };
    let after = expires(&mut connection).await;
    // It may have expired if the machine stood still.
    let is_late = after == -2 && began.elapsed() > Duration::from_secs(1);
    assert!((1..=1_500).contains(&after) || is_late, "{after}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_in_the_store_say_nothing_and_are_the_same_everywhere() {
    let Some(redis) = Redis::start() else { return };
    let all = gateways(&redis, 2).await;
    let quota = quota(10, 3600, 10, WhenAway::Local);
    for shared in &all {
        assert!(passes(shared, "policy-of-ann", &quota, &SUBJECT));
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut connection = Connection::open(&connector(), &config(&redis)).await.unwrap();
    let keys = connection.ask(&["DBSIZE"]).await.unwrap();
    assert_eq!(keys, Reply::Number(1));
    let Ok(Reply::Text(name)) = connection.ask(&["RANDOMKEY"]).await else { panic!("no key") };
    let name = String::from_utf8(name.to_vec()).unwrap();
    let hash = name.strip_prefix("lockgate:rate:").unwrap();
    assert!(hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    // Under another secret the name differs.
    let other = Config::new(&redis.url(), "lockgate", "another secret of 32 characters.").unwrap();
    let other = Shared::start(other, connector());
    until("the store is there", || !other.is_away()).await;
    assert!(passes(&other, "policy-of-ann", &quota, &SUBJECT));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(connection.ask(&["DBSIZE"]).await.unwrap(), Reply::Number(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_forgets_the_script_or_hangs_is_found_again() {
    let Some(redis) = Redis::start() else { return };
    let shared = gateways(&redis, 1).await.remove(0);
    let mut connection = Connection::open(&connector(), &config(&redis)).await.unwrap();
    connection.ask(&["SCRIPT", "FLUSH"]).await.unwrap();
    let quota = quota(100, 3600, 100, WhenAway::Deny);
    use_up(&shared, &quota, 50).await;
    // The store stops responding for a while.
    connection.ask(&["CLIENT", "PAUSE", "1500", "ALL"]).await.unwrap();
    let began = Instant::now();
    until("it is away", || {
        passes(&shared, "p", &quota, &SUBJECT);
        shared.is_away()
    })
    .await;
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    until("it is back", || !shared.is_away()).await;
}

#[test]
fn urls_are_taken_apart_and_hide_what_is_secret() {
    let config = |url: &str| Config::new(url, "lockgate", SECRET);
    let full = config("rediss://us%3Aer:pass%2Fword@redis.example:6380/3").unwrap();
    assert_eq!(full.user.as_deref(), Some("us:er"));
    assert_eq!(full.password.as_deref(), Some("pass/word"));
    assert_eq!(full.database, 3);
    let shown = format!("{full:?}");
    assert!(shown.contains("redis.example") && !shown.contains("pass"), "{shown}");
    for fits in ["redis://h", "redis://:p@[::1]", "valkey://10.0.0.1:1", "valkeys://h/15"] {
        assert!(config(fits).is_ok(), "{fits}");
    }
    for (url, error) in [
        ("http://h", UrlError::Form),
        ("redis:///1", UrlError::Form),
        ("h:6379", UrlError::Form),
        ("redis://user@h", UrlError::Password),
        ("redis://h/one", UrlError::Database),
        ("redis://h/70000", UrlError::Database),
        ("redis://h?tls=1", UrlError::Query),
    ] {
        assert_eq!(config(url).unwrap_err(), error, "{url}");
    }
}
