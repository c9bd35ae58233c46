//! What stands for modern clients towards legacy servers that ask things: such a server keeps a
//! connection for each client, and a modern client has no session to keep it for. Requests of one
//! principal that declare the same capabilities share one, unless a server cannot tell which call
//! it asks about.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lockgate_authn::Principal;
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::method::Method;
use lockgate_upstream::{BoxFuture, ClientChannel, ClientSession, QuestionError, ServerId};
use parking_lot::Mutex;

/// Different capabilities that the requests of one principal declare.
const PROFILES: usize = 16;
/// Connections of one client at a server that asks, and cannot tell which call it asks about.
const LANES: usize = 8;
/// Servers that are remembered to have asked.
const ASKERS: usize = 4096;

/// See the module.
#[derive(Default)]
pub(crate) struct ModernClients {
    lanes: Mutex<HashMap<Declared, Vec<Arc<Lane>>>>,
    askers: Arc<Askers>,
}

/// Servers that have asked something without saying which call it is about.
#[derive(Default)]
struct Askers(Mutex<HashSet<ServerId>>);

impl Askers {
    fn record(&self, server: &ServerId) {
        let mut all = self.0.lock();
        if all.contains(server) {
            return;
        }
        // Whoever is forgotten asks again.
        if all.len() >= ASKERS {
            all.clear();
        }
        all.insert(server.clone());
    }

    fn contains(&self, server: &ServerId) -> bool {
        self.0.lock().contains(server)
    }
}

/// Who it is, and the capabilities that were declared as JSON text.
type Declared = (Principal, Bytes);

/// One connection at each server.
struct Lane {
    key: u64,
    /// There is one before it.
    is_further: bool,
    askers: Arc<Askers>,
    state: Mutex<LaneState>,
}

struct LaneState {
    /// The ways back to the calls that run, by server.
    running: HashMap<ServerId, Vec<Weak<dyn ClientChannel>>>,
    /// Streams that are open for what servers tell.
    listeners: usize,
    used: Instant,
}

/// A lane for the time of one call.
pub(crate) struct Lease {
    lane: Arc<Lane>,
    server: ServerId,
    way_back: Weak<dyn ClientChannel>,
}

/// A lane for the time of a stream: servers tell on its connections what is for its client.
pub(crate) struct Listening {
    clients: Arc<ModernClients>,
    declared: Declared,
    lane: Arc<Lane>,
}

impl ModernClients {
    /// The lane on which a client subscribes, which is that of its calls as long as none runs
    /// beside another one. `None` as for calls.
    pub(crate) fn listen(
        self: &Arc<Self>,
        declared: Declared,
        most: usize,
        next_key: impl FnOnce() -> u64,
    ) -> Option<Listening> {
        let mut all = self.lanes.lock();
        let lanes = find_lanes(&mut all, declared.clone(), most)?;
        let lane = match lanes.first() {
            Some(lane) => Arc::clone(lane),
            None => add_lane(lanes, next_key(), &self.askers),
        };
        lane.state.lock().listeners += 1;
        drop(all);
        Some(Listening { clients: Arc::clone(self), declared, lane })
    }

    /// A lane for a call at a server: one of its own, if that server has asked without saying
    /// about which call. `None` when there are as many as one client or one principal may have, or
    /// `most` in all.
    pub(crate) fn lease(
        &self,
        declared: Declared,
        server: &ServerId,
        way_back: Weak<dyn ClientChannel>,
        most: usize,
        next_key: impl FnOnce() -> u64,
    ) -> Option<Lease> {
        let is_alone = self.askers.contains(server);
        let mut all = self.lanes.lock();
        let lanes = find_lanes(&mut all, declared, most)?;
        let free = lanes.iter().find(|lane| !is_alone || lane.is_free(server));
        let lane = match free {
            Some(lane) => Arc::clone(lane),
            None if lanes.len() >= LANES => return None,
            None => add_lane(lanes, next_key(), &self.askers),
        };
        lane.enter(server, &way_back);
        Some(Lease { lane, server: server.clone(), way_back })
    }

    /// A server has asked something: from now on its calls run alone, where that is needed to tell
    /// whose question it is.
    pub(crate) fn record_asker(&self, server: &ServerId) {
        self.askers.record(server);
    }

    /// Forgets the lanes that nothing has run on for so long, and gives whose they were and their
    /// keys.
    pub(crate) fn expire(&self, idle: Duration) -> Vec<(Principal, u64)> {
        let mut expired = Vec::new();
        self.lanes.lock().retain(|(principal, _), lanes| {
            lanes.retain(|lane| {
                let is_idle = lane.is_idle(idle);
                if is_idle {
                    expired.push((principal.clone(), lane.key));
                }
                !is_idle
            });
            !lanes.is_empty()
        });
        expired
    }
}

/// The lanes of a client; nothing when there may be no further client.
fn find_lanes(
    all: &mut HashMap<Declared, Vec<Arc<Lane>>>,
    declared: Declared,
    most: usize,
) -> Option<&mut Vec<Arc<Lane>>> {
    if !all.contains_key(&declared) {
        let own = all.keys().filter(|(principal, _)| *principal == declared.0).count();
        if own >= PROFILES || all.len() >= most {
            return None;
        }
    }
    Some(all.entry(declared).or_default())
}

fn add_lane(lanes: &mut Vec<Arc<Lane>>, key: u64, askers: &Arc<Askers>) -> Arc<Lane> {
    let lane = Arc::new(Lane::new(key, !lanes.is_empty(), askers));
    lanes.push(Arc::clone(&lane));
    lane
}

impl Lane {
    fn new(key: u64, is_further: bool, askers: &Arc<Askers>) -> Self {
        let state = LaneState { running: HashMap::new(), listeners: 0, used: Instant::now() };
        Self { key, is_further, askers: Arc::clone(askers), state: Mutex::new(state) }
    }

    fn is_free(&self, server: &ServerId) -> bool {
        !self.state.lock().running.contains_key(server)
    }

    fn is_idle(&self, idle: Duration) -> bool {
        let state = self.state.lock();
        state.running.is_empty() && state.listeners == 0 && state.used.elapsed() > idle
    }

    fn enter(&self, server: &ServerId, way_back: &Weak<dyn ClientChannel>) {
        let mut state = self.state.lock();
        state.running.entry(server.clone()).or_default().push(Weak::clone(way_back));
    }

    /// The way back to the only call at a server.
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
    /// Stands for the client, as its session would.
    pub(crate) fn session(&self) -> Arc<dyn ClientSession> {
        self.lane.clone()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.lane.leave(&self.server, &self.way_back);
    }
}

impl Listening {
    /// Stands for the client, as its session would.
    pub(crate) fn session(&self) -> Arc<dyn ClientSession> {
        self.lane.clone()
    }

    /// Whether a connection with this key is one of the client's.
    pub(crate) fn covers(&self, key: u64) -> bool {
        let all = self.clients.lanes.lock();
        let Some(lanes) = all.get(&self.declared) else { return false };
        lanes.iter().any(|lane| lane.key == key)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut state = self.lane.state.lock();
        state.listeners -= 1;
        state.used = Instant::now();
    }
}

impl ClientSession for Lane {
    fn key(&self) -> u64 {
        self.key
    }

    fn is_further(&self) -> bool {
        self.is_further
    }

    /// A modern client hears only what belongs to one of its requests.
    fn log(&self, _server: &ServerId, _note: &Request) {}

    /// A question that names no call: it is about the only one that runs. From now on no other
    /// runs beside one that may be asked about.
    fn ask<'a>(
        &'a self,
        server: &'a ServerId,
        method: Method,
        params: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, QuestionError>> {
        Box::pin(async move {
            self.askers.record(server);
            match self.only(server) {
                Some(call) => call.ask(method, params).await,
                None => Err(QuestionError::Gone),
            }
        })
    }
}

#[cfg(test)]
mod tests;
