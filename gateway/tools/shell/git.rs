//! Fixed arguments and variables of git: no configuration except the repository's, and no setting
//! of it that names a program. The system call filter also prevents git from starting programs.

use std::path::Path;

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
pub(super) fn arguments(given: &[String], subcommand: Option<&str>) -> Vec<String> {
    let mut all = Vec::new();
    for setting in SETTINGS {
        all.push("-c".to_owned());
        all.push(setting.to_owned());
    }
    // Options before the subcommand take no values.
    let at = match given.iter().position(|word| Some(word.as_str()) == subcommand) {
        Some(at) => at + 1,
        None => given.len(),
    };
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
pub(super) fn environment(roots: &[String]) -> Vec<(String, String)> {
    let mut all: Vec<_> =
        ENVIRONMENT.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let above = roots.iter().filter_map(|root| Path::new(root).parent()?.to_str());
    let above: Vec<&str> = above.collect();
    all.push(("GIT_CEILING_DIRECTORIES".into(), above.join(":")));
    all
}
