//! Whether a caller may subscribe to a URI. What is listed is there, and what a listed template
//! describes. Where policy hides resources of the server, anything else is read first, in the
//! caller's name: servers take subscriptions to what they do not have, and then it would be told
//! from what policy hides. Where it hides none, the server decides alone: it may tell of resources
//! that cannot be read yet.

use lockgate_protocol::method::Method;
use lockgate_upstream::Upstream;

use crate::caller_view::about;
use crate::context::RequestContext;
use crate::dispatch;
use crate::gateway::Gateway;
use crate::rescue::RequestError;

/// Whether policy hides no resource of a server from the caller.
pub(crate) fn hides_nothing(context: &RequestContext, server: &dyn Upstream) -> bool {
    context.snapshot.policy.hides_no_resource(&context.rights.class, server.slug())
}

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
