//! The visitor of the console: the principal that the composition root identified, and its session,
//! if it has one.

use axum::http::HeaderMap;
use axum::http::header::{COOKIE, HOST};
use lockgate_authn::Principal;

use crate::headers::read_header;

/// The session's cookie over https: browsers keep it for this very host, and send it encrypted.
pub(crate) const SECURE_COOKIE: &str = "__Host-lockgate";
/// The same on this machine, where there may be no https.
pub(crate) const LOOPBACK_COOKIE: &str = "lockgate";

/// The hash of a session's cookie.
pub(crate) type SessionKey = [u8; 32];

/// An identified visitor. Found in the extensions of a request.
#[derive(Clone)]
pub struct Visitor {
    pub principal: Principal,
    /// None where the visitor needs no session: the user of this machine, or the holder of a
    /// client certificate.
    pub(crate) session: Option<SessionKey>,
}

impl Visitor {
    /// A visitor that is identified by its connection.
    #[must_use]
    pub fn of_connection(principal: Principal) -> Self {
        Self { principal, session: None }
    }
}

/// The session that a request names. A cookie without the prefix counts on loopback alone, because
/// elsewhere a neighbour of the host could have set it.
pub(crate) fn find_cookie(headers: &HeaderMap) -> Option<&str> {
    if let Some(value) = cookie(headers, SECURE_COOKIE) {
        return Some(value);
    }
    if is_loopback_host(headers) { cookie(headers, LOOPBACK_COOKIE) } else { None }
}

/// Whether the browser has the cookie that it keeps over https alone, whoever ends that.
pub(crate) fn is_on_https(headers: &HeaderMap) -> bool {
    cookie(headers, SECURE_COOKIE).is_some()
}

/// Whether the browser addresses this machine by one of its own names.
pub(crate) fn is_loopback_host(headers: &HeaderMap) -> bool {
    is_loopback_authority(read_header(headers, HOST).unwrap_or(""))
}

/// The same of a host with or without a port.
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

/// All cookies of a request, each with its name.
pub(crate) fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';'));
    pairs.filter_map(|pair| pair.trim().split_once('='))
}

#[cfg(test)]
mod tests;
