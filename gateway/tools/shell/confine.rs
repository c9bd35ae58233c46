//! Between the gateway and a program stands the gateway's own program once more: it waits to be
//! told what to become, takes from itself what the program must not have, and then becomes it, or
//! its guard. It is no command for people.

use std::convert::Infallible;
use std::error::Error;
use std::io::{BufRead, Read, Write};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit, Signal, setrlimit};

use super::config::Landlock;
use super::filter;
use super::folder::identity;
use super::plan::{Held, Plan};

/// The first argument that asks for this mode, and the second one when the program may start
/// others.
pub(super) const MODE: &str = "confine-exec";
pub(super) const CHILDREN: &str = "children";
/// How it ends when it cannot become the program, and how its last words begin.
pub(super) const FAILED: u8 = 125;
pub(super) const LAST_WORDS: &str = "lockgate: not confined, not started: ";

/// Longest plan, in bytes: beyond what the kernel lets a program have as arguments.
const MAX_PLAN: u64 = 16 << 20;

/// The newest rules that are asked for; kernels that know fewer apply those. Without the first ones
/// nothing runs.
const NEWEST: ABI = ABI::V6;
const NEEDED: ABI = ABI::V1;

pub(super) fn write_last_words(words: &str) {
    let _ = writeln!(std::io::stderr(), "{LAST_WORDS}{words}");
}

/// Whether the kernel has Landlock.
pub(super) fn found() -> bool {
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    match rules.handle_access(AccessFs::from_all(NEEDED)) {
        Ok(rules) => rules.create().is_ok(),
        Err(_) => false,
    }
}

/// Whether to confine by Landlock; an error when it is required and not there.
pub(super) fn wanted(setting: Landlock, found: bool) -> Result<bool, String> {
    match (setting, found) {
        (Landlock::Off, _) | (Landlock::BestEffort, false) => Ok(false),
        (_, true) => Ok(true),
        (Landlock::Required, false) => Err("this kernel has no Landlock, which holds programs \
            inside the roots; use one from 5.13 on with `landlock` in its list of security \
            modules, or set `landlock: best-effort` and confine the gateway otherwise"
            .into()),
    }
}

/// For a program that starts no other: it becomes this process, which ends with the gateway.
pub(super) fn become_program() -> Result<Infallible, String> {
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return Err(format!("death signal: {error}"));
    }
    close_inherited()?;
    // The kernel takes long to learn the filter; it forbids nothing that is done from here on.
    filter_calls(false)?;
    let plan = read_plan(false)?;
    if std::os::unix::process::parent_id() != plan.gateway {
        // It ended before its end was a signal.
        return Err("the gateway is gone".into());
    }
    let mut command = confine(&plan)?;
    Err(format!("{}: {}", plan.program.display(), command.exec()))
}

/// Puts the system call filter on this thread and on what it starts.
pub(super) fn filter_calls(children: bool) -> Result<(), String> {
    if let Err(error) = rustix::thread::set_no_new_privs(true) {
        return Err(format!("no new privileges: {error}"));
    }
    filter::apply(children)
}

/// Takes from this thread what the program must not have; limits and working folder are those of
/// the whole process. Returns what starts the program.
#[allow(
    clippy::disallowed_methods,
    reason = "the program that the gateway has chosen, after confining itself"
)]
pub(super) fn confine(plan: &Plan) -> Result<Command, String> {
    limit(plan)?;
    // It is in `/` until then.
    if let Some(folder) = &plan.folder
        && let Err(words) = enter(folder)
    {
        return Err(format!("the working folder cannot be entered: {words}"));
    }
    if plan.landlock
        && let Err(words) = landlock(plan)
    {
        return Err(format!("Landlock: {words}"));
    }
    let mut command = Command::new(&plan.program);
    command.arg0(&plan.name).args(&plan.arguments).env_clear().envs(&plan.environment);
    Ok(command)
}

/// Closes what the gateway was started with besides the standard streams: Landlock holds what is
/// opened, not what is open.
#[allow(
    clippy::disallowed_methods,
    reason = "the descriptors of this process, before it has any of its own"
)]
pub(super) fn close_inherited() -> Result<(), String> {
    let open = match std::fs::read_dir("/proc/self/fd") {
        Ok(open) => open,
        Err(error) => return Err(format!("its open files are not known: {error}")),
    };
    let mut inherited: Vec<RawFd> = Vec::new();
    for entry in open.flatten() {
        if let Some(name) = entry.file_name().to_str()
            && let Ok(descriptor) = name.parse()
            && descriptor > 2
        {
            inherited.push(descriptor);
        }
    }
    for descriptor in inherited {
        // That of the folder itself is closed already.
        let _ = nix::unistd::close(descriptor);
    }
    Ok(())
}

/// Waits for the plan, a line. From then on there is nothing to read on standard input.
pub(super) fn read_plan(children: bool) -> Result<Plan, String> {
    let mut text = Vec::new();
    let mut input = std::io::stdin().lock().take(MAX_PLAN);
    if let Err(error) = input.read_until(b'\n', &mut text) {
        return Err(format!("the plan cannot be read: {error}"));
    }
    let plan: Plan = match serde_json::from_slice(&text) {
        Ok(plan) => plan,
        Err(error) => return Err(format!("the plan cannot be read: {error}")),
    };
    if plan.children != children {
        return Err("the plan is for another filter".into());
    }
    match empty_stdin() {
        Ok(()) => Ok(plan),
        Err(error) => Err(format!("standard input: {error}")),
    }
}

fn empty_stdin() -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::stdio::dup2_stdin(rustix::fs::open("/dev/null", flags, Mode::empty())?)
}

fn enter(folder: &Held) -> Result<(), String> {
    match rustix::process::fchdir(open(folder)?) {
        Ok(()) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Opens a folder, if it is still the one that is meant.
fn open(folder: &Held) -> Result<OwnedFd, String> {
    let path = folder.path.display();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = match rustix::fs::open(&folder.path, flags, Mode::empty()) {
        Ok(open) => open,
        Err(error) => return Err(format!("{path}: {error}")),
    };
    match identity(&open) {
        Ok(found) if found == (folder.device, folder.inode) => Ok(open),
        Ok(_) => Err(format!(
            "{path}: it is another folder than at the start; name one that is still there"
        )),
        Err(error) => Err(format!("{path}: {error}")),
    }
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
        // What already holds this process holds the program too.
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
        // One that is gone or replaced is left out; the others go on. The working folder was
        // entered before.
        let Ok(folder) = open(root) else { continue };
        let mut access = if root.write { read | AccessFs::from_write(NEWEST) } else { read };
        if plan.children {
            access |= AccessFs::Execute;
        }
        rules = rules.add_rule(PathBeneath::new(folder, access))?;
    }
    for path in &plan.read {
        // Programs open the empty device to write as well.
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

/// Allows access to a path, if it is there.
fn allow(
    rules: RulesetCreated,
    path: &std::path::Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, String> {
    let Ok(open) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
    match rules.add_rule(PathBeneath::new(open, access)) {
        Ok(rules) => Ok(rules),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}
