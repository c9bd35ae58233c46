//! libFuzzer target for the URL rule.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lockgate_tests_fuzz::url::check(data));
