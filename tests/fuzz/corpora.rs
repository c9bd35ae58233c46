//! Runs each check on its corpus, and on inputs spliced from it by a deterministic generator.

use crate::seeds;

/// Spliced inputs per target.
pub const SPLICED_INPUTS: usize = 6_000;

/// Passes the seeds of a target, and this number of inputs spliced from them, to a check.
pub fn through(target: &str, check: impl Fn(&[u8]), made: usize) {
    let all = seeds::of(target);
    assert!(all.len() > 7, "{target}: {}", all.len());
    all.iter().for_each(|seed| check(seed));
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).unwrap()
    };
    for _ in 0..made {
        let mut text = vec![u8::try_from(random(9)).unwrap()];
        for _ in 0..=random(2) {
            let one = &all[random(all.len())];
            let (from, to) = (random(one.len() + 1), random(one.len() + 1));
            text.extend_from_slice(&one[from.min(to)..from.max(to)]);
        }
        check(&text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sql() {
        through("sql", crate::sql::check, SPLICED_INPUTS);
    }

    #[test]
    fn path() {
        through("path", crate::path::check, SPLICED_INPUTS);
    }

    #[test]
    fn url() {
        through("url", crate::url::check, SPLICED_INPUTS);
    }

    #[test]
    fn uri() {
        through("uri", crate::uri::check, SPLICED_INPUTS);
    }

    #[test]
    fn command() {
        through("command", crate::command::check, SPLICED_INPUTS);
    }
}
