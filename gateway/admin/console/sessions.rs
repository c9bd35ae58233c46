//! Sessions of signed-in visitors: in memory, short-lived and bounded. A session stores no API key;
//! the composition root checks at each request that the key is still valid. Cookies are stored as
//! hashes, so that the timing of a lookup reveals nothing about other cookies.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant, SystemTime};

use axum::http::HeaderMap;
use axum::http::header::{COOKIE, HOST};
use blake3::{Hash, Hasher};
use lockgate_authn::Principal;
use lockgate_text::hex;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::read_header;

/// Maximum number of sessions in total. Beyond it, the least recently used session of the
/// organisation with the most ends.
const MAX_SESSIONS: usize = 1024;
/// Maximum number of sessions per principal. Beyond it, the least recently used of them ends.
const MAX_OF_PRINCIPAL: usize = 16;
/// Maximum lifetime of a session.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(8 * 3600);
/// Maximum time between two requests.
const MAX_IDLE: Duration = Duration::from_secs(3600);
/// Interval of checks for expired sessions.
const LOOK: Duration = Duration::from_secs(10);
/// Digits of the public name of a session.
const NAME_DIGITS: usize = 16;

/// All sessions.
pub struct Sessions {
    /// The least recently used first.
    open: Mutex<VecDeque<Session>>,
    /// Notifies streams that sessions have ended.
    ends: watch::Sender<()>,
    /// The key of form tokens, random for each process.
    secret: [u8; 32],
}

struct Session {
    key: SessionKey,
    principal: Principal,
    began: Instant,
    used: Instant,
}

/// A session as listed for administrators.
pub(crate) struct OpenSession {
    /// Public: the cookie cannot be derived from it.
    pub(crate) name: String,
    pub(crate) principal: Principal,
    pub(crate) began: SystemTime,
    pub(crate) used: SystemTime,
}

impl Session {
    fn is_over(&self, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.began);
        let idle = now.saturating_duration_since(self.used);
        age >= MAX_AGE || idle >= MAX_IDLE
    }
}

impl Sessions {
    /// Creates the state with a random secret; `None` if the system has no random bytes.
    pub fn new() -> Option<Self> {
        let secret = hex::random_bytes()?;
        Some(Self { open: Mutex::default(), ends: watch::Sender::new(()), secret })
    }

    /// Returns the visitor of the session in the request's cookie, unless it has expired.
    pub fn find(&self, headers: &HeaderMap) -> Option<Visitor> {
        let key = key_of(find_cookie(headers)?);
        self.find_at(key, Instant::now())
    }

    /// Ends the session of a visitor, if there is one.
    pub fn end(&self, visitor: &Visitor) {
        self.end_where(|session| Some(session.key) == visitor.session);
    }

    /// Ends the session in the request's cookie, which the browser is about to replace.
    pub(crate) fn replace(&self, headers: &HeaderMap) {
        let key = find_cookie(headers).map(key_of);
        self.end_where(|session| Some(session.key) == key);
    }

    /// Ends the session of this name. Returns whether it existed.
    pub(crate) fn end_named(&self, name: &str) -> bool {
        self.end_where(|session| name_of(&session.key) == name)
    }

    /// Ends sessions, and with them their streams. Returns whether there were any.
    fn end_where(&self, is_ended: impl Fn(&Session) -> bool) -> bool {
        let mut open = self.open.lock();
        let before = open.len();
        open.retain(|session| !is_ended(session));
        let has_ended = open.len() < before;
        drop(open);
        self.ends.send_replace(());
        has_ended
    }

    /// Returns all sessions that have not expired.
    pub(crate) fn list(&self) -> Vec<OpenSession> {
        let now = Instant::now();
        let clock = SystemTime::now();
        let mut found = Vec::new();
        for session in &*self.open.lock() {
            if !session.is_over(now) {
                found.push(OpenSession {
                    name: name_of(&session.key),
                    principal: session.principal.clone(),
                    began: clock - now.saturating_duration_since(session.began),
                    used: clock - now.saturating_duration_since(session.used),
                });
            }
        }
        found
    }

    /// Waits until the session of a visitor has ended; never returns if there is none.
    pub(crate) async fn wait_for_end(&self, visitor: &Visitor) {
        let Some(key) = &visitor.session else { return std::future::pending().await };
        let mut ends = self.ends.subscribe();
        while self.is_open(key) {
            let _ = timeout(LOOK, ends.changed()).await;
        }
    }

    /// Returns whether the visitor had a session that has ended.
    pub(crate) fn has_ended(&self, visitor: &Visitor) -> bool {
        matches!(visitor.session, Some(key) if !self.is_open(&key))
    }

    fn is_open(&self, key: &SessionKey) -> bool {
        let now = Instant::now();
        self.open.lock().iter().any(|session| session.key == *key && !session.is_over(now))
    }

    /// Starts a session and returns the value of its cookie.
    pub(crate) fn begin(&self, principal: Principal) -> Option<String> {
        let id = hex::random::<32>()?;
        self.begin_at(key_of(&id), principal, Instant::now());
        Some(id)
    }

    /// Returns the token of this visitor's forms: secret, and valid until the session ends.
    pub(crate) fn form_token(&self, visitor: &Visitor) -> String {
        let Visitor { principal, session } = visitor;
        let session = session.unwrap_or([0; 32]);
        let parts = [principal.realm().as_bytes(), principal.subject.as_bytes(), &session];
        hash_parts(Hasher::new_keyed(&self.secret), &parts).to_hex().to_string()
    }

    /// Compares a token, masked or not, with the visitor's token in constant time.
    pub(crate) fn is_form_token(&self, visitor: &Visitor, given: &str) -> bool {
        let expected = self.form_token(visitor);
        let unmasked = unmask(given).unwrap_or_else(|| given.to_owned());
        blake3::hash(expected.as_bytes()) == blake3::hash(unmasked.as_bytes())
    }

    fn find_at(&self, key: SessionKey, now: Instant) -> Option<Visitor> {
        let mut open = self.open.lock();
        let at = open.iter().position(|session| session.key == key)?;
        let mut session = open.remove(at).filter(|session| !session.is_over(now))?;
        session.used = now;
        let principal = session.principal.clone();
        open.push_back(session);
        Some(Visitor { principal, session: Some(key) })
    }

    fn begin_at(&self, key: SessionKey, principal: Principal, now: Instant) {
        let mut open = self.open.lock();
        open.retain(|session| !session.is_over(now));
        let of_same = open.iter().filter(|session| session.principal == principal);
        if of_same.count() >= MAX_OF_PRINCIPAL
            && let Some(idlest) = open.iter().position(|one| one.principal == principal)
        {
            open.remove(idlest);
        }
        open.push_back(Session { key, principal, began: now, used: now });
        if open.len() > MAX_SESSIONS {
            evict_oldest(&mut open, |session| (session.principal.organisation(), 1));
        }
        drop(open);
        // Sessions may have ended to make room.
        self.ends.send_replace(());
    }
}

/// Removes the oldest entry of the organisations with the largest share, so that no organisation
/// evicts entries of one with less. `share` returns the organisation of an entry, and its size.
pub(crate) fn evict_oldest<T>(
    entries: &mut VecDeque<T>,
    share: impl Fn(&T) -> (&str, usize),
) -> Option<T> {
    let mut shares: BTreeMap<&str, usize> = BTreeMap::new();
    for (organisation, size) in entries.iter().map(&share) {
        *shares.entry(organisation).or_default() += size;
    }
    let largest = shares.values().copied().max()?;
    let oldest = entries.iter().position(|entry| shares.get(share(entry).0) == Some(&largest))?;
    entries.remove(oldest)
}

/// Masks a form token for one page: a random mask, followed by the masked token. Pages are
/// compressed, so a constant token could be guessed from their lengths.
pub(crate) fn mask(token: &str) -> Option<String> {
    let mask = hex::random_bytes::<32>()?;
    let mut token = hex::decode(token.as_bytes()).unwrap_or_default();
    cover(&mut token, &mask);
    Some(format!("{}{}", hex::encode(&mask), hex::encode(&token)))
}

fn unmask(given: &str) -> Option<String> {
    let bytes = hex::decode(given.as_bytes()).filter(|bytes| bytes.len() == 64)?;
    let (mask, masked) = bytes.split_at(32);
    let mut token = masked.to_vec();
    cover(&mut token, mask);
    Some(hex::encode(&token))
}

/// Applies or removes a mask.
fn cover(bytes: &mut [u8], mask: &[u8]) {
    for (byte, mask) in bytes.iter_mut().zip(mask) {
        *byte ^= mask;
    }
}

/// Returns the public name of a session.
fn name_of(key: &SessionKey) -> String {
    let mut name = hex::encode(key);
    name.truncate(NAME_DIGITS);
    name
}

/// Returns the hash of several parts, each with its length.
pub(crate) fn hash_parts(mut hasher: Hasher, parts: &[&[u8]]) -> Hash {
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize()
}

fn key_of(id: &str) -> SessionKey {
    *blake3::hash(id.as_bytes()).as_bytes()
}

// The visitor of the console: the principal identified by the composition root, and its session,
// if there is one.

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
    cookies(headers).find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// Returns the names and values of all cookies of a request.
pub(crate) fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';'));
    pairs.filter_map(|pair| pair.trim().split_once('='))
}

#[cfg(test)]
mod tests;
