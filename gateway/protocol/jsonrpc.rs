//! The JSON-RPC envelope: a single strict pass that records the positions of id, method, params,
//! their members and `_meta`.
//!
//! Builds no tree, copies nothing, and rejects batches (the listener splits them where a revision
//! has them).

use std::borrow::Cow;
use std::ops::Deref;

use bytes::Bytes;

use crate::key::{Key, is_disguised};
use crate::method::Method;
use crate::scan::{self, Fault, Keys, Member, Members, ScanError, Scanner, Span};

/// Maximum id in bytes of JSON text.
pub const MAX_ID: usize = 256;

#[derive(Clone, Debug)]
pub enum Message {
    Request(Request),
    Notification(Request),
    Response(Response),
}

/// A request or notification. The size of a pointer, because every step of a call passes it on.
#[derive(Clone, Debug)]
pub struct Request(Box<RequestParts>);

/// The text of a request, and the positions of its parts.
#[derive(Clone, Debug, Default)]
pub struct RequestParts {
    pub text: Bytes,
    pub method: Method,
    method_span: Span,
    id: Option<Span>,
    params: Members,
    meta: Members,
}

/// A response, to one of the gateway's ids or to an unknown id.
#[derive(Clone, Debug)]
pub struct Response {
    pub text: Bytes,
    id: Option<Span>,
    pub outcome: Outcome,
}

/// The outcome in a response.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The result object and its top-level members.
    Result(Span, Box<[Member]>),
    Error(ErrorObject),
}

/// The positions of the parts of an error object.
#[derive(Clone, Copy, Debug)]
pub struct ErrorObject {
    pub code: i64,
    pub message: Span,
    pub data: Option<Span>,
}

impl Deref for Request {
    type Target = RequestParts;

    fn deref(&self) -> &RequestParts {
        &self.0
    }
}

impl Request {
    /// Returns the id as JSON text; empty for a notification.
    pub fn id(&self) -> &[u8] {
        self.id.map_or(&[], |id| id.of(&self.text))
    }

    /// Returns the id as JSON text, sharing the message's bytes.
    pub fn id_bytes(&self) -> Bytes {
        self.id.map_or(Bytes::new(), |id| self.text.slice(id.range()))
    }

    /// Returns the method's name as sent, even if unknown.
    pub fn method_name(&self) -> Cow<'_, str> {
        if self.method != Method::Unknown {
            return Cow::Borrowed(self.method.as_str());
        }
        scan::as_str(self.method_span.of(&self.text)).unwrap_or(Cow::Borrowed(""))
    }

    /// Returns the members of `params`, in order.
    pub fn params(&self) -> &[Member] {
        &self.params
    }

    /// Returns a member of `params` as JSON text.
    pub fn param(&self, key: Key) -> Option<&[u8]> {
        Some(scan::get(&self.params, key)?.of(&self.text))
    }

    /// Returns a member of `params` that is a string.
    pub fn param_str(&self, key: Key) -> Option<Cow<'_, str>> {
        scan::as_str(self.param(key)?)
    }

    /// Returns the members of `params._meta`, if any.
    pub fn meta_members(&self) -> &[Member] {
        &self.meta
    }

    /// Returns a member of `params._meta` as JSON text.
    pub fn meta(&self, key: Key) -> Option<&[u8]> {
        Some(scan::get(&self.meta, key)?.of(&self.text))
    }

    /// Returns a member of `params._meta` that is a string.
    pub fn meta_str(&self, key: Key) -> Option<Cow<'_, str>> {
        scan::as_str(self.meta(key)?)
    }
}

impl Response {
    /// Creates an empty result, in place of a result that was already taken in pieces.
    pub fn taken() -> Self {
        let span = Span { start: 0, end: 2 };
        Self {
            text: Bytes::from_static(b"{}"),
            id: None,
            outcome: Outcome::Result(span, Box::default()),
        }
    }

    /// Returns the id as JSON text, if any.
    pub fn id(&self) -> Option<&[u8]> {
        Some(self.id?.of(&self.text))
    }

    /// Returns the id if it is a number, as the gateway's ids are.
    pub fn number(&self) -> Option<u64> {
        scan::as_number(self.id()?)
    }
}

impl ErrorObject {
    /// Returns the message as text.
    pub fn message(self, text: &[u8]) -> Cow<'_, str> {
        scan::as_words(self.message.of(text)).unwrap_or(Cow::Borrowed(""))
    }

    /// Returns `data` as JSON text.
    pub fn data(self, text: &[u8]) -> Option<&[u8]> {
        Some(self.data?.of(text))
    }
}

/// The sender of a text, which decides how strictly foreign values are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentBy {
    Client,
    Server,
}

#[derive(Default)]
struct Parts {
    version: bool,
    id: Option<Span>,
    bad_id: bool,
    method: Option<Span>,
    /// The parts of `params`.
    request: Option<Box<RequestParts>>,
    result: Option<Outcome>,
    /// An error object, if it is valid.
    error: Option<Option<ErrorObject>>,
    broken: Option<EnvelopeError>,
}

/// Parses a message.
///
/// # Errors
/// [`MessageError`]; then only the id of an invalid request may be used.
pub fn parse(text: Bytes, max_depth: usize, sent_by: SentBy) -> Result<Message, MessageError> {
    let mut parts = Parts::default();
    let mut scanner = Scanner::new(&text, max_depth).map_err(MessageError::Parse)?;
    if scanner.peek() != Some(b'{') {
        return Err(not_an_object(&mut scanner));
    }
    let keys = if sent_by == SentBy::Client { Keys::Strict } else { Keys::Distinct };
    if let Err(flaw) = parts.read(&mut scanner, &text, keys) {
        if flaw.what.is_syntax() {
            return Err(MessageError::Parse(flaw));
        }
        return Err(MessageError::Invalid {
            what: parts.broken.unwrap_or(EnvelopeError::Scan(flaw)),
            id: parts.id,
        });
    }
    let id = parts.id;
    parts.finish(text).map_err(|what| MessageError::Invalid { what, id })
}

fn not_an_object(scanner: &mut Scanner<'_>) -> MessageError {
    let is_array = scanner.peek() == Some(b'[');
    if let Err(flaw) = scanner.value().and_then(|_| scanner.end()) {
        return MessageError::Parse(flaw);
    }
    let what = if is_array {
        EnvelopeError::Batch
    } else {
        EnvelopeError::Scan(ScanError { what: Fault::NotObject, at: 0 })
    };
    MessageError::Invalid { what, id: None }
}

impl Parts {
    /// Reads the message and checks that nothing follows.
    fn read(&mut self, s: &mut Scanner<'_>, text: &[u8], keys: Keys) -> Result<(), ScanError> {
        s.object(keys, &mut Members::new(), |s, member| self.member(s, text, member, keys))?;
        s.end()
    }

    fn member(
        &mut self,
        s: &mut Scanner<'_>,
        text: &[u8],
        member: &Member,
        keys: Keys,
    ) -> Result<Span, ScanError> {
        match member.known {
            Key::JsonRpc => {
                let span = s.value()?;
                let raw = span.of(text);
                self.version = raw == b"\"2.0\"" || scan::as_str(raw).as_deref() == Some("2.0");
                Ok(span)
            }
            Key::Id => {
                let span = s.value()?;
                if is_id(span.of(text)) {
                    self.id = Some(span);
                } else {
                    self.bad_id = true;
                }
                Ok(span)
            }
            Key::Method => {
                let span = s.value()?;
                self.method = Some(span);
                Ok(span)
            }
            Key::Params => self.params(s, text, keys),
            Key::Result => {
                let mut members = Members::new();
                let span = self.object_or(s, &mut members, EnvelopeError::Result)?;
                self.result = Some(Outcome::Result(span, Box::from(&*members)));
                Ok(span)
            }
            Key::Error => {
                let mut members = Members::new();
                let span = self.object_or(s, &mut members, EnvelopeError::Error)?;
                self.error = Some(error_object(text, &members));
                Ok(span)
            }
            Key::Other => other_value(s, text, member, keys),
            _ => s.value(),
        }
    }

    fn object_or(
        &mut self,
        s: &mut Scanner<'_>,
        members: &mut Members,
        broken: EnvelopeError,
    ) -> Result<Span, ScanError> {
        if s.peek() == Some(b'{') {
            s.members_into(Keys::Distinct, members)
        } else {
            self.broken.get_or_insert(broken);
            s.value()
        }
    }

    fn params(&mut self, s: &mut Scanner<'_>, text: &[u8], keys: Keys) -> Result<Span, ScanError> {
        if s.peek() != Some(b'{') {
            self.broken.get_or_insert(EnvelopeError::Params);
            return s.value();
        }
        let RequestParts { params, meta, .. } = &mut **self.request.get_or_insert_default();
        let mut broken = false;
        let span = s.object(keys, params, |s, member| match member.known {
            Key::Meta if s.peek() == Some(b'{') => s.members_into(keys, meta),
            Key::Meta => {
                broken = true;
                s.value()
            }
            Key::Other => other_value(s, text, member, keys),
            _ => s.value(),
        })?;
        if broken {
            self.broken.get_or_insert(EnvelopeError::Meta);
        }
        Ok(span)
    }

    fn finish(self, text: Bytes) -> Result<Message, EnvelopeError> {
        let id = self.id;
        if let Some(what) = self.broken {
            return Err(what);
        }
        if self.bad_id {
            return Err(EnvelopeError::Id);
        }
        if !self.version {
            return Err(EnvelopeError::Version);
        }
        match (self.method, self.result, self.error) {
            (Some(method_span), None, None) => {
                let name = scan::as_str(method_span.of(&text)).ok_or(EnvelopeError::Method)?;
                let method = Method::parse(&name);
                let mut parts = self.request.unwrap_or_default();
                parts.method = method;
                parts.method_span = method_span;
                parts.id = id;
                parts.text = text;
                let request = Request(parts);
                Ok(if id.is_some() {
                    Message::Request(request)
                } else {
                    Message::Notification(request)
                })
            }
            // Only an error may lack an id: the sender could not read the id of the request.
            (None, Some(_), None) if id.is_none() => Err(EnvelopeError::Id),
            (None, Some(outcome), None) => Ok(Message::Response(Response { text, id, outcome })),
            (None, None, Some(Some(error))) => {
                Ok(Message::Response(Response { text, id, outcome: Outcome::Error(error) }))
            }
            (None, None, Some(None)) => Err(EnvelopeError::Error),
            _ => Err(EnvelopeError::Shape),
        }
    }
}

fn error_object(text: &[u8], members: &[Member]) -> Option<ErrorObject> {
    let code = std::str::from_utf8(scan::get(members, Key::Code)?.of(text)).ok()?;
    let code = code.parse::<i64>().ok()?;
    let message = scan::get(members, Key::Message)?;
    scan::as_words(message.of(text))?;
    Some(ErrorObject { code, message, data: scan::get(members, Key::Data) })
}

/// Returns whether a value is a string or an integer of at most [`MAX_ID`] bytes.
fn is_id(raw: &[u8]) -> bool {
    raw.len() <= MAX_ID
        && match raw {
            [b'"', ..] => scan::as_str(raw).is_some(),
            [b'-', digits @ ..] | digits => {
                !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
            }
        }
}

/// Splits a batch (2025-03-26) into messages.
///
/// # Errors
/// The text is not a JSON array, or it has more than `max` messages.
pub fn split_batch(text: &Bytes, max_depth: usize, max: usize) -> Result<Vec<Bytes>, ScanError> {
    let mut scanner = Scanner::new(text, max_depth)?;
    let mut messages = Vec::new();
    scanner.array(&mut |s| {
        let span = s.value()?;
        if messages.len() >= max {
            return Err(ScanError { what: Fault::Members, at: span.start });
        }
        messages.push(text.slice(span.range()));
        Ok(())
    })?;
    scanner.end()?;
    Ok(messages)
}

/// The reason why a text is not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Not JSON (-32700).
    #[error("parse error: {0}")]
    Parse(ScanError),
    /// JSON that violates a rule (-32600), with the id if it could be read.
    #[error("invalid request: {what}")]
    Invalid { what: EnvelopeError, id: Option<Span> },
}

/// The violated rule of the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    #[error("{0}")]
    Scan(ScanError),
    #[error("an array is not a message in this revision")]
    Batch,
    #[error("`jsonrpc` must be \"2.0\"")]
    Version,
    #[error("`id` must be a string or an integer of at most 256 bytes")]
    Id,
    #[error("`method` must be a string")]
    Method,
    #[error("`params` must be an object")]
    Params,
    #[error("`_meta` must be an object")]
    Meta,
    #[error("a message has either a method, a result or an error")]
    Shape,
    #[error("`result` must be an object")]
    Result,
    #[error("`error` must be an object with an integer code and a message")]
    Error,
}

/// Consumes the value of a member with an unknown name, unless the name differs only in case from a
/// known one.
fn other_value(
    s: &mut Scanner<'_>,
    text: &[u8],
    member: &Member,
    keys: Keys,
) -> Result<Span, ScanError> {
    if keys == Keys::Strict && is_disguised(&member.name_bytes(text)) {
        return Err(ScanError { what: Fault::CaseVariant, at: member.key.start });
    }
    s.value()
}

// Calls within the arguments of another call.

const NAMELESS: &str = "`arguments` must have the `name` of a tool";

impl Request {
    /// Turns the request into the call that its arguments contain: `name` and `arguments` of
    /// `params` are replaced, everything else stays. Copies nothing.
    ///
    /// # Errors
    /// The mistake, if the arguments are not such a call. The request is unchanged.
    pub fn unwrap_call(&mut self) -> Result<(), String> {
        let outer = scan::find(&self.params, &self.text, "arguments").ok_or(NAMELESS)?;
        let raw = outer.of(&self.text);
        let mut scanner = Scanner::new(raw, scan::MAX_DEPTH).map_err(|flaw| flaw.to_string())?;
        let scanned = scanner.members(Keys::Strict);
        let (_, members) = scanned.map_err(|flaw| format!("`arguments`: {flaw}"))?;
        let mut name = None;
        let mut arguments = None;
        for member in &members {
            let value = within(outer, member.value);
            match &*member.name(raw) {
                "name" => name = Some(value),
                "arguments" => arguments = Some(value),
                other => return Err(format!("unknown member {other:.64?} of `arguments`")),
            }
        }
        let name = name.ok_or(NAMELESS)?;
        if scan::as_str(name.of(&self.text)).is_none() {
            return Err(NAMELESS.into());
        }
        let RequestParts { text, params, .. } = &mut *self.0;
        params.retain(|member| arguments.is_some() || !member.is(text, "arguments"));
        for member in params {
            replace(member, text, "name", Some(name));
            replace(member, text, "arguments", arguments);
        }
        Ok(())
    }
}

/// Returns the position in the whole text of a span within the value at `outer`.
fn within(outer: Span, inner: Span) -> Span {
    Span { start: outer.start + inner.start, end: outer.start + inner.end }
}

fn replace(member: &mut Member, text: &[u8], name: &str, value: Option<Span>) {
    if let Some(value) = value
        && member.is(text, name)
    {
        member.value = value;
    }
}

#[cfg(test)]
mod tests;
