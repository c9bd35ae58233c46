//! `resources/subscribe` and `resources/unsubscribe` of a session, and what its client is told then. Page:
//! server/resources.mdx (2025-11-25).

use std::time::Instant;

use lockgate_policy::Kind;
use lockgate_protocol::method::Method;
use lockgate_protocol::uri;
use lockgate_protocol::write;
use lockgate_telemetry::Outcome;
use lockgate_upstream::FailureKind;
use serde_json::json;

use crate::authorize::{Permitted, authorize};
use crate::catalog::View;
use crate::context::Asked;
use crate::dispatch;
use crate::face::Endpoint;
use crate::gateway::Gateway;
use crate::rescue::Problem;
use crate::session::{Session, Subscribed};

pub(super) async fn subscribe(gateway: &Gateway, asked: &Asked) -> Result<(), Problem> {
    let permitted = authorize(asked).and_then(|permitted| {
        let known = permitted.server().catalog();
        let cannot = known.version > 0 && !known.offers.subscribe;
        // Said only of what is there: of anything else it would be known whose it would be.
        if cannot { Err(Problem::no_subscriptions(permitted.server().slug())) } else { Ok(permitted) }
    });
    let permitted = permitted.inspect_err(|problem| dispatch::audit_denial(gateway, asked, problem))?;
    gateway.sole.note(asked.principal.key());
    let ticket = dispatch::audit_leave(gateway, asked, &permitted, None)?;
    let began = Instant::now();
    let done = subscribe_to(asked, &permitted).await;
    if let Some(ticket) = ticket {
        let outcome = done.as_ref().err().map_or(Outcome::Ok, |problem| problem.outcome);
        ticket.finish(outcome, began.elapsed());
    }
    done
}

async fn subscribe_to(asked: &Asked, permitted: &Permitted) -> Result<(), Problem> {
    let Some(session) = &asked.session else { return Ok(()) };
    let exposed = asked.request.param_str("uri").unwrap_or_default();
    let server = permitted.server();
    match session.subscribe(&exposed, server.slug(), permitted.target(), asked.setup.config.limits.subscriptions) {
        Subscribed::Already => Ok(()),
        Subscribed::TooMany => Err(Problem::invalid("too many subscriptions (limits.subscriptions)")),
        Subscribed::New => {
            let result = server.subscribe(permitted.target()).await;
            result.map_err(|failure| {
                session.unsubscribe(&exposed);
                match failure.kind {
                    FailureKind::NotFound => Problem::unknown_resource(&exposed, asked.era()),
                    _ => Problem::failed(server.slug(), &failure),
                }
            })
        }
    }
}

pub(super) fn unsubscribe(gateway: &Gateway, asked: &Asked) -> Result<(), Problem> {
    let uri = asked.request.param_str("uri").ok_or_else(|| Problem::invalid("`params.uri` must be a string"))?;
    let Some((slug, own)) = asked.session.as_ref().and_then(|s| s.unsubscribe(&uri)) else { return Ok(()) };
    if let Some(server) = gateway.hub.servers().into_iter().find(|s| s.slug() == slug) {
        tokio::spawn(async move { server.unsubscribe(&own).await });
    }
    Ok(())
}

/// A resource that the session subscribed to has changed; told if it is there in what the session's caller sees.
pub(crate) fn tell_updated(session: &Session, view: Option<&View>, slug: &str, own: &str) {
    let shown = match session.endpoint {
        Endpoint::All => uri::expose(slug, own),
        Endpoint::Server(_) => own.into(),
    };
    if view.is_none_or(|view| view.resource(&shown, Kind::Resource).is_none()) {
        return;
    }
    if let Some(log) = session.log(0) {
        let params = json!({"uri": shown}).to_string();
        log.push(write::notification(Method::ResourceUpdated.as_str(), params.as_bytes()).into());
    }
}
