//! What changes, as server-sent events: each caller hears of the servers that it may see. A reader
//! that is too slow, or was away too long, is told that it has missed something. A stream takes one
//! of its caller's places, and ends with the credential that opened it, or with the gateway.

use std::collections::HashSet;
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
use lockgate_upstream::ServerId;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep_until};

use super::access::{Caller, Permission, check_permission};
use super::journal::News;
use super::problem::Problem;
use super::query::{Query, flag};
use super::servers::visible_servers;
use super::state::{ApiState, Shared};
use crate::headers::read_header;

/// Between two comments on a silent stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Between two looks whether the credential is still good.
const LOOK: Duration = Duration::from_millis(250);
/// From a decision to the word of it, so that the audit trail has it by then.
const SETTLE: Duration = Duration::from_millis(200);
/// Between two words of decisions.
const PACE: Duration = Duration::from_secs(1);
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
    /// Of a reader that wants to hear of decisions.
    decisions: Option<Decisions>,
    /// The servers that the caller knows of: only this caller is told when one ends.
    known: HashSet<ServerId>,
    next_look: Instant,
    _place: OpenStream,
}

/// What a reader hears of decisions: that there were some.
struct Decisions {
    news: watch::Receiver<()>,
    /// When to tell of those that were made.
    due: Option<Instant>,
    told: Option<Instant>,
}

/// What a reader wants to hear besides.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// For administrators: `decided` as well.
    #[serde(default, deserialize_with = "flag")]
    decisions: Option<bool>,
}

/// What a reader is told.
pub(crate) enum Told {
    /// A server has changed, by the id of the event.
    Server { id: String, server: Value },
    /// A tool came or went, by the id of the event.
    Tool { id: String, kind: &'static str, tool: Value },
    /// A call of a tool has ended; the id is that of the event before.
    Executed { id: String, call: Value },
    /// Requests were decided on or have ended; the id is that of the event before.
    Decided { id: String },
    /// Events were lost: the reader goes on after this id.
    Missed { id: String },
    /// The credential is good no more.
    Revoked,
    /// The gateway goes away.
    Stopping,
}

/// Follows what changes: servers, their tools and calls.
///
/// Events are named `server` (the name, state and capabilities of one that has changed; `disabled`
/// is one that is switched off or removed), `registered` and
/// `unregistered` (the `name` of a tool that the caller may use now, or no more, and its `server`),
/// `executed` (a call that has ended, with its `outcome` and `durationMs`: one's own, and for
/// administrators those of their organisation) and `missed` (events were lost: ask again for what
/// you show). With `decisions=true` administrators hear `decided` besides: that requests of their
/// organisation, for operators of any, were decided on or have ended, about once a second at most;
/// `GET /audit` says which. A reader that sends the id of its last event as `Last-Event-ID` goes on
/// after that, but for `executed` and `decided`, which are told as it happens or not at all.
#[utoipa::path(
    get,
    path = "/events",
    tag = "events",
    params(EventsQuery),
    responses((status = 200, content_type = "text/event-stream", body = String))
)]
pub(crate) async fn follow_events(
    State(state): Shared,
    caller: Caller,
    headers: HeaderMap,
    Query(query): Query<EventsQuery>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let wants_decisions = query.decisions.unwrap_or(false);
    if wants_decisions {
        check_permission(Permission::AtLeast(Role::Admin), Some(&caller))?;
    }
    let last = read_header(&headers, "last-event-id");
    let mut follower = Follower::new(state, caller, last)?;
    if wants_decisions {
        follower.listen_to_decisions();
    }
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
            Told::Decided { id } => Event::default().event("decided").id(id).data("{}"),
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
        let place = match state.gateway.stream(&caller.principal) {
            Ok(place) => place,
            Err(too_many) => {
                let detail = too_many.to_string();
                return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "OVERLOADED", detail));
            }
        };
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
        let decisions = None;
        let mut known = HashSet::new();
        for server in visible_servers(&state, &caller) {
            known.insert(ServerId::of(&*server));
        }
        Ok(Self {
            state,
            caller,
            position,
            newest,
            calls,
            decisions,
            known,
            next_look,
            _place: place,
        })
    }

    /// Has an administrator hear of decisions too.
    fn listen_to_decisions(&mut self) {
        let own = match self.caller.role {
            Role::Operator => None,
            Role::Admin | Role::User => Some(self.caller.organisation()),
        };
        let news = self.state.gateway.activity(own);
        self.decisions = Some(Decisions { news, due: None, told: None });
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
                () = hear(&mut self.decisions) => return Told::Decided { id: self.last_id() },
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
        let role = self.caller.role.min(holders.role_of(&self.caller.principal));
        if role < self.caller.role && self.decisions.is_some() {
            // Those of an organisation, where it was all.
            self.decisions = None;
            self.caller.role = role;
            if role >= Role::Admin {
                self.listen_to_decisions();
            }
        }
        self.caller.role = role;
    }

    /// Returns whether the caller sees a server under any policy.
    fn administers(&self, server: &ServerId) -> bool {
        match &server.organisation {
            None => self.caller.role == Role::Operator,
            Some(own) => self.caller.role >= Role::Admin && **own == *self.caller.organisation(),
        }
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
                        self.known.insert(named.clone());
                        return Some(Told::Server { id, server: server.clone() });
                    }
                    // It is gone, or hidden by now.
                    let is_known = self.known.remove(named) || self.administers(named);
                    if is_known && server["state"] == "disabled" {
                        return Some(Told::Server { id, server: server.clone() });
                    }
                }
            }
        }
    }
}

/// Waits until there is something to tell of decisions; for ever where nobody wants to hear of
/// them.
async fn hear(decisions: &mut Option<Decisions>) {
    let Some(decisions) = decisions else { return std::future::pending().await };
    let due = match decisions.due {
        Some(due) => due,
        None => {
            if decisions.news.changed().await.is_err() {
                return std::future::pending().await;
            }
            let settled = Instant::now() + SETTLE;
            let due = match decisions.told {
                Some(told) => settled.max(told + PACE),
                None => settled,
            };
            *decisions.due.insert(due)
        }
    };
    sleep_until(due).await;
    decisions.due = None;
    decisions.told = Some(Instant::now());
}

fn tell_tool(id: String, change: &ToolChange) -> Told {
    let kind = if change.is_registered { "registered" } else { "unregistered" };
    let tool = json!({"name": &*change.tool.exposed, "server": &*change.tool.server.slug});
    Told::Tool { id, kind, tool }
}
