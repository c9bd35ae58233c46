//! What changes, as server-sent events: each caller hears of the servers that it may see. A reader
//! that is too slow, or was away too long, is told that it has missed something. A stream takes one
//! of its caller's places, and ends with the credential that opened it, or with the gateway.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use lockgate_authn::Role;
use lockgate_proxy::{EndedCall, OpenStream, ToolChange};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep_until};

use super::access::Caller;
use super::journal::News;
use super::problem::Problem;
use super::servers::visible_servers;
use super::state::{ApiState, Shared};

/// Between two comments on a silent stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Between two looks whether the credential is still good.
const LOOK: Duration = Duration::from_millis(250);
/// The position of a reader whose last event is not known.
const UNKNOWN: u64 = u64::MAX;

/// One reader of what changes.
pub(crate) struct Follower {
    state: Arc<ApiState>,
    caller: Caller,
    /// The number of the event that comes next.
    position: u64,
    newest: watch::Receiver<u64>,
    /// Calls of its organisation, which are not kept for those who come back.
    calls: broadcast::Receiver<Arc<EndedCall>>,
    next_look: Instant,
    _place: OpenStream,
}

/// What a reader is told.
pub(crate) enum Told {
    /// A server has changed, by the id of the event.
    Server { id: String, server: Value },
    /// A tool came or went, by the id of the event.
    Tool { id: String, kind: &'static str, tool: Value },
    /// A call of a tool has ended; the id is that of the event before.
    Executed { id: String, call: Value },
    /// Events were lost: the reader goes on after this id.
    Missed { id: String },
    /// The credential is good no more.
    Revoked,
    /// The gateway goes away.
    Stopping,
}

/// Follows what changes: servers, their tools and calls.
///
/// Events are named `server` (the name and state of one that has changed), `registered` and
/// `unregistered` (the `name` of a tool that the caller may use now, or no more, and its `server`),
/// `executed` (a call that has ended, with its `outcome` and `durationMs`: one's own, and for
/// administrators those of their organisation) and `missed` (events were lost: ask again for what
/// you show). A reader that sends the id of its last event as `Last-Event-ID` goes on after that,
/// but for `executed`, which is told as it happens or not at all.
#[utoipa::path(
    get,
    path = "/events",
    tag = "events",
    responses((status = 200, content_type = "text/event-stream", body = String))
)]
pub(crate) async fn follow_events(
    State(state): Shared,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let follower = Follower::new(state, caller, last)?;
    let stream = unfold(follower, |mut follower| async move {
        let event = match follower.next().await {
            Told::Server { id, server } => {
                Event::default().event("server").id(id).data(server.to_string())
            }
            Told::Tool { id, kind, tool } => {
                Event::default().event(kind).id(id).data(tool.to_string())
            }
            Told::Executed { id, call } => {
                Event::default().event("executed").id(id).data(call.to_string())
            }
            Told::Missed { id } => Event::default().event("missed").id(id),
            Told::Revoked | Told::Stopping => return None,
        };
        Some((Ok(event), follower))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

impl Follower {
    /// From now on, or after the event of this id.
    ///
    /// # Errors
    /// The caller has as many streams as one may have, or its organisation.
    pub(crate) fn new(
        state: Arc<ApiState>,
        caller: Caller,
        last: Option<&str>,
    ) -> Result<Self, Problem> {
        let place = state.gateway.stream(&caller.principal).map_err(|too_many| {
            let detail = too_many.to_string();
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "OVERLOADED", detail)
        })?;
        state.journal.follow(&state.gateway);
        let newest = state.journal.subscribe();
        let now = *newest.borrow();
        let position = match last {
            None => now,
            // Of an id that is not known, everything is missed.
            Some(id) => {
                let organisation = caller.organisation();
                state.journal.find_next(organisation, id).unwrap_or(UNKNOWN)
            }
        };
        let next_look = Instant::now() + LOOK;
        let calls = state.gateway.ended_calls(caller.organisation());
        Ok(Self { state, caller, position, newest, calls, next_look, _place: place })
    }

    /// What this caller is told next.
    pub(crate) async fn next(&mut self) -> Told {
        let gateway = Arc::clone(&self.state.gateway);
        let mut stopping = std::pin::pin!(gateway.stopping());
        loop {
            if !gateway.is_current(&self.caller.principal) {
                return Told::Revoked;
            }
            self.lower_role();
            if let Some(told) = self.read() {
                return told;
            }
            tokio::select! {
                () = &mut stopping => return Told::Stopping,
                () = sleep_until(self.next_look) => self.next_look = Instant::now() + LOOK,
                changed = self.newest.changed() => if changed.is_err() {
                    return Told::Stopping;
                },
                heard = self.calls.recv() => match heard {
                    Ok(call) => if let Some(told) = self.tell_call(&call) {
                        return told;
                    },
                    Err(RecvError::Lagged(_)) => return Told::Missed { id: self.last_id() },
                    Err(RecvError::Closed) => return Told::Stopping,
                },
            }
        }
    }

    /// One's own call, or one of the organisation that one administers.
    fn tell_call(&self, call: &EndedCall) -> Option<Told> {
        let is_own = call.caller == self.caller.principal.key();
        if !is_own && self.caller.role < Role::Admin {
            return None;
        }
        let call = json!({
            "name": &*call.tool,
            "server": &*call.server,
            "issuer": &*call.issuer,
            "subject": &*call.subject,
            "outcome": call.outcome.as_str(),
            "durationMs": call.duration.as_secs_f64() * 1e3,
        });
        Some(Told::Executed { id: self.last_id(), call })
    }

    /// Of the event before the one that comes next.
    fn last_id(&self) -> String {
        self.state.journal.id_of(self.position.wrapping_sub(1))
    }

    /// Whoever is taken a role from hears no more by it.
    fn lower_role(&mut self) {
        let holders = &self.state.operations.settings().role_holders;
        self.caller.role = self.caller.role.min(holders.role_of(&self.caller.principal));
    }

    /// The next of the recorded events that is of this caller's business.
    fn read(&mut self) -> Option<Told> {
        let journal = Arc::clone(&self.state.journal);
        if self.position == UNKNOWN {
            self.position = *self.newest.borrow();
            return Some(Told::Missed { id: journal.id_of(self.position.wrapping_sub(1)) });
        }
        loop {
            let recorded = match journal.read(self.caller.organisation(), self.position) {
                Ok(recorded) => recorded?,
                Err(first) => {
                    self.position = first;
                    return Some(Told::Missed { id: journal.id_of(first.wrapping_sub(1)) });
                }
            };
            self.position = recorded.number + 1;
            let id = journal.id_of(recorded.number);
            match &recorded.news {
                News::Tool(change) => {
                    if self.state.gateway.sees_tool(&self.caller.principal, &change.tool) {
                        return Some(tell_tool(id, change));
                    }
                }
                News::Missed => return Some(Told::Missed { id }),
                News::Server(named, server) => {
                    let mut visible = visible_servers(&self.state, &self.caller).into_iter();
                    if visible.any(|one| named.names(&*one)) {
                        return Some(Told::Server { id, server: server.clone() });
                    }
                }
            }
        }
    }
}

fn tell_tool(id: String, change: &ToolChange) -> Told {
    let kind = if change.is_registered { "registered" } else { "unregistered" };
    let tool = json!({"name": &*change.tool.exposed, "server": &*change.tool.server.slug});
    Told::Tool { id, kind, tool }
}
