//! libFuzzer target for policy files.

#![no_main]

use std::path::PathBuf;

use lockgate_tests_fuzz::file::{FILE, check};

libfuzzer_sys::fuzz_target!(|data: &[u8]| check(data, |folder| {
    let files = [PathBuf::from(FILE)];
    lockgate_config::policies::load(&files, folder).map_err(|report| report.to_string())
}));
