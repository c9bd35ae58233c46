//! Tests of `views`, and of the memory of catalogs that were replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use lockgate_authn::{Identity, Principal};
use lockgate_policy::Policy;
use lockgate_policy::pin::Pins;
use lockgate_protocol::name::{Naming, Slug};
use lockgate_telemetry::Metrics;
use lockgate_upstream::{
    Answer, BoxFuture, Call, Caller, CallerIdentity, Instance, Item, ListKind, Status,
    Subscription, Topic, Upstream, UpstreamError, UpstreamState,
};

use super::*;
use crate::catalog::{Audience, Catalog, CatalogEntry, Layers, Selection, Servers, Viewing};
use crate::rights::CallerRights;
use crate::{ToolSearch, ToolsMode};

/// A server with a list that the test sets.
struct Scripted(parking_lot::Mutex<Arc<lockgate_upstream::Catalog>>);

impl Scripted {
    fn offer(&self, version: u64, tools: usize) {
        let tool = |at: usize| {
            let name = format!("tool-{version}-{at}");
            let text = format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#);
            Item { key: name.into(), text: text.into(), headers: None }
        };
        let mut catalog = lockgate_upstream::Catalog { version, ..Default::default() };
        catalog.set_items(ListKind::Tools, (0..tools).map(tool).collect());
        *self.0.lock() = Arc::new(catalog);
    }
}

impl Upstream for Scripted {
    fn slug(&self) -> &str {
        "scripted"
    }

    fn instance(&self) -> Instance {
        Instance::mint()
    }

    fn status(&self) -> Arc<Status> {
        let since = SystemTime::UNIX_EPOCH;
        Arc::new(Status {
            state: UpstreamState::Connected,
            since,
            peer: None,
            trouble: None,
            list_failure: None,
            restarts: 0,
            last_good: None,
        })
    }

    fn catalog(&self) -> Arc<lockgate_upstream::Catalog> {
        Arc::clone(&self.0.lock())
    }

    fn calls(&self) -> &Arc<lockgate_admission::ConcurrencyLimit> {
        unreachable!("nobody calls it")
    }

    fn call<'a>(&'a self, _: Call<'a>) -> BoxFuture<'a, Result<Answer, UpstreamError>> {
        Box::pin(std::future::pending())
    }

    fn subscribe<'a>(
        &'a self,
        _: &'a Topic,
        _: &'a Caller,
        _: CallerIdentity<'a>,
    ) -> BoxFuture<'a, Result<Subscription, UpstreamError>> {
        Box::pin(std::future::pending())
    }

    fn unsubscribe<'a>(&'a self, _: &'a Topic, _: Subscription) -> BoxFuture<'a, ()> {
        Box::pin(std::future::pending())
    }

    fn touch(&self) {}

    fn forget_session(&self, _: u64) {}

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

struct Rig {
    server: Arc<Scripted>,
    servers: Servers,
    metrics: Metrics,
    policy: Arc<Policy>,
    rights: CallerRights,
}

impl Rig {
    fn new() -> Self {
        let server = Arc::new(Scripted(parking_lot::Mutex::default()));
        let log = lockgate_telemetry::Config {
            level: "info".into(),
            format: lockgate_telemetry::Format::Text,
            export: lockgate_telemetry::Export {
                tools: 100,
                ..lockgate_telemetry::Export::default()
            },
            audit: None,
        };
        let metrics = Metrics::new(&log);
        let policy = Arc::new(Policy::compile(&lockgate_policy::Config::default()).unwrap());
        let rights =
            CallerRights::new(&policy, Principal::new(Identity::new("key", "one")), &Endpoint::All);
        let servers = [(Slug::new("scripted").unwrap(), Arc::clone(&server) as Arc<dyn Upstream>)];
        Self { server, servers: servers.into(), metrics, policy, rights }
    }

    fn merge(&self, before: Option<&Catalog>) -> Catalog {
        Catalog::merge(
            self.servers.clone(),
            Naming::default(),
            &Pins::default(),
            before,
            &self.metrics,
        )
    }

    fn view(&self, catalog: &Catalog) -> View {
        let (policy, rights, naming) = (&self.policy, &self.rights, Naming::default());
        let layers = Layers { shared: catalog, own: None };
        let (mode, tool_search) = (ToolsMode::Full, &ToolSearch::default());
        let extensions = &BTreeSet::new();
        let groups = &BTreeMap::new();
        let viewing = Viewing { policy, rights, naming, mode, tool_search, extensions, groups };
        layers.view(Selection::All, viewing).unwrap()
    }
}

fn keep(views: &Views, of: ViewLayer, at: (&Endpoint, [u8; 16]), view: View) -> Arc<View> {
    views.keep(of, || true, at, view)
}

/// Returns the lists of a view, each four times.
fn many_items(view: &View) -> [Vec<Arc<CatalogEntry>>; ListKind::COUNT] {
    view.items.each_ref().map(|items| [&items[..]; 4].concat())
}

#[test]
fn nothing_of_a_catalog_outlives_its_last_reader() {
    let rig = Rig::new();
    rig.server.offer(1, 20);
    let mut catalog = Arc::new(rig.merge(None));
    let mut old = Vec::new();
    for version in 2..=1001 {
        let views = [[1; 16], [2; 16]].map(|class| {
            keep(&catalog.views, ViewLayer::Shared, (&Endpoint::All, class), rig.view(&catalog))
        });
        let marks = views[0].marks(Audience::Everybody);
        let entry = Arc::downgrade(&views[0].items[0][0]);
        old.push((Arc::downgrade(&catalog), views.map(|view| Arc::downgrade(&view)), entry));
        assert!(catalog.reflects(&rig.servers), "nothing has changed");
        rig.server.offer(version, 20);
        assert!(!catalog.reflects(&rig.servers));
        catalog = Arc::new(rig.merge(Some(&catalog)));
        assert_eq!(marks.changes(rig.view(&catalog).marks(Audience::Everybody), &[]).len(), 1);
    }
    for (catalog, views, entry) in &old {
        assert!(catalog.upgrade().is_none() && entry.upgrade().is_none());
        assert!(views.iter().all(|view| view.upgrade().is_none()));
    }
    assert_eq!(old.len(), 1000);
}

#[test]
fn the_view_that_was_used_longest_ago_goes_first() {
    let rig = Rig::new();
    rig.server.offer(1, 50);
    let catalog = rig.merge(None);
    let views = &Views { max_weight: 3 * rig.view(&catalog).weight(), ..Views::default() };
    let keep = |class: u8, endpoint: &Endpoint| {
        keep(views, ViewLayer::Shared, (endpoint, [class; 16]), rig.view(&catalog));
    };
    let has = |class: u8| views.get(ViewLayer::Shared, &Endpoint::All, [class; 16]).is_some();
    keep(1, &Endpoint::All);
    keep(2, &Endpoint::All);
    keep(9, &Endpoint::Server("scripted".into()));
    assert!(has(1), "used again");
    keep(3, &Endpoint::All);
    keep(4, &Endpoint::All);
    assert_eq!([1, 2, 3, 4].map(has), [true, false, true, true]);
    let one = Endpoint::Server("scripted".into());
    assert!(views.get(ViewLayer::Shared, &one, [9; 16]).is_none());
    let large = View { items: many_items(&rig.view(&catalog)), ..rig.view(&catalog) };
    assert!(large.weight() > views.max_weight);
    views.keep(ViewLayer::Shared, || true, (&Endpoint::All, [5; 16]), large);
    assert_eq!(
        [1, 3, 4, 5].map(has),
        [false, false, false, true],
        "the newest stays, whatever it takes"
    );
    views.clear();
    assert!(!has(5));
    assert_eq!(views.kept.read().shared.weight, 0);
}

#[test]
fn no_organisation_takes_the_room_of_the_views_of_others() {
    let rig = Rig::new();
    rig.server.offer(1, 50);
    let catalog = rig.merge(None);
    let views = Views { max_weight: 4 * rig.view(&catalog).weight(), ..Views::default() };
    let keep = |own: u64, class: u8| {
        let at = (&Endpoint::All, [class; 16]);
        keep(&views, ViewLayer::Own(own), at, rig.view(&catalog));
    };
    let has =
        |own: u64, class: u8| views.get(ViewLayer::Own(own), &Endpoint::All, [class; 16]).is_some();
    keep(1, 1);
    for class in 1..=50 {
        keep(2, class);
    }
    assert!(has(1, 1) && has(2, 50) && has(2, 48) && !has(2, 47));
    assert!(!has(1, 50), "views of one are none of another");
    views.keep(ViewLayer::Own(3), || false, (&Endpoint::All, [1; 16]), rig.view(&catalog));
    assert!(!has(3, 1), "what an organisation had before is not kept");
    views.forget(2);
    assert!(has(1, 1) && !has(2, 50));
    let left = views.kept.read();
    let weights: Vec<_> = left.owned.values().map(|layer| layer.weight).collect();
    assert_eq!(weights, [rig.view(&catalog).weight()]);
}

#[test]
fn a_large_view_of_one_organisation_takes_no_room_of_those_of_others() {
    let rig = Rig::new();
    rig.server.offer(1, 50);
    let catalog = rig.merge(None);
    let max = 4 * rig.view(&catalog).weight();
    let views = Views { max_weight: max, ..Views::default() };
    let at = (&Endpoint::All, [1; 16]);
    for own in 1..=4 {
        keep(&views, ViewLayer::Own(own), at, rig.view(&catalog));
    }
    rig.server.offer(2, 180);
    let large = rig.view(&rig.merge(None));
    assert!(large.weight() > max / 2 && large.weight() < max);
    keep(&views, ViewLayer::Own(5), at, large);
    let has = |own: u64| views.get(ViewLayer::Own(own), &Endpoint::All, [1; 16]).is_some();
    assert_eq!([1, 2, 3, 4, 5].map(has), [true, true, true, true, false]);
}
