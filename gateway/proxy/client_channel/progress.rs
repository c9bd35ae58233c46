//! How much of a call's progress its client is told: each step as long as there are few, then the
//! newest one, a few times a second. The last one comes before the answer.

use std::time::{Duration, Instant};

use crate::pace::Pace;

/// Time between steps that are told, once there are many.
const INTERVAL: Duration = Duration::from_millis(100);
/// Steps that are told at once before that.
const BURST: u32 = 20;

/// See the module.
pub(super) struct Progress {
    last: Option<f64>,
    pace: Pace,
    /// The newest step, as long as it has not been told.
    held: Option<Vec<u8>>,
    /// Somebody is going to look at `held` again.
    pub(super) timer: bool,
}

impl Default for Progress {
    fn default() -> Self {
        Self { last: None, pace: Pace::new(INTERVAL, BURST), held: None, timer: false }
    }
}

impl Progress {
    /// Whether a step leads on: progress only ever grows.
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

    /// Takes the newest step, in place of one that was not told.
    pub(super) fn hold(&mut self, text: Vec<u8>) {
        self.held = Some(text);
    }

    pub(super) fn take_held(&mut self) -> Option<Vec<u8>> {
        self.held.take()
    }

    /// The step that is to be told now, or how long it has to wait; `None` when there is none.
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
