//! The system call filter. Programs cannot open sockets, leave the process group, inspect other
//! processes or create namespaces. Programs that need no other processes cannot start any.

use std::collections::BTreeMap;

use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

/// Denied to all programs. io_uring would bypass the filter.
const NEVER: [i64; 21] = [
    libc::SYS_socket,
    libc::SYS_setsid,
    libc::SYS_setpgid,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_io_uring_setup,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
];
#[cfg(target_arch = "x86_64")]
const FORKS: [i64; 2] = [libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const FORKS: [i64; 0] = [];
/// Bit of the x32 ABI, which has the same system calls under other numbers.
#[cfg(target_arch = "x86_64")]
const OTHER_NUMBERS: i64 = 0x4000_0000;
#[cfg(not(target_arch = "x86_64"))]
const OTHER_NUMBERS: i64 = 0;

/// Installs the filter on this thread.
pub(super) fn apply(children: bool) -> Result<(), String> {
    try_apply(children)
        .map_err(|error| format!("the system call filter cannot be applied: {error}"))
}

fn try_apply(children: bool) -> Result<(), Box<dyn std::error::Error>> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in NEVER {
        refused.insert(call, Vec::new());
    }
    let mut absent = BTreeMap::new();
    if !children {
        for call in FORKS {
            refused.insert(call, Vec::new());
        }
        // Threads are permitted.
        let thread = SeccompCmpOp::MaskedEq(u64::try_from(libc::CLONE_THREAD)?);
        let no_thread = SeccompCondition::new(0, SeccompCmpArgLen::Qword, thread, 0)?;
        refused.insert(libc::SYS_clone, vec![SeccompRule::new(vec![no_thread])?]);
        // `clone3` has its flags behind a pointer, which filters cannot read. With `ENOSYS`,
        // libraries fall back to `clone`.
        absent.insert(libc::SYS_clone3, Vec::new());
    }
    for (calls, errno) in [(refused, libc::EPERM), (absent, libc::ENOSYS)] {
        let mut all = calls.clone();
        for (call, rules) in calls {
            all.insert(call | OTHER_NUMBERS, rules);
        }
        if all.is_empty() {
            continue;
        }
        let errno = SeccompAction::Errno(errno.unsigned_abs());
        let filter = SeccompFilter::new(all, SeccompAction::Allow, errno, arch)?;
        let program: seccompiler::BpfProgram = filter.try_into()?;
        apply_filter(&program)?;
    }
    Ok(())
}
