//! The sign-in form, sign-in with an API key, and sign-out. The gateway receives the key once, as
//! from an MCP client. The browser stores the cookie of a session, and never the key.

use std::sync::Arc;
use std::time::{Duration, Instant};

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
use blake3::Hasher;
use lockgate_authn::{
    Attempt, Authenticator, KEY, LOCAL, Principal, Provider, SignIn as ProviderSignIn,
};
use lockgate_text::hex;
use tokio::time::timeout;
use url::{Position, Url};

use super::form::{Fields, FormError, SentForms, is_form, is_of_own_page};
use super::redirect::{
    SIGN_IN, begin_session, find_next, own_address, redirect, set_cookie, sign_in_address,
};
use super::render::{PageError, PageResult};
use super::sessions::{
    LOOPBACK_COOKIE, SECURE_COOKIE, Sessions, Visitor, cookies, hash_parts, is_loopback_authority,
};
use super::visit::{ConsoleState, Visit};

const SIGN_OUT: &str = "/console/sign-out";
/// The event stream, which reports errors as events only.
const EVENTS: &str = "/console/events";
/// Maximum size of an unauthenticated form, in bytes.
const MAX_FORM: usize = 8 * 1024;
/// Timeout for receiving the form.
const MAX_WAIT: Duration = Duration::from_secs(10);

const HX_REQUEST: HeaderName = HeaderName::from_static("hx-request");
const HX_REDIRECT: HeaderName = HeaderName::from_static("hx-redirect");
const HX_CURRENT_URL: HeaderName = HeaderName::from_static("hx-current-url");

/// The event stream of a signed-out visitor; it makes the page reload.
pub(crate) const SIGNED_OUT: &str = "event: signed-out\ndata: {}\n\n";

/// Marks a request that arrived over https, in its extensions.
#[derive(Clone, Copy, Debug)]
pub struct IsSecure;

/// A submitted sign-in form.
pub struct SignIn {
    key: String,
    next: String,
    /// The browser uses https, even if a proxy terminates it.
    is_secure: bool,
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'a> {
    visit: &'a Visit,
    next: &'a str,
    /// The sign-in methods.
    offer: &'a Offer,
    /// The reason that signing in at the provider failed, as HTML.
    failure: String,
}

/// Returns whether the request submits the sign-in form.
pub fn is_sign_in(parts: &Parts) -> bool {
    parts.method == Method::POST && parts.uri.path() == SIGN_IN
}

/// Reads the sign-in form.
///
/// # Errors
/// The reason, for [`show_refusal`].
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

/// Returns whether the browser uses https; `None` if it uses neither https nor loopback.
fn find_scheme(headers: &HeaderMap) -> Option<bool> {
    let origin = headers.get(ORIGIN)?.to_str().ok()?;
    match origin.split_once("://")? {
        ("https", _) => Some(true),
        ("http", authority) if is_loopback_authority(authority) => Some(false),
        _ => None,
    }
}

impl SignIn {
    /// Returns the key as MCP clients send it; `None` if it is not a valid header value.
    pub fn credential(&self) -> Option<HeaderMap> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.key)).ok()?;
        value.set_sensitive(true);
        Some(HeaderMap::from_iter([(AUTHORIZATION, value)]))
    }

    /// Returns the form with another page to return to.
    #[must_use]
    pub fn returning_to(self, next: String) -> Self {
        Self { next, ..self }
    }

    /// Starts the session of a visitor with a valid key.
    ///
    /// # Errors
    /// The reason. Only API keys are accepted, because the gateway cannot detect the end of other
    /// credentials.
    pub fn begin(
        self,
        sessions: &Sessions,
        principal: Principal,
        headers: &HeaderMap,
    ) -> Result<Response, String> {
        if *principal.issuer != *KEY {
            return Err("This is not an API key of this gateway.".into());
        }
        let begun = begin_session(sessions, principal, headers, (self.is_secure, &self.next));
        begun.ok_or_else(|| "The gateway has no random numbers now. Try again.".into())
    }
}

/// Turns the request into a request for the form with the reason of the failure. The form cannot
/// have a token to check, because there is no visitor yet.
pub fn show_refusal(parts: &mut Parts, words: String) {
    parts.extensions.insert(FormError::new("key", words));
    parts.method = Method::GET;
}

/// Redirects an unidentified visitor to the form, with the current page as return address.
pub fn sign_in_redirect(parts: &Parts) -> Response {
    let is_script = parts.headers.contains_key(HX_REQUEST);
    let page = match (is_script, &parts.method) {
        (true, _) => find_page(&parts.headers),
        (false, &Method::GET) => parts.uri.path_and_query().map(ToString::to_string),
        (false, _) => None,
    };
    let address = sign_in_address("", page.as_deref().unwrap_or(""));
    if parts.uri.path() == EVENTS {
        let head = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
        return (head, SIGNED_OUT).into_response();
    }
    if !is_script {
        return redirect(&address);
    }
    // A script would insert the redirected form into the page, so this header makes it navigate.
    let mut response = StatusCode::OK.into_response();
    if let Ok(address) = HeaderValue::from_str(&address) {
        response.headers_mut().insert(HX_REDIRECT, address);
    }
    response
}

/// Returns the page that sent the request of a script.
fn find_page(headers: &HeaderMap) -> Option<String> {
    let url = Url::parse(headers.get(HX_CURRENT_URL)?.to_str().ok()?).ok()?;
    Some(url[Position::BeforePath..Position::AfterQuery].to_owned())
}

pub(crate) async fn show_sign_in(visit: Visit, Extension(offer): Extension<Offer>) -> PageResult {
    let next = own_address(visit.query.get("next"));
    let provider = offer.provider.as_deref().unwrap_or_default();
    let failure = SignInFailure { why: visit.query.get("why"), provider }.to_string();
    visit.show(&SignInPage { visit: &visit, next, offer: &offer, failure })
}

/// Returns whether the request signs the visitor out.
pub fn is_sign_out(parts: &Parts) -> bool {
    parts.method == Method::POST && parts.uri.path() == SIGN_OUT
}

/// Ends the session here. The form then offers to end the session at the provider, which the
/// visitor may still use elsewhere.
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

/// The sign-in methods that the form offers, stored in the extensions of a request.
#[derive(Clone)]
pub struct Offer {
    /// The host name of the provider.
    pub(crate) provider: Option<String>,
    /// The provider supports signing out.
    pub(crate) ends_sessions: bool,
    pub(crate) takes_keys: bool,
}

impl Offer {
    pub fn new(authenticator: &Authenticator) -> Self {
        let provider = authenticator.provider();
        Self {
            provider: provider.map(|provider| host_of(&provider.config.issuer)),
            ends_sessions: provider.is_some_and(Provider::ends_sessions),
            takes_keys: authenticator.takes_keys(),
        }
    }
}

fn host_of(issuer: &str) -> String {
    let Ok(url) = Url::parse(issuer) else { return String::new() };
    url.host_str().unwrap_or("").to_owned()
}

/// The sentence for an error code; empty for an unknown code.
#[derive(Template)]
#[template(path = "parts/sign_in_failure.html")]
pub(crate) struct SignInFailure<'a> {
    pub(crate) why: &'a str,
    pub(crate) provider: &'a str,
}

// Sign-in attempts at an identity provider.

/// Time limit for signing in at the provider, in seconds.
pub(crate) const MAX_AGE: u64 = 600;
/// Concurrent attempts per browser; beyond it, the oldest are dropped.
const MAX_OF_BROWSER: usize = 4;
/// Maximum length of the return address; a longer one is replaced by the first page.
const MAX_NEXT: usize = 1024;
/// Prefixes of the cookie names, for https and for loopback.
const PREFIXES: [&str; 2] = ["__Host-lockgate-sign-in-", "lockgate-sign-in-"];
/// Number of state digits in a cookie name.
const NAME_DIGITS: usize = 8;

/// Starts and verifies sign-in attempts.
pub struct Attempts {
    secret: [u8; 32],
    start: Instant,
    used: SentForms,
}

/// A started attempt.
pub(crate) struct Begun {
    pub(crate) attempt: Attempt,
    /// The name and value of the cookie.
    pub(crate) cookie: (String, String),
    /// Names of the cookies of older attempts to delete.
    pub(crate) given_up: Vec<String>,
}

/// The attempt that a response belongs to.
pub(crate) struct Answered {
    pub(crate) attempt: Attempt,
    /// The return address of the visitor.
    pub(crate) next: String,
}

impl Attempts {
    /// Creates the state with a random secret; `None` if the system has no random bytes.
    pub fn new() -> Option<Self> {
        let secret = hex::random_bytes()?;
        Some(Self { secret, start: Instant::now(), used: SentForms::default() })
    }

    /// Returns the seconds since the start of the process.
    pub(crate) fn now(&self) -> u64 {
        self.start.elapsed().as_secs()
    }

    /// Starts an attempt at a time, which returns to the page `next`.
    pub(crate) fn begin(
        &self,
        headers: &HeaderMap,
        next: &str,
        to: &ProviderSignIn,
        now: u64,
    ) -> Option<Begun> {
        let next = if next.len() <= MAX_NEXT { next } else { "/console" };
        let id = hex::random::<32>()?;
        let mut value = form_urlencoded::Serializer::new(String::new());
        value.append_pair("id", &id).append_pair("at", &now.to_string()).append_pair("next", next);
        let value = value.finish();
        let attempt = self.derive(&value, to);
        let cookie = (cookie_name(to, &attempt.state), value);
        Some(Begun { attempt, cookie, given_up: find_oldest(headers, to) })
    }

    /// Returns the attempt for a state, if this browser started it within [`MAX_AGE`] seconds and
    /// it has had no response yet. `now` is the time in seconds ([`Self::now`]).
    pub(crate) fn find(
        &self,
        headers: &HeaderMap,
        state: &str,
        to: &ProviderSignIn,
        now: u64,
    ) -> Option<Answered> {
        let name = cookie_name(to, state);
        let (_, value) = cookies(headers).find(|(other, _)| *other == name)?;
        let attempt = self.derive(value, to);
        // Comparing hashes leaks nothing about the state through timing.
        if blake3::hash(attempt.state.as_bytes()) != blake3::hash(state.as_bytes()) {
            return None;
        }
        let fields = Fields::parse(value.as_bytes());
        let began: u64 = fields.get("at").parse().ok()?;
        if now.checked_sub(began)? >= MAX_AGE {
            return None;
        }
        if !self.used.remember(SentForms::key_of(&name, state.as_bytes()), "") {
            return None;
        }
        Some(Answered { attempt, next: fields.get("next").to_owned() })
    }

    /// Derives the secrets of an attempt from its cookie, for one client of one provider.
    fn derive(&self, cookie: &str, to: &ProviderSignIn) -> Attempt {
        Attempt {
            state: self.derive_for("state", cookie, to),
            nonce: self.derive_for("nonce", cookie, to),
            verifier: self.derive_for("verifier", cookie, to),
        }
    }

    fn derive_for(&self, purpose: &str, cookie: &str, to: &ProviderSignIn) -> String {
        let parts = [purpose, cookie, &to.issuer, &to.client_id, to.redirect.as_str()];
        let hasher = Hasher::new_keyed(&self.secret);
        hash_parts(hasher, &parts.map(str::as_bytes)).to_hex().to_string()
    }
}

/// Returns the name of the cookie for an attempt with this state.
pub(crate) fn cookie_name(to: &ProviderSignIn, state: &str) -> String {
    let digits: String = state.chars().take(NAME_DIGITS).collect();
    format!("{}{digits}", prefix(to))
}

fn prefix(to: &ProviderSignIn) -> &'static str {
    let [secure, loopback] = PREFIXES;
    if to.redirect.scheme() == "https" { secure } else { loopback }
}

/// Returns the cookies of the oldest attempts, which make room for a new attempt.
fn find_oldest(headers: &HeaderMap, to: &ProviderSignIn) -> Vec<String> {
    let mut known: Vec<(u64, &str)> = Vec::new();
    for (name, value) in cookies(headers) {
        if name.starts_with(prefix(to)) {
            let began = Fields::parse(value.as_bytes()).get("at").parse();
            known.push((began.unwrap_or(0), name));
        }
    }
    known.sort_unstable();
    let kept = known.len().min(MAX_OF_BROWSER - 1);
    known.truncate(known.len() - kept);
    known.into_iter().map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests;
