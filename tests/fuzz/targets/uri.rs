//! libFuzzer target for resource URIs.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lockgate_tests_fuzz::uri::check(data));
