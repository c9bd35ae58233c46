//! Live updates of open pages, from the events of the API. On an event, a page requests its own
//! content again. The stream ends with the visitor's session, with an event that reloads the page.

use std::future::ready;
use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream::{empty, once, select};

use crate::api::events;
use crate::api::problem::Problem;
use crate::api::query::query;
use crate::console::api::Api;
use crate::console::fields::{Fields, QueryFields};
use crate::console::layout::ConsoleState;
use crate::console::results::Kept;
use crate::console::sign_in::SIGNED_OUT;
use crate::console::visitor::Visitor;

/// Reloads the page of a running call.
const CALL_CHANGED: Bytes = Bytes::from_static(b"event: called\ndata: {}\n\n");

/// Streams the events that the visitor may receive, and with `call` changes of that call.
pub(crate) async fn follow_events(
    State(console): State<Arc<ConsoleState>>,
    Extension(visitor): Extension<Visitor>,
    api: Api,
    QueryFields(fields): QueryFields,
) -> Response {
    let owner = console.sessions.form_token(&visitor);
    let changes = match console.results.find(&owner, fields.get("call")) {
        Some(Kept::Call(call)) => call.changes().left_stream(),
        _ => empty().right_stream(),
    };
    let (head, events) = open_events(&api, &fields).await.into_response().into_parts();
    if head.status != StatusCode::OK {
        return Response::from_parts(head, events);
    }
    let sessions = Arc::clone(&console.sessions);
    let leaver = visitor.clone();
    let end = Box::pin(async move { sessions.wait_for_end(&leaver).await });
    let sessions = Arc::clone(&console.sessions);
    let last = once(async move { sessions.has_ended(&visitor).then_some(SIGNED_OUT) });
    let last = last.filter_map(|words| async move { words.map(|words| Ok(Bytes::from(words))) });
    // The stream ends with the events of the API.
    let events = events.into_data_stream().map(Some).chain(once(async { None }));
    let changes = changes.map(|()| Some(Ok(CALL_CHANGED)));
    let events = select(events, changes).take_while(|event| ready(event.is_some()));
    let events = events.filter_map(ready).take_until(end);
    Response::from_parts(head, Body::from_stream(events.chain(last)))
}

async fn open_events(api: &Api, fields: &Fields) -> Result<impl IntoResponse, Problem> {
    let names = ["decisions", "position"];
    let position = query(&names.map(|name| (name, fields.get(name))))?;
    events::follow_events(api.by()?, api.call_origin().headers, position).await
}
