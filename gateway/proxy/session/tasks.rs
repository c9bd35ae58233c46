//! The tasks that a session's client follows (2025-11-25), for its list of them.

use super::Session;

/// Tasks of one session; the oldest go.
const MAX_TASKS: usize = 256;

impl Session {
    /// The client has a task by this id.
    pub(crate) fn remember_task(&self, token: String) {
        self.state(|state| {
            if state.tasks.len() >= MAX_TASKS {
                state.tasks.pop_front();
            }
            state.tasks.push_back(token);
        });
    }

    pub(crate) fn tasks(&self) -> Vec<String> {
        self.state(|state| state.tasks.iter().cloned().collect())
    }

    /// The server does not have it any more.
    pub(crate) fn forget_task(&self, token: &str) {
        self.state(|state| state.tasks.retain(|known| known != token));
    }
}
