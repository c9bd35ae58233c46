//! Tests of `process`.

#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn a_process_with_a_strange_name_is_read() {
    let stat = "7 (a) b (c) R 1 7 7 0 -1 4194560 1 2 3 4 150 50 9 9 20 0 3 0 1234 99 88 7";
    let status = "Name:\ta\nVmSize:\t  2048 kB\nVmRSS:\t  1024 kB\nThreads:\t3\n";
    let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files    1024    4096    files\n";
    let usage = ProcessUsage::parse(stat, status, limits, 5).unwrap();
    let wanted = ProcessUsage {
        cpu_seconds: 2.0,
        resident_bytes: 1024 * 1024,
        virtual_bytes: 2048 * 1024,
        threads: 3,
        open_files: 5,
        max_files: Some(1024),
    };
    assert_eq!(usage, wanted);
    let unlimited = "Max open files            unlimited            unlimited            files";
    assert_eq!(ProcessUsage::parse(stat, status, unlimited, 5).unwrap().max_files, None);
    assert_eq!(ProcessUsage::parse("7 (a", status, limits, 5), None);
}

#[test]
fn this_process_is_read() {
    let usage = ProcessUsage::read().unwrap();
    assert!(usage.resident_bytes > 1 << 20 && usage.virtual_bytes >= usage.resident_bytes);
    assert!(usage.open_files >= 3 && usage.threads >= 1, "{usage:?}");
}
