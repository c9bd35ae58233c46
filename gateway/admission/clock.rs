//! The time for measurements on the path of a request. Many steps of a request need it, so that it
//! is read once per poll of the request's future.

use std::cell::Cell;
use std::time::{Duration, Instant};

use scopeguard::guard;

thread_local! {
    static POLL_START: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Runs `poll`. While it runs, [`now`] returns the time at which it began.
pub fn during_poll<T>(poll: impl FnOnce() -> T) -> T {
    if POLL_START.get().is_some() {
        // The poll of a future within another.
        return poll();
    }
    POLL_START.set(Some(Instant::now()));
    // On drop, because a poll may panic.
    let _end = guard((), |()| POLL_START.set(None));
    poll()
}

/// Returns the start of the current poll, or the current time outside of [`during_poll`].
pub fn now() -> Instant {
    POLL_START.get().unwrap_or_else(Instant::now)
}

/// Returns the time since `start` as of [`now`].
pub fn elapsed(start: Instant) -> Duration {
    now().saturating_duration_since(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_takes_no_time_and_ends() {
        let pause = Duration::from_millis(2);
        during_poll(|| {
            let start = now();
            std::thread::sleep(pause);
            assert_eq!(elapsed(start), Duration::ZERO);
            during_poll(|| assert_eq!(now(), start, "a poll within another"));
            assert_eq!(now(), start);
        });
        let start = now();
        std::thread::sleep(pause);
        assert!(elapsed(start) >= pause);
        assert!(std::panic::catch_unwind(|| during_poll(|| panic!())).is_err());
        assert!(POLL_START.get().is_none());
    }
}
