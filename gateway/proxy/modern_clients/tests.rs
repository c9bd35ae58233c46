//! Tests of `modern_clients`.

#![allow(clippy::unwrap_used)]

use std::cell::Cell;

use lockgate_authn::{Identity, Principal};

use super::*;

struct SilentChannel;

impl ClientChannel for SilentChannel {
    fn wants_progress(&self) -> bool {
        false
    }

    fn progress(&self, _note: &Request) {}

    fn log(&self, _note: &Request) {}

    fn waiting(&self) {}

    fn ask(&self, _method: Method, _params: Bytes) -> BoxFuture<'_, Result<Bytes, QuestionError>> {
        Box::pin(std::future::ready(Ok(Bytes::from_static(b"{}"))))
    }
}

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
        let call: Arc<dyn ClientChannel> = Arc::new(SilentChannel);
        self.clients.lease(declared, &ServerId::shared(slug), Arc::downgrade(&call), 3, || {
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
    rig.clients.record_asker(&ServerId::shared("a"));
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
    let expire =
        |idle| -> Vec<u64> { rig.clients.expire(idle).into_iter().map(|(_, key)| key).collect() };
    assert_eq!(expire(Duration::from_secs(60)), [0; 0]);
    assert_eq!(expire(Duration::ZERO), [2]);
    drop(held);
    assert_eq!(expire(Duration::ZERO), [1]);
    assert!(rig.clients.lanes.lock().is_empty());
}

/// What names no call goes to the only one that runs, and to none of several.
#[tokio::test]
async fn a_question_that_names_no_call_is_about_the_only_one() {
    let clients = ModernClients::default();
    let declared = || (Principal::new(Identity::new("key", "ann")), Bytes::from_static(b"{}"));
    let call: Arc<dyn ClientChannel> = Arc::new(SilentChannel);
    let first =
        clients.lease(declared(), &ServerId::shared("a"), Arc::downgrade(&call), 3, || 1).unwrap();
    let other =
        clients.lease(declared(), &ServerId::shared("b"), Arc::downgrade(&call), 3, || 2).unwrap();
    let second =
        clients.lease(declared(), &ServerId::shared("a"), Arc::downgrade(&call), 3, || 3).unwrap();
    let session = first.session();
    assert_eq!(session.key(), second.session().key());
    assert_eq!(other.session().key(), 1, "it shares, too");
    let ask = async || session.ask(&ServerId::shared("a"), Method::Roots, Bytes::new()).await;
    assert_eq!(ask().await, Err(QuestionError::Gone));
    drop(second);
    assert!(ask().await.is_ok());
    assert_eq!(
        clients
            .lease(declared(), &ServerId::shared("a"), Arc::downgrade(&call), 3, || 4)
            .unwrap()
            .session()
            .key(),
        4
    );
}
