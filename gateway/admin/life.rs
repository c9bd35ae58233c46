//! The life cycle of the process: initializing → ready → shutting_down → stopped. It never goes
//! back.

use std::sync::atomic::{AtomicU8, Ordering};

lockgate_text::words! {
    /// A state in the life cycle of the process.
    #[derive(PartialOrd, Ord)]
    #[repr(u8)]
    pub enum LifeState {
        /// Servers are connecting; requests are already answered.
        Initializing = "initializing",
        Ready = "ready",
        /// Nothing new is accepted; running requests may finish.
        ShuttingDown = "shutting_down",
        Stopped = "stopped",
    }
}

/// The current [`LifeState`], shared between threads.
#[derive(Debug, Default)]
pub struct LifeCycle(AtomicU8);

impl LifeCycle {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn state(&self) -> LifeState {
        match self.0.load(Ordering::Acquire) {
            0 => LifeState::Initializing,
            1 => LifeState::Ready,
            2 => LifeState::ShuttingDown,
            _ => LifeState::Stopped,
        }
    }

    /// Enters [`LifeState::Ready`]: the servers have settled.
    pub fn ready(&self) {
        self.reach(LifeState::Ready);
    }

    /// Enters [`LifeState::ShuttingDown`]: the process was asked to terminate.
    pub fn shut_down(&self) {
        self.reach(LifeState::ShuttingDown);
    }

    /// Enters [`LifeState::Stopped`]: no requests are running.
    pub fn stop(&self) {
        self.reach(LifeState::Stopped);
    }

    fn reach(&self, state: LifeState) {
        self.0.fetch_max(state as u8, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests;
