//! Whether what somebody wants to hear of is there. What is listed is, and what a listed template
//! describes; anything else is read first, in the caller's name: servers take subscriptions to what
//! they do not have, and then it would be told from what policy hides.

use lockgate_protocol::method::Method;

use crate::caller_view::about;
use crate::context::RequestContext;
use crate::dispatch;
use crate::gateway::Gateway;
use crate::rescue::RequestError;

/// The read that shows whether a resource is there; nothing where its URI cannot be read at all.
pub(crate) fn make_read(context: &RequestContext, uri: &str) -> Option<Box<RequestContext>> {
    Some(Box::new(about(context, Method::ResourcesRead, uri)?))
}

/// Makes the read; what came back is nobody's.
///
/// # Errors
/// What whoever reads the resource would be answered.
pub(crate) async fn check_readable(
    gateway: &Gateway,
    read: Box<RequestContext>,
) -> Result<(), RequestError> {
    dispatch::forward_nested(gateway, read).await?;
    Ok(())
}
