//! The background task that processes the servers' events: it passes notifications on to sessions
//! and subscribers, and merges changed lists, each source at its own pace, on blocking threads
//! apart from those that serve clients.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use lockgate_protocol::name::Slug;
use lockgate_telemetry::Metrics;
use lockgate_upstream::{Announcement, Event, ListKind, ResourceUpdate};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, broadcast};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until};

use crate::catalog::Catalog;
use crate::directory::{Change, Source, WantedWork};
use crate::gateway::Gateway;

/// Announcements of a source that are queued for the next merge.
const MAX_ANNOUNCED: usize = 4096;
/// Concurrent merges of organisations; the operator's servers are exempt from the limit.
const MAX_MERGING: usize = 4;

/// Processes events until the gateway stops.
pub(crate) async fn follow(gateway: Arc<Gateway>) {
    let directory = &gateway.directory;
    let mut events = directory.events.subscribe();
    let mut updates = Updates::default();
    let mut merges = Merges::new(&gateway);
    merges.wake(&None, WantedWork::Merge);
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Ok(event) => take_event(&gateway, event, &mut merges, &mut updates),
                Err(broadcast::error::RecvError::Lagged(_)) => merges.announce_all(),
                Err(broadcast::error::RecvError::Closed) => return,
            },
            () = directory.wakes.wait() => {
                for (source, wanted) in directory.wakes.take() {
                    merges.wake(&source, wanted);
                }
            }
            () = updates.wait() => {
                for update in updates.take_due(Instant::now()) {
                    tell(&gateway, &update.server.organisation.clone(), Change::Updated(update));
                }
            }
            Some(source) = merges.running.next() => merges.end(source),
            () = gateway.stopping.cancelled() => return,
        }
    }
}

fn take_event(gateway: &Arc<Gateway>, event: Event, merges: &mut Merges, updates: &mut Updates) {
    match event {
        Event::Changed { server } => merges.of(&server.organisation).announce(None),
        Event::Announced(announcement) => {
            let source = announcement.server.organisation.clone();
            merges.of(&source).announce(Some(announcement));
        }
        Event::Updated(update) => {
            if updates.admit(&update, Instant::now()) {
                tell(gateway, &update.server.organisation.clone(), Change::Updated(update));
            }
        }
        Event::Task { server, id } => {
            tell(gateway, &server.organisation.clone(), Change::Task { server, id });
        }
        Event::Logged { server, note } => {
            if let Some(edge) = gateway.session_edge() {
                edge.log(&server, &note);
            }
        }
    }
}

/// Sends a change of a resource or a task to sessions and subscribers.
fn tell(gateway: &Gateway, source: &Source, change: Change) {
    if let Some(edge) = gateway.session_edge() {
        edge.notify(source, &change, &gateway.snapshot());
    }
    gateway.directory.changes.send(source.as_ref(), change);
}

/// The merges of all sources.
struct Merges {
    gateway: Arc<Gateway>,
    sources: HashMap<Source, Arc<Pending>>,
    /// Merges each source when work is due, until the source no longer exists.
    running: FuturesUnordered<BoxFuture<'static, Source>>,
    organisations: Arc<Semaphore>,
}

/// Work on a source that has not begun, in the order of its arrival.
#[derive(Default)]
struct Pending {
    work: Mutex<Work>,
    changed: Notify,
    reported: Mutex<Reported>,
}

#[derive(Default)]
struct Work {
    /// When it is to begin; `None` without work.
    due: Option<Instant>,
    announced: Vec<Announcement>,
    /// Work requested independently of the servers' events.
    wanted: Option<WantedWork>,
}

impl Merges {
    fn new(gateway: &Arc<Gateway>) -> Self {
        Self {
            gateway: Arc::clone(gateway),
            sources: HashMap::new(),
            running: FuturesUnordered::new(),
            organisations: Arc::new(Semaphore::new(MAX_MERGING)),
        }
    }

    fn of(&mut self, source: &Source) -> Arc<Pending> {
        if let Some(known) = self.sources.get(source) {
            return Arc::clone(known);
        }
        let pending = Arc::default();
        self.begin(source.clone(), Arc::clone(&pending));
        pending
    }

    /// Adds requested work. An organisation's is not delayed, because the caller that made the
    /// change waits for it.
    fn wake(&mut self, source: &Source, wanted: WantedWork) {
        let delay = if source.is_none() { SETTLE_DELAY } else { Duration::ZERO };
        self.of(source).add(delay, |work| work.wanted = work.wanted.max(Some(wanted)));
    }

    fn announce_all(&self) {
        for pending in self.sources.values() {
            pending.announce(None);
        }
    }

    fn begin(&mut self, source: Source, pending: Arc<Pending>) {
        self.sources.insert(source.clone(), Arc::clone(&pending));
        let gateway = Arc::clone(&self.gateway);
        // The operator's servers are exempt from the limit.
        let limit = source.is_some().then(|| Arc::clone(&self.organisations));
        self.running.push(Box::pin(async move {
            merge_when_due(&pending, limit.as_deref(), |work| {
                let gateway = Arc::clone(&gateway);
                let source = source.clone();
                let pending = Arc::clone(&pending);
                let merging = spawn_blocking(move || merge(&gateway, &source, &pending, work));
                merging.map(|stays| stays.unwrap_or(true))
            })
            .await;
            source
        }));
    }

    /// Forgets a source that no longer exists, unless there is work again.
    fn end(&mut self, source: Source) {
        if let Some(pending) = self.sources.remove(&source)
            && pending.work.lock().due.is_some()
        {
            self.begin(source, pending);
        }
    }
}

impl Pending {
    /// Adds an announcement, or only the need to compare the source's lists.
    fn announce(&self, announcement: Option<Announcement>) {
        self.add(SETTLE_DELAY, |work| {
            if work.announced.len() < MAX_ANNOUNCED {
                work.announced.extend(announcement);
            }
        });
    }

    /// Adds work that is due after this delay. Earlier work is not put off.
    fn add(&self, delay: Duration, add: impl FnOnce(&mut Work)) {
        let mut work = self.work.lock();
        let due = Instant::now() + delay;
        work.due = Some(work.due.map_or(due, |known| known.min(due)));
        add(&mut work);
        drop(work);
        self.changed.notify_one();
    }

    async fn wait_until_due(&self) {
        loop {
            let due = self.work.lock().due;
            let changed = self.changed.notified();
            match due {
                None => changed.await,
                Some(due) => tokio::select! {
                    () = sleep_until(due) => return,
                    () = changed => {}
                },
            }
        }
    }
}

/// Delay that lets changes accumulate before a merge.
const SETTLE_DELAY: Duration = Duration::from_millis(30);
/// Length of the pause after a merge, in multiples of its duration, so that constant changes cannot
/// occupy the gateway.
const REST_FACTOR: u32 = 4;
/// Longest pause.
const MAX_REST: Duration = Duration::from_secs(2);

/// Merges a source when work is due, with a pause after each merge, until `merge` returns that the
/// source no longer exists.
async fn merge_when_due<M: Future<Output = bool>>(
    pending: &Pending,
    limit: Option<&Semaphore>,
    merge: impl Fn(Work) -> M,
) {
    let mut stays = true;
    while stays {
        pending.wait_until_due().await;
        let permit = match limit {
            Some(limit) => limit.acquire().await.ok(),
            None => None,
        };
        let began = Instant::now();
        let work = std::mem::take(&mut *pending.work.lock());
        stays = merge(work).await;
        drop(permit);
        sleep((began.elapsed() * REST_FACTOR).min(MAX_REST)).await;
    }
}

/// Merges a source and returns whether it still exists.
fn merge(gateway: &Gateway, source: &Source, pending: &Pending, work: Work) -> bool {
    let snapshot = gateway.snapshot();
    let directory = &gateway.directory;
    let Work { announced, wanted, .. } = work;
    let announced = announced.into();
    let tells = directory.rebuild(source, &snapshot, &gateway.metrics, wanted, &announced);
    let catalog = directory.catalog_of(source.as_deref());
    pending.reported.lock().report(source, catalog.as_deref(), &gateway.metrics);
    if tells && let Some(edge) = gateway.session_edge() {
        edge.notify(source, &Change::Catalog(announced), &snapshot);
    }
    catalog.is_some()
}

/// The restarts and list version of each server that are included in the metrics.
#[derive(Default)]
struct Reported(HashMap<Slug, (u64, u64)>);

impl Reported {
    /// Updates the metrics of a source's servers, and removes those of servers that no longer
    /// exist.
    fn report(&mut self, source: &Source, catalog: Option<&Catalog>, metrics: &Metrics) {
        let organisation = source.as_deref();
        self.0.retain(|slug, _| {
            let stays = matches!(catalog, Some(catalog) if catalog.servers.contains_key(slug));
            if !stays {
                metrics.remove_server(organisation, slug);
            }
            stays
        });
        let Some(catalog) = catalog else { return };
        for (slug, server) in &catalog.servers {
            let counters = metrics.server(organisation, slug);
            let status = server.status();
            let lists = server.catalog();
            counters.set_state(status.state);
            let known = self.0.insert(slug.clone(), (status.restarts, lists.version));
            if let Some((restarts, version)) = known {
                if status.restarts > restarts {
                    counters.numbers.restarts.add(1);
                }
                if version > 0 && lists.version > version {
                    counters.numbers.list_changes.add(1);
                }
            }
            counters.numbers.quarantined.set(catalog.quarantined(slug));
            let tools = lists.items(ListKind::Tools).iter().map(|tool| &*tool.key);
            metrics.keep_tools(organisation, slug, tools);
        }
    }
}

/// Window in which updates of a resource are coalesced.
const COALESCE_WINDOW: Duration = Duration::from_millis(250);
/// Limit on tracked resources; updates of others are all sent.
const MAX_RESOURCES: usize = 4096;

#[derive(Default)]
struct Updates {
    /// Updates within their window, and whether they were repeated since they were sent.
    recent: HashMap<ResourceUpdate, bool>,
    /// Ends of the windows, in ascending order.
    ends: VecDeque<(Instant, ResourceUpdate)>,
}

impl Updates {
    /// Returns whether to send the update now.
    fn admit(&mut self, update: &ResourceUpdate, now: Instant) -> bool {
        if let Some(again) = self.recent.get_mut(update) {
            *again = true;
            return false;
        }
        if self.recent.len() < MAX_RESOURCES {
            self.begin(update.clone(), now);
        }
        true
    }

    fn begin(&mut self, update: ResourceUpdate, now: Instant) {
        self.recent.insert(update.clone(), false);
        self.ends.push_back((now + COALESCE_WINDOW, update));
    }

    /// Returns the updates that were repeated within their window, which has ended.
    fn take_due(&mut self, now: Instant) -> Vec<ResourceUpdate> {
        let mut due = Vec::new();
        while let Some((_, update)) = self.ends.pop_front_if(|(end, _)| *end <= now) {
            if self.recent.remove(&update) == Some(true) {
                self.begin(update.clone(), now);
                due.push(update);
            }
        }
        due
    }

    /// Waits until a window ends, forever if there is none. Cancel safe.
    async fn wait(&self) {
        match self.ends.front() {
            Some((end, _)) => sleep_until(*end).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use lockgate_upstream::{ServerId, Subscription};

    use super::*;

    fn server() -> ServerId {
        ServerId::shared("a")
    }

    #[test]
    fn a_burst_is_told_at_its_start_and_at_its_end() {
        let mut updates = Updates::default();
        let begin = Instant::now();
        let one =
            ResourceUpdate { server: server(), uri: "test://one".into(), on: Subscription::Shared };
        let two = ResourceUpdate { uri: "test://two".into(), ..one.clone() };
        assert!(updates.admit(&one, begin));
        assert!(updates.admit(&two, begin));
        let elsewhere = ResourceUpdate { on: Subscription::Session(7), ..one.clone() };
        assert!(updates.admit(&elsewhere, begin), "another connection is another matter");
        let of_acme = ServerId { organisation: Some("acme".into()), ..server() };
        let foreign = ResourceUpdate { server: of_acme, ..one.clone() };
        assert!(updates.admit(&foreign, begin), "another organisation's server is another one");
        for _ in 0..100 {
            assert!(!updates.admit(&one, begin + COALESCE_WINDOW / 2));
        }
        assert_eq!(updates.take_due(begin + COALESCE_WINDOW / 2), []);
        assert_eq!(
            updates.take_due(begin + COALESCE_WINDOW).as_slice(),
            std::slice::from_ref(&one)
        );
        assert!(!updates.admit(&one, begin + COALESCE_WINDOW), "the next window has begun");
        assert_eq!(updates.take_due(begin + COALESCE_WINDOW * 2), [one]);
        assert_eq!(updates.take_due(begin + COALESCE_WINDOW * 3), []);
        assert!(updates.recent.is_empty() && updates.ends.is_empty());
    }

    #[test]
    fn no_more_is_remembered_than_its_bound() {
        let mut updates = Updates::default();
        let begin = Instant::now();
        for number in 0..MAX_RESOURCES + 10 {
            let uri = format!("test://{number}").into();
            let update = ResourceUpdate { server: server(), uri, on: Subscription::Shared };
            assert!(updates.admit(&update, begin));
        }
        assert_eq!(updates.recent.len(), MAX_RESOURCES);
    }

    #[tokio::test(start_paused = true)]
    async fn merging_leaves_most_of_the_time_to_others() {
        let pending = Pending::default();
        let began = Instant::now();
        let ms = Duration::from_millis;
        let durations = Mutex::new(VecDeque::from([100, 5000, 1, 10, 0]));
        let merged = Mutex::new(Vec::new());
        let merging = merge_when_due(&pending, None, |_| {
            merged.lock().push(began.elapsed().as_millis());
            let duration = durations.lock().pop_front().unwrap();
            let stays = !durations.lock().is_empty();
            async move {
                sleep(ms(duration)).await;
                stays
            }
        });
        let changing = async {
            pending.announce(None);
            sleep_until(began + ms(20)).await;
            pending.announce(None);
            sleep_until(began + ms(131)).await;
            pending.announce(None);
            sleep_until(began + ms(600)).await;
            pending.announce(None);
            sleep_until(began + ms(9000)).await;
            pending.announce(None);
            sleep_until(began + ms(9010)).await;
            pending.add(Duration::ZERO, |_| {});
            sleep_until(began + ms(9021)).await;
            pending.add(Duration::ZERO, |_| {});
        };
        tokio::join!(merging, changing);
        let expected = [
            30,   // the first change is not put off by more of them
            530,  // four times 100 ms after the end
            7530, // what came meanwhile waits too, but not longer than the longest pause
            9010, // somebody waits for it
            9060, // but not without end
        ];
        assert_eq!(*merged.lock(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_quiet_time_a_change_is_merged_at_once() {
        let pending = Pending::default();
        let began = Instant::now();
        let merged = Mutex::new(Vec::new());
        let merging = merge_when_due(&pending, None, |work| {
            merged.lock().push((began.elapsed().as_millis(), work.wanted));
            let stays = merged.lock().len() < 2;
            async move { stays }
        });
        let changing = async {
            pending.announce(None);
            sleep(Duration::from_secs(9)).await;
            pending.add(SETTLE_DELAY, |work| work.wanted = Some(WantedWork::Tell));
        };
        tokio::join!(merging, changing);
        assert_eq!(*merged.lock(), [(30, None), (9030, Some(WantedWork::Tell))]);
    }
}
