//! Requests to servers, written by splicing: a new id, the server's own name and a new `_meta`;
//! arguments are copied.

use std::borrow::Cow;

use bytes::Bytes;

use crate::jsonrpc::Request;
use crate::key::Key;
use crate::meta::{self, Sender};
use crate::method::Method;
use crate::scan::Member;
use crate::write::{self, Object};

/// The parts of a request to a server.
#[derive(Clone, Copy, Default)]
pub struct Outbound<'a> {
    /// The client's request; its other members of `params` and `_meta` are copied.
    pub request: Option<&'a Request>,
    /// The server's own name, URI or task id: the value of [`Method::target`] on this hop.
    pub target: Option<&'a str>,
    /// Other members of `params` with another value on this hop (JSON text); `None` omits the
    /// member.
    pub replaced: &'a [(Key, Option<Vec<u8>>)],
    /// The sender's description, for modern servers.
    pub sender: Option<Sender<'a>>,
    /// Whether to request progress, with the request's own id as token.
    pub progress: bool,
    /// The least severe level to be logged, for modern servers.
    pub log_level: Option<&'a str>,
    /// `traceparent` and `tracestate`.
    pub trace: Option<(&'a str, Option<&'a str>)>,
}

/// Members of `params` from this size in bytes are not copied.
const MAX_COPIED_BYTES: usize = 16 * 1024;

/// The insertion point of a member that is not copied, and its value.
pub type Gap = Option<(usize, Bytes)>;

impl Outbound<'_> {
    /// Returns the room for the text without a large member.
    pub fn size_hint(&self) -> usize {
        self.request.map_or(0, |request| request.text.len()).min(MAX_COPIED_BYTES) + 512
    }

    /// Writes the request as JSON text. A single large member is left out, to be forwarded without
    /// a copy.
    pub fn write(&self, out: &mut Vec<u8>, id: u64, method: Method) -> Gap {
        out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        write::number(out, id);
        out.extend_from_slice(b",\"method\":\"");
        out.extend_from_slice(self.method_name(method).as_bytes());
        out.extend_from_slice(b"\",\"params\":");
        let gap = self.write_params(out, id, method);
        out.push(b'}');
        gap
    }

    /// Returns the request in one piece, for line-based transports.
    pub fn text(&self, id: u64, method: Method) -> Bytes {
        let mut out = Vec::with_capacity(self.size_hint());
        if let Some((at, value)) = self.write(&mut out, id, method) {
            out.splice(at..at, value);
        }
        out.into()
    }

    /// Returns the name of a method on the wire; that of an unknown method is the client's, which
    /// needs no escapes.
    pub fn method_name(&self, method: Method) -> Cow<'_, str> {
        match self.request {
            Some(request) if method == Method::Unknown => request.method_name(),
            _ => Cow::Borrowed(method.as_str()),
        }
    }

    fn write_params(&self, out: &mut Vec<u8>, id: u64, method: Method) -> Gap {
        let mut gap = None;
        let mut params = Object::open(out);
        let target = method.target().zip(self.target);
        if let Some((name, value)) = target {
            params.string(name.as_str(), value);
        }
        for (name, value) in self.replaced {
            if let Some(value) = value {
                params.raw(name.as_str(), value);
            }
        }
        if let Some(request) = self.request {
            let text = &request.text;
            for member in request.params() {
                let is_target = target.is_some_and(|(key, _)| member.known == key);
                if member.known == Key::Meta || is_target || self.replaces(member) {
                    continue;
                }
                let key = member.key.of(text);
                let value = member.value.of(text);
                if gap.is_none() && value.len() >= MAX_COPIED_BYTES {
                    gap = Some((params.leave(key), text.slice(member.value.range())));
                } else {
                    params.copy(key, value);
                }
            }
        }
        let copied = self
            .request
            .is_some_and(|request| meta::has_end_to_end(&request.text, request.meta_members()));
        if copied || self.sender.is_some() || self.progress || self.trace.is_some() {
            let mut meta = Object::open(params.key("_meta"));
            self.write_meta(&mut meta, id);
            meta.close();
        }
        params.close();
        gap
    }

    fn replaces(&self, member: &Member) -> bool {
        self.replaced.iter().any(|(key, _)| member.known == *key)
    }

    fn write_meta(&self, meta: &mut Object<'_>, id: u64) {
        if let Some(sender) = &self.sender {
            meta::write_sender(meta, sender);
            if let Some(level) = self.log_level {
                meta.string(meta::LOG_LEVEL, level);
            }
        }
        if self.progress {
            meta::write_progress_token(meta, id);
        }
        if let Some((parent, state)) = self.trace {
            meta.string(meta::TRACEPARENT, parent);
            if let Some(state) = state {
                meta.string(meta::TRACESTATE, state);
            }
        }
        if let Some(request) = self.request {
            meta::copy_end_to_end(meta, &request.text, request.meta_members());
        }
    }
}

/// Writes `notifications/cancelled` for one of the gateway's requests; `id` is JSON text.
pub fn cancelled(id: &[u8], reason: &str) -> Vec<u8> {
    let mut params = Vec::with_capacity(64 + id.len());
    let mut object = Object::open(&mut params);
    object.raw("requestId", id);
    object.string("reason", reason);
    object.close();
    write::notification(Method::Cancelled.as_str(), &params)
}

#[cfg(test)]
mod tests;
