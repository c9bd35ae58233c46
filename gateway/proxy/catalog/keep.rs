//! Cache lifetimes of lists, bounded by those of the servers behind them. Independent of the clock.

use lockgate_protocol::revision::Era;
use lockgate_upstream::{Catalog, ListKind, Status, UpstreamState};

/// Longest time in milliseconds for clients to cache a list. Subscribed clients are notified of
/// changes.
pub(crate) const KEEP_MS: u64 = 60_000;
/// Longest time in milliseconds for clients to cache a list that lacks a server.
pub(crate) const INCOMPLETE_KEEP_MS: u64 = 2_000;

/// Returns for how many milliseconds a server's lists may be cached: [`INCOMPLETE_KEEP_MS`] until
/// they have been read, then its TTL in the modern era, else `None` if they are empty, [`KEEP_MS`]
/// if the server announces changes, or 0.
pub(super) fn keep_ms(catalog: &Catalog, status: &Status) -> Option<u64> {
    if catalog.version == 0 && status.state != UpstreamState::Disabled {
        return Some(INCOMPLETE_KEEP_MS);
    }
    let is_builtin = matches!(&status.peer, Some(peer) if peer.transport == "builtin");
    let told = is_builtin || catalog.offers.list_changed;
    match &status.peer {
        Some(peer) if peer.era == Era::Modern && catalog.ttl_ms.is_some() => catalog.ttl_ms,
        _ if ListKind::ALL.iter().all(|kind| catalog.items(*kind).is_empty()) => None,
        _ => Some(if told { KEEP_MS } else { 0 }),
    }
}
