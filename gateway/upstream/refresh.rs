//! Reads the lists of a connected server again, and notifies clients of lists announced during the
//! reading.

use std::sync::Arc;

use crate::catalog::{Catalog, ListKind};
use crate::connection::{Connection, ServerTransport};
use crate::failure::UpstreamErrorKind;
use crate::lists;
use crate::own_lists::ANNOUNCED;
use crate::shared::Shared;
use crate::{Announcement, Event};

/// The capabilities that the gateway forwards to modern servers, declared when their lists are
/// read, which may depend on them.
pub(crate) const CARRIED: &[u8] = concat!(
    r#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{},"extensions":{"#,
    r#""io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":"#,
    r#"{"mimeTypes":["text/html;profile=mcp-app"]}}}"#,
)
.as_bytes();

/// Reads the lists again; the status reports whether they could be read. An error means that the
/// connection is lost.
pub(crate) async fn refresh(shared: &Arc<Shared>, connection: &Connection) -> Result<(), String> {
    let before = shared.catalog.load_full();
    // Changes announced from here on cause another read.
    let announced = shared.announced.take();
    let read = read_again(shared, connection).await;
    shared.tell_announced(announced, &before);
    read
}

async fn read_again(shared: &Shared, connection: &Connection) -> Result<(), String> {
    let config = shared.config.load_full();
    let reading = lists::read(connection, &config.limits, CARRIED, shared.hold_lists());
    match tokio::time::timeout(config.start_timeout, reading).await {
        Ok(Ok(catalog)) => {
            let before = shared.catalog.load().version;
            shared.publish(catalog);
            if shared.catalog.load().version != before {
                for own in shared.sessions.all() {
                    own.own_lists().compare_again();
                }
            }
            if matches!(connection.transport, ServerTransport::Duplex(_)) {
                shared.interactive.stale.notify_one();
            }
        }
        Ok(Err(failure))
            if matches!(
                failure.kind,
                UpstreamErrorKind::Garbage
                    | UpstreamErrorKind::TooLarge
                    | UpstreamErrorKind::NoMemory
            ) =>
        {
            shared.set_list_failure(Some(&failure.words));
        }
        Ok(Err(failure)) => return Err(failure.words.to_string()),
        // It may be busy with other requests, and the old lists remain usable.
        Err(_) if !connection.outstanding.is_empty() && config.health.is_some() => {}
        Err(_) => {
            return Err("the server did not answer in time when its lists were refreshed".into());
        }
    }
    Ok(())
}

impl Shared {
    /// Announces lists that were announced by the server but read as before. Lists that differ need
    /// no announcement: their changes are published with the catalog.
    fn tell_announced(&self, announced: [bool; 3], before: &Catalog) {
        let after = self.catalog.load();
        let mut lists = Vec::new();
        for (said, kind) in announced.into_iter().zip(ANNOUNCED) {
            if said && reads_alike(before, &after, kind) {
                lists.push(kind);
            }
        }
        if !lists.is_empty() {
            let announcement = Announcement { server: self.id.clone(), session: None, lists };
            let _ = self.events().send(Event::Announced(announcement));
        }
    }
}

fn reads_alike(before: &Catalog, after: &Catalog, kind: ListKind) -> bool {
    let mut with = ListKind::ALL.into_iter().filter(|one| one.announced_as() == kind);
    with.all(|one| before.lists_alike(after, one))
}
