//! Where browsers are led, which is never to another place, and what they are told to keep for this
//! very host.

use axum::http::header::{HeaderValue, LOCATION, SET_COOKIE};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use url::Url;

use super::fields::Fields;
use super::sessions::MAX_AGE;
use super::visitor::{LOOPBACK_COOKIE, SECURE_COOKIE};

/// Where the form is, and where it is sent to.
pub(crate) const SIGN_IN: &str = "/console/sign-in";

/// An address of the console; its first page instead of any other, and of the way in, which would
/// be begun without anybody having asked for it.
pub(crate) fn own_address(given: &str) -> &str {
    let is_plain = given.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let path = given.split(['?', '#']).next().unwrap_or("");
    let rest = path.strip_prefix("/console");
    let is_own = matches!(rest, Some(rest) if rest.is_empty() || rest.starts_with('/'));
    let is_way_in = path.starts_with(SIGN_IN);
    if is_plain && is_own && !is_way_in && is_as_browsers_read(path) { given } else { "/console" }
}

/// Whether a browser asks for this very path: there is nothing in it that leads up or nowhere.
fn is_as_browsers_read(path: &str) -> bool {
    let base = Url::parse("http://console.internal/").and_then(|base| base.join(path));
    base.is_ok_and(|url| url.path() == path && url.host_str() == Some("console.internal"))
}

pub(crate) fn find_next(uri: &Uri) -> String {
    let fields = Fields::parse(uri.query().unwrap_or("").as_bytes());
    own_address(fields.get("next")).to_owned()
}

/// See other: the browser gets the page anew, and Back does not send the form again.
pub(crate) fn redirect(address: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let address = HeaderValue::from_str(address);
    let address = address.unwrap_or(HeaderValue::from_static("/console"));
    response.headers_mut().insert(LOCATION, address);
    response
}

/// Has the browser keep its session.
pub(crate) fn set_session_cookie(response: &mut Response, is_secure: bool, id: &str) {
    let name = if is_secure { SECURE_COOKIE } else { LOOPBACK_COOKIE };
    set_cookie(response, name, id, MAX_AGE.as_secs());
}

/// Has the browser keep a value for this very host, encrypted where its name says so.
pub(crate) fn set_cookie(response: &mut Response, name: &str, value: &str, seconds: u64) {
    let secure = if name.starts_with("__Host-") { "; Secure" } else { "" };
    let cookie =
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}
