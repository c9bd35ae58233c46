//! Calls that wait for a person: what callers were asked, and what waits for others. All of it is
//! bounded and kept in memory alone, so that a gateway that starts anew knows of no approval.

pub(crate) mod asked;
pub(crate) mod bounds;
pub(crate) mod waiting;

use asked::AskedCalls;
use waiting::WaitingCalls;

/// See the module.
#[derive(Default)]
pub(crate) struct Approvals {
    pub(crate) asked: AskedCalls,
    pub(crate) waiting: WaitingCalls,
}

impl Approvals {
    /// How many calls wait for a person.
    pub(crate) fn len(&self) -> usize {
        self.asked.len() + self.waiting.len()
    }
}
