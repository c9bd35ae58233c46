//! libFuzzer target for the path rule.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lockgate_tests_fuzz::path::check(data));
