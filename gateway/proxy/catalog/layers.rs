//! Builds views from two catalogs: that of the operator's servers, and that of the caller's
//! organisation. Where slugs, names or URIs collide, the operator's take precedence. An agent may
//! use a part of both.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use ahash::AHashMap;
use lockgate_authn::{Principal, Role};
use lockgate_policy::{Policy, TargetKind};
use lockgate_protocol::capabilities::{Offers, ServerExtensions};
use lockgate_protocol::name::{Naming, Slug};
use lockgate_text::date;
use lockgate_upstream::{ListKind, ServerId, Upstream, UpstreamState};
use serde_json::Map;

use super::entry::{CatalogEntry, Rendered, ViewEntry, index};
use super::groups::Groups;
use super::view::{Degraded, View};
use super::{Catalog, Declared};
use crate::catalog::merge::{self, INCOMPLETE_KEEP_MS, KEEP_MS};
use crate::catalog::tool_index::ViewSearch;
use crate::config::{Compose, Group, ToolSearch, ToolsMode, is_management};
use crate::rights::CallerRights;

/// The catalogs that a caller may see.
#[derive(Clone, Copy)]
pub(crate) struct Layers<'a> {
    pub(crate) shared: &'a Catalog,
    pub(crate) own: Option<&'a Catalog>,
}

/// The servers of an endpoint.
#[derive(Clone, Copy)]
pub(crate) enum Selection<'a> {
    All,
    One(&'a str),
    Assigned(&'a AgentServers),
    Composed(&'a Arc<Compose>),
}

#[derive(Clone, Copy)]
pub(crate) struct Viewing<'a> {
    pub(crate) policy: &'a Arc<Policy>,
    pub(crate) rights: &'a CallerRights,
    pub(crate) naming: Naming,
    pub(crate) mode: ToolsMode,
    pub(crate) tool_search: &'a ToolSearch,
    /// Extensions that add no methods.
    pub(crate) extensions: &'a BTreeSet<String>,
    pub(crate) groups: &'a BTreeMap<String, Group>,
}

struct Chosen<'a> {
    slug: &'a Slug,
    server: &'a Arc<dyn Upstream>,
    declared: Option<&'a Declared>,
    /// The own names of tools that the selection hides.
    hidden: Option<&'a BTreeSet<String>>,
}

type ChosenServers<'a> = BTreeMap<&'a str, Chosen<'a>>;

impl<'a> Selection<'a> {
    pub(crate) fn includes(self, server: &dyn Upstream) -> bool {
        match self {
            Self::All | Self::Composed(_) => true,
            Self::One(only) => only == server.slug(),
            // By id, because an operator's server may have the same slug by now.
            Self::Assigned(agent) => agent.servers.contains(&ServerId::of(server)),
        }
    }

    /// Returns the choice of items; `None` for all.
    fn compose(self) -> Option<Arc<Compose>> {
        match self {
            Self::All | Self::One(_) => None,
            Self::Assigned(agent) => agent.items.as_deref().map(Compose::read),
            Self::Composed(compose) => Some(Arc::clone(compose)),
        }
    }

    /// Returns the own names of tools of a server that are hidden.
    pub(crate) fn hidden(self, server: &dyn Upstream) -> Option<&'a BTreeSet<String>> {
        match self {
            Self::All | Self::One(_) | Self::Composed(_) => None,
            Self::Assigned(agent) => agent.hidden.get(&ServerId::of(server)),
        }
    }
}

impl<'a> Layers<'a> {
    /// Builds a caller's view of these servers. `None` for a single server that shows the caller
    /// nothing.
    pub(crate) fn view(self, selection: Selection<'a>, viewing: Viewing<'_>) -> Option<View> {
        let chosen = self.choose(selection);
        let namespaced = !matches!(selection, Selection::One(_));
        let mut seen = ListKind::ALL.map(|kind| self.find_visible(kind, &chosen, viewing));
        let compose = selection.compose();
        if let Some(compose) = &compose {
            for (kind, seen) in ListKind::ALL.into_iter().zip(&mut seen) {
                merge::apply(compose, kind, viewing.naming, seen);
            }
        }
        for catalog in self.catalogs() {
            for skill in &catalog.quarantined[index(ListKind::Skills)] {
                seen[index(ListKind::Resources)].retain(|file| !skill.holds(&file.entry));
            }
        }
        let servers = self.find_visible_servers(&seen, chosen, viewing);
        if !namespaced && servers.is_empty() {
            return None;
        }
        let skills = index(ListKind::Skills);
        let quarantined = self.catalogs().flat_map(|catalog| &catalog.quarantined[skills]);
        let quarantined = quarantined.cloned().collect();
        let mut view = make_view(&seen, &servers, (namespaced, quarantined), viewing);
        view.compose = compose;
        if namespaced && !viewing.groups.is_empty() {
            let tools = &view.items[index(ListKind::Tools)];
            view.groups = Groups::find(tools, viewing.groups, viewing.naming).0;
        }
        if searches(&view, viewing) {
            let tools = view.listed_tools();
            let indexes = self.catalogs().map(|catalog| &catalog.tool_index);
            let is_auto = viewing.mode == ToolsMode::Auto;
            let always = &viewing.tool_search.always;
            view.search = Some(ViewSearch::new(tools, namespaced, indexes, is_auto, always));
        }
        view.unwraps = view.search.is_some() || view.groups.is_some();
        Some(view)
    }

    fn catalogs(self) -> impl Iterator<Item = &'a Catalog> {
        std::iter::once(self.shared).chain(self.own)
    }

    fn choose(self, selection: Selection<'a>) -> ChosenServers<'a> {
        let mut chosen = ChosenServers::new();
        for catalog in self.catalogs() {
            for (slug, server) in &catalog.servers {
                if selection.includes(&**server) {
                    let declared = catalog.declared.get(slug);
                    let hidden = selection.hidden(&**server);
                    let one = Chosen { slug, server, declared, hidden };
                    chosen.entry(slug.as_str()).or_insert(one);
                }
            }
        }
        chosen
    }

    /// Returns the visible entries of a list, grouped by server.
    fn find_visible(
        self,
        kind: ListKind,
        chosen: &ChosenServers<'_>,
        viewing: Viewing<'_>,
    ) -> Vec<ViewEntry> {
        let entries = self.shared.items(kind).iter().filter(|entry| is_chosen(chosen, kind, entry));
        let mut visible: Vec<_> =
            entries.filter_map(|entry| judge_entry(viewing, kind, entry)).collect();
        let own = self.own.map_or(&[][..], |own| own.items(kind));
        if own.is_empty() {
            return visible;
        }
        let taken = self.find_taken_names(kind, own);
        for entry in own {
            if is_chosen(chosen, kind, entry) {
                let entry = rename_taken(entry, &taken, viewing.naming);
                visible.extend(judge_entry(viewing, kind, &entry));
            }
        }
        visible.sort_by(|a, b| a.entry.slug.cmp(&b.entry.slug));
        visible
    }

    /// Returns the lower-case names of an organisation's tools or prompts that collide with the
    /// operator's, visible or not: renaming only on visible collisions would reveal hidden names.
    fn find_taken_names(self, kind: ListKind, own: &[Arc<CatalogEntry>]) -> HashSet<String> {
        let mut taken = HashSet::new();
        if kind.has_uris() {
            return taken;
        }
        let own_names: HashSet<_> =
            own.iter().map(|entry| entry.exposed.to_ascii_lowercase()).collect();
        for entry in self.shared.items(kind) {
            let name = entry.exposed.to_ascii_lowercase();
            if own_names.contains(&name) {
                taken.insert(name);
            }
        }
        taken
    }

    /// Keeps the servers that the caller may see: those with visible entries, and those without
    /// entries that policy lets the caller reach.
    fn find_visible_servers(
        self,
        seen: &[Vec<ViewEntry>; ListKind::COUNT],
        chosen: ChosenServers<'a>,
        viewing: Viewing<'_>,
    ) -> ChosenServers<'a> {
        let seen = seen.iter().flatten();
        let with_visible: HashSet<&str> = seen.map(|seen| seen.entry.slug.as_str()).collect();
        let all = self.catalogs().flat_map(|catalog| catalog.items.iter().flatten());
        let with_items: HashSet<&str> = all.map(|entry| entry.slug.as_str()).collect();
        let mut servers = chosen;
        servers.retain(|slug, _| {
            let is_empty = !with_items.contains(slug);
            with_visible.contains(slug)
                || is_empty && viewing.policy.reaches(&viewing.rights.class, slug)
        });
        servers
    }
}

/// Returns whether the tools of a view are found instead of listed.
fn searches(view: &View, viewing: Viewing<'_>) -> bool {
    let tools = view.listed_tools().len();
    let wanted = match viewing.mode {
        ToolsMode::Full => false,
        ToolsMode::Auto => tools >= viewing.tool_search.threshold,
        ToolsMode::Search => true,
    };
    if !wanted {
        return false;
    }
    let reserved = view.names[0].keys().find(|name| is_management(name));
    if let Some(name) = reserved {
        tracing::warn!(tool = &**name, "no tool search, because a tool has a reserved name");
    }
    reserved.is_none()
}

fn is_chosen(chosen: &ChosenServers<'_>, kind: ListKind, entry: &CatalogEntry) -> bool {
    let Some(chosen) = chosen.get(entry.slug.as_str()) else { return false };
    let is_hidden = kind == ListKind::Tools
        && chosen.hidden.is_some_and(|hidden| hidden.contains(&*entry.item.key));
    Arc::ptr_eq(chosen.server, &entry.server) && !is_hidden
}

fn rename_taken<'a>(
    entry: &'a Arc<CatalogEntry>,
    taken: &HashSet<String>,
    naming: Naming,
) -> Cow<'a, Arc<CatalogEntry>> {
    if taken.is_empty() || !taken.contains(&entry.exposed.to_ascii_lowercase()) {
        return Cow::Borrowed(entry);
    }
    let exposed = naming.expose_distinct(&entry.slug, &entry.item.key).into();
    Cow::Owned(Arc::new(CatalogEntry { exposed, ..CatalogEntry::clone(entry) }))
}

fn make_view(
    seen: &[Vec<ViewEntry>; ListKind::COUNT],
    servers: &ChosenServers<'_>,
    (namespaced, quarantined_skills): (bool, Vec<Arc<CatalogEntry>>),
    viewing: Viewing<'_>,
) -> View {
    let names = [ListKind::Tools, ListKind::Prompts];
    let tools = &seen[index(ListKind::Tools)];
    let has_param_headers = tools.iter().any(|seen| seen.entry.item.headers.is_some());
    let mut view = View {
        namespaced,
        servers: BTreeMap::new(),
        items: seen.each_ref().map(|seen| entries_of(seen)),
        names: names.map(|kind| names_of(&seen[index(kind)], namespaced, viewing.naming)),
        web: HashMap::new(),
        quarantined_skills,
        unwraps: false,
        has_param_headers,
        groups: None,
        compose: None,
        offers: Offers::default(),
        extensions: Map::new(),
        instructions: Vec::new(),
        degraded: Vec::new(),
        search: None,
        keep_ms: KEEP_MS,
        policy: Arc::clone(viewing.policy),
        rights: viewing.rights.clone(),
        rendered: Rendered::default(),
        marks: Default::default(),
    };
    add_web_resources(&mut view);
    let mut announced = ServerExtensions::default();
    for chosen in servers.values() {
        view.servers.insert(chosen.slug.clone(), Arc::clone(chosen.server));
        let Some(declared) = chosen.declared else { continue };
        view.offers = view.offers.or(declared.offers());
        if let Some(extensions) = &declared.extensions {
            announced.add(extensions, viewing.extensions);
        }
        if let Some(text) = &declared.instructions {
            view.instructions.push((chosen.slug.clone(), Arc::clone(text)));
        }
        view.degraded.extend(degraded(chosen.slug, declared));
        view.keep_ms = view.keep_ms.min(declared.keep_ms.unwrap_or(KEEP_MS));
    }
    if !view.degraded.is_empty() {
        view.keep_ms = view.keep_ms.min(INCOMPLETE_KEEP_MS);
    }
    view.extensions = announced.finish(view.offers);
    view
}

fn entries_of(seen: &[ViewEntry]) -> Vec<Arc<CatalogEntry>> {
    seen.iter().map(|seen| Arc::clone(&seen.entry)).collect()
}

/// Maps web URIs to servers. The operator's servers take precedence over an organisation's.
fn add_web_resources(view: &mut View) {
    for is_shared in [false, true] {
        for entry in &view.items[index(ListKind::Resources)] {
            let is_web = entry.exposed == entry.item.key;
            if is_web && entry.server.organisation().is_none() == is_shared {
                view.web.insert(Box::from(&*entry.exposed), entry.slug.clone());
            }
        }
    }
}

/// Returns the entry with policy's verdict, unless policy hides it.
fn judge_entry(
    viewing: Viewing<'_>,
    kind: ListKind,
    entry: &Arc<CatalogEntry>,
) -> Option<ViewEntry> {
    let kind = match kind {
        ListKind::Tools => TargetKind::Tool,
        ListKind::Prompts => TargetKind::Prompt,
        ListKind::Resources | ListKind::Templates | ListKind::Skills => TargetKind::Resource,
    };
    let verdict = viewing.rights.judge(viewing.policy, &entry.target(kind));
    if let Some(failure) = verdict.failure() {
        tracing::warn!(
            tool = &*entry.exposed,
            failure,
            "denied, because a policy could not be evaluated"
        );
    }
    if !verdict.is_visible() {
        return None;
    }
    Some(ViewEntry { entry: Arc::clone(entry), verdict: Arc::new(verdict) })
}

fn degraded(slug: &Slug, declared: &Declared) -> Option<Degraded> {
    let status = &declared.status;
    let is_well = match status.state {
        UpstreamState::Connected | UpstreamState::Disabled => true,
        UpstreamState::Resting => status.trouble.is_none(),
        // The server's offers are known, and the server is only reconnecting.
        UpstreamState::Pending => {
            status.trouble.is_none() && status.peer.is_some() && declared.version > 0
        }
        _ => false,
    };
    // Only the short reason: full error texts may contain commands and addresses.
    let reason = match declared.read_at {
        None if is_well => return None,
        None => status.reason(),
        Some(then) => {
            let reason = status.reason();
            let then = date::of_time(then);
            format!("{reason}; its lists are from {then} and are being refreshed")
        }
    };
    Some(Degraded {
        server: slug.to_string(),
        state: status.state.as_str(),
        since: status.since_text(),
        reason,
        offers: declared.offers(),
    })
}

/// Builds the routing table: exposed names take precedence over aliases, and ambiguous aliases are
/// left out.
fn names_of(all: &[ViewEntry], namespaced: bool, naming: Naming) -> AHashMap<Box<str>, ViewEntry> {
    let mut table = AHashMap::with_capacity(all.len());
    for seen in all {
        table.insert(Box::from(&**seen.entry.shown(namespaced)), seen.clone());
    }
    if !namespaced {
        return table;
    }
    let mut aliases: HashMap<String, Option<&ViewEntry>> = HashMap::new();
    for seen in all {
        let own: HashSet<String> = naming.aliases(&seen.entry.slug, &seen.entry.item.key).collect();
        for alias in own {
            aliases.entry(alias).and_modify(|other| *other = None).or_insert(Some(seen));
        }
    }
    for (alias, seen) in aliases {
        if let Some(seen) = seen {
            table.entry(alias.into_boxed_str()).or_insert_with(|| seen.clone());
        }
    }
    table
}

/// The servers that are assigned to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentServers {
    pub id: String,
    pub owner: AgentOwner,
    /// May include servers that do not exist.
    pub servers: BTreeSet<ServerId>,
    /// The own names of tools that the agent cannot list or call.
    pub hidden: BTreeMap<ServerId, BTreeSet<String>>,
    /// JSON text of [`Items`](crate::Items); `None` for all items of the servers.
    pub items: Option<Arc<str>>,
    /// The form of its list of tools; `None` for the operator's setting.
    pub mode: Option<ToolsMode>,
}

/// The principal, in the agent's organisation, that owns the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentOwner {
    pub issuer: String,
    pub subject: String,
}

impl AgentServers {
    /// Returns whether a member of the organisation may use the agent.
    pub(crate) fn is_for(&self, principal: &Principal, role: Role) -> bool {
        let is_owner =
            *self.owner.issuer == *principal.issuer && *self.owner.subject == *principal.subject;
        is_owner || role >= Role::Admin
    }
}
