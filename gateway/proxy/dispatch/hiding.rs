//! Finds the rule that hides a requested item, for records.

use std::sync::Arc;

use lockgate_policy::TargetKind;
use lockgate_protocol::method::Method;
use lockgate_protocol::scan;

use crate::catalog::Asking;
use crate::context::RequestContext;
use crate::gateway::Gateway;

/// Returns the server of the requested item and the rule that hides it, if the item exists.
pub(super) fn find_hiding_rule(
    gateway: &Gateway,
    context: &RequestContext,
) -> Option<(String, Arc<str>)> {
    let request = &context.request;
    match request.method {
        Method::ToolsCall => {
            hides(gateway, context, &[TargetKind::Tool], &request.param_str("name")?)
        }
        Method::PromptsGet => {
            hides(gateway, context, &[TargetKind::Prompt], &request.param_str("name")?)
        }
        Method::ResourcesRead | Method::DirectoryRead | Method::SkillsGet | Method::Subscribe => {
            hides(gateway, context, &[TargetKind::Resource], &request.param_str("uri")?)
        }
        Method::Complete => {
            let (is_prompt, name) = read_reference(request.param("ref")?)?;
            let kinds = if is_prompt {
                [TargetKind::Prompt, TargetKind::PromptCompletion]
            } else {
                [TargetKind::Resource, TargetKind::ResourceCompletion]
            };
            hides(gateway, context, &kinds, &name)
        }
        _ => None,
    }
}

/// Returns the server and hiding rule for the first kind that is hidden.
fn hides(
    gateway: &Gateway,
    context: &RequestContext,
    kinds: &[TargetKind],
    name: &str,
) -> Option<(String, Arc<str>)> {
    let asking = Asking {
        endpoint: &context.endpoint,
        policy: &context.snapshot.policy,
        rights: &context.rights,
        naming: context.snapshot.naming,
    };
    let shared = gateway.directory.catalog();
    let own = gateway.directory.organisation(context.principal.organisation());
    for kind in kinds {
        let found = shared.hides(&asking, *kind, name);
        let found_own = match &own {
            Some(own) => own.state().catalog.hides(&asking, *kind, name),
            None => None,
        };
        if let Some(hidden) = found.or(found_own) {
            return Some(hidden);
        }
    }
    None
}

/// Reads the reference of a completion: whether it is a prompt, and the name or URI.
pub(super) fn read_reference(raw: &[u8]) -> Option<(bool, String)> {
    let mut scanner = scan::Scanner::new(raw, scan::MAX_DEPTH).ok()?;
    let (_, members) = scanner.members(scan::Keys::Strict).ok()?;
    let is_prompt = scan::find_str(&members, raw, "type")? == "ref/prompt";
    let name = scan::find_str(&members, raw, if is_prompt { "name" } else { "uri" })?;
    Some((is_prompt, name.into_owned()))
}
