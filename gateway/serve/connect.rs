//! The pages on which users connect accounts, for visitors that are identified as the console's
//! are: by a session, by the connection, or by an API key that they enter.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use lockgate_accounts::{AccountEvent, AccountObserver, Holder};
use lockgate_admin::console::{Sessions, read_sign_in};
use lockgate_admin::{Applications, ConnectPages, ask_for_key, connect_router, is_open_page};
use lockgate_listener::Remote;
use lockgate_telemetry::audit::Change;
use serde_json::json;

use super::console::{begin, find_visitor};
use crate::app::App;
use crate::user_clients::UserClients;

impl AccountObserver for App {
    fn connected(&self, server: &str, holder: &Holder) {
        if let Some(users) = self.users_of(server, holder) {
            users.connected(holder);
        }
    }

    fn ended(&self, server: &str, holder: &Holder) {
        if let Some(users) = self.users_of(server, holder) {
            users.end(holder);
        }
    }

    /// Records an event on behalf of the account's holder. A full trail loses it, because a refresh
    /// does not wait.
    fn record(&self, event: &AccountEvent<'_>) {
        let AccountEvent { action, server, holder, scopes, failure } = event;
        let failure = failure.map(ToString::to_string);
        let after = json!({"server": server, "scopes": scopes, "failure": failure}).to_string();
        if let Ok(Some(place)) = self.gateway.reserve_change() {
            place.record(&Change {
                action,
                issuer: &holder.issuer,
                subject: &holder.subject,
                key: None,
                organisation: Some(&holder.organisation),
                before: None,
                after: Some(&after),
            });
        }
    }

    fn unopened(&self, words: &str) {
        self.gateway.record_unopened(words);
    }
}

impl App {
    /// Returns the clients of a server of the configuration, or else of the holder's organisation.
    fn users_of(&self, server: &str, holder: &Holder) -> Option<Arc<UserClients>> {
        let shared = self.clients.lock().get(server).and_then(|known| known.clients.users.clone());
        if shared.is_some() {
            return shared;
        }
        self.tenants.as_ref()?.users(&holder.organisation, server)
    }
}

/// Returns the guarded routes, also below the path of the public address.
pub(super) fn guarded_pages(app: &Arc<App>, applications: &Applications) -> Router {
    let sessions = applications.sessions();
    let state = (Arc::clone(app), Arc::clone(&sessions));
    let router = connect_router(ConnectPages {
        accounts: Arc::clone(&app.accounts),
        sessions,
        gateway: Arc::clone(&app.gateway),
    });
    router.layer(middleware::from_fn_with_state(state, admit))
}

async fn admit(
    State((app, sessions)): State<(Arc<App>, Arc<Sessions>)>,
    Extension(remote): Extension<Remote>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    if remote.lacks_encryption() {
        let words = "accounts are connected over TLS: use https://\n";
        return (StatusCode::MISDIRECTED_REQUEST, words).into_response();
    }
    if is_open_page(parts.uri.path()) {
        return next.run(Request::from_parts(parts, Body::empty())).await;
    }
    if let Some(server) = find_sign_in(&parts) {
        return sign_in(&app, &sessions, &remote, (&parts, body), &server).await;
    }
    let Some(visitor) = find_visitor(&app, &sessions, &remote, &mut parts.headers).await else {
        return next.run(Request::from_parts(parts, Body::empty())).await;
    };
    let (body, held) = match remote.read_body(body, &visitor.principal).await {
        Ok(read) => read,
        Err(answer) => return answer.map(Body::from),
    };
    parts.extensions.insert(visitor);
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    drop(held);
    response
}

/// Returns the server of a submitted sign-in form.
fn find_sign_in(parts: &Parts) -> Option<String> {
    let path = parts.uri.path().strip_suffix("/sign-in")?;
    let (_, server) = path.rsplit_once("/connect/")?;
    (parts.method == Method::POST && !server.contains('/')).then(|| server.to_owned())
}

/// Starts a session, and returns to the page.
async fn sign_in(
    app: &App,
    sessions: &Sessions,
    remote: &Remote,
    (parts, body): (&Parts, Body),
    server: &str,
) -> Response {
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let begun = match read_sign_in(parts, body).await {
        Ok(form) => {
            let form = form.returning_to(format!("../{server}{query}"));
            begin(app, sessions, (remote, &parts.headers), form).await
        }
        Err(words) => Err(words),
    };
    begun.unwrap_or_else(|words| ask_for_key(server, &parts.uri, &words))
}
