//! Redirects, which lead to this origin or the identity provider, and cookies for this host only.

use axum::http::header::{HeaderValue, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use lockgate_authn::Principal;
use url::Url;

use super::form::Fields;
use super::sessions::{LOOPBACK_COOKIE, MAX_AGE, SECURE_COOKIE, Sessions};

/// Address and target of the sign-in form.
pub(crate) const SIGN_IN: &str = "/console/sign-in";

/// Returns an address of the console, or `/console` in place of any other address. Sign-in
/// addresses are excluded: following them would start a sign-in without a request of the visitor.
pub(crate) fn own_address(given: &str) -> &str {
    let is_plain = given.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let path = given.split(['?', '#']).next().unwrap_or("");
    let rest = path.strip_prefix("/console");
    let is_own = matches!(rest, Some(rest) if rest.is_empty() || rest.starts_with('/'));
    let is_way_in = path.starts_with(SIGN_IN);
    if is_plain && is_own && !is_way_in && is_as_browsers_read(path) { given } else { "/console" }
}

/// Returns whether browsers request this exact path: it has no dot segments and no other host.
fn is_as_browsers_read(path: &str) -> bool {
    let base = Url::parse("http://console.internal/").and_then(|base| base.join(path));
    base.is_ok_and(|url| url.path() == path && url.host_str() == Some("console.internal"))
}

/// Returns the address of the sign-in form, with the page to return to and an error code.
pub(crate) fn sign_in_address(why: &str, next: &str) -> String {
    PagePath::of_address(SIGN_IN).with("next", own_address(next)).with("why", why).into_text()
}

pub(crate) fn find_next(uri: &Uri) -> String {
    let fields = Fields::parse(uri.query().unwrap_or("").as_bytes());
    own_address(fields.get("next")).to_owned()
}

/// Returns a 303 (See Other), so that going back does not submit the form again.
pub(crate) fn redirect(address: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let address = HeaderValue::from_str(address);
    let address = address.unwrap_or(HeaderValue::from_static("/console"));
    response.headers_mut().insert(LOCATION, address);
    response
}

/// Starts the session of a visitor, in place of the one in the request, and redirects to a page.
/// Returns `None` if the system provides no random bytes.
pub(crate) fn begin_session(
    sessions: &Sessions,
    principal: Principal,
    headers: &HeaderMap,
    (is_secure, next): (bool, &str),
) -> Option<Response> {
    let id = sessions.begin(principal)?;
    sessions.replace(headers);
    let mut response = redirect(next);
    let name = if is_secure { SECURE_COOKIE } else { LOOPBACK_COOKIE };
    set_cookie(&mut response, name, &id, MAX_AGE.as_secs());
    Some(response)
}

/// Sets a host-only cookie, with `Secure` if its name has the prefix `__Host-`.
pub(crate) fn set_cookie(response: &mut Response, name: &str, value: &str, seconds: u64) {
    let secure = if name.starts_with("__Host-") { "; Secure" } else { "" };
    let cookie =
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}

// Addresses of pages.

/// A path with a query, percent-encoded where necessary.
#[derive(Clone, Debug)]
pub(crate) struct PagePath(String);

impl PagePath {
    /// Creates a path below `/console` from unencoded segments. Dot segments are omitted.
    pub(crate) fn new(segments: &[&str]) -> Self {
        let mut path = "/console".to_owned();
        for segment in segments.iter().filter(|segment| !matches!(**segment, "." | "..")) {
            let encoded: String = form_urlencoded::byte_serialize(segment.as_bytes()).collect();
            path.push('/');
            path.push_str(&encoded.replace('+', "%20"));
        }
        Self(path)
    }

    /// Returns the path of an address, without its query; empty for an empty address.
    pub(crate) fn of_address(address: &str) -> Self {
        Self(address.split('?').next().unwrap_or("").to_owned())
    }

    /// Appends a query parameter, unless `value` is empty.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        if !value.is_empty() {
            self.0.push(if self.0.contains('?') { '&' } else { '?' });
            let end = self.0.len();
            let mut query = form_urlencoded::Serializer::for_suffix(self.0, end);
            self.0 = query.append_pair(name, value).finish();
        }
        self
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

// A part of a list that a page has read as a whole, with the addresses of the parts beside it.

/// Number of items per page.
const PAGE: usize = 100;

pub(crate) struct ListPart<T> {
    pub(crate) items: Vec<T>,
    /// The position of the first item, from 1.
    pub(crate) first: usize,
    pub(crate) total: usize,
    pub(crate) previous: Option<String>,
    pub(crate) next: Option<String>,
}

impl<T> ListPart<T> {
    /// Returns the page of this number, from 1; the nearest if there is no such page.
    pub(crate) fn cut(all: Vec<T>, page: &str, path: &PagePath) -> Self {
        let total = all.len();
        let page: usize = page.parse().unwrap_or(1);
        let page = page.clamp(1, total.div_ceil(PAGE).max(1));
        let start = (page - 1) * PAGE;
        let items: Vec<T> = all.into_iter().skip(start).take(PAGE).collect();
        let previous = (page > 1).then(|| write_page(path, page - 1));
        let next = (start + items.len() < total).then(|| write_page(path, page + 1));
        Self { items, first: start + 1, total, previous, next }
    }

    pub(crate) fn last(&self) -> usize {
        self.first + self.items.len() - 1
    }
}

fn write_page(path: &PagePath, page: usize) -> String {
    path.clone().with("page", &page.to_string()).into_text()
}

#[cfg(test)]
mod tests;
