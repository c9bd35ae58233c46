//! Checks whether a caller may subscribe to a URI. Listed resources and those described by a listed
//! template are accepted. If policy hides resources of the server, any other URI is first read on
//! behalf of the caller: servers accept subscriptions to resources that they do not have, so an
//! unchecked subscription could leak updates of hidden ones. If policy hides none, the server alone
//! decides, because it may announce resources that cannot be read yet.

use lockgate_protocol::method::Method;
use lockgate_upstream::Upstream;

use crate::caller_view::about;
use crate::context::RequestContext;
use crate::dispatch;
use crate::gateway::Gateway;
use crate::rescue::RequestError;

/// Returns whether policy hides no resource of a server from the caller.
pub(crate) fn hides_nothing(context: &RequestContext, server: &dyn Upstream) -> bool {
    context.snapshot.policy.hides_no_resource(&context.rights.class, server.slug())
}

/// Builds the read that proves that a resource exists. Returns `None` if the URI cannot be read.
pub(crate) fn make_read(context: &RequestContext, uri: &str) -> Option<Box<RequestContext>> {
    Some(Box::new(about(context, Method::ResourcesRead, uri)?))
}

/// Executes the read and discards its result.
///
/// # Errors
/// The error that the caller would get for reading the resource.
pub(crate) async fn check_readable(
    gateway: &Gateway,
    read: Box<RequestContext>,
) -> Result<(), RequestError> {
    dispatch::forward_nested(gateway, read).await?;
    Ok(())
}
