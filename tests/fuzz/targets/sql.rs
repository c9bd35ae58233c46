//! libFuzzer target for the SQL rule.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lockgate_tests_fuzz::sql::check(data));
