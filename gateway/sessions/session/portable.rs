//! Session ids with which another process can resume the session: a replica that shares the secret,
//! or the same gateway after a restart. Sealed and bound to a caller at an endpoint. Subscriptions
//! and the log level are not included, so clients must set them again.

use std::collections::{HashSet, VecDeque};

use bytes::Bytes;
use lockgate_authn::Principal;
use lockgate_protocol::revision::Revision;
use lockgate_protocol::sealed::{Purpose, Sealer};
use lockgate_proxy::transport::Endpoint;
use lockgate_text::date;
use parking_lot::Mutex;

/// Time in seconds during which a session can be resumed elsewhere.
const RESUME_LIFETIME: u64 = 24 * 3600;
/// Maximum size of capabilities in an id, in bytes of JSON text.
const MAX_CAPABILITIES: usize = 1024;
/// Ended sessions that are remembered, so that they cannot be resumed.
const MAX_ENDED_SESSIONS: usize = 65_536;

/// The parameters of `initialize` that a resumed session needs.
pub(crate) struct Opening {
    pub(crate) revision: Revision,
    /// JSON text of the client's capabilities.
    pub(crate) capabilities: Bytes,
    /// Whether the client loads definitions of tools on demand.
    pub(crate) defers_loading: bool,
}

/// Follows the revision of clients that load definitions on demand.
const DEFERS: &str = "+";

/// Returns an id for a new session, or `None` if the id would be too long.
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
    if opening.defers_loading {
        plain.extend_from_slice(DEFERS.as_bytes());
    }
    plain.push(b' ');
    plain.extend_from_slice(&opening.capabilities);
    let bound = bind(principal, endpoint);
    let id = sealer.seal(
        Purpose::Session,
        &bound.each_ref().map(Vec::as_slice),
        date::now() + RESUME_LIFETIME,
        &plain,
    );
    Some(id.ok()?.into())
}

/// Returns the parameters in a session id, if the id belongs to this caller at this endpoint.
pub(crate) fn open(
    sealer: &Sealer,
    principal: &Principal,
    endpoint: &Endpoint,
    id: &str,
) -> Option<Opening> {
    let bound = bind(principal, endpoint);
    let plain = sealer
        .open(Purpose::Session, &bound.each_ref().map(Vec::as_slice), date::now(), id)
        .ok()?;
    let plain = String::from_utf8(plain).ok()?;
    let (revision, capabilities) = plain.split_once(' ')?;
    let deferring = revision.strip_suffix(DEFERS);
    Some(Opening {
        revision: Revision::parse(deferring.unwrap_or(revision))?,
        defers_loading: deferring.is_some(),
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

/// Ids of sessions ended by their clients; the oldest are dropped.
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
        if state.order.len() > MAX_ENDED_SESSIONS
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
