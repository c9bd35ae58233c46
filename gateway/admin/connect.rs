//! The pages on which users connect their accounts at servers: consent, the way to the
//! authorization server, and the way back. The composition root identifies the visitor, and an
//! account is connected for that principal alone. No page has scripts or shows a token, a code or
//! a text of the authorization server besides its issuer and error code.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use lockgate_accounts::{AccountError, Accounts, CallbackQuery, Consent, Holder};
use lockgate_authn::{Identity, Principal};
use lockgate_proxy::Gateway;
use lockgate_telemetry::audit::{Change, ChangePlace};
use serde_json::json;

use crate::api::connections::holder_of;
use crate::console::Sessions;
use crate::console::form::{Fields, is_form, is_of_own_page};
use crate::console::redirect::{redirect, set_cookie};
use crate::console::sessions::{Visitor, cookies};

/// Maximum size of the consent form, in bytes.
const MAX_FORM: usize = 8 * 1024;
/// Lifetime of the cookie that identifies the browser of an attempt, in seconds.
const COOKIE_LIFETIME: u64 = 600;

/// The state of the pages.
pub struct ConnectPages {
    pub accounts: Arc<Accounts>,
    pub sessions: Arc<Sessions>,
    pub gateway: Arc<Gateway>,
}

/// Creates the routes below the public address, for requests with their visitor as an extension.
pub fn connect_router(pages: ConnectPages) -> Router {
    let [callback, document] = Accounts::paths();
    Router::new()
        .route("/connect/{server}", get(show).post(start))
        // Answered by the composition root, which starts the session.
        .route("/connect/{server}/sign-in", post(refuse_sign_in))
        .route(&format!("/{callback}"), get(finish))
        .route(&format!("/{document}"), get(describe_client))
        .with_state(Arc::new(pages))
}

/// Returns whether a path of these pages needs no visitor.
pub fn is_open_page(path: &str) -> bool {
    Accounts::paths().iter().any(|open| path.ends_with(open))
}

/// Returns the form for visitors that have not signed in, with the reason of a refusal.
pub fn ask_for_key(server: &str, uri: &Uri, mistake: &str) -> Response {
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let action = format!("{server}/sign-in{query}");
    Page::new("Sign in to connect your account").sign_in(&action, mistake).show()
}

async fn show(
    State(pages): State<Arc<ConnectPages>>,
    Path(server): Path<String>,
    RawQuery(query): RawQuery,
    uri: Uri,
    request: Request,
) -> PageResult {
    let Some(visitor) = request.extensions().get::<Visitor>() else {
        return Ok(ask_for_key(&server, &uri, ""));
    };
    let holder = check_visitor(&pages, visitor, &server, query.as_deref())?;
    let consent = pages.accounts.describe(&server, &holder).await;
    let consent = consent.map_err(|error| refuse(&server, &error))?;
    let token = pages.sessions.form_token(visitor);
    let page = Page::new(format!("Connect your account at {server}"));
    Ok(page.consent(&visitor.principal, &consent, &token).show())
}

async fn refuse_sign_in(Path(server): Path<String>, uri: Uri) -> Response {
    ask_for_key(&server, &uri, "Signing in is not possible here.")
}

/// Returns the holder for a visitor, if a link in the request was made for the same holder.
fn check_visitor(
    pages: &ConnectPages,
    visitor: &Visitor,
    server: &str,
    query: Option<&str>,
) -> Result<Holder, Box<Page>> {
    let Some(holder) = holder_of(&visitor.principal) else {
        let words = "Callers without credentials share an identity, so they cannot have accounts.";
        return Err(fail(StatusCode::FORBIDDEN, "Sign in first", words));
    };
    let query = Fields::parse(query.unwrap_or_default().as_bytes());
    let link = query.get("link");
    if link.is_empty() {
        return Ok(holder);
    }
    match pages.accounts.is_link_of(server, link, &holder) {
        Some(true) => Ok(holder),
        Some(false) => {
            let words = "a link to connect an account was opened by another caller";
            pages.gateway.record_refused_sign_in(words, &format!("/connect/{server}"));
            let words = "It was made for another caller. Nothing was connected. Call a tool of the \
                server yourself to get a link of your own.";
            Err(fail(StatusCode::FORBIDDEN, "This link is not yours", words))
        }
        None => {
            let words = "Call a tool of the server again to get another link.";
            Err(fail(StatusCode::GONE, "This link has expired", words))
        }
    }
}

fn fail(status: StatusCode, title: &str, words: &str) -> Box<Page> {
    Box::new(Page::new(title).status(status).line(words))
}

/// Redirects to the authorization server.
async fn start(
    State(pages): State<Arc<ConnectPages>>,
    Path(server): Path<String>,
    RawQuery(query): RawQuery,
    uri: Uri,
    request: Request,
) -> PageResult {
    let (parts, body) = request.into_parts();
    let Some(visitor) = parts.extensions.get::<Visitor>() else {
        return Ok(ask_for_key(&server, &uri, ""));
    };
    let text = to_bytes(body, MAX_FORM).await.unwrap_or(Bytes::new());
    let form = Fields::parse(&text);
    let is_own = is_of_own_page(&parts.uri, &parts.headers) && is_form(&parts.headers);
    if !is_own || !pages.sessions.is_form_token(visitor, form.get("token")) {
        let words = "Another site or an earlier session sent this form. Nothing was connected. \
            Reload the page and try again.";
        return Err(fail(StatusCode::FORBIDDEN, "The form was refused", words));
    }
    let holder = check_visitor(&pages, visitor, &server, query.as_deref())?;
    let place = pages.gateway.reserve_change().map_err(|_| {
        let words = "The audit trail cannot record it. Try again later.";
        fail(StatusCode::SERVICE_UNAVAILABLE, "Connecting is not possible now", words)
    })?;
    let key = form.get("server_key");
    if !key.is_empty() {
        let entered = pages.accounts.enter_key(&server, &holder, key, form.get("resource")).await;
        return record_connected(place, entered.map(|()| "connect account"), &holder, &server);
    }
    let started = pages.accounts.start(&server, &holder).await;
    let started = started.map_err(|error| refuse(&server, &error))?;
    record(place, "start connecting account", &holder, &server, None);
    let mut response = redirect(started.url.as_str());
    let (name, value) = started.cookie;
    set_cookie(&mut response, &name, &value, COOKIE_LIFETIME);
    protect(&mut response, None);
    Ok(response)
}

/// Completes an authorization. The page is the same for every server.
async fn finish(
    State(pages): State<Arc<ConnectPages>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> PageResult {
    let query = Fields::parse(query.unwrap_or_default().as_bytes());
    let answer = CallbackQuery {
        state: query.get_exact("state"),
        code: given(&query, "code"),
        iss: given(&query, "iss"),
        error: given(&query, "error"),
    };
    let name = pages.accounts.cookie_name(answer.state).unwrap_or_default();
    let cookie = cookies(&headers).find(|(key, _)| *key == name).map(|(_, value)| value);
    let place = pages.gateway.reserve_change().ok().flatten();
    let finished = pages.accounts.finish(answer, cookie, |holder| is_valid(&pages, holder)).await;
    let finished = finished.map_err(|error| refuse("", &error))?;
    let (server, holder, result) = finished.ok_or_else(|| {
        let words = "a response of an authorization server belongs to no attempt of this browser";
        pages.gateway.record_refused_sign_in(words, "/oauth/callback");
        let words = "It was already used, it is too old, or it was started in another browser. \
            Nothing was connected. Start again from the link.";
        fail(StatusCode::BAD_REQUEST, "This response is not expected", words)
    })?;
    let action = result.map(
        |is_raised| {
            if is_raised { "raise scopes of account" } else { "connect account" }
        },
    );
    let mut response = record_connected(place, action, &holder, &server).into_response();
    set_cookie(&mut response, &name, "", 0);
    Ok(response)
}

/// Returns whether the credential with which an attempt was started is valid, as far as known.
fn is_valid(pages: &ConnectPages, holder: &Holder) -> bool {
    let identity = Identity::new(&holder.issuer, &holder.subject);
    let principal = Principal::new(identity.in_organisation(Some(&holder.organisation)));
    pages.gateway.is_current(&principal)
}

fn given<'a>(query: &'a Fields, name: &str) -> Option<&'a str> {
    query.all(name).next()
}

/// Records the action that connected an account, or the failure, and returns the page about it.
fn record_connected(
    place: Option<ChangePlace>,
    action: Result<&'static str, AccountError>,
    holder: &Holder,
    server: &str,
) -> PageResult {
    match action {
        Ok(action) => {
            record(place, action, holder, server, None);
            let words = "You can close this page and repeat the call.";
            Ok(Page::new("Your account is connected").line(words).show())
        }
        Err(error) => {
            record(place, "fail to connect account", holder, server, Some(&error));
            Err(refuse(server, &error))
        }
    }
}

/// Returns the page for a failure on the way.
fn refuse(server: &str, error: &AccountError) -> Box<Page> {
    tracing::warn!(server, "an account could not be connected: {error}");
    let status = match error {
        AccountError::Unreachable(_) => StatusCode::BAD_GATEWAY,
        AccountError::Internal(_) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    };
    let page = Page::new("Your account was not connected").status(status);
    Box::new(page.line(format!("{error}.")).line("Nothing was stored."))
}

fn record(
    place: Option<ChangePlace>,
    action: &'static str,
    holder: &Holder,
    server: &str,
    failure: Option<&AccountError>,
) {
    let failure = failure.map(ToString::to_string);
    let after = json!({"server": server, "failure": failure}).to_string();
    let who = format!("{}|{}", holder.issuer, holder.subject);
    tracing::info!(target: "audit", action, who, server, "changed");
    if let Some(place) = place {
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

/// Returns the Client ID Metadata Document, for authorization servers.
async fn describe_client(State(pages): State<Arc<ConnectPages>>) -> Response {
    match pages.accounts.client_document() {
        Some(document) => {
            let head = [(CACHE_CONTROL, "max-age=3600")];
            (head, axum::Json(document)).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

// A small page without scripts, which no other page may frame and no cache may keep.

/// The policy of a page; a form may also lead to the given origin.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
    frame-ancestors 'none'; form-action 'self'";

/// A response, or the page of a refusal.
type PageResult = Result<Response, Box<Page>>;

#[derive(Default, Template)]
#[template(path = "connect.html")]
struct Page {
    title: String,
    lines: Vec<String>,
    status: StatusCode,
    /// Names and values of the consent.
    facts: Vec<(&'static str, String)>,
    /// The token of the consent form; empty without a form.
    token: String,
    /// Whether the consent form has a field for the user's key at the server.
    takes_key: bool,
    /// The address of the server that the form shows.
    resource: String,
    /// The address of the sign-in form; empty without a form.
    sign_in: String,
    mistake: String,
    /// The origin of the authorization server.
    leads_to: Option<String>,
}

impl Page {
    fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    fn line(mut self, words: impl Into<String>) -> Self {
        self.lines.push(words.into());
        self
    }

    /// Adds the form for an API key.
    fn sign_in(mut self, action: &str, mistake: &str) -> Self {
        action.clone_into(&mut self.sign_in);
        mistake.clone_into(&mut self.mistake);
        self.status(StatusCode::UNAUTHORIZED)
    }

    /// Adds the consent and its form.
    fn consent(mut self, caller: &Principal, consent: &Consent, token: &str) -> Self {
        let scopes = match &consent.scopes[..] {
            [] => "those that the server chooses".to_owned(),
            scopes => scopes.join(", "),
        };
        let signed_in = caller.key_name.as_ref().unwrap_or(&caller.subject).to_string();
        self.facts = vec![("Address of the server", consent.resource.clone())];
        if let Some(issuer) = &consent.issuer {
            self.facts.push(("You sign in at", issuer.clone()));
            self.facts.push(("Permissions", scopes));
        }
        self.facts.push(("You are", signed_in));
        self.takes_key = consent.issuer.is_none();
        self.resource.clone_from(&consent.resource);
        if let Some(agent) = &caller.agent {
            self.facts.push(("For the client", agent.to_string()));
        }
        self.leads_to.clone_from(&consent.authorization_origin);
        token.clone_into(&mut self.token);
        self.line("Calls that you make through this gateway will use your account at the server.")
    }

    fn show(&self) -> Response {
        let Ok(text) = self.render() else {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        };
        let head = [(CONTENT_TYPE, "text/html; charset=utf-8")];
        let mut response = (self.status, head, text).into_response();
        protect(&mut response, self.leads_to.as_deref());
        if !self.token.is_empty() || !self.sign_in.is_empty() {
            // With `no-referrer`, browsers send forms without their origin.
            let policy = HeaderValue::from_static("same-origin");
            response.headers_mut().insert(REFERRER_POLICY, policy);
        }
        response
    }
}

impl IntoResponse for Box<Page> {
    fn into_response(self) -> Response {
        self.show()
    }
}

/// Sets the headers that protect a page, or a redirect, with codes or links in its address.
fn protect(response: &mut Response, leads_to: Option<&str>) {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let policy = format!("{POLICY} {}", leads_to.unwrap_or_default());
    let policy = HeaderValue::from_str(policy.trim_end());
    headers.insert(CONTENT_SECURITY_POLICY, policy.unwrap_or(HeaderValue::from_static(POLICY)));
}
