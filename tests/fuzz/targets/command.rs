//! libFuzzer target for the command rule.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lockgate_tests_fuzz::command::check(data));
