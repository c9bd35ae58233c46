//! Messages that were read: the text that each came in, and where its parts stand.

use std::borrow::Cow;

use bytes::Bytes;

use crate::method::Method;
use crate::scan::{self, Member, Members, Span};

/// Any message of a peer.
#[derive(Clone, Debug)]
pub enum Message {
    Request(Request),
    Notification(Request),
    Response(Response),
}

/// A request or notification: the text it came in, and where its parts stand.
#[derive(Clone, Debug)]
pub struct Request {
    pub text: Bytes,
    pub method: Method,
    pub(super) method_span: Span,
    pub(super) id: Option<Span>,
    pub(super) params: Members,
    pub(super) has_params: bool,
    pub(super) meta: Option<Members>,
}

/// A response: to one of our own ids, or to nothing we know.
#[derive(Clone, Debug)]
pub struct Response {
    pub text: Bytes,
    pub(super) id: Option<Span>,
    pub outcome: Outcome,
}

/// What a response says.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The result object and its top-level members.
    Result(Span, Members),
    /// The error object.
    Error(ErrorObject),
}

/// Where the parts of an error object stand.
#[derive(Clone, Copy, Debug)]
pub struct ErrorObject {
    pub code: i64,
    pub message: Span,
    pub data: Option<Span>,
}

impl Request {
    /// The id as JSON text; empty for a notification.
    #[must_use]
    pub fn id(&self) -> &[u8] {
        match self.id {
            Some(id) => id.of(&self.text),
            None => &[],
        }
    }

    /// The id as JSON text, sharing the message's bytes.
    #[must_use]
    pub fn id_bytes(&self) -> Bytes {
        match self.id {
            Some(id) => self.text.slice(id.range()),
            None => Bytes::new(),
        }
    }

    /// The method as it was sent, also when we do not know it.
    #[must_use]
    pub fn method_name(&self) -> Cow<'_, str> {
        scan::as_str(self.method_span.of(&self.text)).unwrap_or(Cow::Borrowed(""))
    }

    #[must_use]
    pub fn has_params(&self) -> bool {
        self.has_params
    }

    /// The members of `params`, in order.
    #[must_use]
    pub fn params(&self) -> &[Member] {
        &self.params
    }

    /// A member of `params` as JSON text.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&[u8]> {
        Some(scan::find(&self.params, &self.text, name)?.of(&self.text))
    }

    /// A member of `params` that is a string.
    #[must_use]
    pub fn param_str(&self, name: &str) -> Option<Cow<'_, str>> {
        scan::as_str(self.param(name)?)
    }

    /// The members of `params._meta`, if there is one.
    #[must_use]
    pub fn meta_members(&self) -> &[Member] {
        self.meta.as_deref().unwrap_or(&[])
    }

    /// A member of `params._meta` as JSON text.
    #[must_use]
    pub fn meta(&self, key: &str) -> Option<&[u8]> {
        Some(scan::find(self.meta_members(), &self.text, key)?.of(&self.text))
    }

    /// A member of `params._meta` that is a string.
    #[must_use]
    pub fn meta_str(&self, key: &str) -> Option<Cow<'_, str>> {
        scan::as_str(self.meta(key)?)
    }
}

impl Response {
    /// What stands for a result that has been taken already, piece by piece: an empty one.
    #[must_use]
    pub fn taken() -> Self {
        let span = Span { start: 0, end: 2 };
        Self {
            text: Bytes::from_static(b"{}"),
            id: None,
            outcome: Outcome::Result(span, Members::new()),
        }
    }

    /// The id as JSON text, if there is one.
    #[must_use]
    pub fn id(&self) -> Option<&[u8]> {
        Some(self.id?.of(&self.text))
    }

    /// The id, when it is a number of the kind that the gateway mints.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        std::str::from_utf8(self.id()?).ok()?.parse().ok()
    }
}

impl ErrorObject {
    /// The message as text.
    #[must_use]
    pub fn message(self, text: &[u8]) -> Cow<'_, str> {
        scan::as_words(self.message.of(text)).unwrap_or(Cow::Borrowed(""))
    }

    /// `data` as JSON text.
    #[must_use]
    pub fn data(self, text: &[u8]) -> Option<&[u8]> {
        Some(self.data?.of(text))
    }
}
