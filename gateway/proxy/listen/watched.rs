//! Resources that a listen follows. Each is authorized like a separate subscription, and
//! unsubscribed when the listen drops it.

use std::sync::Arc;
use std::time::Duration;

use lockgate_admission::spawn;
use lockgate_authn::Principal;
use lockgate_protocol::method::Method;
use lockgate_telemetry::Outcome;
use lockgate_upstream::{Caller, Subscription, Upstream};
use tokio::sync::oneshot;

use crate::authorize::authorize;
use crate::caller_view::{about, identity_of};
use crate::catalog::template::Steps;
use crate::context::RequestContext;
use crate::dispatch::{audit_allow, audit_denial};
use crate::gateway::{Gateway, MAX_SUBSCRIBING};
use crate::readable::{check_readable, hides_nothing, make_read};

/// Timeout for the read that proves that a resource exists.
const READ_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) struct Watched {
    pub(super) server: Arc<dyn Upstream>,
    pub(super) own: String,
    /// The URI that the client uses.
    pub(super) shown: String,
    /// The read that must prove that the resource exists, unless that is already certain.
    read: Option<Box<RequestContext>>,
    /// The server's subscription, once confirmed.
    held: Option<HeldSubscription>,
}

/// A subscription at a server that is cancelled on drop.
struct HeldSubscription {
    server: Arc<dyn Upstream>,
    own: String,
    given: Subscription,
}

impl Watched {
    /// Authorizes a resource and records the decision like that of a separate subscription.
    pub(super) fn authorize(
        gateway: &Gateway,
        context: &RequestContext,
        shown: &str,
        steps: &mut Steps,
    ) -> Option<Self> {
        let one = about(context, Method::Subscribe, shown)?;
        let permitted = match authorize(&one) {
            Ok(permitted) => permitted,
            Err(problem) => {
                audit_denial(gateway, &one, &problem);
                return None;
            }
        };
        // `steps` bounds the template matching of all resources together. A resource beyond that
        // bound is read instead.
        let described = context.view.describes_within(shown, steps)
            || hides_nothing(context, &**permitted.server());
        let read = if described { None } else { Some(make_read(context, shown)?) };
        let ticket = audit_allow(gateway, &one, &permitted, None).ok()?;
        if let Some(ticket) = ticket {
            ticket.finish(Outcome::Ok, Duration::ZERO);
        }
        gateway.record_caller(&context.principal, &**permitted.server());
        Some(Self {
            server: Arc::clone(permitted.server()),
            own: permitted.target().to_owned(),
            shown: shown.to_owned(),
            read,
            held: None,
        })
    }

    /// Subscribes at the server. Returns `None` if the resource does not exist or the server
    /// rejects the subscription.
    pub(super) async fn subscribe(
        mut self,
        gateway: &Gateway,
        principal: &Principal,
        caller: &Caller,
    ) -> Option<Self> {
        if let Some(read) = self.read.take() {
            let read = tokio::time::timeout(READ_TIMEOUT, check_readable(gateway, read));
            read.await.ok()?.ok()?;
        }
        // Bounds the subscribe requests of a principal in flight, including those of disconnected
        // clients, however often the client reconnects.
        let share = gateway.subscribing.take(principal, MAX_SUBSCRIBING)?;
        let (sender, receiver) = oneshot::channel();
        let server = Arc::clone(&self.server);
        let own = self.own.clone();
        let caller = caller.clone();
        let principal = principal.clone();
        // In a separate task: if the client disconnects first, a confirmed subscription must still
        // be cancelled.
        spawn(async move {
            let _share = share;
            if let Ok(given) = server.subscribe(&own, &caller, identity_of(&principal)).await {
                let _ = sender.send(HeldSubscription { server, own, given });
            }
        });
        self.held = Some(receiver.await.ok()?);
        Some(self)
    }

    /// Returns whether the subscription is on this connection.
    pub(super) fn stands_on(&self, on: Subscription) -> bool {
        matches!(&self.held, Some(held) if held.given == on)
    }
}

impl Drop for HeldSubscription {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let server = Arc::clone(&self.server);
        let own = std::mem::take(&mut self.own);
        let given = self.given;
        runtime.spawn(async move { server.unsubscribe(&own, given).await });
    }
}
