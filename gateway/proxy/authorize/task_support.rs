//! Task support of a legacy server's tool, and its effect on calls with and without a task request.
//! Pages: server/tools.mdx, basic/utilities/tasks.mdx (2025-11-25).

use lockgate_protocol::capabilities::{TASKS, declares};
use lockgate_protocol::code;
use lockgate_protocol::key::Key;
use lockgate_protocol::list;
use lockgate_protocol::revision::Revision;

use crate::catalog::{CatalogEntry, is_legacy};
use crate::context::RequestContext;
use crate::rescue::RequestError;

/// How a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskUse {
    /// As an ordinary call.
    None,
    /// As a task that the client follows.
    OfClient,
    /// As a task that the gateway follows on behalf of the client.
    OfGateway,
    /// As a task that the client follows through the tasks extension.
    Converted,
}

/// Decides how a tool call runs.
///
/// # Errors
/// The client requests a task for a tool without task support.
pub(super) fn find_use(
    context: &RequestContext,
    entry: &CatalogEntry,
) -> Result<TaskUse, RequestError> {
    let asks =
        context.revision == Revision::V2025_11_25 && context.request.param(Key::Task).is_some();
    match (asks, find_support(entry)) {
        (true, Support::Forbidden) => Err(RequestError::new(
            code::METHOD_NOT_FOUND,
            "the tool does not support tasks: call it without `task`",
        )),
        (true, _) => Ok(TaskUse::OfClient),
        (false, Support::Required) if has_extension(context) => Ok(TaskUse::Converted),
        (false, Support::Required) => Ok(TaskUse::OfGateway),
        (false, _) => Ok(TaskUse::None),
    }
}

/// Returns whether the client supports the tasks extension.
fn has_extension(context: &RequestContext) -> bool {
    context.protocol().has_task_extension
        && declares(&context.caller.capabilities, &["extensions", TASKS])
}

#[derive(PartialEq)]
enum Support {
    Forbidden,
    Optional,
    Required,
}

/// Reads the tool's task support, if its server supports legacy tasks.
fn find_support(entry: &CatalogEntry) -> Support {
    if !is_legacy(&*entry.server) || !entry.server.catalog().offers.legacy_tasks {
        return Support::Forbidden;
    }
    let execution = list::member(&entry.item.text, "execution").unwrap_or(b"{}");
    match list::member(execution, "taskSupport") {
        Some(br#""required""#) => Support::Required,
        Some(br#""optional""#) => Support::Optional,
        _ => Support::Forbidden,
    }
}
