//! What changes, as server-sent events: each caller hears of the servers that it may see. A reader
//! that is too slow is told that it has missed something. A stream takes one of its caller's
//! places, and ends with the credential that opened it, or with the gateway.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use lockgate_proxy::OpenStream;
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until};

use super::access::Caller;
use super::problem::Problem;
use super::servers::visible_servers;
use super::state::{ApiState, Shared};

/// Between two comments on a silent stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Between two looks whether the credential is still good.
const LOOK: Duration = Duration::from_secs(1);

struct Follower {
    state: Arc<ApiState>,
    caller: Caller,
    events: Receiver<lockgate_upstream::Event>,
    next_look: Instant,
    _place: OpenStream,
}

/// Follows what changes: servers and their lists.
///
/// Events are named `server` (the name and state of one that has changed) and `missed` (events were
/// lost: ask again for what you show).
#[utoipa::path(
    get,
    path = "/events",
    tag = "events",
    responses((status = 200, content_type = "text/event-stream", body = String))
)]
pub(crate) async fn follow_events(
    State(state): Shared,
    caller: Caller,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let Some(place) = state.gateway.stream(&caller.principal) else {
        let detail = "too many open streams of this caller (limits.streams_per_principal): close \
            one, or try again later";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "OVERLOADED", detail));
    };
    let events = state.gateway.events().subscribe();
    let next_look = Instant::now() + LOOK;
    let follower = Follower { state, caller, events, next_look, _place: place };
    let stream = unfold(follower, |mut follower| async move {
        let event = follower.next_event().await?;
        Some((Ok(event), follower))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

impl Follower {
    /// The next event for this caller; `None` when the stream ends.
    async fn next_event(&mut self) -> Option<Event> {
        let gateway = Arc::clone(&self.state.gateway);
        let mut stopping = std::pin::pin!(gateway.stopping());
        loop {
            tokio::select! {
                () = &mut stopping => return None,
                () = sleep_until(self.next_look) => {
                    self.next_look = Instant::now() + LOOK;
                    if !gateway.is_current(&self.caller.principal) {
                        return None;
                    }
                }
                event = self.events.recv() => match event {
                    Ok(event) => {
                        if let Some(event) = self.describe(&event) {
                            return Some(event);
                        }
                    }
                    Err(RecvError::Lagged(_)) => return Some(Event::default().event("missed")),
                    Err(RecvError::Closed) => return None,
                },
            }
        }
    }

    /// An event in words for this caller; `None` where it is none of its business.
    fn describe(&self, event: &lockgate_upstream::Event) -> Option<Event> {
        let slug = match event {
            lockgate_upstream::Event::Changed { slug } => slug,
            lockgate_upstream::Event::Announced(announcement) => &announcement.slug,
            _ => return None,
        };
        let mut servers = visible_servers(&self.state, &self.caller).into_iter();
        let server = servers.find(|server| server.slug() == &**slug)?;
        let status = server.status();
        let data = json!({
            "name": server.slug(),
            "state": status.state.as_str(),
            "reason": status.reason(),
            "since": status.since_text(),
        });
        Some(Event::default().event("server").data(data.to_string()))
    }
}
