//! `uri` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lockgate_tests_fuzz::uri::check(data));
