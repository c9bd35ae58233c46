//! Changes that administrators make while the gateway runs, each with what there was before and
//! what there is now. Room for the record is taken before the change is made, so that none is made
//! which cannot be recorded, where the operator wants that.

use std::time::SystemTime;

use lockgate_text::unseen::is_unseen;

use super::config::OnFull;
use super::event::{self, name};
use super::queue::Draft;
use super::trail::{RecordError, Trail, scratch};

/// Longest state of a thing that is kept as it is, in bytes.
const MAX_STATE: usize = 8 * 1024;
/// Of a longer one, or one with characters that nobody sees, so much of its text is kept.
const MAX_STATE_TEXT: usize = 2 * 1024;

/// A change that was made.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// What was done, such as `create agent`.
    pub action: &'static str,
    /// Who did it.
    pub issuer: &'a str,
    pub subject: &'a str,
    /// Of the thing that was changed; none of what all share.
    pub organisation: Option<&'a str>,
    /// JSON text without secrets; none of what was created.
    pub before: Option<&'a str>,
    /// JSON text without secrets; none of what is gone.
    pub after: Option<&'a str>,
}

/// Room for the record of one change. Dropped, the room is given back: nothing was changed.
#[derive(Debug)]
pub struct ChangePlace {
    trail: Trail,
    /// There is a place in the queue.
    held: bool,
}

impl Trail {
    /// Takes room for the record of a change that is about to be made.
    ///
    /// # Errors
    /// [`RecordError`], when nothing is to be changed without a record.
    pub fn reserve_change(&self) -> Result<ChangePlace, RecordError> {
        let shared = self.shared();
        let refuse = self.on_full() == OnFull::Deny;
        let failing = refuse && shared.counters.is_failing();
        let held = !failing && shared.queue.reserve(1);
        if !held && refuse {
            return Err(RecordError);
        }
        Ok(ChangePlace { trail: self.clone(), held })
    }
}

impl ChangePlace {
    /// Records the change that was made.
    pub fn record(mut self, change: &Change<'_>) {
        let at = SystemTime::now();
        let held = std::mem::take(&mut self.held);
        let taken = held
            && scratch(|members| {
                write(members, change);
                self.trail.shared().queue.follow(Draft { at, members, held: None })
            });
        if !taken {
            self.trail.lost(1);
        }
    }
}

impl Drop for ChangePlace {
    fn drop(&mut self) {
        if self.held {
            self.trail.shared().queue.free(1);
        }
    }
}

fn write(out: &mut Vec<u8>, change: &Change<'_>) {
    event::plain(out, name!("kind"), "change");
    event::plain(out, name!("action"), change.action);
    event::text(out, name!("issuer"), change.issuer);
    event::text(out, name!("who"), change.subject);
    event::client(out);
    if let Some(organisation) = change.organisation {
        event::text(out, name!("organisation"), organisation);
    }
    write_state(out, name!("before"), change.before);
    write_state(out, name!("after"), change.after);
}

/// A state is an object of the record, or cut and escaped as a text.
fn write_state(out: &mut Vec<u8>, name: &str, state: Option<&str>) {
    let Some(state) = state else { return };
    if state.len() <= MAX_STATE && state.starts_with('{') && !state.chars().any(is_unseen) {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(state.as_bytes());
    } else {
        event::escaped(out, name, state, MAX_STATE_TEXT);
    }
}
