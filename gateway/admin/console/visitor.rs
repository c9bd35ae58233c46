//! The visitor of the console: the principal identified by the composition root, and its session,
//! if there is one.

use axum::http::HeaderMap;
use axum::http::header::{COOKIE, HOST};
use lockgate_authn::Principal;

use crate::read_header;

/// The session cookie over https: host-only, and never sent in plain text.
pub(crate) const SECURE_COOKIE: &str = "__Host-lockgate";
/// The session cookie on loopback, which may have no https.
pub(crate) const LOOPBACK_COOKIE: &str = "lockgate";

/// The hash of a session's cookie.
pub(crate) type SessionKey = [u8; 32];

/// An identified visitor, stored in the extensions of a request.
#[derive(Clone)]
pub struct Visitor {
    pub principal: Principal,
    /// `None` for visitors without a session: the local user, or the holder of a client
    /// certificate.
    pub(crate) session: Option<SessionKey>,
}

impl Visitor {
    /// Creates a visitor that is identified by its connection.
    pub fn of_connection(principal: Principal) -> Self {
        Self { principal, session: None }
    }
}

/// Returns the session id from the cookie. A cookie without the prefix is accepted on loopback
/// only, because elsewhere a sibling host could have set it.
pub(crate) fn find_cookie(headers: &HeaderMap) -> Option<&str> {
    if let Some(value) = cookie(headers, SECURE_COOKIE) {
        return Some(value);
    }
    if is_loopback_host(headers) { cookie(headers, LOOPBACK_COOKIE) } else { None }
}

/// Returns whether the browser sent the https-only cookie, even if a proxy terminates TLS.
pub(crate) fn is_on_https(headers: &HeaderMap) -> bool {
    cookie(headers, SECURE_COOKIE).is_some()
}

/// Returns whether the `Host` header names the loopback interface.
pub(crate) fn is_loopback_host(headers: &HeaderMap) -> bool {
    is_loopback_authority(read_header(headers, HOST).unwrap_or(""))
}

/// Returns whether a host, with or without a port, names the loopback interface.
pub(crate) fn is_loopback_authority(authority: &str) -> bool {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.starts_with("::1]");
    }
    let name = authority.split(':').next().unwrap_or("");
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let address: Result<std::net::Ipv4Addr, _> = name.parse();
    matches!(address, Ok(address) if address.is_loopback())
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    for (key, value) in cookies(headers) {
        if key == name {
            return Some(value);
        }
    }
    None
}

/// Returns the names and values of all cookies of a request.
pub(crate) fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';'));
    pairs.filter_map(|pair| pair.trim().split_once('='))
}

#[cfg(test)]
mod tests;
