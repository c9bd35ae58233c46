//! The console for authenticated visitors: with the session of an API key or of an account at the
//! identity provider, or with the API's own authentication. A session ends with the validity of its
//! key. Other visitors get the sign-in form.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use lockgate_admin::console::{
    Arrival, Attempts, IsSecure, Offer, ProviderStep, Sessions, SignIn, Visitor, follow_provider,
    is_provider_step, is_public, is_sign_in, is_sign_out, read_sign_in, show_refusal,
    sign_in_redirect,
};
use lockgate_admin::{Applications, SessionRecord};
use lockgate_listener::Remote;

use crate::app::App;

/// Returns the guarded routes of `/console`. Its table of pages defines the permissions.
pub(super) fn guarded_console(app: &Arc<App>, applications: &Applications) -> Router {
    let state = (Arc::clone(app), applications.sessions(), applications.attempts());
    applications.console().layer(middleware::from_fn_with_state(state, admit))
}

async fn admit(
    State((app, sessions, attempts)): State<(Arc<App>, Arc<Sessions>, Arc<Attempts>)>,
    Extension(remote): Extension<Remote>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    if remote.lacks_encryption() {
        let words = "the console requires TLS: use https://\n";
        return (StatusCode::MISDIRECTED_REQUEST, words).into_response();
    }
    if remote.is_encrypted() {
        parts.extensions.insert(IsSecure);
    }
    if is_provider_step(&parts) {
        return sign_in_at_provider(&app, &sessions, &attempts, &parts).await;
    }
    parts.extensions.insert(Offer::new(&app.authenticator()));
    if is_sign_in(&parts) {
        return sign_in(&app, &sessions, &remote, (parts, body), next).await;
    }
    if is_public(parts.uri.path()) {
        return next.run(Request::from_parts(parts, Body::empty())).await;
    }
    let Some(visitor) = find_visitor(&app, &sessions, &remote, &mut parts.headers).await else {
        return sign_in_redirect(&parts);
    };
    let (body, held) = match remote.read_body(body, &visitor.principal).await {
        Ok(read) => read,
        Err(answer) => return answer.map(Body::from),
    };
    let leaver = is_sign_out(&parts).then(|| visitor.principal.clone());
    parts.extensions.insert(visitor.principal.clone());
    parts.extensions.insert(visitor);
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    drop(held);
    if let Some(leaver) = leaver
        && response.status().is_redirection()
        && let Some(record) = SessionRecord::reserve(&app.gateway)
    {
        record.signed_out(&leaver);
    }
    response
}

/// Returns the visitor of a request: from a session with a valid key, or from the connection and
/// headers.
pub(super) async fn find_visitor(
    app: &App,
    sessions: &Sessions,
    remote: &Remote,
    headers: &mut HeaderMap,
) -> Option<Visitor> {
    if let Some(mut visitor) = sessions.find(headers) {
        if let Some(principal) = app.authenticator().current_visitor(&visitor.principal) {
            visitor.principal = principal;
            remote.mark_authenticated();
            return Some(visitor);
        }
        sessions.end(&visitor);
    }
    let admitted = remote.admit(headers).await;
    admitted.ok().map(Visitor::of_connection)
}

/// Starts a session, or shows the form again with the reason.
async fn sign_in(
    app: &App,
    sessions: &Sessions,
    remote: &Remote,
    (mut parts, body): (Parts, Body),
    next: Next,
) -> Response {
    let words = match read_sign_in(&parts, body).await {
        Ok(form) => match begin(app, sessions, (remote, &parts.headers), form).await {
            Ok(response) => return response,
            Err(words) => words,
        },
        Err(words) => words,
    };
    show_refusal(&mut parts, words);
    next.run(Request::from_parts(parts, Body::empty())).await
}

/// Starts the session of a valid key.
pub(super) async fn begin(
    app: &App,
    sessions: &Sessions,
    (remote, sent): (&Remote, &HeaderMap),
    form: SignIn,
) -> Result<Response, String> {
    let refused = "This key is unknown, expired or revoked.";
    let Some(mut headers) = form.credential() else { return Err(refused.into()) };
    let Ok(principal) = remote.admit(&mut headers).await else {
        return Err(refused.into());
    };
    let Some(record) = SessionRecord::reserve(&app.gateway) else {
        return Err("The audit trail cannot record the sign-in. Retry later.".into());
    };
    let response = form.begin(sessions, principal.clone(), sent)?;
    record.signed_in(&principal);
    Ok(response)
}

/// Redirects to the identity provider, or starts the session of a visitor returning from it.
async fn sign_in_at_provider(
    app: &App,
    sessions: &Sessions,
    attempts: &Attempts,
    parts: &Parts,
) -> Response {
    let authenticator = app.authenticator();
    match follow_provider(attempts, &authenticator, parts).await {
        ProviderStep::On(response) => response,
        ProviderStep::Arrived(arrival) => begin_at_provider(app, sessions, &arrival, parts),
        ProviderStep::Refused(response, words) => {
            app.gateway.record_refused_sign_in(&words, parts.uri.path());
            response
        }
    }
}

fn begin_at_provider(app: &App, sessions: &Sessions, arrival: &Arrival, parts: &Parts) -> Response {
    let (words, record) = match SessionRecord::reserve(&app.gateway) {
        None => ("the audit trail cannot record the sign-in", None),
        some => ("random numbers are unavailable on this machine", some),
    };
    if let Some(record) = record
        && let Some(response) = arrival.begin(sessions, &parts.headers)
    {
        record.signed_in(&arrival.principal);
        return response;
    }
    app.gateway.record_refused_sign_in(words, parts.uri.path());
    arrival.refuse()
}
