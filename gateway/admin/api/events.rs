//! Changes as server-sent events, for each caller those of the servers that it may see. A reader
//! that is too slow, or was away too long, is notified of lost events. A stream counts against its
//! caller's limit and ends with its credential, or with the gateway.

use std::collections::HashSet;
use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use lockgate_accounts::Holder;
use lockgate_proxy::quota::name_stream_limit;
use lockgate_proxy::{EndedCall, OpenStream, ToolChange};
use lockgate_upstream::ServerId;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep_until};

use super::access::{Permission, check_permission};
use super::connections::{describe_connection, holder_of};
use super::journal::News;
use super::operation::*;
use super::servers::visible_servers;
use crate::read_header;

/// Interval of comments on a silent stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Interval of checks whether the credential is still valid.
const CREDENTIAL_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Delay between a decision and its event, so that the audit trail has the record by then.
const SETTLE_DELAY: Duration = Duration::from_millis(200);
/// Minimum interval of events about decisions.
const MIN_DECISION_INTERVAL: Duration = Duration::from_secs(1);
/// The position of a reader with an unknown last event.
const UNKNOWN_POSITION: u64 = u64::MAX;

/// A reader of changes.
pub(crate) struct Follower {
    state: Arc<ApiState>,
    caller: Caller,
    /// The number of the next event.
    position: u64,
    newest: watch::Receiver<u64>,
    /// Calls of the organisation. They are not stored for readers that reconnect.
    calls: broadcast::Receiver<Arc<EndedCall>>,
    /// For readers that have subscribed to decisions.
    decisions: Option<Decisions>,
    /// Calls that wait for the caller's approval.
    waiting: Vec<String>,
    /// Changes of the calls that wait for any approver.
    approvals: watch::Receiver<()>,
    /// Servers that the caller has seen. The end of others is reported to their administrators
    /// only.
    known: HashSet<ServerId>,
    next_look: Instant,
    _place: OpenStream,
}

/// The state of a subscription to decisions.
struct Decisions {
    news: watch::Receiver<u64>,
    /// The time of the next event, if there were decisions.
    due: Option<Instant>,
    told: Option<Instant>,
}

types! {
filter pub(crate) struct EventsQuery {
    /// For administrators: include `decided`.
    decisions: Option<bool>,
    /// The `position` of `GET /me`: events since then are sent first. Without effect on a reader
    /// that sends `Last-Event-ID`, except for `approvals`.
    position: Option<String> max 64,
}
}

/// A position in the events of a caller, as `GET /me` returns it.
#[derive(Clone, Debug)]
pub(crate) struct Position {
    /// The id of the newest event.
    event: String,
    /// The mark of the calls that wait for the caller's approval.
    approvals: String,
    /// The count of decisions, if it was requested.
    decisions: Option<u64>,
}

impl Position {
    /// Returns the current position. With `decisions`, waits until the audit trail has the records
    /// of the decisions before it.
    pub(crate) async fn now(Context { state, caller, .. }: &Context, decisions: bool) -> Self {
        state.journal.follow(&state.gateway, &state.operations.accounts());
        let mut count = None;
        if decisions {
            let found = state.gateway.activity.position(decisions_scope(caller));
            let told = found.told.is_some_and(|told| told.elapsed() < SETTLE_DELAY);
            if found.is_new || told {
                tokio::time::sleep(SETTLE_DELAY).await;
            }
            count = Some(found.count);
        }
        Self {
            event: state.journal.newest_id(caller.organisation()),
            approvals: state.journal.mark_of(&list_waiting(state, caller)),
            decisions: count,
        }
    }

    /// Parses a position; unknown parts count as changed.
    fn parse(text: &str) -> Self {
        let mut parts = text.split('-');
        let event = parts.next().unwrap_or("").to_owned();
        let approvals = parts.next().unwrap_or("").to_owned();
        let decisions = u64::from_str_radix(parts.next().unwrap_or(""), 16).ok();
        Self { event, approvals, decisions }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.event, self.approvals)?;
        match self.decisions {
            Some(count) => write!(f, "-{count:x}"),
            None => Ok(()),
        }
    }
}

/// Returns the organisation of the decisions that an administrator follows; `None` for all.
fn decisions_scope(caller: &Caller) -> Option<&str> {
    match caller.role {
        Role::Operator => None,
        Role::Admin | Role::User => Some(caller.organisation()),
    }
}

/// An event for a reader.
pub(crate) enum ReaderEvent {
    /// An event with its kind and data. The id of an event that is not recorded is that of the
    /// previous event. After `missed`, for lost events, the reader continues after the id.
    Told { id: String, kind: &'static str, data: Option<Value> },
    /// The credential is no longer valid.
    Revoked,
    /// The gateway shuts down.
    Stopping,
}

impl ReaderEvent {
    fn missed(id: String) -> Self {
        Self::Told { id, kind: "missed", data: None }
    }
}

pub(crate) async fn follow_events(
    by: By<User>,
    headers: HeaderMap,
    Query(query): Query<EventsQuery>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    let Context { state, caller, .. } = by.0;
    let wants_decisions = query.decisions.unwrap_or(false);
    if wants_decisions {
        check_permission(Permission::AtLeast(Role::Admin), Some(&caller))?;
    }
    let known = query.position.as_deref().map(Position::parse);
    let returned = read_header(&headers, "last-event-id");
    let last = returned.or(known.as_ref().map(|known| known.event.as_str()));
    let mut follower = Follower::new(state, caller, last)?;
    if wants_decisions {
        let counted = known.as_ref().and_then(|known| known.decisions);
        follower.listen_to_decisions(counted.filter(|_| returned.is_none()));
    }
    if let Some(known) = known
        && known.approvals != follower.state.journal.mark_of(&follower.waiting)
    {
        follower.waiting = vec![String::new()];
        follower.approvals.mark_changed();
    }
    let stream = unfold(follower, |mut follower| async move {
        let ReaderEvent::Told { id, kind, data } = follower.next().await else { return None };
        let mut event = Event::default().event(kind).id(id);
        if let Some(data) = data {
            event = event.data(data.to_string());
        }
        Some((Ok(event), follower))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

impl Follower {
    /// Creates a reader from now on, or from after the event with this id. Fails if the caller or
    /// its organisation has reached its limit of streams.
    pub(crate) fn new(state: Arc<ApiState>, caller: Caller, last: Option<&str>) -> Result<Self> {
        let place = state.gateway.stream(&caller.principal).map_err(|too_many| {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            Problem::new(status, "OVERLOADED", name_stream_limit(too_many).0)
        })?;
        state.journal.follow(&state.gateway, &state.operations.accounts());
        let newest = state.journal.subscribe();
        let organisation = caller.organisation();
        let position = match last {
            None => *newest.borrow(),
            // An unknown id is treated as a loss of events.
            Some(id) => state.journal.find_next(organisation, id).unwrap_or(UNKNOWN_POSITION),
        };
        let visible = visible_servers(&state, &caller);
        Ok(Self {
            position,
            newest,
            calls: state.gateway.directory.tools.calls(organisation),
            decisions: None,
            approvals: state.gateway.approvals.waiting.changes(),
            waiting: list_waiting(&state, &caller),
            known: visible.iter().map(|server| ServerId::of(&**server)).collect(),
            next_look: Instant::now() + CREDENTIAL_CHECK_INTERVAL,
            state,
            caller,
            _place: place,
        })
    }

    /// Subscribes an administrator to decisions. If there were some since `counted`, an event is
    /// due.
    fn listen_to_decisions(&mut self, counted: Option<u64>) {
        let mut news = self.state.gateway.activity.listen(decisions_scope(&self.caller));
        if counted.is_some_and(|counted| counted != *news.borrow()) {
            news.mark_changed();
        }
        self.decisions = Some(Decisions { news, due: None, told: None });
    }

    /// Waits for the next event of this caller.
    pub(crate) async fn next(&mut self) -> ReaderEvent {
        let gateway = Arc::clone(&self.state.gateway);
        let mut stopping = std::pin::pin!(gateway.stopping.cancelled());
        loop {
            if !gateway.is_current(&self.caller.principal) {
                return ReaderEvent::Revoked;
            }
            self.lower_role();
            if let Some(told) = self.read() {
                return told;
            }
            tokio::select! {
                () = &mut stopping => return ReaderEvent::Stopping,
                () = sleep_until(self.next_look) => {
                    self.next_look = Instant::now() + CREDENTIAL_CHECK_INTERVAL;
                }
                () = hear(&mut self.decisions) => {
                    return self.tell_now("decided", json!({}));
                }
                Ok(()) = self.approvals.changed() => {
                    if let Some(told) = self.tell_approvals() {
                        return told;
                    }
                }
                changed = self.newest.changed() => if changed.is_err() {
                    return ReaderEvent::Stopping;
                },
                heard = self.calls.recv() => match heard {
                    Ok(call) => if let Some(told) = self.tell_call(&call) {
                        return told;
                    },
                    Err(RecvError::Lagged(_)) => return ReaderEvent::missed(self.last_id()),
                    Err(RecvError::Closed) => return ReaderEvent::Stopping,
                },
            }
        }
    }

    /// Returns an event if the calls that wait for this caller have changed.
    fn tell_approvals(&mut self) -> Option<ReaderEvent> {
        let waiting = list_waiting(&self.state, &self.caller);
        if waiting == self.waiting {
            return None;
        }
        self.waiting = waiting;
        Some(self.tell_now("approvals", json!({"count": self.waiting.len()})))
    }

    /// Returns the event of a call, if it is the caller's own or of the organisation that it
    /// administers.
    fn tell_call(&self, call: &EndedCall) -> Option<ReaderEvent> {
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
        Some(self.tell_now("executed", call))
    }

    /// Returns an event that is not recorded.
    fn tell_now(&self, kind: &'static str, data: Value) -> ReaderEvent {
        ReaderEvent::Told { id: self.last_id(), kind, data: Some(data) }
    }

    /// Returns the id of the event before the next one.
    fn last_id(&self) -> String {
        self.state.journal.id_of(self.position.wrapping_sub(1))
    }

    /// Lowers the role after a change of the configuration, and with it the subscription to
    /// decisions.
    fn lower_role(&mut self) {
        let holders = &self.state.operations.settings().role_holders;
        let role = self.caller.role.min(holders.role_of(&self.caller.principal));
        if role < self.caller.role && self.decisions.is_some() {
            // Of the organisation instead of all.
            self.decisions = None;
            self.caller.role = role;
            if role >= Role::Admin {
                self.listen_to_decisions(None);
            }
        }
        self.caller.role = role;
    }

    /// Returns whether an account is the caller's own, or in the organisation that it administers.
    fn is_told_of(&self, holder: &Holder) -> bool {
        self.caller.role >= Role::Admin
            || holder_of(&self.caller.principal).as_ref() == Some(holder)
    }

    /// Returns whether the caller sees a server under any policy.
    fn administers(&self, server: &ServerId) -> bool {
        match &server.organisation {
            None => self.caller.role == Role::Operator,
            Some(own) => self.caller.role >= Role::Admin && **own == *self.caller.organisation(),
        }
    }

    /// Returns the next recorded event that concerns this caller.
    fn read(&mut self) -> Option<ReaderEvent> {
        let journal = Arc::clone(&self.state.journal);
        if self.position == UNKNOWN_POSITION {
            self.position = *self.newest.borrow();
            return Some(ReaderEvent::missed(self.last_id()));
        }
        loop {
            let recorded = match journal.read(self.caller.organisation(), self.position) {
                Ok(recorded) => recorded?,
                Err(first) => {
                    self.position = first;
                    return Some(ReaderEvent::missed(self.last_id()));
                }
            };
            self.position = recorded.number + 1;
            let id = journal.id_of(recorded.number);
            let (kind, data) = match &recorded.news {
                News::Tool(change) => {
                    if !self.state.gateway.sees_tool(&self.caller.principal, &change.tool) {
                        continue;
                    }
                    tell_tool(change)
                }
                News::Missed => return Some(ReaderEvent::missed(id)),
                News::Account(connection) => {
                    if !self.is_told_of(&connection.holder) {
                        continue;
                    }
                    ("connection", describe_connection(connection))
                }
                News::Server(named, server) => {
                    let mut visible = visible_servers(&self.state, &self.caller).into_iter();
                    if visible.any(|one| named.names(&*one)) {
                        self.known.insert(named.clone());
                    } else {
                        // The server was removed, or is hidden by now.
                        let is_known = self.known.remove(named) || self.administers(named);
                        if !is_known || server["state"] != "disabled" {
                            continue;
                        }
                    }
                    ("server", server.clone())
                }
            };
            return Some(ReaderEvent::Told { id, kind, data: Some(data) });
        }
    }
}

/// Waits until an event about decisions is due; forever without a subscription.
async fn hear(decisions: &mut Option<Decisions>) {
    let Some(decisions) = decisions else { return std::future::pending().await };
    let due = match decisions.due {
        Some(due) => due,
        None => {
            if decisions.news.changed().await.is_err() {
                return std::future::pending().await;
            }
            let settled = Instant::now() + SETTLE_DELAY;
            let due = match decisions.told {
                Some(told) => settled.max(told + MIN_DECISION_INTERVAL),
                None => settled,
            };
            *decisions.due.insert(due)
        }
    };
    sleep_until(due).await;
    decisions.due = None;
    decisions.told = Some(Instant::now());
}

/// Returns the ids of the calls that wait for a caller's approval.
fn list_waiting(state: &ApiState, caller: &Caller) -> Vec<String> {
    let gateway = &state.gateway;
    let calls = gateway.approvals.waiting.list(gateway.approver(&caller.principal));
    calls.iter().map(|(_, call)| call["id"].as_str().unwrap_or("").to_owned()).collect()
}

fn tell_tool(change: &ToolChange) -> (&'static str, Value) {
    let kind = if change.is_registered { "registered" } else { "unregistered" };
    let tool = json!({"name": &*change.tool.exposed, "server": &*change.tool.server.slug});
    (kind, tool)
}
