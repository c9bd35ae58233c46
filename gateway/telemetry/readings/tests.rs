//! Tests of `readings`: the usage of the process.

#![allow(clippy::unwrap_used)]

use super::*;

fn values(usage: &[(Named, f64)]) -> Vec<(&str, f64)> {
    usage.iter().map(|((name, _), value)| (*name, *value)).collect()
}

#[test]
fn this_process_is_read() {
    let usage = read_usage().unwrap();
    let [cpu, resident, virtual_bytes, threads, files, most] = &values(&usage)[..] else {
        panic!("{usage:?}")
    };
    assert!(resident.1 > f64::from(1 << 20) && virtual_bytes.1 >= resident.1);
    assert!(files.1 >= 3.0 && threads.1 >= 1.0 && most.1 > files.1, "{usage:?}");
    assert!(cpu.1 > 0.0 && read_usage().unwrap()[0].1 > cpu.1, "{usage:?}");
}
