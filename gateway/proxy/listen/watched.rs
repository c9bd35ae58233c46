//! Resources that a listen follows: each decided on like a subscription of its own, and given back
//! to its server when the listen lets go of it.

use std::sync::Arc;
use std::time::Duration;

use lockgate_authn::Principal;
use lockgate_protocol::method::Method;
use lockgate_telemetry::Outcome;
use lockgate_upstream::{Caller, Subscription, Upstream};
use tokio::sync::oneshot;

use crate::authorize::authorize;
use crate::caller_view::about;
use crate::catalog::template::Steps;
use crate::context::RequestContext;
use crate::dispatch::{audit_allow, audit_denial};
use crate::gateway::{Gateway, MAX_SUBSCRIBING};
use crate::readable::{check_readable, hides_nothing, make_read};

/// How long a server may take to show that it has a resource.
const READ: Duration = Duration::from_secs(3);

/// A resource of a listen.
pub(super) struct Watched {
    pub(super) server: Arc<dyn Upstream>,
    pub(super) own: String,
    /// The URI that the client knows.
    pub(super) shown: String,
    /// The read that has to show that it is there, unless that is known.
    read: Option<Box<RequestContext>>,
    /// The server's own subscription, once it has confirmed that.
    held: Option<HeldSubscription>,
}

/// A subscription at a server, which is taken back at the end.
struct HeldSubscription {
    server: Arc<dyn Upstream>,
    own: String,
    given: Subscription,
}

impl Watched {
    /// One resource, decided on and recorded like a subscription of its own.
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
        // Each by itself is looked at within bounds; this bounds them together. What is beyond is
        // read.
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

    /// Subscribes; gives nothing when it is not there, or the server does not let it.
    pub(super) async fn subscribe(
        mut self,
        gateway: &Gateway,
        principal: &Principal,
        caller: &Caller,
    ) -> Option<Self> {
        if let Some(read) = self.read.take() {
            let read = tokio::time::timeout(READ, check_readable(gateway, read));
            read.await.ok()?.ok()?;
        }
        // Of those that a client left behind there are never more, however often it comes back.
        let share = gateway.subscribing.take(principal, MAX_SUBSCRIBING)?;
        let (sender, receiver) = oneshot::channel();
        let server = Arc::clone(&self.server);
        let own = self.own.clone();
        let caller = caller.clone();
        // Apart, because a server that is asked has to be told when the client has left meanwhile.
        tokio::spawn(async move {
            let _share = share;
            if let Ok(given) = server.subscribe(&own, &caller).await {
                let _ = sender.send(HeldSubscription { server, own, given });
            }
        });
        self.held = Some(receiver.await.ok()?);
        Some(self)
    }

    /// Whether it is what a server tells of on this connection.
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
