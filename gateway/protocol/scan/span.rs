//! Positions in a scanned text, of values and members of objects, and errors of scanning.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::text::{as_str, unescape};
use crate::key::Key;

/// The range of a value in its text, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// Returns the bytes of the span; `text` must be the scanned text.
    pub fn of(self, text: &[u8]) -> &[u8] {
        text.get(self.start as usize..self.end as usize).unwrap_or(&[])
    }

    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A member of an object: its key (raw, between the quotes) and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub key: Span,
    pub known: Key,
    /// Whether the key has escapes, so that its bytes are not its text.
    pub escaped: bool,
    pub value: Span,
}

impl Member {
    /// Returns whether the key, unescaped, is `name`.
    #[inline]
    pub fn is(&self, text: &[u8], name: &str) -> bool {
        if self.escaped {
            return unescape(self.key.of(text)) == name;
        }
        // Most keys have another length.
        (self.key.end - self.key.start) as usize == name.len()
            && self.key.of(text) == name.as_bytes()
    }

    /// Returns the unescaped key as bytes; most comparisons do not need text.
    pub fn name_bytes<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let raw = self.key.of(text);
        if !self.escaped {
            return Cow::Borrowed(raw);
        }
        match unescape(raw) {
            Cow::Borrowed(name) => Cow::Borrowed(name.as_bytes()),
            Cow::Owned(name) => Cow::Owned(name.into_bytes()),
        }
    }

    /// Returns the key as text.
    pub fn name<'a>(&self, text: &'a [u8]) -> Cow<'a, str> {
        if self.escaped {
            unescape(self.key.of(text))
        } else {
            Cow::Borrowed(std::str::from_utf8(self.key.of(text)).unwrap_or(""))
        }
    }
}

/// The members of an object, in order.
pub type Members = SmallVec<[Member; 8]>;

/// Returns the value of a known member.
#[inline]
pub fn get(members: &[Member], key: Key) -> Option<Span> {
    members.iter().find(|member| member.known == key).map(|member| member.value)
}

/// Returns the value of the member called `name`.
pub fn find(members: &[Member], text: &[u8], name: &str) -> Option<Span> {
    members.iter().find(|member| member.is(text, name)).map(|member| member.value)
}

/// Returns the text of the member called `name`, as [`as_str`] does.
pub fn find_str<'a>(members: &[Member], text: &'a [u8], name: &str) -> Option<Cow<'a, str>> {
    as_str(find(members, text, name)?.of(text))
}

/// The error of a scan and its position. Small enough for results to be returned in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct ScanError {
    pub what: Fault,
    /// Bytes from the start of the text.
    pub at: u32,
}

/// The fault in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("not UTF-8")]
    Utf8,
    #[error("not JSON")]
    Syntax,
    #[error("text ends early")]
    End,
    #[error("nested too deeply")]
    Depth,
    #[error("text after the value")]
    Trailing,
    #[error("duplicate key")]
    Duplicate,
    #[error("keys that differ only in case")]
    CaseVariant,
    #[error("key with bytes outside printable ASCII")]
    KeyBytes,
    #[error("too many members")]
    Members,
    #[error("not an object")]
    NotObject,
    #[error("longer than 4 GiB")]
    Length,
}

impl Fault {
    /// Returns whether the text is not JSON, as opposed to JSON that is rejected.
    pub fn is_syntax(self) -> bool {
        matches!(
            self,
            Self::Utf8 | Self::Syntax | Self::End | Self::Trailing | Self::Depth | Self::Length
        )
    }
}
