//! Where the programs are: found once, at the start, in the configured folders, and called by that
//! path from then on. A script is taken apart into its interpreter and itself, so that nothing has
//! to be looked up when it runs.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Longest first line of a script.
const FIRST_LINE: u64 = 256;
/// Libraries, and what programs of the list read of the system to run. Not `/etc/passwd` and its
/// like, not `/proc`.
const SYSTEM: [&str; 18] = [
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local/lib",
    "/etc/ld.so.cache",
    "/etc/ld-musl-x86_64.path",
    "/etc/ld-musl-aarch64.path",
    "/etc/localtime",
    "/etc/ssl/openssl.cnf",
    "/usr/share/git-core",
    "/usr/share/locale",
    "/usr/share/zoneinfo",
    "/dev/null",
    "/dev/urandom",
];
/// Where the loaders of programs are.
const LOADERS: [&str; 2] = ["/lib", "/lib64"];

/// How a program is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Git,
    /// Its purpose is to run code, but only its version is asked: where it stands must not matter
    /// to it.
    Version,
    /// The operator lets it run code.
    Code,
}

#[derive(Debug)]
pub(super) struct Program {
    /// The last part of its name.
    pub(super) name: String,
    pub(super) kind: Kind,
    /// The file that is executed.
    pub(super) file: PathBuf,
    /// What stands before the caller's arguments: the script, when `file` is its interpreter.
    pub(super) before: Vec<String>,
    /// What it may read besides the roots.
    pub(super) read: Vec<PathBuf>,
    /// What it may execute.
    pub(super) execute: Vec<PathBuf>,
}

impl Program {
    /// Looks for a program, by name or by absolute path.
    pub(super) fn find(name: &str, search: &[PathBuf], code: &[String]) -> Option<Self> {
        let short = name.rsplit('/').next().unwrap_or(name);
        let runs_code = code.iter().any(|program| program == name);
        let kind = match short {
            _ if runs_code => Kind::Code,
            "git" => Kind::Git,
            "node" | "npm" | "pnpm" | "yarn" => Kind::Version,
            _ => Kind::Plain,
        };
        let found = locate(name, search)?;
        let mut read: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
        let (file, before) = match interpreter(&found, search) {
            None => (found, Vec::new()),
            Some((interpreter, mut before)) => {
                // A script comes with the files of its package around it.
                if let Some(bin) = found.parent() {
                    read.push(match bin.parent() {
                        Some(package) if package.components().count() > 2 => package.to_path_buf(),
                        _ => bin.to_path_buf(),
                    });
                }
                before.push(found.to_str()?.to_owned());
                (interpreter, before)
            }
        };
        let mut execute = loaders();
        execute.push(file.clone());
        if kind == Kind::Code {
            execute.extend_from_slice(search);
        }
        Some(Self { name: short.to_owned(), kind, file, before, read, execute })
    }
}

impl Program {
    pub(super) fn runs_code(&self) -> bool {
        self.kind == Kind::Code
    }
}

/// The file that a name stands for, without links.
fn locate(name: &str, search: &[PathBuf]) -> Option<PathBuf> {
    if name.starts_with('/') {
        return program_at(Path::new(name));
    }
    for folder in search {
        if let Some(file) = program_at(&folder.join(name)) {
            return Some(file);
        }
    }
    None
}

fn program_at(path: &Path) -> Option<PathBuf> {
    let found = path.metadata().ok()?;
    if !found.is_file() || found.permissions().mode() & 0o111 == 0 {
        return None;
    }
    path.canonicalize().ok()
}

/// The interpreter that the first line of a script names, and its arguments.
#[allow(
    clippy::disallowed_methods,
    reason = "reads the first line of a program that the configuration names, at the start"
)]
fn interpreter(script: &Path, search: &[PathBuf]) -> Option<(PathBuf, Vec<String>)> {
    let mut head = Vec::new();
    std::fs::File::open(script).ok()?.take(FIRST_LINE).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split_whitespace().map(str::to_owned);
    let first = words.next()?;
    let program = match first.rsplit('/').next() {
        Some("env") => words.find(|word| !word.starts_with('-'))?,
        _ => first,
    };
    Some((locate(&program, search)?, words.collect()))
}

/// The files that the kernel executes to load a dynamically linked program.
#[allow(clippy::disallowed_methods, reason = "looks for the system's loaders, at the start")]
fn loaders() -> Vec<PathBuf> {
    let mut loaders = Vec::new();
    for folder in LOADERS {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            if let Some(name) = entry.file_name().to_str()
                && is_loader(name)
            {
                loaders.push(entry.path());
            }
        }
    }
    loaders
}

fn is_loader(name: &str) -> bool {
    name.starts_with("ld-linux") || name.starts_with("ld-musl") || name.starts_with("ld64.so")
}
