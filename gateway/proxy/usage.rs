//! Counts of calls by caller, server and tool, and of denials by rule, until they are taken. A
//! bounded number of series is counted individually; further callers, then further tools, are
//! counted together. A series is found under a read lock, and allocated if new; counting is atomic.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use ahash::{AHashMap, RandomState};
use lockgate_authn::{DEFAULT_ORGANISATION, Principal};
use lockgate_telemetry::{DURATION_BUCKETS, Denial, DurationCounts, Outcome, find_bucket};
use parking_lot::RwLock;

/// Series of an hour that are counted individually. As many again are counted by server and tool.
const MAX_SERIES: usize = 2000;
/// An organisation other than the default may take this part of them.
const ORGANISATION_DIVISOR: usize = 8;
/// Maximum length of a name, and of a caller's issuer and subject together, in bytes. The store
/// has them in an index.
const MAX_NAME: usize = 256;
const MAX_CALLER: usize = 512;

/// The kind of series of calls. Series of denials have the name of their reason.
pub const CALL: &str = "call";

/// The names of a series. Empty names stand for all that are counted together.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key<T> {
    kind: &'static str,
    /// The caller's organisation.
    organisation: T,
    /// The organisation of the server, unless it is the operator's.
    owner: Option<T>,
    slug: T,
    /// The server's own name of the tool, or the rule.
    name: T,
    issuer: T,
    subject: T,
}

impl<T: Deref<Target = str>> Key<T> {
    /// Returns the key with other texts, each made from its text here.
    fn map<'a, U>(&'a self, make: impl Fn(&'a str) -> U) -> Key<U> {
        Key {
            kind: self.kind,
            organisation: make(&self.organisation),
            owner: self.owner.as_deref().map(&make),
            slug: make(&self.slug),
            name: make(&self.name),
            issuer: make(&self.issuer),
            subject: make(&self.subject),
        }
    }
}

/// The counters of one series.
pub(crate) struct Series {
    key: Key<Box<str>>,
    calls: AtomicU64,
    failed: AtomicU64,
    durations: [AtomicU64; DURATION_BUCKETS],
    /// Counted since the last trim.
    is_used: AtomicBool,
}

/// Counts of one series since the previous take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageCount {
    /// [`CALL`], or the reason of a denial.
    pub kind: &'static str,
    /// The caller's organisation.
    pub organisation: String,
    /// `slug` or `organisation/slug`; empty for denials.
    pub server: String,
    /// The tool or the rule; empty for tools that are counted together.
    pub name: String,
    /// Both empty for callers that are counted together.
    pub issuer: String,
    pub subject: String,
    pub calls: u64,
    pub failed: u64,
    /// Of calls that reached the server.
    pub durations: DurationCounts,
}

impl Series {
    fn new(key: Key<&str>) -> Self {
        Self {
            key: key.map(Into::into),
            calls: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            durations: [const { AtomicU64::new(0) }; DURATION_BUCKETS],
            is_used: AtomicBool::new(true),
        }
    }

    /// Counts an ended call. Its duration counts if it reached the server.
    pub(crate) fn count(&self, outcome: Outcome, is_failed: bool, duration: Duration) {
        if !matches!(outcome, Outcome::Denied | Outcome::Unavailable) {
            self.durations[find_bucket(duration)].fetch_add(1, Relaxed);
        }
        if is_failed {
            self.failed.fetch_add(1, Relaxed);
        }
        self.calls.fetch_add(1, Relaxed);
    }

    /// Takes the counts, or returns `None` if there are none.
    fn take(&self) -> Option<UsageCount> {
        let calls = self.calls.swap(0, Relaxed);
        if calls == 0 {
            return None;
        }
        self.is_used.store(true, Relaxed);
        let mut durations = [0; DURATION_BUCKETS];
        for (count, counter) in durations.iter_mut().zip(&self.durations) {
            *count = counter.swap(0, Relaxed);
        }
        let Key { kind, organisation, owner, slug, name, issuer, subject } = self.key.map(clean);
        Some(UsageCount {
            kind,
            organisation,
            server: match owner {
                Some(owner) => format!("{owner}/{slug}"),
                None => slug,
            },
            name,
            issuer,
            subject,
            calls,
            failed: self.failed.swap(0, Relaxed),
            durations,
        })
    }
}

/// Replaces control characters, which a database may refuse.
fn clean(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[derive(Default)]
struct Table {
    /// By the hash of their keys.
    series: AHashMap<u64, Arc<Series>>,
    of_organisation: AHashMap<Box<str>, usize>,
}

impl Table {
    fn find(&self, hash: u64, key: Key<&str>) -> Option<Arc<Series>> {
        let known = self.series.get(&hash)?;
        (known.key.map(|text| text) == key).then(|| Arc::clone(known))
    }

    /// Returns whether further series of an organisation are counted together.
    fn is_full(&self, organisation: &str) -> bool {
        let own = self.of_organisation.get(organisation).copied().unwrap_or(0);
        let has_share = organisation == DEFAULT_ORGANISATION;
        self.series.len() >= MAX_SERIES || !has_share && own >= MAX_SERIES / ORGANISATION_DIVISOR
    }
}

/// All series since the last trim.
#[derive(Default)]
pub struct Usage {
    table: RwLock<Table>,
    hasher: RandomState,
}

impl Usage {
    /// Returns the series of a caller's calls to a tool of a server.
    pub(crate) fn of_call(
        &self,
        caller: &Principal,
        (owner, slug): (Option<&str>, &str),
        tool: &str,
    ) -> Arc<Series> {
        let is_long = caller.issuer.len() + caller.subject.len() > MAX_CALLER;
        let (issuer, subject) =
            if is_long { ("", "") } else { (&*caller.issuer, &*caller.subject) };
        let organisation = caller.organisation();
        let name = clip(tool);
        self.find(Key { kind: CALL, organisation, owner, slug, name, issuer, subject })
    }

    /// Counts a denial by a rule, or by a rule in dry-run mode.
    pub(crate) fn deny(&self, caller: &Principal, rule: &str, why: Denial) {
        let series = self.find(Key {
            kind: why.as_str(),
            organisation: caller.organisation(),
            owner: None,
            slug: "",
            name: clip(rule),
            issuer: "",
            subject: "",
        });
        series.calls.fetch_add(1, Relaxed);
    }

    fn find(&self, key: Key<&str>) -> Arc<Series> {
        let hash = self.hasher.hash_one(key);
        {
            let table = self.table.read();
            if let Some(known) = table.find(hash, key) {
                return known;
            }
            if table.is_full(key.organisation)
                && let Some(known) = self.find_wider(&table, key)
            {
                return known;
            }
        }
        self.add(key)
    }

    fn find_wider(&self, table: &Table, key: Key<&str>) -> Option<Arc<Series>> {
        let [tool, server] = widen(key);
        let known = table.find(self.hasher.hash_one(tool), tool);
        let is_full = table.series.len() >= 2 * MAX_SERIES;
        match known {
            None if is_full => table.find(self.hasher.hash_one(server), server),
            known => known,
        }
    }

    #[cold]
    fn add(&self, key: Key<&str>) -> Arc<Series> {
        let mut table = self.table.write();
        let [tool, server] = widen(key);
        let key = match table.series.len() {
            _ if !table.is_full(key.organisation) => key,
            len if len < 2 * MAX_SERIES => tool,
            _ => server,
        };
        let hash = self.hasher.hash_one(key);
        if let Some(known) = table.find(hash, key) {
            return known;
        }
        let series = Arc::new(Series::new(key));
        // Of two keys with the same 64-bit hash, the earlier one is counted no further.
        if table.series.insert(hash, Arc::clone(&series)).is_none() {
            *table.of_organisation.entry(key.organisation.into()).or_default() += 1;
        }
        series
    }

    /// Takes all counts.
    pub fn take(&self) -> Vec<UsageCount> {
        let all: Vec<Arc<Series>> = self.table.read().series.values().cloned().collect();
        all.into_iter().flat_map(|series| series.take()).collect()
    }

    /// Removes series that were not used since the last trim, unless a call is running.
    pub fn trim(&self) {
        let mut table = self.table.write();
        table.series.retain(|_, series| {
            let is_used = series.is_used.swap(false, Relaxed);
            is_used || series.calls.load(Relaxed) > 0 || Arc::strong_count(series) > 1
        });
        let mut of_organisation: AHashMap<Box<str>, usize> = AHashMap::new();
        for series in table.series.values() {
            *of_organisation.entry(series.key.organisation.clone()).or_default() += 1;
        }
        table.of_organisation = of_organisation;
    }
}

/// Returns the keys under which further series are counted: without the caller, and without the
/// tool or rule.
fn widen(key: Key<&str>) -> [Key<&str>; 2] {
    let tool = Key { issuer: "", subject: "", ..key };
    [tool, Key { name: "", ..tool }]
}

fn clip(name: &str) -> &str {
    name.get(..name.floor_char_boundary(MAX_NAME)).unwrap_or("")
}

#[cfg(test)]
mod tests;
