//! Connections for modern clients at legacy servers that ask questions. Such a server needs a
//! connection per client, but a modern client has no session to attach one to. Requests of one
//! principal with equal capabilities share lanes, each with one connection per server. If questions
//! may not name their call, a lane carries a single call at a time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lockgate_authn::Principal;
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::method::Method;
use lockgate_upstream::{BoxFuture, ClientChannel, ClientSession, QuestionError, ServerId};
use parking_lot::Mutex;

use crate::own_lists::{OwnClient, OwnClients, OwnServers};

/// Distinct capability sets in use per principal.
const MAX_PROFILES: usize = 16;
/// Displaced lanes remembered until their connections are closed. Connections of further displaced
/// lanes are closed when a server needs room.
const MAX_DISPLACED_LANES: usize = 4096;
const MAX_LANES: usize = 1024;

/// The lanes of all modern clients, by principal and capabilities.
#[derive(Default)]
pub(crate) struct ModernClients {
    lanes: Mutex<HashMap<Declared, Vec<Arc<Lane>>>>,
    /// Lanes displaced since the last [`ModernClients::expire`].
    displaced: Mutex<Vec<(Principal, u64)>>,
    /// Number of lanes with their own lists.
    with_own_lists: Arc<AtomicUsize>,
}

/// Reason why a modern client's call gets no lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneError {
    /// The principal has too many capability sets in use.
    Profiles,
    /// Too many clients are active.
    Clients,
    /// The client has too many calls in progress.
    Calls,
}

/// A principal and its declared capabilities as JSON text.
pub(crate) type Declared = (Principal, Bytes);

/// Criteria for the lane of a call.
#[derive(Clone, Copy)]
pub(crate) struct WantedLane<'a> {
    pub(crate) server: &'a ServerId,
    /// Requires a lane without another call at this server.
    pub(crate) is_alone: bool,
    /// Keys of the lanes that have the called item. Any lane if empty.
    pub(crate) among: &'a [u64],
}

/// A connection at each server.
struct Lane {
    /// Set unless this is the client's first lane.
    is_further: bool,
    state: Mutex<LaneState>,
    /// Servers where this lane's connection may have its own lists.
    own_servers: Arc<OwnServers>,
}

struct LaneState {
    /// The channels back to running calls, by server.
    running: HashMap<ServerId, Vec<Weak<dyn ClientChannel>>>,
    /// Open streams for server notifications.
    listeners: usize,
    used: Instant,
}

/// A lane held for a call.
pub(crate) struct Lease {
    lane: Arc<Lane>,
    server: ServerId,
    way_back: Weak<dyn ClientChannel>,
}

/// A lane held for a stream, which receives the notifications that servers send to this client
/// alone.
pub(crate) struct ListeningLane {
    clients: Arc<ModernClients>,
    declared: Declared,
    lane: Arc<Lane>,
}

impl ModernClients {
    /// Returns the lane for a client's subscriptions: its first lane, which its calls also use
    /// unless they run concurrently.
    pub(crate) fn listen(
        self: &Arc<Self>,
        declared: Declared,
        most: usize,
    ) -> Result<ListeningLane, LaneError> {
        let mut all = self.lanes.lock();
        let lanes = self.find_lanes(&mut all, declared.clone(), most)?;
        let lane = match lanes.first() {
            Some(lane) => Arc::clone(lane),
            None => self.add_lane(lanes),
        };
        lane.state.lock().listeners += 1;
        drop(all);
        Ok(ListeningLane { clients: Arc::clone(self), declared, lane })
    }

    /// Returns a lane for a call at a server: if the call must be alone, a lane without another
    /// call there. Items that only some lanes have are called on those lanes, if need be beside
    /// another call.
    pub(crate) fn lease(
        &self,
        declared: Declared,
        wanted: WantedLane<'_>,
        way_back: Weak<dyn ClientChannel>,
        most: usize,
    ) -> Result<Lease, LaneError> {
        let mut all = self.lanes.lock();
        let lanes = self.find_lanes(&mut all, declared, most)?;
        let WantedLane { server, is_alone, among } = wanted;
        let mut fit = lanes.iter().filter(|lane| among.is_empty() || among.contains(&lane.key()));
        let free = fit.clone().find(|lane| !is_alone || lane.is_free(server));
        let lane = match free.or_else(|| fit.next().filter(|_| !among.is_empty())) {
            Some(lane) => Arc::clone(lane),
            None if lanes.len() >= MAX_LANES => return Err(LaneError::Calls),
            None => self.add_lane(lanes),
        };
        lane.enter(server, &way_back);
        Ok(Lease { lane, server: server.clone(), way_back })
    }

    pub(crate) fn has_own_lists(&self) -> bool {
        self.with_own_lists.load(Ordering::Acquire) > 0
    }

    /// Returns the lanes of a client that may have their own lists.
    pub(crate) fn own_clients(&self, declared: &Declared) -> OwnClients {
        let all = self.lanes.lock();
        let mut own = OwnClients::new();
        for (at, lane) in all.get(declared).into_iter().flatten().enumerate() {
            if lane.own_servers.is_any() {
                let servers = Arc::clone(&lane.own_servers);
                own.push(OwnClient { servers, is_first: at == 0 });
            }
        }
        own
    }

    fn add_lane(&self, lanes: &mut Vec<Arc<Lane>>) -> Arc<Lane> {
        let own = OwnServers::new(Arc::clone(&self.with_own_lists));
        let lane = Arc::new(Lane::new(!lanes.is_empty(), own));
        lanes.push(Arc::clone(&lane));
        lane
    }

    /// Returns the lanes of a client. A new client may displace an idle one.
    fn find_lanes<'a>(
        &self,
        all: &'a mut HashMap<Declared, Vec<Arc<Lane>>>,
        declared: Declared,
        most: usize,
    ) -> Result<&'a mut Vec<Arc<Lane>>, LaneError> {
        if !all.contains_key(&declared) {
            let own = all.keys().filter(|(principal, _)| *principal == declared.0).count();
            if own >= MAX_PROFILES {
                self.displace(all, |principal| *principal == declared.0)
                    .ok_or(LaneError::Profiles)?;
            } else if all.len() >= most {
                self.displace(all, |_| true).ok_or(LaneError::Clients)?;
            }
        }
        Ok(all.entry(declared).or_default())
    }

    /// Removes the matching client that has been idle longest.
    fn displace(
        &self,
        all: &mut HashMap<Declared, Vec<Arc<Lane>>>,
        matches: impl Fn(&Principal) -> bool,
    ) -> Option<()> {
        let idle = all.iter().filter(|((principal, _), lanes)| {
            matches(principal) && lanes.iter().all(|lane| lane.is_idle(Duration::ZERO))
        });
        let idlest = idle.min_by_key(|(_, lanes)| lanes.iter().map(|lane| lane.used()).max());
        let idlest = idlest.map(|(declared, _)| declared.clone())?;
        let lanes = all.remove(&idlest)?;
        let keys = lanes.iter().map(|lane| (idlest.0.clone(), lane.key()));
        let mut displaced = self.displaced.lock();
        let room = MAX_DISPLACED_LANES.saturating_sub(displaced.len());
        displaced.extend(keys.take(room));
        Some(())
    }

    /// Removes lanes idle for at least `idle`, and returns the principals and keys of all lanes
    /// removed since the last call.
    pub(crate) fn expire(&self, idle: Duration) -> Vec<(Principal, u64)> {
        let mut expired = std::mem::take(&mut *self.displaced.lock());
        self.lanes.lock().retain(|(principal, _), lanes| {
            lanes.retain(|lane| {
                let is_idle = lane.is_idle(idle);
                if is_idle {
                    expired.push((principal.clone(), lane.key()));
                }
                !is_idle
            });
            !lanes.is_empty()
        });
        expired
    }
}

impl Lane {
    fn new(is_further: bool, own_servers: Arc<OwnServers>) -> Self {
        let state = LaneState { running: HashMap::new(), listeners: 0, used: Instant::now() };
        Self { is_further, state: Mutex::new(state), own_servers }
    }

    fn used(&self) -> Instant {
        self.state.lock().used
    }

    fn is_free(&self, server: &ServerId) -> bool {
        !self.state.lock().running.contains_key(server)
    }

    fn is_idle(&self, idle: Duration) -> bool {
        let state = self.state.lock();
        state.running.is_empty() && state.listeners == 0 && state.used.elapsed() >= idle
    }

    fn enter(&self, server: &ServerId, way_back: &Weak<dyn ClientChannel>) {
        let mut state = self.state.lock();
        state.running.entry(server.clone()).or_default().push(Weak::clone(way_back));
    }

    /// Returns the channel of the only call at a server.
    fn only(&self, server: &ServerId) -> Option<Arc<dyn ClientChannel>> {
        match self.state.lock().running.get(server)?.as_slice() {
            [only] => only.upgrade(),
            _ => None,
        }
    }

    fn leave(&self, server: &ServerId, way_back: &Weak<dyn ClientChannel>) {
        let mut state = self.state.lock();
        state.used = Instant::now();
        let Some(running) = state.running.get_mut(server) else { return };
        if let Some(at) = running.iter().position(|other| other.ptr_eq(way_back)) {
            running.swap_remove(at);
        }
        if running.is_empty() {
            state.running.remove(server);
        }
    }
}

impl Lease {
    /// Returns the lane in the role of the client's session.
    pub(crate) fn session(&self) -> Arc<dyn ClientSession> {
        self.lane.clone()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.lane.leave(&self.server, &self.way_back);
    }
}

impl ListeningLane {
    /// Returns the lane in the role of the client's session.
    pub(crate) fn session(&self) -> Arc<dyn ClientSession> {
        self.lane.clone()
    }

    /// Returns whether a connection with this key belongs to the client.
    pub(crate) fn covers(&self, key: u64) -> bool {
        let all = self.clients.lanes.lock();
        let Some(lanes) = all.get(&self.declared) else { return false };
        lanes.iter().any(|lane| lane.key() == key)
    }
}

impl Drop for ListeningLane {
    fn drop(&mut self) {
        let mut state = self.lane.state.lock();
        state.listeners -= 1;
        state.used = Instant::now();
    }
}

impl ClientSession for Lane {
    fn key(&self) -> u64 {
        self.own_servers.key()
    }

    fn is_further(&self) -> bool {
        self.is_further
    }

    fn note_own_lists(&self, server: &ServerId) {
        self.own_servers.note(server);
    }

    /// Drops the message: a modern client receives only messages that belong to one of its
    /// requests.
    fn log(&self, _server: &ServerId, _note: &Request) {}

    /// Forwards a question without a call to the only running call, if there is exactly one.
    fn ask<'a>(
        &'a self,
        server: &'a ServerId,
        method: Method,
        params: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, QuestionError>> {
        Box::pin(async move {
            match self.only(server) {
                Some(call) => call.ask(method, params).await,
                None => Err(QuestionError::Gone),
            }
        })
    }
}

#[cfg(test)]
mod tests;
