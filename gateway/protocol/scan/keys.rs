//! Checks of an object's keys: their strictness, and how many are compared with each other.

use super::fault::Fault;
use super::span::Member;
use super::text::unescape;
use crate::key::Key;

/// How strictly an object's keys are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Printable ASCII, no two equal ignoring case. For all objects that the gateway itself reads.
    Strict,
    /// Any text without duplicates. For the results of servers, which may have members of their
    /// own.
    Distinct,
}

/// Maximum members of an object, because each key is compared with all others.
pub const MAX_MEMBERS: usize = 128;

/// The keys of an object so far.
#[derive(Default)]
pub(super) struct Seen {
    /// A bit for each known key.
    known: u64,
    /// Whether there is any other key.
    has_others: bool,
}

impl Seen {
    /// Checks a key against the required strictness and the keys before it. `plain` means that the
    /// text has no byte beyond `~`.
    #[inline]
    pub(super) fn check(
        &mut self,
        text: &[u8],
        plain: bool,
        before: &[Member],
        new: &Member,
        keys: Keys,
    ) -> Result<(), Fault> {
        if before.len() >= MAX_MEMBERS {
            return Err(Fault::Members);
        }
        if keys == Keys::Strict && (new.escaped || !plain) && !is_printable(text, new) {
            return Err(Fault::KeyBytes);
        }
        if new.known == Key::Other || self.has_others {
            compare(text, before, new, keys)?;
        }
        if new.known == Key::Other {
            self.has_others = true;
            return Ok(());
        }
        if self.known & new.known.bit() != 0 {
            return Err(Fault::Duplicate);
        }
        self.known |= new.known.bit();
        Ok(())
    }
}

/// Compares a key with those before it.
fn compare(text: &[u8], before: &[Member], new: &Member, keys: Keys) -> Result<(), Fault> {
    for old in before {
        if !old.escaped && !new.escaped && length(old) != length(new) {
            continue;
        }
        let old_name = old.name_bytes(text);
        let new_name = new.name_bytes(text);
        if old_name.eq_ignore_ascii_case(&new_name) {
            if old_name == new_name {
                return Err(Fault::Duplicate);
            }
            if keys == Keys::Strict {
                return Err(Fault::CaseVariant);
            }
        }
    }
    Ok(())
}

/// Returns whether a key, unescaped, is printable ASCII.
fn is_printable(text: &[u8], member: &Member) -> bool {
    let raw = member.key.of(text);
    if member.escaped {
        unescape(raw).bytes().all(|b| (b' '..=b'~').contains(&b))
    } else {
        raw.iter().all(|b| (b' '..=b'~').contains(b))
    }
}

const fn length(member: &Member) -> u32 {
    member.key.end - member.key.start
}
