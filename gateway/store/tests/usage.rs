//! Tests of `usage`: sums of gateways, groups and filters, which the memory must agree with, and
//! expiry.

use std::collections::BTreeMap;

use super::{add, on_both};
use crate::{CALL, STATE, Store, UsageCounts, UsageFilter, UsageGroup, UsageKey, UsageRow};

const GROUPS: [UsageGroup; 7] = [
    UsageGroup::Time,
    UsageGroup::Server,
    UsageGroup::Tool,
    UsageGroup::Caller,
    UsageGroup::Rule,
    UsageGroup::ServerTime,
    UsageGroup::StateTime,
];

fn row(at: i64, kind: &str, organisation: &str, names: [&str; 3], calls: i64) -> UsageRow {
    let [server, name, subject] = names;
    let mut counts = UsageCounts { calls, failed: calls / 2, ..UsageCounts::default() };
    counts.durations[usize::try_from(calls % 36).unwrap()] = calls;
    let key = UsageKey {
        at,
        step: 300,
        kind: kind.to_owned(),
        organisation: organisation.to_owned(),
        server: server.to_owned(),
        name: name.to_owned(),
        issuer: if subject.is_empty() { String::new() } else { "key".to_owned() },
        subject: subject.to_owned(),
    };
    UsageRow { key, counts }
}

fn rows() -> Vec<UsageRow> {
    vec![
        row(300, CALL, "acme", ["time", "now", "ann"], 5),
        row(600, CALL, "acme", ["time", "now", "ann"], 7),
        row(600, CALL, "acme", ["acme/wiki", "find", "bob"], 40),
        row(600, CALL, "acme", ["acme/wiki", "find", ""], 2),
        row(600, CALL, "other", ["time", "later", "ann"], 9),
        row(600, "policy", "acme", ["", "no-files", ""], 3),
        row(600, "dry_run", "acme", ["", "no-files", ""], 1),
        row(300, STATE, "", ["time", "", ""], 11),
        row(300, STATE, "acme", ["acme/wiki", "", ""], 12),
        row(300, STATE, "other", ["other/wiki", "", ""], 13),
    ]
}

/// Returns the sums of rows in memory, in the order of keys.
fn sum(group: UsageGroup, filter: &UsageFilter, rows: &[UsageRow]) -> Vec<UsageRow> {
    let mut sums: BTreeMap<UsageKey, UsageCounts> = BTreeMap::new();
    for UsageRow { key, counts } in rows {
        let Some(masked) = filter.find_group(group, key) else { continue };
        let mut counts = counts.clone();
        if matches!(group, UsageGroup::Rule | UsageGroup::ServerTime | UsageGroup::StateTime) {
            counts.durations = UsageCounts::default().durations;
        }
        sums.entry(masked).or_default().add(&counts);
    }
    sums.into_iter().map(|(key, counts)| UsageRow { key, counts }).collect()
}

fn filter(from: i64, organisation: &str, server: &str, subject: &str) -> UsageFilter {
    UsageFilter {
        step: 300,
        from,
        organisation: organisation.to_owned(),
        servers: [server.to_owned(), format!("{organisation}/{server}")],
        issuer: if subject.is_empty() { String::new() } else { "key".to_owned() },
        subject: subject.to_owned(),
    }
}

#[tokio::test]
async fn two_gateways_add_up_and_every_group_agrees_with_the_memory() {
    on_both(async |place| {
        let (one, two) = (Store::new(place.clone()), Store::new(place));
        let all: Vec<_> = rows().into_iter().map(|row| (row, 10_000)).collect();
        if one.file().is_some() {
            let mut states = all.clone();
            states.retain(|(row, _)| row.key.kind == STATE);
            assert!(!one.add_usage(&states, 0).await.unwrap(), "states alone create no file");
            assert_eq!(
                one.sum_usage(UsageGroup::Time, &filter(0, "", "", "")).await.unwrap(),
                None
            );
        }
        assert!(one.add_usage(&all, 0).await.unwrap() && two.add_usage(&all, 0).await.unwrap());
        let twice = [rows(), rows()].concat();
        for filter in [
            filter(0, "", "", ""),
            filter(600, "acme", "", ""),
            filter(0, "acme", "wiki", ""),
            filter(0, "acme", "", "ann"),
            filter(0, "nobody", "", ""),
        ] {
            for group in GROUPS {
                let mut found = two.sum_usage(group, &filter).await.unwrap().unwrap();
                let counts: Vec<i64> = found.iter().map(|row| row.counts.calls).collect();
                if matches!(group, UsageGroup::Server | UsageGroup::Tool | UsageGroup::Caller) {
                    assert!(counts.is_sorted_by(|a, b| a >= b), "{group:?} {counts:?}");
                }
                found.sort_by(|a, b| a.key.cmp(&b.key));
                assert_eq!(found, sum(group, &filter, &twice), "{group:?} {filter:?}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn rows_are_kept_until_they_expire_and_in_backups() {
    on_both(async |place| {
        let store = Store::new(place);
        add(&store, "acme", "one").await;
        let [early, late] = [rows()[0].clone(), rows()[1].clone()];
        let all = filter(0, "", "", "");
        store.add_usage(&[(early, 1000), (late.clone(), 2000)], 999).await.unwrap();
        let found = store.sum_usage(UsageGroup::Time, &all).await.unwrap().unwrap();
        assert_eq!(found.len(), 2);
        if let Some(file) = store.file() {
            let copy = file.with_extension("copy");
            store.back_up(&copy).await.unwrap();
            store.add_usage(&[], 5000).await.unwrap();
            store.restore(&copy).await.unwrap();
        }
        store.add_usage(&[], 1000).await.unwrap();
        let found = store.sum_usage(UsageGroup::Time, &all).await.unwrap().unwrap();
        assert_eq!(found, sum(UsageGroup::Time, &all, &[late]));
    })
    .await;
}

#[tokio::test]
async fn rows_of_several_batches_are_all_counted() {
    on_both(async |place| {
        let store = Store::new(place);
        add(&store, "acme", "one").await;
        let mut all = Vec::new();
        for at in 0..250 {
            all.push((row(at * 300, CALL, "acme", ["time", "now", "ann"], at + 1), 1_000_000));
        }
        store.add_usage(&all, 0).await.unwrap();
        let found =
            store.sum_usage(UsageGroup::Time, &filter(0, "", "", "")).await.unwrap().unwrap();
        let written: Vec<_> = all.iter().map(|(row, _)| row.counts.calls).collect();
        let read: Vec<_> = found.iter().map(|row| row.counts.calls).collect();
        assert_eq!(read, written);
    })
    .await;
}
