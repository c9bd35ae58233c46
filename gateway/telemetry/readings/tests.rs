//! Tests of `readings`: the usage of the process.

#![allow(clippy::unwrap_used)]

use super::*;

fn values(usage: &[(Named, f64)]) -> Vec<(&str, f64)> {
    usage.iter().map(|((name, _), value)| (*name, *value)).collect()
}

#[test]
fn a_process_with_a_strange_name_is_read() {
    let stat = "7 (a) b (c) R 1 7 7 0 -1 4194560 1 2 3 4 150 50 9 9 20 0 3 0 1234 99 88 7";
    let status = "Name:\ta\nVmSize:\t  2048 kB\nVmRSS:\t  1024 kB\nThreads:\t3\n";
    let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files    1024    4096    files\n";
    let usage = parse(stat, status, limits, 5).unwrap();
    let wanted = [
        ("process_cpu_seconds_total", 2.0),
        ("process_resident_memory_bytes", 1024.0 * 1024.0),
        ("process_virtual_memory_bytes", 2048.0 * 1024.0),
        ("process_threads", 3.0),
        ("process_open_fds", 5.0),
        ("process_max_fds", 1024.0),
    ];
    assert_eq!(values(&usage), wanted);
    let unlimited = "Max open files            unlimited            unlimited            files";
    let usage = parse(stat, status, unlimited, 5).unwrap();
    assert_eq!(values(&usage), wanted[..5]);
    assert_eq!(parse("7 (a", status, limits, 5), None);
}

#[test]
fn this_process_is_read() {
    let usage = read_usage().unwrap();
    let [_, resident, virtual_bytes, threads, files, ..] = &values(&usage)[..] else { panic!() };
    assert!(resident.1 > f64::from(1 << 20) && virtual_bytes.1 >= resident.1);
    assert!(files.1 >= 3.0 && threads.1 >= 1.0, "{usage:?}");
}
