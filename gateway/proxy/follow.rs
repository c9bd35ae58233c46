//! The task that follows the servers: what they tell goes on to sessions and listeners, and their
//! changes are merged at the pace that [`Pace`] allows, each source's by itself, outside of the
//! threads that serve clients.

mod coalesce;
mod pace;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use lockgate_protocol::name::Slug;
use lockgate_telemetry::{Metrics, ServerState};
use lockgate_upstream::{Announcement, Event, State, Subscription};
use tokio::sync::broadcast;

use crate::catalog::Catalog;
use crate::directory::{Change, Source, Wanted};
use crate::gateway::Gateway;
use coalesce::{Update, Updates};
use pace::Pace;

/// Announcements of one source that wait to be told together.
const MAX_ANNOUNCED: usize = 4096;
/// Organisations that are merged at the same time; the operator's servers wait for none of them.
const MAX_MERGING: usize = 4;

/// Follows the servers until the gateway is gone.
pub(crate) async fn follow(gateway: Arc<Gateway>) {
    let directory = &gateway.directory;
    let mut events = directory.events.subscribe();
    let mut updates = Updates::default();
    let mut merges = Merges::default();
    let mut running = FuturesUnordered::new();
    merges.of(&None).wanted = Some(Wanted::Merge);
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
        Event::Updated { server, uri, session } => {
            let on = session.map_or(Subscription::Shared, Subscription::Session);
            let update = Update { server, uri: uri.into(), on };
            if updates.admit(&update, Instant::now()) {
                tell_updated(gateway, update);
            }
        }
        Event::Task { server, id } => {
            gateway.notify_task(&server, &id);
            let organisation = server.organisation.clone();
            let change = Change::Task { server, id: id.into() };
            gateway.directory.changes.send(organisation.as_ref(), change);
        }
        Event::Logged { server, note } => gateway.notify_log_message(&server, &note),
    }
}

/// Tells of a resource that has changed, as was said on this connection.
fn tell_updated(gateway: &Gateway, update: Update) {
    let Update { server, uri, on } = update;
    gateway.tell_updated(&server, &uri, on);
    let organisation = server.organisation.clone();
    gateway.directory.changes.send(organisation.as_ref(), Change::Updated { server, uri, on });
}

/// What has to be merged, and when.
#[derive(Default)]
struct Merges {
    sources: HashMap<Source, Pending>,
    /// When they are due, in that order; what is out of date in it is passed over.
    agenda: BTreeSet<(Instant, Source)>,
}

/// What is known of one source.
#[derive(Default)]
struct Pending {
    pace: Pace,
    announced: Vec<Announcement>,
    /// Something that is wanted whatever its servers say.
    wanted: Option<Wanted>,
    /// Nothing while it is merged.
    reported: Reported,
    is_merging: bool,
}

/// A source that was merged.
struct Merged {
    source: Source,
    /// The source is there.
    stays: bool,
    reported: Reported,
    began: Instant,
}

impl Merges {
    fn of(&mut self, source: &Source) -> &mut Pending {
        self.sources.entry(source.clone()).or_default()
    }

    /// Something of a source has changed.
    fn announce(&mut self, source: &Source) {
        let pending = self.of(source);
        let due = pending.pace.announce(Instant::now());
        if !pending.is_merging {
            self.agenda.insert((due, source.clone()));
        }
    }

    /// Something is wanted of a source whatever its servers say. Whoever changes an organisation
    /// waits for that.
    fn wake(&mut self, source: &Source, wanted: Wanted) {
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

    /// Waits for a source that is to be merged; for ever while there is none. Where as many are
    /// merged as may be, for the operator's servers alone. Cancel safe.
    async fn next_due(&self, is_full: bool) -> (Instant, Source) {
        let next = match is_full {
            true => self.agenda.iter().find(|(_, source)| source.is_none()),
            false => self.agenda.first(),
        };
        match next {
            Some((due, source)) => {
                tokio::time::sleep_until((*due).into()).await;
                (*due, source.clone())
            }
            None => std::future::pending().await,
        }
    }

    /// Begins to merge a source that is due.
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

/// Whether the source is there.
fn merge(
    gateway: &Gateway,
    source: &Source,
    reported: &mut Reported,
    wanted: Option<Wanted>,
    announced: &Arc<[Announcement]>,
) -> bool {
    let snapshot = gateway.snapshot();
    let directory = &gateway.directory;
    let tells = directory.rebuild(source, &snapshot, &gateway.metrics, wanted, announced);
    let catalog = directory.catalog_of(source);
    reported.report(source, catalog.as_deref(), &gateway.metrics);
    if tells {
        gateway.notify_list_changes(source, &snapshot, announced);
    }
    catalog.is_some()
}

/// What the metrics know of each server: its restarts, and the version of its lists.
#[derive(Default)]
struct Reported(HashMap<Slug, (u64, u64)>);

impl Reported {
    /// Counts states, restarts and changes of the servers of a source, and forgets those that are
    /// gone.
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
            counters.set_state(match status.state {
                State::Pending => ServerState::Pending,
                State::Connected => ServerState::Connected,
                State::Unresponsive => ServerState::Unresponsive,
                State::NeedsAuth => ServerState::NeedsAuth,
                State::Failed => ServerState::Failed,
                State::Disabled => ServerState::Disabled,
                State::Resting => ServerState::Resting,
            });
            let known = self.0.insert(slug.clone(), (status.restarts, lists.version));
            if let Some((restarts, version)) = known {
                if status.restarts > restarts {
                    counters.restarted();
                }
                if version > 0 && lists.version > version {
                    counters.list_changed();
                }
            }
            counters.set_quarantined(catalog.quarantined(slug));
            metrics.keep_tools(organisation, slug, lists.tools.iter().map(|tool| &*tool.key));
        }
    }
}
