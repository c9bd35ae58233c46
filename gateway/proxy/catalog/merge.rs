//! Merges the items of all servers under their exposed names, in list order.

use std::sync::Arc;

use lockgate_policy::Annotations;
use lockgate_policy::pin::Pins;
use lockgate_protocol::name::{Naming, Slug};
use lockgate_protocol::revision::Era;
use lockgate_protocol::uri;
use lockgate_telemetry::{Metrics, ToolMetrics};
use lockgate_upstream::{Catalog, Item, ListKind, Upstream};

use super::entry::{Audience, CatalogEntry, category, organisation_of};
use crate::inspect::{self, ArgumentCheck, KnownInspections, Looking};

pub(super) struct ServerLists<'a> {
    pub(super) slug: &'a Slug,
    pub(super) server: &'a Arc<dyn Upstream>,
    pub(super) lists: Arc<Catalog>,
}

struct Offered<'a> {
    slug: &'a Slug,
    server: &'a Arc<dyn Upstream>,
    item: &'a Item,
    audience: Audience,
}

pub(super) struct Merger<'a> {
    pub(super) naming: Naming,
    pub(super) pins: &'a Pins,
    pub(super) metrics: &'a Metrics,
    pub(super) known: KnownInspections<'a>,
}

impl Merger<'_> {
    pub(super) fn merge_lists(
        &self,
        kind: ListKind,
        servers: &[ServerLists<'_>],
    ) -> Vec<Arc<CatalogEntry>> {
        let mut offered = Vec::new();
        for ServerLists { slug, server, lists } in servers {
            for item in lists.items(kind) {
                offered.push(Offered { slug, server, item, audience: Audience::Everybody });
            }
            let audience = match lists.asking_era {
                Some(Era::Legacy) => Audience::LegacyCanBeAsked,
                Some(Era::Modern) | None => Audience::CanBeAsked,
            };
            for item in lists.asking_items(kind) {
                offered.push(Offered { slug, server, item, audience });
            }
        }
        let exposed = self.expose(kind, &offered);
        let mut entries = Vec::with_capacity(offered.len());
        for (offered, exposed) in offered.iter().zip(exposed) {
            let organisation = organisation_of(&**offered.server);
            entries.push(self.make_entry(kind, offered, exposed.into(), || {
                self.metrics.tool(organisation, offered.slug, &offered.item.key)
            }));
        }
        entries
    }

    fn expose(&self, kind: ListKind, offered: &[Offered<'_>]) -> Vec<String> {
        match kind {
            ListKind::Tools | ListKind::Prompts => {
                self.naming.expose(offered.iter().map(|one| (one.slug, &*one.item.key)))
            }
            ListKind::Resources | ListKind::Templates | ListKind::Skills => offered
                .iter()
                .map(|one| uri::expose(one.slug, &one.item.key).into_owned())
                .collect(),
        }
    }

    /// Returns an item that a server lists for a single client. Such tools share a metric, to bound
    /// the number of metrics.
    pub(super) fn make_own_entry(
        &self,
        kind: ListKind,
        (slug, server): (&Slug, &Arc<dyn Upstream>),
        item: &Item,
        exposed: Arc<str>,
    ) -> Arc<CatalogEntry> {
        let offered = Offered { slug, server, item, audience: Audience::Everybody };
        self.make_entry(kind, &offered, exposed, || {
            self.metrics.other_tools(organisation_of(&**server), slug)
        })
    }

    fn make_entry(
        &self,
        kind: ListKind,
        offered: &Offered<'_>,
        exposed: Arc<str>,
        metrics: impl FnOnce() -> Arc<ToolMetrics>,
    ) -> Arc<CatalogEntry> {
        let Offered { slug, server, item, audience } = *offered;
        let category = category(&**server);
        let is_skill = kind == ListKind::Skills;
        let mut entry = CatalogEntry {
            slug: slug.clone(),
            server: Arc::clone(server),
            exposed,
            listed: None,
            // Hosts compare a skill with its files, so it is shown unchanged or not at all.
            item: if is_skill { item.clone() } else { inspect::shown(item, self.pins) },
            audience,
            metrics: None,
            inspected: None,
            arguments: None,
            category,
            annotations: Annotations::default(),
        };
        if is_skill || kind == ListKind::Tools {
            let builtin = entry.category.is_some();
            let name = inspect::name_in_lock(&**server);
            let validates = !is_skill && server.validates_arguments();
            let how = Looking { builtin, validates, is_skill, pins: self.pins };
            let inspected = self.known.inspect((slug, &name), item, how);
            if let ArgumentCheck::Schema(schema) = &inspected.arguments {
                entry.arguments = Some(Arc::clone(schema));
            }
            entry.inspected = Some(inspected);
        }
        if kind == ListKind::Tools {
            entry.metrics = Some(metrics());
            entry.annotations = Annotations::of_tool(&item.text);
        }
        Arc::new(entry)
    }
}
