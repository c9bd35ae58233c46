//! Parsed messages: the text of each message, with the positions of its parts.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Deref;

use bytes::Bytes;

use crate::key::Key;
use crate::method::Method;
use crate::scan;
use crate::scan::{Keys, Member, Members, Scanner, Span};

#[derive(Clone, Debug)]
pub enum Message {
    Request(Request),
    Notification(Request),
    Response(Response),
}

/// A request or notification. The size of a pointer, because every step of a call passes it on.
#[derive(Clone, Debug)]
pub struct Request(pub(super) Box<RequestParts>);

/// The text of a request, and the positions of its parts.
#[derive(Clone, Debug, Default)]
pub struct RequestParts {
    pub text: Bytes,
    pub method: Method,
    pub(super) method_span: Span,
    pub(super) id: Option<Span>,
    pub(super) params: Members,
    pub(super) has_params: bool,
    pub(super) meta: Members,
}

/// A response, to one of the gateway's ids or to an unknown id.
#[derive(Clone, Debug)]
pub struct Response {
    pub text: Bytes,
    pub(super) id: Option<Span>,
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

    pub fn has_params(&self) -> bool {
        self.has_params
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
