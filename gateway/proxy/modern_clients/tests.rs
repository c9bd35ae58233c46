//! Tests of `modern_clients`.

#![allow(clippy::unwrap_used)]

use std::cell::Cell;

use lockgate_authn::{Identity, Principal};

use super::*;

struct Rig {
    clients: ModernClients,
    next: Cell<u64>,
}

impl Rig {
    fn new() -> Self {
        Self { clients: ModernClients::default(), next: Cell::new(0) }
    }

    fn lease(&self, who: &str, capabilities: &'static str, slug: &str) -> Option<Lease> {
        let declared = (
            Principal::new(Identity::new("key", who)),
            Bytes::from_static(capabilities.as_bytes()),
        );
        self.clients.lease(declared, slug, true, 3, || {
            self.next.set(self.next.get() + 1);
            self.next.get()
        })
    }
}

#[test]
fn callers_and_capabilities_have_lanes_of_their_own() {
    let rig = Rig::new();
    let ann = rig.lease("ann", "{}", "a").unwrap();
    let more = rig.lease("ann", "{\"roots\":{}}", "a").unwrap();
    let bob = rig.lease("bob", "{}", "a").unwrap();
    let keys = [&ann, &more, &bob].map(|lease| lease.session().key());
    assert_eq!(keys, [1, 2, 3]);
    assert_eq!(rig.lease("ann", "{}", "b").unwrap().session().key(), 1, "the same elsewhere");
    assert_eq!(rig.lease("ann", "{}", "a").unwrap().session().key(), 1, "nothing was asked yet");
    assert!(rig.lease("cid", "{}", "a").is_none(), "three are all");
}

#[test]
fn calls_that_may_be_asked_about_run_alone() {
    let rig = Rig::new();
    rig.clients.record_asker("a");
    let mut held: Vec<_> = (0..LANES).map(|_| rig.lease("ann", "{}", "a").unwrap()).collect();
    assert!(rig.lease("ann", "{}", "a").is_none());
    assert!(rig.lease("ann", "{}", "b").is_some(), "which asks nothing");
    let freed = held.pop().unwrap();
    let key = freed.session().key();
    drop(freed);
    assert_eq!(rig.lease("ann", "{}", "a").unwrap().session().key(), key);
}

#[test]
fn only_idle_lanes_expire() {
    let rig = Rig::new();
    let held = rig.lease("ann", "{}", "a").unwrap();
    drop(rig.lease("bob", "{}", "a"));
    assert_eq!(rig.clients.expire(Duration::from_secs(60)), [0; 0]);
    assert_eq!(rig.clients.expire(Duration::ZERO), [2]);
    drop(held);
    assert_eq!(rig.clients.expire(Duration::ZERO), [1]);
    assert!(rig.clients.lanes.lock().is_empty());
}
