//! How long what is listed keeps: never longer than any server behind it said. Nothing here looks
//! at the clock.

use lockgate_protocol::revision::Era;
use lockgate_upstream::{Catalog, ListKind, Status};

/// How long clients may keep what we list, at most, in milliseconds; changes are told to those who
/// listen.
pub(crate) const KEEP_MS: u64 = 60_000;

/// How long the lists of a server may be kept without being asked for again: as it says itself;
/// where its revision has no way to say so, as long as it tells of changes.
pub(super) fn keep_ms(catalog: &Catalog, status: &Status) -> Option<u64> {
    let is_builtin = matches!(&status.peer, Some(peer) if peer.transport == "builtin");
    let told = is_builtin || catalog.offers.list_changed;
    match &status.peer {
        Some(peer) if peer.era == Era::Modern && catalog.ttl_ms.is_some() => catalog.ttl_ms,
        _ if ListKind::ALL.iter().all(|kind| catalog.items(*kind).is_empty()) => None,
        _ => Some(if told { KEEP_MS } else { 0 }),
    }
}
