//! The form to sign in; signing in with an API key, and out. The key is shown to the gateway once,
//! as a client of MCP shows it; the browser keeps a cookie that stands for a session, and never the
//! key.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::Extension;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, ORIGIN,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use lockgate_authn::{KEY, LOCAL, Principal};
use tokio::time::timeout;
use url::{Position, Url};

use super::error::{PageError, PageResult, render, show};
use super::fields::{Fields, QueryFields};
use super::form_guard::{is_form, is_of_own_page};
use super::layout::{ConsoleState, Layout};
use super::provider_words::{Offer, explain};
use super::redirect::{SIGN_IN, find_next, own_address, redirect, set_cookie, set_session_cookie};
use super::sessions::Sessions;
use super::visitor::{LOOPBACK_COOKIE, SECURE_COOKIE, Visitor, is_loopback_authority};

const SIGN_OUT: &str = "/console/sign-out";
/// A stream, which tells whoever asks for it by its events alone.
const EVENTS: &str = "/console/events";
/// Largest form of somebody who is not known yet, in bytes.
const MAX_FORM: usize = 8 * 1024;
/// Longest time that it takes to come in.
const MAX_WAIT: Duration = Duration::from_secs(10);

const HX_REQUEST: HeaderName = HeaderName::from_static("hx-request");
const HX_REDIRECT: HeaderName = HeaderName::from_static("hx-redirect");
const HX_CURRENT_URL: HeaderName = HeaderName::from_static("hx-current-url");

/// The stream of events of somebody who is signed out: its page asks for itself anew.
pub(crate) const SIGNED_OUT: &str = "event: signed-out\ndata: {}\n\n";

/// The request has come over https. Found in its extensions where that is so.
#[derive(Clone, Copy, Debug)]
pub struct IsSecure;

/// What somebody who wants to sign in has sent.
pub struct SignIn {
    key: String,
    next: String,
    /// The browser is on https, whoever ends it.
    is_secure: bool,
}

/// Why somebody is not signed in, for the page that shows it.
#[derive(Clone)]
pub(crate) struct SignInRefusal(String);

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'a> {
    layout: &'a Layout,
    next: &'a str,
    mistake: &'a str,
    /// Where one may sign in with an account.
    provider: Option<&'a str>,
    /// Why one could not, there.
    failure: &'a str,
    /// Somebody has signed out just now.
    is_out: bool,
    /// There is a session at the provider that goes on, and can be ended.
    may_end: bool,
    takes_keys: bool,
}

/// Whether a request is somebody's who signs in.
#[must_use]
pub fn is_sign_in(parts: &Parts) -> bool {
    parts.method == Method::POST && parts.uri.path() == SIGN_IN
}

/// Reads what somebody who wants to sign in has sent.
///
/// # Errors
/// Why not, for [`show_refusal`].
pub async fn read_sign_in(parts: &Parts, body: Body) -> Result<SignIn, String> {
    if !is_of_own_page(&parts.uri, &parts.headers) || !is_form(&parts.headers) {
        return Err("Another site or a program sent this form. Use this one.".into());
    }
    let read = timeout(MAX_WAIT, to_bytes(body, MAX_FORM)).await;
    let Ok(Ok(text)) = read else {
        return Err("The form was too large, or arrived too slowly.".into());
    };
    let Some(is_secure) = find_scheme(&parts.headers) else {
        return Err("Signing in requires https, or the address localhost.".into());
    };
    let key = Fields::parse(&text).get("key").to_owned();
    if key.is_empty() {
        return Err("Paste an API key.".into());
    }
    Ok(SignIn { key, next: find_next(&parts.uri), is_secure })
}

/// Whether the browser is on https; `None` where it is on neither that nor loopback.
fn find_scheme(headers: &HeaderMap) -> Option<bool> {
    let origin = headers.get(ORIGIN)?.to_str().ok()?;
    match origin.split_once("://")? {
        ("https", _) => Some(true),
        ("http", authority) if is_loopback_authority(authority) => Some(false),
        _ => None,
    }
}

impl SignIn {
    /// The key as a client of MCP shows it; `None` where it cannot be one.
    #[must_use]
    pub fn credential(&self) -> Option<HeaderMap> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.key)).ok()?;
        value.set_sensitive(true);
        Some(HeaderMap::from_iter([(AUTHORIZATION, value)]))
    }

    /// Begins the session of somebody whose key is good.
    ///
    /// # Errors
    /// Why there is none: only API keys begin one, because only of those it is known when they end.
    pub fn begin(
        self,
        sessions: &Sessions,
        principal: Principal,
        headers: &HeaderMap,
    ) -> Result<Response, String> {
        if *principal.issuer != *KEY {
            return Err("This is not an API key of this gateway.".into());
        }
        let Ok(id) = sessions.begin(principal) else {
            return Err("The gateway has no random numbers now. Try again.".into());
        };
        sessions.replace(headers);
        let mut response = redirect(&self.next);
        set_session_cookie(&mut response, self.is_secure, &id);
        Ok(response)
    }
}

/// Makes a request one for the form, with why somebody is not signed in: it has no token of a form
/// to check, because nobody is known yet.
pub fn show_refusal(parts: &mut Parts, words: String) {
    parts.extensions.insert(SignInRefusal(words));
    parts.method = Method::GET;
}

/// Sends somebody who is not known to the form, and from there back to where they were.
#[must_use]
pub fn sign_in_redirect(parts: &Parts) -> Response {
    let is_script = parts.headers.contains_key(HX_REQUEST);
    let page = match (is_script, &parts.method) {
        (true, _) => find_page(&parts.headers),
        (false, &Method::GET) => parts.uri.path_and_query().map(ToString::to_string),
        (false, _) => None,
    };
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("next", own_address(page.as_deref().unwrap_or("")));
    let address = format!("{SIGN_IN}?{}", query.finish());
    if parts.uri.path() == EVENTS {
        let head = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
        return (head, SIGNED_OUT).into_response();
    }
    if !is_script {
        return redirect(&address);
    }
    // A script would follow the redirect and put the form into the page; it is told to leave.
    let mut response = StatusCode::OK.into_response();
    if let Ok(address) = HeaderValue::from_str(&address) {
        response.headers_mut().insert(HX_REDIRECT, address);
    }
    response
}

/// The page that a script of the console runs on.
fn find_page(headers: &HeaderMap) -> Option<String> {
    let url = Url::parse(headers.get(HX_CURRENT_URL)?.to_str().ok()?).ok()?;
    Some(url[Position::BeforePath..Position::AfterQuery].to_owned())
}

/// The form.
pub(crate) async fn show_sign_in(
    layout: Layout,
    refusal: Option<Extension<SignInRefusal>>,
    offer: Option<Extension<Offer>>,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let next = own_address(fields.get("next"));
    let mistake = match &refusal {
        Some(Extension(SignInRefusal(words))) => words,
        None => "",
    };
    let provider = offer.as_ref().and_then(|Extension(offer)| offer.provider.as_deref());
    let ends_sessions = matches!(&offer, Some(Extension(offer)) if offer.ends_sessions);
    let page = SignInPage {
        layout: &layout,
        next,
        mistake,
        provider,
        failure: &explain(fields.get("why"), provider.unwrap_or_default()),
        is_out: fields.has("out"),
        may_end: fields.get("out") == "account" && ends_sessions,
        takes_keys: !matches!(&offer, Some(Extension(offer)) if !offer.takes_keys),
    };
    match mistake {
        "" => show(&page),
        _ => render(StatusCode::UNPROCESSABLE_ENTITY, &page),
    }
}

/// Whether a request is somebody's who signs out.
#[must_use]
pub fn is_sign_out(parts: &Parts) -> bool {
    parts.method == Method::POST && parts.uri.path() == SIGN_OUT
}

/// Ends the session here. Of that at the provider the form speaks: whether to end it too is for its
/// holder to say, who may use it elsewhere.
pub(crate) async fn sign_out(
    State(state): State<Arc<ConsoleState>>,
    Extension(visitor): Extension<Visitor>,
) -> Result<Response, PageError> {
    state.sessions.end(&visitor);
    let is_of_provider = ![KEY, LOCAL].contains(&&*visitor.principal.issuer);
    let from = if is_of_provider { "account" } else { "key" };
    let mut response = redirect(&format!("{SIGN_IN}?out={from}"));
    for name in [SECURE_COOKIE, LOOPBACK_COOKIE] {
        set_cookie(&mut response, name, "", 0);
    }
    Ok(response)
}

#[cfg(test)]
mod tests;
