//! The task that follows the servers: what they tell goes on to sessions and listeners, and their
//! changes are merged at the pace that [`Pace`] allows, outside of the threads that serve clients.

mod coalesce;
mod pace;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use lockgate_protocol::name::Slug;
use lockgate_telemetry::{Metrics, ServerState};
use lockgate_upstream::{Announcement, Event, State, Subscription};
use tokio::sync::broadcast;

use crate::catalog::Catalog;
use crate::directory::Change;
use crate::gateway::Gateway;
use coalesce::{Update, Updates};
use pace::Pace;

/// Announcements that wait to be told together.
const MAX_ANNOUNCED: usize = 4096;

/// Follows the servers until the gateway is gone.
pub(crate) async fn follow(gateway: Arc<Gateway>) {
    let directory = &gateway.directory;
    let mut events = directory.events.subscribe();
    let mut pace = Pace::default();
    let mut updates = Updates::default();
    let mut announced = Vec::new();
    let mut rules_changed = true;
    let mut reported = Reported::default();
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Ok(Event::Changed { .. }) => pace.announce(Instant::now()),
                Ok(Event::Announced(announcement)) => {
                    if announced.len() < MAX_ANNOUNCED {
                        announced.push(announcement);
                    }
                    pace.announce(Instant::now());
                }
                Ok(Event::Updated { slug, uri, session }) => {
                    let on = session.map_or(Subscription::Shared, Subscription::Session);
                    let update = Update { slug, uri: uri.into(), on };
                    if updates.admit(&update, Instant::now()) {
                        tell_updated(&gateway, update);
                    }
                }
                Ok(Event::Task { slug, id }) => {
                    gateway.notify_task(&slug, &id);
                    let _ = directory.changes.send(Change::Task { slug, id: id.into() });
                }
                Ok(Event::Logged { slug, note }) => gateway.notify_log_message(&slug, &note),
                Err(broadcast::error::RecvError::Lagged(_)) => pace.announce(Instant::now()),
                Err(broadcast::error::RecvError::Closed) => return,
            },
            () = directory.wake.notified() => {
                rules_changed = true;
                pace.announce(Instant::now());
            }
            () = updates.wait() => {
                for update in updates.take_due(Instant::now()) {
                    tell_updated(&gateway, update);
                }
            }
            () = pace.wait() => {
                let began = Instant::now();
                let gateway = Arc::clone(&gateway);
                let anyway = std::mem::take(&mut rules_changed);
                let announced = std::mem::take(&mut announced).into();
                let merging = tokio::task::spawn_blocking(move || {
                    merge(&gateway, &mut reported, anyway, &announced);
                    reported
                });
                reported = merging.await.unwrap_or_default();
                pace.merged(began, Instant::now());
            }
            () = gateway.stopping.cancelled() => return,
        }
    }
}

/// Tells of a resource that has changed, as was said on this connection.
fn tell_updated(gateway: &Gateway, update: Update) {
    let Update { slug, uri, on } = update;
    gateway.tell_updated(&slug, &uri, on);
    let _ = gateway.directory.changes.send(Change::Updated { slug, uri, on });
}

fn merge(
    gateway: &Gateway,
    reported: &mut Reported,
    anyway: bool,
    announced: &Arc<[Announcement]>,
) {
    let snapshot = gateway.snapshot();
    let tells = gateway.directory.rebuild(&snapshot, &gateway.metrics, anyway, announced);
    reported.report(&gateway.directory.catalog(), &gateway.metrics);
    if tells {
        gateway.notify_list_changes(&snapshot, announced);
    }
}

/// What the metrics know of each server: its restarts, and the version of its lists.
#[derive(Default)]
struct Reported(HashMap<Slug, (u64, u64)>);

impl Reported {
    /// Counts states, restarts and changes of servers, and forgets those that are gone.
    fn report(&mut self, catalog: &Catalog, metrics: &Metrics) {
        self.0.retain(|slug, _| {
            let stays = catalog.servers.contains_key(slug);
            if !stays {
                metrics.remove_server(slug);
            }
            stays
        });
        for (slug, server) in &catalog.servers {
            let counters = metrics.server(slug);
            let status = server.status();
            let lists = server.catalog();
            counters.set_state(match status.state {
                State::Pending => ServerState::Pending,
                State::Connected => ServerState::Connected,
                State::Unresponsive => ServerState::Unresponsive,
                State::NeedsAuth => ServerState::NeedsAuth,
                State::Failed => ServerState::Failed,
                State::Disabled => ServerState::Disabled,
            });
            let known = self.0.insert(slug.clone(), (status.restarts, lists.version));
            if known.is_some_and(|(restarts, _)| status.restarts > restarts) {
                counters.restarted();
            }
            if known.is_some_and(|(_, version)| version > 0 && lists.version > version) {
                counters.list_changed();
            }
            counters.set_quarantined(catalog.quarantined(slug));
            metrics.keep_tools(slug, lists.tools.iter().map(|tool| &*tool.key));
        }
    }
}
