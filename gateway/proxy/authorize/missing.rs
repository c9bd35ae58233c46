//! Unknown names while a server has never been listed: the name may be that server's, as far as
//! policy would show it. Calls are never routed by such a name.

use std::sync::Arc;

use lockgate_policy::{Annotations, Target, TargetKind, Verdict};
use lockgate_protocol::name::Slug;
use lockgate_upstream::{Upstream, UpstreamState};

use crate::catalog::{category, organisation_of};
use crate::context::RequestContext;

/// Finds a server in the caller's view that is not ready yet and may have the name.
pub(super) fn find_server<'a>(
    context: &'a RequestContext,
    kind: TargetKind,
    name: &str,
) -> Option<&'a Arc<dyn Upstream>> {
    for (slug, server) in &context.view.servers {
        let is_known = server.catalog().version > 0;
        if is_known
            || matches!(server.status().state, UpstreamState::Connected | UpstreamState::Disabled)
        {
            continue;
        }
        let own = if context.view.namespaced { own_name(context, slug, name) } else { Some(name) };
        let Some(own) = own else { continue };
        let category = category(&**server);
        let target = Target {
            kind,
            server: slug,
            organisation: organisation_of(&**server),
            exposed: name,
            own,
            category: category.as_deref(),
            annotations: Annotations::default(),
        };
        if find_verdict(context, &target).is_some() {
            return Some(server);
        }
    }
    None
}

/// Strips the server's namespace from an exposed name.
fn own_name<'a>(context: &RequestContext, slug: &Slug, name: &'a str) -> Option<&'a str> {
    let rest = name.strip_prefix(slug.as_str())?;
    let separators = [context.snapshot.naming.separator.as_str(), "__", "/"];
    let own = separators.into_iter().find_map(|separator| rest.strip_prefix(separator))?;
    if own.is_empty() { None } else { Some(own) }
}

/// Returns the verdict on an item that is not in the view, or `None` if policy hides it.
pub(super) fn find_verdict(context: &RequestContext, target: &Target<'_>) -> Option<Verdict> {
    let subject = context.rights.subject();
    let verdict = context
        .snapshot
        .policy
        .verdict(&context.rights.class, &context.rights.question(&subject, target));
    if verdict.is_visible() { Some(verdict) } else { None }
}
