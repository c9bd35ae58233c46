//! A launcher between the gateway and a program: the gateway's own executable, in another mode. The
//! launcher waits for its plan, drops all access that the program must not have, and then becomes
//! the program, or its guard. Not a command for users.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::error::Error;
use std::ffi::OsString;
use std::io::{self, BufRead, Read, Write};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use lockgate_text::json;
use rustix::fs::{Mode, OFlags, fstat};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, kill_current_process_group, set_dumpable_behavior,
    setrlimit,
};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};
use serde::{Deserialize, Serialize};

use super::config::Landlock;
use super::folder::HeldFolder;
use crate::file::root::identity;

/// The first argument of this mode, and the second if the program may start others.
pub(super) const MODE: &str = "confine-exec";
pub(super) const CHILDREN: &str = "children";
/// The exit code for a program that was not started, and the prefix of the error message.
pub(super) const FAILED_EXIT_CODE: u8 = 125;
pub(super) const LAST_WORDS: &str = "lockgate: not confined, not started: ";

/// The instructions for a launcher: the confinement and the program. Sent as a line of JSON on
/// standard input.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    /// The process id of the gateway.
    pub(super) gateway: u32,
    /// The absolute path of the executable.
    pub(super) program: PathBuf,
    /// The program's `argv[0]`.
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
    /// The working folder; `None` is `/`.
    pub(super) folder: Option<HeldFolder>,
    pub(super) landlock: bool,
    pub(super) roots: Vec<HeldFolder>,
    /// Paths that it may read, besides the roots.
    pub(super) read: Vec<PathBuf>,
    /// Paths that it may execute.
    pub(super) execute: Vec<PathBuf>,
    pub(super) children: bool,
    pub(super) cpu_seconds: u64,
    pub(super) memory_bytes: u64,
    pub(super) file_bytes: u64,
    pub(super) open_files: u64,
    pub(super) processes: u64,
}

/// Maximum size of a plan in bytes; larger than the kernel's limit for arguments.
const MAX_PLAN: u64 = 16 << 20;

/// The newest Landlock ABI that is requested; older kernels apply the rights that they support.
/// `NEEDED` is the minimum: without it, no program runs.
const NEWEST: ABI = ABI::V6;
const NEEDED: ABI = ABI::V1;

fn write_last_words(words: &str) {
    let _ = writeln!(io::stderr(), "{LAST_WORDS}{words}");
}

/// Returns whether the kernel supports Landlock.
pub(super) fn found() -> bool {
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    rules.handle_access(AccessFs::from_all(NEEDED)).is_ok_and(|rules| rules.create().is_ok())
}

/// Returns whether to use Landlock; an error if required but not supported.
pub(super) fn wanted(setting: Landlock, found: bool) -> Result<bool, String> {
    match (setting, found) {
        (Landlock::Off, _) | (Landlock::BestEffort, false) => Ok(false),
        (_, true) => Ok(true),
        (Landlock::Required, false) => Err("this kernel has no Landlock, which confines programs \
            to the roots; use one from 5.13 on with `landlock` in its list of security modules, \
            or set `landlock: best-effort` and confine the gateway otherwise"
            .into()),
    }
}

/// Becomes a program that cannot start others. The process ends with the gateway.
fn become_program() -> Result<Infallible, String> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("death signal: {error}"))?;
    close_inherited()?;
    // Installed before the plan arrives, because it takes long. It permits everything done below.
    filter_calls(false)?;
    let plan = read_plan(false)?;
    if std::os::unix::process::parent_id() != plan.gateway {
        // The gateway ended before the death signal was set.
        return Err("the gateway is gone".into());
    }
    let mut command = confine(&plan)?;
    Err(format!("{}: {}", plan.program.display(), command.exec()))
}

/// Installs the system call filter on this thread, which its children inherit.
fn filter_calls(children: bool) -> Result<(), String> {
    rustix::thread::set_no_new_privs(true)
        .map_err(|error| format!("no new privileges: {error}"))?;
    apply_filters(children)
        .map_err(|error| format!("the system call filter cannot be applied: {error}"))
}

/// Drops this thread's access. Limits and working folder apply to the whole process. Returns the
/// command that starts the program.
#[allow(
    clippy::disallowed_methods,
    reason = "the program that the gateway has chosen, after confining itself"
)]
fn confine(plan: &Plan) -> Result<Command, String> {
    limit(plan)?;
    // The working folder is `/` until here.
    if let Some(folder) = &plan.folder {
        enter(folder).map_err(|words| format!("the working folder cannot be entered: {words}"))?;
    }
    if plan.landlock {
        landlock(plan).map_err(|words| format!("Landlock: {words}"))?;
    }
    let mut command = Command::new(&plan.program);
    command.arg0(&plan.name).args(&plan.arguments).env_clear().envs(&plan.environment);
    Ok(command)
}

/// Closes inherited descriptors other than the standard streams: Landlock checks files when they
/// are opened, and does not affect open ones.
#[allow(
    clippy::disallowed_methods,
    reason = "the descriptors of this process, before it has any of its own"
)]
fn close_inherited() -> Result<(), String> {
    let open = std::fs::read_dir("/proc/self/fd")
        .map_err(|error| format!("its open files cannot be listed: {error}"))?;
    let open = open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let inherited: Vec<RawFd> = open.collect();
    for descriptor in inherited.into_iter().filter(|descriptor| *descriptor > 2) {
        // The descriptor of the directory itself is already closed.
        let _ = nix::unistd::close(descriptor);
    }
    Ok(())
}

/// Waits for the plan, which is one line. Afterwards, standard input is empty.
fn read_plan(children: bool) -> Result<Plan, String> {
    let mut text = Vec::new();
    let mut input = io::stdin().lock().take(MAX_PLAN);
    let read = input.read_until(b'\n', &mut text);
    read.map_err(|error| format!("the plan cannot be read: {error}"))?;
    let plan: Plan =
        json::from_slice(&text).map_err(|error| format!("the plan cannot be read: {error}"))?;
    if plan.children != children {
        return Err("the plan is for another filter".into());
    }
    empty_stdin().map_err(|error| format!("standard input: {error}"))?;
    Ok(plan)
}

fn empty_stdin() -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::stdio::dup2_stdin(rustix::fs::open("/dev/null", flags, Mode::empty())?)
}

fn enter(folder: &HeldFolder) -> Result<(), String> {
    rustix::process::fchdir(open(folder)?).map_err(|error| error.to_string())
}

/// Opens a folder, if it is still the same.
fn open(folder: &HeldFolder) -> Result<OwnedFd, String> {
    let path = folder.path.display();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = rustix::fs::open(&folder.path, flags, Mode::empty())
        .map_err(|error| format!("{path}: {error}"))?;
    let found = fstat(&open).map_err(|error| format!("{path}: {error}"))?;
    if identity(&found) != (folder.device, folder.inode) {
        let words = "the folder was replaced since the start; use an existing one";
        return Err(format!("{path}: {words}"));
    }
    Ok(open)
}

fn limit(plan: &Plan) -> Result<(), String> {
    let mut limits = vec![
        (Resource::Core, 0),
        (Resource::Cpu, plan.cpu_seconds),
        (Resource::Data, plan.memory_bytes),
        (Resource::Fsize, plan.file_bytes),
        (Resource::Nofile, plan.open_files),
    ];
    if plan.children {
        limits.push((Resource::Nproc, plan.processes));
    }
    for (resource, most) in limits {
        // Existing limits of this process also apply to the program.
        let hard = rustix::process::getrlimit(resource).maximum.unwrap_or(most).min(most);
        let limit = Rlimit { current: Some(hard), maximum: Some(hard) };
        if let Err(error) = setrlimit(resource, limit) {
            return Err(format!("the limit {resource:?} cannot be set: {error}"));
        }
    }
    Ok(())
}

fn create_ruleset() -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(NEEDED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()
}

fn landlock(plan: &Plan) -> Result<(), Box<dyn Error>> {
    let mut rules = create_ruleset()?;
    let read = AccessFs::from_read(NEWEST) & !BitFlags::from(AccessFs::Execute);
    for root in &plan.roots {
        // Skips roots that were removed or replaced. The working folder was entered above.
        let Ok(folder) = open(root) else { continue };
        let mut access = if root.write { read | AccessFs::from_write(NEWEST) } else { read };
        if plan.children {
            access |= AccessFs::Execute;
        }
        rules = rules.add_rule(PathBeneath::new(folder, access))?;
    }
    for path in &plan.read {
        // Programs open `/dev/null` for writing, too.
        let more = if path.as_os_str() == "/dev/null" {
            AccessFs::WriteFile.into()
        } else {
            BitFlags::empty()
        };
        rules = allow(rules, path, read | more)?;
    }
    for path in &plan.execute {
        rules = allow(rules, path, read | AccessFs::Execute)?;
    }
    rules.restrict_self()?;
    Ok(())
}

/// Allows access to a path, if it exists.
fn allow(
    rules: RulesetCreated,
    path: &std::path::Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, String> {
    let Ok(open) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
    rules
        .add_rule(PathBeneath::new(open, access))
        .map_err(|error| format!("{}: {error}", path.display()))
}

// The system call filter. Programs cannot open sockets, leave the process group, inspect other
// processes or create namespaces. Programs that need no other processes cannot start any.

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

fn apply_filters(children: bool) -> Result<(), Box<dyn Error>> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> =
        NEVER.into_iter().map(|call| (call, Vec::new())).collect();
    let mut absent = BTreeMap::new();
    if !children {
        refused.extend(FORKS.into_iter().map(|call| (call, Vec::new())));
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
        all.extend(calls.into_iter().map(|(call, rules)| (call | OTHER_NUMBERS, rules)));
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

// The parent of a program that may start others. When the gateway ends, for any reason, the guard
// kills the whole process group, which no process in it can leave. Only the thread that starts the
// program is confined. The program inherits the confinement, and can access the rest of this
// process neither by signals nor through `/proc`.

/// Confines this process and becomes the program, if the command line requests it. Call before
/// anything else. Returns `None` if not requested, and an exit code on failure.
#[must_use]
pub fn confined(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    if arguments.nth(1)? != MODE {
        return None;
    }
    let children = matches!(arguments.next(), Some(word) if word == CHILDREN);
    let Err(words) = if children { guard_program() } else { become_program() };
    write_last_words(&words);
    Some(ExitCode::from(FAILED_EXIT_CODE))
}

/// Starts the program, writes its wait status to the gateway as the four bytes of an `i32`, and
/// stays until the gateway kills the group or ends: processes left by the program are guarded, too.
/// Standard input is the socket to the gateway.
fn guard_program() -> Result<Infallible, String> {
    close_inherited()?;
    let mut control = prepare().map_err(|error| failed(&error))?;
    // The gateway sends SIGTERM to the group, which includes this process.
    let _handlers = lockgate_upstream::outlive_signals().map_err(|error| failed(&error))?;
    let plan = read_plan(true)?;
    start_confined(plan, &control).map_err(|error| failed(&error))?;
    wait_for_close(&mut control);
    let _ = kill_current_process_group(Signal::KILL);
    Err("the gateway is gone".into())
}

fn failed(error: &io::Error) -> String {
    format!("its guard failed: {error}")
}

/// Hardens this process, and returns the socket to the gateway.
fn prepare() -> io::Result<UnixStream> {
    rustix::thread::set_name(c"program-guard")?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Runs the program from a confined thread. The current thread is not confined.
fn start_confined(plan: Plan, control: &UnixStream) -> io::Result<()> {
    let mut answer = control.try_clone()?;
    std::thread::Builder::new().name("confined".into()).spawn(move || {
        let status = run_program(&plan).unwrap_or_else(|words| {
            write_last_words(&words);
            ExitStatus::from_raw(i32::from(FAILED_EXIT_CODE) << 8)
        });
        // Fails if the gateway is gone.
        let _ = answer.write_all(&status.into_raw().to_le_bytes());
    })?;
    Ok(())
}

/// Confines this thread, starts the program and waits for its end.
fn run_program(plan: &Plan) -> Result<ExitStatus, String> {
    filter_calls(true)?;
    let mut program =
        confine(plan)?.spawn().map_err(|error| format!("{}: {error}", plan.program.display()))?;
    program.wait().map_err(|error| format!("the program's exit status is unknown: {error}"))
}

/// Waits until the gateway closes the socket. The gateway sends nothing after the plan.
fn wait_for_close(control: &mut UnixStream) {
    while control.read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::Interrupted) {}
}
