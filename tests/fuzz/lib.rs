//! Properties of the argument rules and of policy files that must hold for every input. Each is a
//! function that panics on a violation; `cargo test` runs them on the corpora, `targets/` in
//! libFuzzer. The check of policy files runs in the tests of `lockgate-config`, which loads them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use lockgate_policy::Refusal;

pub mod command;
pub mod corpora;
pub mod file;
pub mod path;
mod seeds;
pub mod sql;
pub mod uri;
pub mod url;

/// Limit on a verdict, generous enough for instrumented builds.
const VERDICT_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit on a refusal, in bytes.
const MAX_REFUSAL_BYTES: usize = 1000;

/// Splits the input: the first byte selects a rule, the rest is the text.
fn split(data: &[u8]) -> Option<(usize, &str)> {
    let (which, text) = data.split_first()?;
    Some((usize::from(*which), std::str::from_utf8(text).ok()?))
}

/// Checks that a verdict takes bounded time and that a refusal is a short printable text.
fn timed<T>(judge: impl FnOnce() -> Result<T, Refusal>) -> Option<T> {
    let began = Instant::now();
    let judged = judge();
    assert!(began.elapsed() < VERDICT_TIMEOUT, "{:?}", began.elapsed());
    judged
        .map_err(|refusal| {
            let words = refusal.0;
            assert!(
                !words.is_empty()
                    && words.len() <= MAX_REFUSAL_BYTES
                    && !words.chars().any(char::is_control),
                "{words:?}"
            );
        })
        .ok()
}

fn owned(list: &[&str]) -> Vec<String> {
    list.iter().map(|&entry| entry.to_owned()).collect()
}
