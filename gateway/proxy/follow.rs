//! The background task that processes the servers' events: it passes notifications on to sessions
//! and subscribers, and merges changed lists, each source at its own [`Pace`], on blocking threads
//! apart from those that serve clients.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use lockgate_protocol::name::Slug;
use lockgate_telemetry::Metrics;
use lockgate_upstream::{Announcement, Event, ListKind, ServerId, Subscription};
use tokio::sync::broadcast;

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
    let mut merges = Merges::default();
    let mut running = FuturesUnordered::new();
    merges.of(&None).wanted = Some(WantedWork::Merge);
    loop {
        let is_full = running.len() >= MAX_MERGING;
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
                    tell_updated(&gateway, update);
                }
            }
            due = merges.next_due(is_full) => {
                running.extend(merges.begin(&gateway, due));
            }
            Some(merged) = running.next() => merges.end(merged),
            () = gateway.stopping.cancelled() => return,
        }
    }
}

fn take_event(gateway: &Arc<Gateway>, event: Event, merges: &mut Merges, updates: &mut Updates) {
    match event {
        Event::Changed { server } => merges.announce(&server.organisation),
        Event::Announced(announcement) => {
            let source = announcement.server.organisation.clone();
            let pending = merges.of(&source);
            if pending.announced.len() < MAX_ANNOUNCED {
                pending.announced.push(announcement);
            }
            merges.announce(&source);
        }
        Event::Updated { server, uri, on } => {
            let update = Update { server, uri: uri.into(), on };
            if updates.admit(&update, Instant::now()) {
                tell_updated(gateway, update);
            }
        }
        Event::Task { server, id } => {
            let source = server.organisation.clone();
            tell(gateway, &source, Change::Task { server, id: id.into() });
        }
        Event::Logged { server, note } => {
            if let Some(edge) = gateway.session_edge() {
                edge.log(&server, &note);
            }
        }
    }
}

/// Sends a resource update, as reported on this subscription.
fn tell_updated(gateway: &Gateway, update: Update) {
    let Update { server, uri, on } = update;
    let source = server.organisation.clone();
    tell(gateway, &source, Change::Updated { server, uri, on });
}

/// Sends a change of a resource or a task to sessions and subscribers.
fn tell(gateway: &Gateway, source: &Source, change: Change) {
    if let Some(edge) = gateway.session_edge() {
        edge.notify(source, &change, &gateway.snapshot());
    }
    gateway.directory.changes.send(source.as_ref(), change);
}

#[derive(Default)]
struct Merges {
    sources: HashMap<Source, Pending>,
    /// Due times in ascending order; obsolete entries are skipped.
    agenda: BTreeSet<(Instant, Source)>,
}

#[derive(Default)]
struct Pending {
    pace: Pace,
    announced: Vec<Announcement>,
    /// Work requested independently of the servers' events.
    wanted: Option<WantedWork>,
    /// Empty while a merge is running, which holds it.
    reported: Reported,
    is_merging: bool,
}

struct Merged {
    source: Source,
    /// Whether the source still exists.
    stays: bool,
    reported: Reported,
    began: Instant,
}

impl Merges {
    fn of(&mut self, source: &Source) -> &mut Pending {
        self.sources.entry(source.clone()).or_default()
    }

    /// Schedules a merge after a change of the source.
    fn announce(&mut self, source: &Source) {
        let pending = self.of(source);
        let due = pending.pace.announce(Instant::now());
        if !pending.is_merging {
            self.agenda.insert((due, source.clone()));
        }
    }

    /// Schedules requested work. An organisation's is not delayed, because the caller that made the
    /// change waits for it.
    fn wake(&mut self, source: &Source, wanted: WantedWork) {
        let pending = self.of(source);
        pending.wanted = pending.wanted.max(Some(wanted));
        if source.is_none() {
            self.announce(source);
            return;
        }
        let due = pending.pace.hurry(Instant::now());
        if !pending.is_merging {
            self.agenda.insert((due, source.clone()));
        }
    }

    fn announce_all(&mut self) {
        let all: Vec<Source> = self.sources.keys().cloned().collect();
        for source in all {
            self.announce(&source);
        }
    }

    /// Waits for the next source to merge, forever if there is none. With the limit of concurrent
    /// merges reached, only the operator's servers qualify. Cancel safe.
    async fn next_due(&self, is_full: bool) -> (Instant, Source) {
        let next = if is_full {
            self.agenda.iter().find(|(_, source)| source.is_none())
        } else {
            self.agenda.first()
        };
        match next {
            Some((due, source)) => {
                tokio::time::sleep_until((*due).into()).await;
                (*due, source.clone())
            }
            None => std::future::pending().await,
        }
    }

    fn begin(
        &mut self,
        gateway: &Arc<Gateway>,
        due: (Instant, Source),
    ) -> Option<BoxFuture<'static, Merged>> {
        self.agenda.remove(&due);
        let source = due.1;
        let pending = self.sources.get_mut(&source)?;
        if pending.is_merging || !pending.pace.begin() {
            return None;
        }
        pending.is_merging = true;
        let began = Instant::now();
        let gateway = Arc::clone(gateway);
        let wanted = pending.wanted.take();
        let announced: Arc<[_]> = std::mem::take(&mut pending.announced).into();
        let mut reported = std::mem::take(&mut pending.reported);
        let merging = source.clone();
        let merging = tokio::task::spawn_blocking(move || {
            let stays = merge(&gateway, &merging, &mut reported, wanted, &announced);
            (stays, reported)
        });
        Some(Box::pin(async move {
            let (stays, reported) = merging.await.unwrap_or((true, Reported::default()));
            Merged { source, stays, reported, began }
        }))
    }

    fn end(&mut self, merged: Merged) {
        let Merged { source, stays, reported, began } = merged;
        let pending = self.of(&source);
        pending.is_merging = false;
        pending.reported = reported;
        match pending.pace.merged(began, Instant::now()) {
            Some(due) => drop(self.agenda.insert((due, source))),
            None if !stays => drop(self.sources.remove(&source)),
            None => {}
        }
    }
}

/// Merges a source and returns whether it still exists.
fn merge(
    gateway: &Gateway,
    source: &Source,
    reported: &mut Reported,
    wanted: Option<WantedWork>,
    announced: &Arc<[Announcement]>,
) -> bool {
    let snapshot = gateway.snapshot();
    let directory = &gateway.directory;
    let tells = directory.rebuild(source, &snapshot, &gateway.metrics, wanted, announced);
    let catalog = directory.catalog_of(source.as_deref());
    reported.report(source, catalog.as_deref(), &gateway.metrics);
    if tells && let Some(edge) = gateway.session_edge() {
        edge.notify(source, &Change::Catalog(Arc::clone(announced)), &snapshot);
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

// Timing of merges: soon after a change, but with pauses proportional to the duration of merges,
// so that constant changes cannot occupy the gateway.

/// Delay that lets changes accumulate before a merge.
const SETTLE_DELAY: Duration = Duration::from_millis(30);
/// Length of the pause after a merge, in multiples of its duration.
const REST_FACTOR: u32 = 4;
/// Longest pause.
const MAX_REST: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Pace {
    /// When the announced changes are to be merged.
    due: Option<Instant>,
    /// End of the pause after the last merge.
    rest_until: Option<Instant>,
}

impl Pace {
    /// Registers a change and returns when to merge.
    fn announce(&mut self, now: Instant) -> Instant {
        let soon = now + SETTLE_DELAY;
        let due = self.after_rest(soon);
        *self.due.get_or_insert(due)
    }

    fn after_rest(&self, time: Instant) -> Instant {
        self.rest_until.map_or(time, |rest| rest.max(time))
    }

    /// Registers a change to merge without [`SETTLE_DELAY`], and returns when to merge.
    fn hurry(&mut self, now: Instant) -> Instant {
        let soon = self.after_rest(now);
        let due = self.due.map_or(soon, |due| due.min(soon));
        self.due = Some(due);
        due
    }

    /// Takes the announced changes; returns whether there were any.
    fn begin(&mut self) -> bool {
        self.due.take().is_some()
    }

    /// Starts the pause after a merge. Returns when to merge the changes announced since the merge
    /// began, if any.
    fn merged(&mut self, began: Instant, ended: Instant) -> Option<Instant> {
        let rest = (ended.duration_since(began) * REST_FACTOR).min(MAX_REST);
        self.rest_until = Some(ended + rest);
        if let Some(due) = &mut self.due {
            *due = (*due).max(ended + rest);
        }
        self.due
    }
}

/// Window in which updates of a resource are coalesced.
const COALESCE_WINDOW: Duration = Duration::from_millis(250);
/// Limit on tracked resources; updates of others are all sent.
const MAX_RESOURCES: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Update {
    server: ServerId,
    uri: Arc<str>,
    on: Subscription,
}

#[derive(Default)]
struct Updates {
    /// Updates within their window, and whether they were repeated since they were sent.
    recent: HashMap<Update, bool>,
    /// Ends of the windows, in ascending order.
    ends: VecDeque<(Instant, Update)>,
}

impl Updates {
    /// Returns whether to send the update now.
    fn admit(&mut self, update: &Update, now: Instant) -> bool {
        if let Some(again) = self.recent.get_mut(update) {
            *again = true;
            return false;
        }
        if self.recent.len() < MAX_RESOURCES {
            self.begin(update.clone(), now);
        }
        true
    }

    fn begin(&mut self, update: Update, now: Instant) {
        self.recent.insert(update.clone(), false);
        self.ends.push_back((now + COALESCE_WINDOW, update));
    }

    /// Returns the updates that were repeated within their window, which has ended.
    fn take_due(&mut self, now: Instant) -> Vec<Update> {
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
            Some((end, _)) => tokio::time::sleep_until((*end).into()).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> ServerId {
        ServerId::shared("a")
    }

    #[test]
    fn a_burst_is_told_at_its_start_and_at_its_end() {
        let mut updates = Updates::default();
        let begin = Instant::now();
        let one = Update { server: server(), uri: "test://one".into(), on: Subscription::Shared };
        let two = Update { uri: "test://two".into(), ..one.clone() };
        assert!(updates.admit(&one, begin));
        assert!(updates.admit(&two, begin));
        let elsewhere = Update { on: Subscription::Session(7), ..one.clone() };
        assert!(updates.admit(&elsewhere, begin), "another connection is another matter");
        let of_acme = ServerId { organisation: Some("acme".into()), ..server() };
        let foreign = Update { server: of_acme, ..one.clone() };
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
            let update = Update { server: server(), uri, on: Subscription::Shared };
            assert!(updates.admit(&update, begin));
        }
        assert_eq!(updates.recent.len(), MAX_RESOURCES);
    }

    #[test]
    fn merging_leaves_most_of_the_time_to_others() {
        let mut pace = Pace::default();
        let begin = Instant::now();
        let ms = Duration::from_millis;
        pace.announce(begin);
        assert_eq!(pace.due, Some(begin + SETTLE_DELAY));
        pace.announce(begin + ms(20));
        assert_eq!(
            pace.due,
            Some(begin + SETTLE_DELAY),
            "the first change is not put off by more of them"
        );
        assert!(pace.begin() && !pace.begin());
        assert_eq!(pace.merged(begin + ms(30), begin + ms(130)), None);
        pace.announce(begin + ms(131));
        assert_eq!(pace.due, Some(begin + ms(530)));
        assert!(pace.begin());
        pace.announce(begin + ms(600));
        let due = pace.merged(begin + ms(530), begin + ms(5530));
        assert_eq!(due, Some(begin + ms(5530) + MAX_REST), "what came meanwhile waits too");
        pace.announce(begin + ms(5531));
        assert_eq!(pace.due, Some(begin + ms(5530) + MAX_REST));
        assert!(pace.begin());
        pace.merged(begin + ms(7600), begin + ms(7601));
        pace.announce(begin + ms(9000));
        assert_eq!(
            pace.due,
            Some(begin + ms(9000) + SETTLE_DELAY),
            "after a quiet time it is merged at once"
        );
        assert_eq!(pace.hurry(begin + ms(9010)), begin + ms(9010), "somebody waits for it");
        assert!(pace.begin());
        pace.merged(begin + ms(9010), begin + ms(9020));
        assert_eq!(pace.hurry(begin + ms(9021)), begin + ms(9060), "but not without end");
    }
}
