//! `resources/subscribe` and `resources/unsubscribe` of a session. Page: server/resources.mdx
//! (2025-11-25).

use std::sync::Arc;
use std::time::Instant;

use lockgate_admission::spawn;
use lockgate_authn::Principal;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_proxy::Gateway;
use lockgate_proxy::authorize::{Permitted, authorize};
use lockgate_proxy::context::{RequestContext, about, identity_of};
use lockgate_proxy::dispatch;
use lockgate_proxy::gateway::MAX_SUBSCRIBING;
use lockgate_proxy::quota::QuotaPermit;
use lockgate_proxy::rescue::RequestError;
use lockgate_telemetry::Outcome;
use lockgate_upstream::{Caller, ClientSession, ServerId, Topic, Upstream, UpstreamErrorKind};

use crate::session::{NewSubscription, Session, Subscribed};

pub(crate) async fn subscribe(
    gateway: &Gateway,
    session: &Arc<Session>,
    context: &RequestContext,
) -> Result<(), RequestError> {
    let permitted = match permit_subscription(gateway, context).await {
        Ok(permitted) => permitted,
        Err(problem) => {
            dispatch::audit_denial(gateway, context, &problem);
            return Err(problem);
        }
    };
    gateway.record_caller(&context.rights.principal, &**permitted.server());
    let ticket = dispatch::audit_allow(gateway, context, &permitted, None)?;
    let began = Instant::now();
    let done = subscribe_to(gateway, session, context, &permitted).await;
    if let Some(ticket) = ticket {
        let outcome = match &done {
            Ok(()) => Outcome::Ok,
            Err(problem) => problem.outcome,
        };
        ticket.finish(outcome, began.elapsed());
    }
    done
}

/// Authorizes a subscription to a readable resource at a server that supports subscriptions.
async fn permit_subscription(
    gateway: &Gateway,
    context: &RequestContext,
) -> Result<Permitted, RequestError> {
    let permitted = authorize(context)?;
    let uri = context.request.param_str(Key::Uri);
    let uri = uri.as_deref().unwrap_or("");
    if !context.view.describes(uri) && !context.hides_nothing_of(&**permitted.server()) {
        // Proves that the resource exists.
        let Some(read) = about(context, Method::ResourcesRead, uri) else {
            return Err(RequestError::unknown_resource(uri, context.missing_resource()));
        };
        gateway.forward(Box::new(read)).await?;
    }
    let known = permitted.server().catalog();
    // For readable resources only, since the error reveals which server has the URI.
    if known.version > 0 && !known.offers.subscribe {
        let slug = permitted.server().slug();
        let words = format!("server {slug} does not offer subscriptions to resources");
        return Err(RequestError::invalid(words));
    }
    Ok(permitted)
}

async fn subscribe_to(
    gateway: &Gateway,
    session: &Arc<Session>,
    context: &RequestContext,
    permitted: &Permitted,
) -> Result<(), RequestError> {
    let exposed = context.request.param_str(Key::Uri);
    let exposed = exposed.as_deref().unwrap_or("");
    let server = permitted.server();
    let own = permitted.target();
    let most = context.snapshot.config.limits.subscriptions;
    let outcome = match session.subscribe(exposed, ServerId::of(&**server), own, most) {
        Subscribed::TooMany => {
            let words = "too many subscriptions (limits.subscriptions)";
            return Err(RequestError::invalid(words));
        }
        Subscribed::Known(outcome) => outcome,
        Subscribed::New(new) => {
            let outcome = new.outcome.clone();
            let share = gateway.subscribing.take(&context.rights.principal, MAX_SUBSCRIBING);
            let Some(share) = share else {
                session.forget_subscription(exposed, &new);
                let words = "too many subscriptions are being made at once; retry later";
                return Err(RequestError::invalid(words));
            };
            let making = Making {
                session: Arc::clone(session),
                server: Arc::clone(server),
                exposed: exposed.to_owned(),
                topic: Topic::Resource(own.to_owned()),
                caller: context.caller.clone(),
                principal: context.rights.principal.clone(),
                _share: share,
            };
            // Spawned, because a client that disconnects has not unsubscribed and may ask again.
            spawn(making.run(new));
            outcome
        }
    };
    match outcome.await.unwrap_or(Ok(())) {
        Ok(()) => Ok(()),
        Err(failure) if failure.kind == UpstreamErrorKind::NotFound => {
            Err(RequestError::unknown_resource(exposed, context.missing_resource()))
        }
        Err(failure) => Err(RequestError::of_failure(context, &**server, &failure)),
    }
}

/// A subscription in progress at a server.
struct Making {
    session: Arc<Session>,
    server: Arc<dyn Upstream>,
    /// The client's URI.
    exposed: String,
    topic: Topic,
    caller: Caller,
    principal: Principal,
    _share: QuotaPermit,
}

impl Making {
    async fn run(self, new: NewSubscription) {
        let Self { session, server, exposed, topic, caller, principal, _share } = self;
        let made = match server.subscribe(&topic, &caller, identity_of(&principal)).await {
            Ok(given) => {
                if !session.confirm_subscription(&exposed, &new, given) {
                    server.unsubscribe(&topic, given).await;
                }
                Ok(())
            }
            Err(failure) => {
                session.forget_subscription(&exposed, &new);
                Err(failure)
            }
        };
        let _ = new.settle.send(made);
        if session.over.is_cancelled() {
            // The server may have opened a connection for the session after its end.
            server.forget_session(session.key());
        }
    }
}

pub(crate) fn unsubscribe(
    gateway: &Gateway,
    session: &Session,
    context: &RequestContext,
) -> Result<(), RequestError> {
    let Some(uri) = context.request.param_str(Key::Uri) else {
        return Err(RequestError::invalid("`params.uri` must be a string"));
    };
    if let Some(at) = session.unsubscribe(&uri)
        && let Some(server) = gateway.directory.find_server(&at.server)
    {
        at.give_back(server);
    }
    Ok(())
}
