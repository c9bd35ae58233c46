//! Whether a tool of a legacy server runs as a task (2025-11-25, server/tools.mdx, basic/utilities/
//! tasks.mdx), and what that means for a call that asks for one, or does not.

use lockgate_protocol::capabilities::{TASKS, declares};
use lockgate_protocol::code;
use lockgate_protocol::list;
use lockgate_protocol::revision::{Era, Revision};

use crate::catalog::Entry;
use crate::context::RequestContext;
use crate::rescue::RequestError;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskUse {
    /// It is an ordinary one.
    None,
    /// Its client follows the task.
    OfClient,
    /// The gateway follows the task in its client's place.
    OfGateway,
    /// Its client follows the task in the way of the tasks extension.
    Converted,
}

/// How a call of a tool is made.
///
/// # Errors
/// The client asks for a task that the tool does not run as.
pub(super) fn find_use(context: &RequestContext, entry: &Entry) -> Result<TaskUse, RequestError> {
    let asks = context.revision == Revision::V2025_11_25 && context.request.param("task").is_some();
    match (asks, find_support(entry)) {
        (true, Support::Forbidden) => Err(RequestError::new(
            code::METHOD_NOT_FOUND,
            "the tool does not run as a task: call it without `task`",
        )),
        (true, _) => Ok(TaskUse::OfClient),
        (false, Support::Required) if has_extension(context) => Ok(TaskUse::Converted),
        (false, Support::Required) => Ok(TaskUse::OfGateway),
        (false, _) => Ok(TaskUse::None),
    }
}

/// Whether a modern client follows tasks.
fn has_extension(context: &RequestContext) -> bool {
    context.era() == Era::Modern && declares(&context.caller.capabilities, &["extensions", TASKS])
}

#[derive(PartialEq)]
enum Support {
    Forbidden,
    Optional,
    Required,
}

/// What the tool's definition says, where its server has tasks.
fn find_support(entry: &Entry) -> Support {
    let status = entry.server.status();
    let is_legacy = matches!(&status.peer, Some(peer) if peer.era == Era::Legacy);
    if !is_legacy || !entry.server.catalog().offers.legacy_tasks {
        return Support::Forbidden;
    }
    let execution = list::member(&entry.item.text, "execution").unwrap_or(b"{}");
    match list::member(execution, "taskSupport") {
        Some(br#""required""#) => Support::Required,
        Some(br#""optional""#) => Support::Optional,
        _ => Support::Forbidden,
    }
}
