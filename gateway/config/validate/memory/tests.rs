//! Tests of `memory`.

use super::*;
use crate::tests::TestConfig;

const MIB: u64 = 1 << 20;

/// Returns the default memory of a system with these files.
fn system(files: &[(&str, &str)]) -> u64 {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let file = root.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    default_memory(root.path()) / MIB
}

#[test]
fn the_memory_is_what_the_system_says() {
    let large = ("proc/meminfo", "MemTotal:       33554432 kB\nMemFree: 1 kB\n");
    let small = ("proc/meminfo", "MemTotal:         524288 kB\n");
    let unified = ("proc/self/cgroup", "0::/kubepods/pod1\n");
    let own = ("sys/fs/cgroup/memory.max", "134217728\n");
    for (case, files, mib) in [
        ("nothing is known", vec![], 512),
        ("no cgroup", vec![large], 512),
        ("a small machine", vec![small], 256),
        ("no limit", vec![large, unified, ("sys/fs/cgroup/memory.max", "max\n")], 512),
        ("a container's own root", vec![large, unified, own], 96),
        (
            "the least above it",
            vec![
                large,
                unified,
                ("sys/fs/cgroup/kubepods/pod1/memory.max", "max"),
                ("sys/fs/cgroup/kubepods/memory.max", "1073741824"),
            ],
            768,
        ),
        (
            "version 1",
            vec![
                large,
                ("proc/self/cgroup", "5:cpu:/\n4:memory:/a\n0::/\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
                ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "536870912"),
            ],
            384,
        ),
        (
            "more than the machine has",
            vec![small, unified, ("sys/fs/cgroup/memory.max", "68719476736")],
            256,
        ),
    ] {
        assert_eq!(system(&files), mib, "{case}");
    }
}

/// Checks that `bytes_in_flight` is used if it fits, and rejected if `memory` is too small.
#[test]
fn bytes_in_flight_fit_into_the_memory() {
    let said = |limits: &str| {
        TestConfig::files(&[("lockgate.yaml", &format!("limits: {limits}\n"))]).messages()
    };
    assert_eq!(said("{ memory: 96MiB, bytes_in_flight: 16MiB }"), Vec::<String>::new());
    let wrong = said("{ memory: 96MiB, bytes_in_flight: 17MiB }");
    assert!(wrong.len() == 1 && wrong[0].contains("must not be more than 16777216"), "{wrong:?}");
    let told = said("{ bytes_in_flight: 16GiB }");
    assert!(told.len() == 1 && told[0].starts_with("warning: "), "{told:?}");
}

#[test]
fn messages_get_half_of_what_the_program_does_not_take() {
    assert_eq!(share(512 * MIB), 224 * MIB);
    assert_eq!(share(96 * MIB), 16 * MIB);
    assert_eq!(share(10 * MIB), MIB);
}
