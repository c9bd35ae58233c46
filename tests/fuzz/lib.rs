//! What must be true of every input to the argument rules and of every policy file, as one function
//! each: they panic where it is not. `cargo test` runs them over the corpora; `targets/` hands them
//! to libFuzzer. Nothing here decides anything.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use lockgate_policy::Refusal;

pub mod command;
#[cfg(feature = "file")]
pub mod file;
pub mod path;
pub mod seeds;
pub mod sql;
pub mod uri;
pub mod url;

/// Longest time for one verdict, far beyond what any takes, also where everything is instrumented.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest refusal, in bytes.
const WORDS: usize = 1000;

/// The first byte chooses a rule; the rest is text.
fn split(data: &[u8]) -> Option<(usize, &str)> {
    let (which, text) = data.split_first()?;
    Some((usize::from(*which), std::str::from_utf8(text).ok()?))
}

/// A verdict comes in time, and a refusal is a sentence that can be shown to anybody.
fn timed<T>(judge: impl FnOnce() -> Result<T, Refusal>) -> Option<T> {
    let began = Instant::now();
    let judged = judge();
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    judged
        .map_err(|refusal| {
            let words = refusal.0;
            assert!(
                !words.is_empty() && words.len() <= WORDS && !words.chars().any(char::is_control),
                "{words:?}"
            );
        })
        .ok()
}

fn owned(list: &[&str]) -> Vec<String> {
    list.iter().map(|&entry| entry.to_owned()).collect()
}

#[cfg(test)]
mod corpora;
