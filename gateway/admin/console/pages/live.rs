//! Live updates of open pages, from the events of the API. On an event, a page requests its own
//! content again. The stream ends with the visitor's session, with an event that reloads the page.

use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream::once;

use crate::console::api_client::{ApiClient, ApiPath};
use crate::console::error::PageError;
use crate::console::fields::QueryFields;
use crate::console::layout::ConsoleState;
use crate::console::sign_in::SIGNED_OUT;
use crate::console::visitor::Visitor;

/// Streams the events that the visitor may receive.
pub(crate) async fn follow_events(
    State(console): State<Arc<ConsoleState>>,
    Extension(visitor): Extension<Visitor>,
    api: ApiClient,
    QueryFields(fields): QueryFields,
) -> Response {
    let path = match ApiPath::new(&["api", "events"]) {
        Ok(path) => {
            path.with("decisions", fields.get("decisions")).with("position", fields.get("position"))
        }
        Err(error) => return PageError::from(error).into_response(),
    };
    let (head, events) = api.open(&path).await.into_parts();
    if head.status != StatusCode::OK {
        return Response::from_parts(head, events);
    }
    let sessions = Arc::clone(&console.sessions);
    let leaver = visitor.clone();
    let end = Box::pin(async move { sessions.wait_for_end(&leaver).await });
    let sessions = Arc::clone(&console.sessions);
    let last = once(async move { sessions.has_ended(&visitor).then_some(SIGNED_OUT) });
    let last = last.filter_map(|words| async move { words.map(|words| Ok(Bytes::from(words))) });
    let events = events.into_data_stream().take_until(end);
    Response::from_parts(head, Body::from_stream(events.chain(last)))
}
