//! Locations of programs: searched once, at the start, in the configured folders, and executed by
//! that path afterwards. For a script, the interpreter is resolved at the start, too, so that
//! nothing is looked up when it runs.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Maximum length of a script's first line.
const FIRST_LINE: u64 = 256;
/// Libraries and system files that programs need to run. Excludes `/etc/passwd` and similar files,
/// and `/proc`.
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
/// Folders of the dynamic loaders.
const LOADERS: [&str; 2] = ["/lib", "/lib64"];

/// How a program is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramKind {
    Plain,
    Git,
    /// A program that runs code, but is only permitted to print its version. Its result must not
    /// depend on the working folder.
    Version,
    /// A program that the operator permits to run code.
    Code,
}

#[derive(Debug)]
pub(super) struct Program {
    /// The last component of its name.
    pub(super) name: String,
    pub(super) kind: ProgramKind,
    /// The executable file.
    pub(super) file: PathBuf,
    /// Arguments before the caller's: the script, if `file` is its interpreter.
    pub(super) before: Vec<String>,
    /// Paths that it may read, besides the roots.
    pub(super) read: Vec<PathBuf>,
    /// Paths that it may execute.
    pub(super) execute: Vec<PathBuf>,
}

impl Program {
    /// Finds a program, by name or by absolute path.
    pub(super) fn find(name: &str, search: &[PathBuf], code: &[String]) -> Option<Self> {
        let short = name.rsplit('/').next().unwrap_or(name);
        let runs_code = code.iter().any(|program| program == name);
        let kind = match short {
            _ if runs_code => ProgramKind::Code,
            "git" => ProgramKind::Git,
            "node" | "npm" | "pnpm" | "yarn" => ProgramKind::Version,
            _ => ProgramKind::Plain,
        };
        let found = locate(name, search)?;
        let mut read: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
        let (file, before) = match interpreter(&found, search) {
            None => (found, Vec::new()),
            Some((interpreter, mut before)) => {
                // A script may need the other files of its package.
                if let Some(bin) = found.parent() {
                    let package = bin.parent().filter(|package| package.components().count() > 2);
                    read.push(package.unwrap_or(bin).to_path_buf());
                }
                before.push(found.to_str()?.to_owned());
                (interpreter, before)
            }
        };
        let mut execute = loaders();
        execute.push(file.clone());
        if kind == ProgramKind::Code {
            execute.extend_from_slice(search);
        }
        Some(Self { name: short.to_owned(), kind, file, before, read, execute })
    }

    pub(super) fn runs_code(&self) -> bool {
        self.kind == ProgramKind::Code
    }
}

/// Returns the file of a program, without links.
fn locate(name: &str, search: &[PathBuf]) -> Option<PathBuf> {
    if name.starts_with('/') {
        return program_at(Path::new(name));
    }
    search.iter().find_map(|folder| program_at(&folder.join(name)))
}

fn program_at(path: &Path) -> Option<PathBuf> {
    let found = path.metadata().ok()?;
    if !found.is_file() || found.permissions().mode() & 0o111 == 0 {
        return None;
    }
    path.canonicalize().ok()
}

/// Returns the interpreter in the first line of a script, and its arguments.
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

/// Returns the files that the kernel executes to load dynamically linked programs.
#[allow(clippy::disallowed_methods, reason = "looks for the system's loaders, at the start")]
fn loaders() -> Vec<PathBuf> {
    let mut loaders = Vec::new();
    for entries in LOADERS.iter().filter_map(|folder| std::fs::read_dir(folder).ok()) {
        let found = entries.flatten().filter(|entry| is_loader(&entry.file_name()));
        loaders.extend(found.map(|entry| entry.path()));
    }
    loaders
}

fn is_loader(name: &OsStr) -> bool {
    let starts = ["ld-linux", "ld-musl", "ld64.so"];
    name.to_str().is_some_and(|name| starts.iter().any(|start| name.starts_with(start)))
}

// Git has fixed arguments and variables: no configuration except the repository's, and no setting
// of it that names a program. The system call filter also prevents git from starting programs.

/// Settings that override those of a repository.
const SETTINGS: [&str; 22] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.editor=false",
    "core.askPass=false",
    "core.sshCommand=false",
    "core.attributesFile=/dev/null",
    "core.alternateRefsCommand=false",
    "credential.helper=",
    "diff.external=",
    "diff.submodule=short",
    "diff.ignoreSubmodules=all",
    "submodule.recurse=false",
    "status.submoduleSummary=false",
    "log.showSignature=false",
    "blame.ignoreRevsFile=",
    "gpg.program=false",
    "gpg.ssh.program=false",
    "gpg.x509.program=false",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
    // Roots often belong to another user, especially in containers, and git cannot start programs
    // here anyway.
    "safe.directory=*",
];

const ENVIRONMENT: [(&str, &str); 14] = [
    ("GIT_ASKPASS", "false"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_EDITOR", "false"),
    ("GIT_LITERAL_PATHSPECS", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_PAGER", "cat"),
    ("GIT_SEQUENCE_EDITOR", "false"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("SSH_ASKPASS", "false"),
];

/// Returns the caller's arguments, with the fixed arguments around the subcommand.
pub(super) fn git_arguments(given: &[String], subcommand: Option<&str>) -> Vec<String> {
    let settings = SETTINGS.iter().flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()]);
    let mut all: Vec<String> = settings.collect();
    // Options before the subcommand take no values.
    let at = given.iter().position(|word| Some(word.as_str()) == subcommand);
    let at = at.map_or(given.len(), |at| at + 1);
    all.extend_from_slice(&given[..at]);
    let forced: &[&str] = match subcommand {
        Some("diff") => &["--no-ext-diff", "--no-textconv", "--ignore-submodules=all"],
        Some("log" | "show") => &["--no-ext-diff", "--no-textconv"],
        Some("blame" | "grep") => &["--no-textconv"],
        Some("status") => &["--ignore-submodules=all"],
        _ => &[],
    };
    all.extend(forced.iter().map(|word| (*word).to_owned()));
    all.extend_from_slice(&given[at..]);
    all
}

/// Returns git's environment. Repositories above the roots are not found.
pub(super) fn git_environment(roots: &[String]) -> Vec<(String, String)> {
    let mut all: Vec<_> =
        ENVIRONMENT.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let above = roots.iter().filter_map(|root| Path::new(root).parent()?.to_str());
    let above: Vec<&str> = above.collect();
    all.push(("GIT_CEILING_DIRECTORIES".into(), above.join(":")));
    all
}
