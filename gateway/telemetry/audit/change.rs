//! Changes by administrators while the gateway runs, each with the previous and the new state. Room
//! for the record is reserved before the change is made, so that, if configured, unrecordable
//! changes are denied.

use std::time::SystemTime;

use lockgate_text::unseen::is_unseen;

use super::config::OnFull;
use super::event::{self, name};
use super::queue::Draft;
use super::trail::{RecordError, Trail, scratch};

/// Maximum bytes of a state that is kept as JSON.
const MAX_STATE: usize = 8 * 1024;
/// Maximum bytes of text kept of a longer state, or of a state with invisible characters.
const MAX_STATE_TEXT: usize = 2 * 1024;

/// A completed change.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The action, such as `create agent`.
    pub action: &'static str,
    /// The administrator.
    pub issuer: &'a str,
    pub subject: &'a str,
    /// The display name of the administrator's key.
    pub key: Option<&'a str>,
    /// The organisation of the changed object; `None` for shared objects.
    pub organisation: Option<&'a str>,
    /// JSON text without secrets; `None` for a created object.
    pub before: Option<&'a str>,
    /// JSON text without secrets; `None` for a deleted object.
    pub after: Option<&'a str>,
}

/// Room for the record of a change, released on drop if nothing was changed.
#[derive(Debug)]
pub struct ChangePlace {
    trail: Trail,
    held: bool,
}

impl Trail {
    /// Reserves room for the record of an upcoming change.
    ///
    /// # Errors
    /// [`RecordError`], if changes without a record are denied.
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
    /// Records the completed change.
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
    if let Some(key) = change.key {
        event::text(out, name!("key"), key);
    }
    event::client(out);
    if let Some(organisation) = change.organisation {
        event::text(out, name!("organisation"), organisation);
    }
    write_state(out, name!("before"), change.before);
    write_state(out, name!("after"), change.after);
}

/// Writes a state as a JSON object, or as truncated and escaped text.
fn write_state(out: &mut Vec<u8>, name: &str, state: Option<&str>) {
    let Some(state) = state else { return };
    if state.len() <= MAX_STATE && state.starts_with('{') && !state.chars().any(is_unseen) {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(state.as_bytes());
    } else {
        event::escaped(out, name, state, MAX_STATE_TEXT);
    }
}
