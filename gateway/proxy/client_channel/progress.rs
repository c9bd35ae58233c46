//! Throttling of a call's progress: a burst of steps, then the newest step at intervals. The last
//! step is sent before the response.

use std::time::{Duration, Instant};

use crate::pace::Pace;

/// Interval between steps after the burst.
const STEP_INTERVAL: Duration = Duration::from_millis(100);
/// Steps that are sent immediately.
const MAX_BURST: u32 = 20;

pub(super) struct Progress {
    last: Option<f64>,
    pace: Pace,
    /// The newest step that has not been sent.
    held: Option<Vec<u8>>,
    /// Whether a timer is set for `held`.
    pub(super) timer: bool,
}

impl Default for Progress {
    fn default() -> Self {
        Self { last: None, pace: Pace::new(STEP_INTERVAL, MAX_BURST), held: None, timer: false }
    }
}

impl Progress {
    /// Records a step and returns whether it is an increase; progress may only grow.
    pub(super) fn grows(&mut self, value: f64) -> bool {
        let grows = match self.last {
            Some(last) => value > last,
            None => true,
        };
        if grows {
            self.last = Some(value);
        }
        grows
    }

    /// Holds the newest step in place of an earlier unsent step.
    pub(super) fn hold(&mut self, text: Vec<u8>) {
        self.held = Some(text);
    }

    pub(super) fn take_held(&mut self) -> Option<Vec<u8>> {
        self.held.take()
    }

    /// Returns the step to send now, or the time to wait; `None` if no step is held.
    pub(super) fn due(&mut self, now: Instant) -> Option<Result<Vec<u8>, Duration>> {
        self.held.as_ref()?;
        match self.pace.admit(now) {
            Ok(()) => self.held.take().map(Ok),
            Err(wait) => Some(Err(wait)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_steps_become_a_few_and_the_newest_is_told() {
        let mut progress = Progress::default();
        let begin = Instant::now();
        let mut told = Vec::new();
        let mut latest = 0;
        // 25,000 in five seconds.
        for step in 1..=25_000_u32 {
            assert!(progress.grows(f64::from(step)) && !progress.grows(f64::from(step)));
            progress.hold(step.to_string().into_bytes());
            latest = step;
            let now = begin + Duration::from_micros(200) * step;
            if let Some(Ok(text)) = progress.due(now) {
                told.push(String::from_utf8(text).unwrap().parse::<u32>().unwrap());
            }
        }
        assert!(told.len() > 60 && told.len() < 80, "{}", told.len());
        assert_eq!(told[..20], (1..=20).collect::<Vec<_>>(), "a few are told one by one");
        assert!(told.windows(2).all(|pair| pair[0] < pair[1]));
        let held = progress.take_held().map(|text| String::from_utf8(text).unwrap());
        assert_eq!(
            held,
            Some(latest.to_string()),
            "the last one waits to be told before the answer"
        );
        assert!(progress.due(begin).is_none());
    }
}
