//! A name that nothing has while a server has never been asked for its lists: it may be one of that
//! server's, as far as policy would show it. Nothing is called by such a name.

use std::sync::Arc;

use lockgate_policy::{Annotations, Kind, Target, Verdict};
use lockgate_protocol::name::Slug;
use lockgate_upstream::{State, Upstream};

use crate::catalog::category;
use crate::context::RequestContext;

/// The server of this caller's view that is not there yet and may have the name.
pub(super) fn find_server<'a>(
    context: &'a RequestContext,
    kind: Kind,
    name: &str,
) -> Option<&'a Arc<dyn Upstream>> {
    context.view.servers.iter().find_map(|(slug, server)| {
        let is_known = server.catalog().version > 0;
        if is_known || matches!(server.status().state, State::Connected | State::Disabled) {
            return None;
        }
        let own = if context.view.namespaced { own_name(context, slug, name)? } else { name };
        let category = category(&**server);
        let target = Target {
            kind,
            server: slug,
            organisation: server.organisation().map(|name| &**name),
            exposed: name,
            own,
            category: category.as_deref(),
            annotations: Annotations::default(),
        };
        find_verdict(context, &target).map(|_| server)
    })
}

/// What the server would call it, if the name were made of the server's.
fn own_name<'a>(context: &RequestContext, slug: &Slug, name: &'a str) -> Option<&'a str> {
    let rest = name.strip_prefix(slug.as_str())?;
    let separators = [context.snapshot.naming.separator.as_str(), "__", "/"];
    let own = separators.into_iter().find_map(|separator| rest.strip_prefix(separator))?;
    (!own.is_empty()).then_some(own)
}

/// What policy says of something that is not in the view by itself; nothing when it hides it.
pub(super) fn find_verdict(context: &RequestContext, target: &Target<'_>) -> Option<Verdict> {
    let subject = context.rights.subject();
    let verdict = context
        .snapshot
        .policy
        .verdict(&context.rights.class, &context.rights.question(&subject, target));
    verdict.is_visible().then_some(verdict)
}
