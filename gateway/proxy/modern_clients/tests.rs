//! Tests of `modern_clients`.

#![allow(clippy::unwrap_used)]

use lockgate_authn::{Identity, Principal};

use super::*;

struct SilentChannel;

impl ClientChannel for SilentChannel {
    fn wants_progress(&self) -> bool {
        false
    }

    fn progress(&self, _note: &Request) {}

    fn log(&self, _note: &Request) {}

    fn waiting(&self, _: Option<Duration>) {}

    fn ask(&self, _method: Method, _params: Bytes) -> BoxFuture<'_, Result<Bytes, QuestionError>> {
        Box::pin(std::future::ready(Ok(Bytes::from_static(b"{}"))))
    }
}

struct Rig {
    clients: ModernClients,
}

impl Rig {
    fn new() -> Self {
        Self { clients: ModernClients::default() }
    }

    fn lease(
        &self,
        subject: &str,
        capabilities: &str,
        slug: &str,
        is_alone: bool,
    ) -> Result<Lease, LaneError> {
        let declared =
            (Principal::new(Identity::new("key", subject)), Bytes::from(capabilities.to_owned()));
        let call: Arc<dyn ClientChannel> = Arc::new(SilentChannel);
        let server = ServerId::shared(slug);
        let at = WantedLane { server: &server, is_alone, among: &[] };
        self.clients.lease(declared, at, Arc::downgrade(&call), 20)
    }
}

#[test]
fn callers_and_capabilities_have_lanes_of_their_own() {
    let rig = Rig::new();
    let ann = rig.lease("ann", "{}", "a", false).unwrap();
    let more = rig.lease("ann", "{\"roots\":{}}", "a", false).unwrap();
    let bob = rig.lease("bob", "{}", "a", false).unwrap();
    let [first, second, third] = [&ann, &more, &bob].map(|lease| lease.session().key());
    assert!(first != second && second != third && third != first);
    assert_eq!(
        rig.lease("ann", "{}", "b", false).unwrap().session().key(),
        first,
        "the same elsewhere"
    );
    let beside = rig.lease("ann", "{}", "a", false).unwrap();
    assert_eq!(beside.session().key(), first, "its questions name their calls");
}

/// Client limits at their boundaries: an idle client is displaced, a busy client is not.
#[test]
fn an_idle_client_makes_room_for_another() {
    let rig = Rig::new();
    let mut held: Vec<_> = (0..MAX_PROFILES)
        .map(|number| rig.lease("ann", &format!("{{\"{number}\":{{}}}}"), "a", true).unwrap())
        .collect();
    assert_eq!(rig.lease("ann", "{}", "a", true).err(), Some(LaneError::Profiles));
    let others: Vec<_> =
        (0..4).map(|number| rig.lease(&format!("bob{number}"), "{}", "a", true).unwrap()).collect();
    assert_eq!(rig.lease("cid", "{}", "a", true).err(), Some(LaneError::Clients), "20 are all");
    let first = held.remove(0).session().key();
    let new = rig.lease("ann", "{}", "a", true).unwrap();
    drop(others);
    assert!(rig.lease("cid", "{}", "a", true).is_ok());
    let displaced = rig.clients.expire(Duration::from_secs(60));
    assert_eq!(displaced.len(), 2, "their connections are closed");
    assert_eq!(displaced[0].1, first);
    drop(new);
}

#[test]
fn calls_that_may_be_asked_about_run_alone_from_the_first_one_on() {
    let rig = Rig::new();
    let mut held: Vec<_> =
        (0..MAX_LANES).map(|_| rig.lease("ann", "{}", "a", true).unwrap()).collect();
    assert_eq!(rig.lease("ann", "{}", "a", true).err(), Some(LaneError::Calls));
    assert!(rig.lease("ann", "{}", "b", true).is_ok());
    let freed = held.pop().unwrap();
    let key = freed.session().key();
    drop(freed);
    assert_eq!(rig.lease("ann", "{}", "a", true).unwrap().session().key(), key);
}

#[test]
fn only_idle_lanes_expire() {
    let rig = Rig::new();
    let held = rig.lease("ann", "{}", "a", true).unwrap();
    let other = rig.lease("bob", "{}", "a", true).unwrap().session().key();
    let expire =
        |idle| -> Vec<u64> { rig.clients.expire(idle).into_iter().map(|(_, key)| key).collect() };
    assert_eq!(expire(Duration::from_secs(60)), [0; 0]);
    assert_eq!(expire(Duration::ZERO), [other]);
    let key = held.session().key();
    drop(held);
    assert_eq!(expire(Duration::ZERO), [key]);
    assert!(rig.clients.lanes.lock().is_empty());
}

/// A question without a call goes to the only running call, and to none if there are several.
#[tokio::test]
async fn a_question_that_names_no_call_is_about_the_only_one() {
    let clients = ModernClients::default();
    let declared = || (Principal::new(Identity::new("key", "ann")), Bytes::from_static(b"{}"));
    let call: Arc<dyn ClientChannel> = Arc::new(SilentChannel);
    let lease = |slug| {
        let server = ServerId::shared(slug);
        let at = WantedLane { server: &server, is_alone: false, among: &[] };
        clients.lease(declared(), at, Arc::downgrade(&call), 3).unwrap()
    };
    let (first, other, second) = (lease("a"), lease("b"), lease("a"));
    let session = first.session();
    assert_eq!(session.key(), second.session().key());
    assert_eq!(other.session().key(), session.key(), "it shares, too");
    let ask = async || session.ask(&ServerId::shared("a"), Method::Roots, Bytes::new()).await;
    assert_eq!(ask().await, Err(QuestionError::Gone));
    drop(second);
    assert!(ask().await.is_ok());
}

/// An item that a single lane has is called there, if need be beside another call.
#[test]
fn a_call_takes_a_lane_that_has_what_is_called() {
    let rig = Rig::new();
    let held = [1, 2].map(|_| rig.lease("ann", "{}", "a", true).unwrap());
    let server = ServerId::shared("a");
    let declared = (Principal::new(Identity::new("key", "ann")), Bytes::from_static(b"{}"));
    let note = held[1].session();
    assert!(!rig.clients.has_own_lists());
    note.note_own_lists(&server);
    let own = rig.clients.own_clients(&declared);
    assert_eq!(own.len(), 1);
    assert!(!own[0].is_first && own[0].servers.key() == note.key());
    let call: Arc<dyn ClientChannel> = Arc::new(SilentChannel);
    let at = WantedLane { server: &server, is_alone: true, among: &[note.key()] };
    let lease = rig.clients.lease(declared, at, Arc::downgrade(&call), 20).unwrap();
    assert_eq!(lease.session().key(), note.key());
    own[0].servers.collect(false, |_| None, &mut Vec::new());
    assert!(!rig.clients.has_own_lists(), "its server is gone");
}
