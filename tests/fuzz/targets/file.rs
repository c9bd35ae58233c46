//! libFuzzer target for policy files.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lockgate_tests_fuzz::file::check(data));
