//! Session ids that say enough for another process to go on with the session: another replica that
//! shares the secret, or the same gateway after a restart. Sealed and bound to one caller at one
//! endpoint. What is not in them has to be set again: subscriptions and the log level.

use std::collections::{HashSet, VecDeque};

use bytes::Bytes;
use lockgate_authn::Principal;
use lockgate_protocol::revision::Revision;
use lockgate_protocol::sealed::{Purpose, Sealer};
use parking_lot::Mutex;

use crate::transport::Endpoint;
use crate::unix_time;

/// How long a session can be gone on with elsewhere, in seconds.
const LIFE: u64 = 24 * 3600;
/// Longest capabilities that an id has room for, in bytes of JSON text.
const MAX_CAPABILITIES: usize = 1024;
/// Ended sessions that are remembered, so that they do not begin again.
const REMEMBERED: usize = 65_536;

/// What a session was opened with.
pub(crate) struct Opening {
    pub(crate) revision: Revision,
    /// JSON text of what the client declared.
    pub(crate) capabilities: Bytes,
}

/// An id for a new session; `None` when it would be too long.
pub(crate) fn seal(
    sealer: &Sealer,
    principal: &Principal,
    endpoint: &Endpoint,
    opening: &Opening,
) -> Option<Box<str>> {
    if opening.capabilities.len() > MAX_CAPABILITIES {
        return None;
    }
    let mut plain = opening.revision.as_str().as_bytes().to_vec();
    plain.push(b' ');
    plain.extend_from_slice(&opening.capabilities);
    let bound = bind(principal, endpoint);
    let id = sealer.seal(
        Purpose::Session,
        &bound.each_ref().map(Vec::as_slice),
        unix_time::now() + LIFE,
        &plain,
    );
    Some(id.ok()?.into())
}

/// What the session with this id was opened with, if it is this caller's at this endpoint.
pub(crate) fn open(
    sealer: &Sealer,
    principal: &Principal,
    endpoint: &Endpoint,
    id: &str,
) -> Option<Opening> {
    let bound = bind(principal, endpoint);
    let plain = sealer
        .open(Purpose::Session, &bound.each_ref().map(Vec::as_slice), unix_time::now(), id)
        .ok()?;
    let plain = String::from_utf8(plain).ok()?;
    let (revision, capabilities) = plain.split_once(' ')?;
    Some(Opening {
        revision: Revision::parse(revision)?,
        capabilities: Bytes::copy_from_slice(capabilities.as_bytes()),
    })
}

fn bind(principal: &Principal, endpoint: &Endpoint) -> [Vec<u8>; 3] {
    [
        principal.realm().as_bytes().to_vec(),
        principal.subject.as_bytes().to_vec(),
        endpoint.path().as_bytes().to_vec(),
    ]
}

/// Sessions that their clients have ended, the oldest forgotten first.
#[derive(Default)]
pub(super) struct Ended(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    order: VecDeque<u64>,
    all: HashSet<u64>,
}

impl Ended {
    pub(super) fn record(&self, id: &str) {
        let mark = mark(id);
        let mut state = self.0.lock();
        if !state.all.insert(mark) {
            return;
        }
        state.order.push_back(mark);
        if state.order.len() > REMEMBERED
            && let Some(oldest) = state.order.pop_front()
        {
            state.all.remove(&oldest);
        }
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.0.lock().all.contains(&mark(id))
    }
}

fn mark(id: &str) -> u64 {
    let mut mark = [0; 8];
    blake3::Hasher::new().update(id.as_bytes()).finalize_xof().fill(&mut mark);
    u64::from_le_bytes(mark)
}
