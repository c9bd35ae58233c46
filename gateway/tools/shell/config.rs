//! Settings of the `shell` server: its programs, folders and limits.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use lockgate_policy::command::{ModelSpec, Spec, Style};
use lockgate_text::setting::{List, Seconds, Size, Text, Toggle, Whole, Written};
use lockgate_text::settings;

/// Default of `search`.
const SEARCH: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

settings! {
    /// Runs allowed programs, each confined to the roots; never a shell. Linux only.
    #[derive(Debug)]
    pub struct Config as "Shell" {
        /// Folders that programs may work in, at most 64; the first one is the default. Required.
        pub roots: Vec<Root>,
        /// Programs that may be run, by name or absolute path. Default: cat, echo, find, git, grep,
        /// head, ls, node, npm, pnpm, pwd, sort, tail, uniq, wc, yarn, with options that read and
        /// print; of node, npm, pnpm and yarn only `--version`.
        pub programs: Option<Vec<String>> = Option<List>,
        /// How further programs may be called; replaces the built-in model of a program of the same
        /// name.
        pub models: BTreeMap<String, ModelSpec> = BTreeMap<String, Model>,
        /// Programs of the list that may be called with any arguments: this is code execution,
        /// restricted only by the confinement.
        pub allow_code_execution: Vec<String> = List,
        /// Folders searched for programs, once, at startup. Default: /usr/local/bin, /usr/bin,
        /// /bin.
        pub search: Vec<PathBuf> = Option<List> => or_default_folders,
        /// Absolute paths outside the roots that programs may also read, in addition to libraries
        /// and time zones.
        pub read: Vec<PathBuf> = List,
        /// Variables of programs in addition to PATH, HOME, LANG and TERM; nothing is inherited.
        /// Not `LD_*`, `GIT_*` or `PATH`.
        pub environment: BTreeMap<String, String> = BTreeMap<String, Text>,
        /// Names of variables that callers may set for a program, with the argument `env`. The
        /// limits of `environment` apply.
        pub caller_environment: Vec<String> = List,
        /// Confinement by the kernel to the roots: `required` (the server fails without it),
        /// `best-effort` or `off`.
        pub landlock: Landlock,
        /// Default time for a program, 1–300 s.
        pub timeout: Duration = Seconds<1, 300, 30>,
        /// Longest time for a program that a caller may request, 1–300 s.
        pub max_timeout: Duration = Seconds<1, 300, 300>,
        /// Bytes kept of standard output and of standard error each, 1KiB–10MB, with a control
        /// character counted as its six bytes in JSON; the result states how much was omitted.
        pub output_size: usize = Size<1024, 10_000_000, 10_000_000>,
        /// Concurrent programs, 1–256; further calls wait up to 10 s.
        pub concurrent: usize = Whole<1, 256, 8>,
        /// Memory of one process, 16MiB–1024GiB.
        pub memory: u64 = Size<0x100_0000, 0x100_0000_0000, 0x4000_0000>,
        /// Size of one file that a program writes, 0–1024GiB.
        pub file_size: u64 = Size<0, 0x100_0000_0000, 0x400_0000>,
        /// Open files of one process, 16–65536.
        pub open_files: u64 = Whole<16, 65_536, 1024>,
        /// Processes and threads of the gateway's user for programs that run code, 16–65536; other
        /// programs start none.
        pub processes: u64 = Whole<16, 65_536, 512>,
        /// A program that calls [`super::confined`] first; the gateway itself, except in tests.
        @serde(skip)
        pub launcher: PathBuf = () => own_program,
    }

    #[derive(Debug)]
    pub struct Root as "ShellRoot" {
        /// The folder, relative to this file.
        pub path: PathBuf = Text,
        /// `true`: programs may change its files. The built-in models have no option that does.
        pub write: bool = Toggle<false>,
    }

    /// How a program may be called.
    struct Model as "ShellModel" {
        /// How its arguments are read: `gnu` (short options in clusters, long ones), `words` (as
        /// find) or `plain` (no options).
        style: Style,
        /// Options in full: `-l`, `-n=number`, `--include=text`, `-#` for `-5`; `?=` if the value
        /// is optional. Values are text, path, number, count, or words separated by bars.
        flags: Vec<String> = List,
        /// Arguments that are not options, in order: `text` or `path`; `path?` is optional,
        /// `path...` repeats.
        operands: Vec<String> = List,
        /// Options of which one is required.
        need: Vec<String> = List,
        /// Options of which one is required before any operand is allowed.
        operands_need: Vec<String> = List,
        /// Options that replace the first operand, as `-e` replaces grep's pattern.
        first_operand_unless: Vec<String> = List,
        /// The first operand chooses one of these.
        subcommands: BTreeMap<String, ModelSpec> = BTreeMap<String, Submodel>,
    }

    /// How a program may be called with a subcommand.
    struct Submodel as "ShellSubmodel" {
        /// How its arguments are read: `gnu` (short options in clusters, long ones), `words` (as
        /// find) or `plain` (no options).
        style: Style,
        /// Options in full: `-l`, `-n=number`, `--include=text`, `-#` for `-5`; `?=` if the value
        /// is optional. Values are text, path, number, count, or words separated by bars.
        flags: Vec<String> = List,
        /// Arguments that are not options, in order: `text` or `path`; `path?` is optional,
        /// `path...` repeats.
        operands: Vec<String> = List,
        /// Options of which one is required.
        need: Vec<String> = List,
        /// Options of which one is required before any operand is allowed.
        operands_need: Vec<String> = List,
        /// Options that replace the first operand, as `-e` replaces grep's pattern.
        first_operand_unless: Vec<String> = List,
    }

    /// Whether programs are confined by Landlock.
    #[derive(Default)]
    #[serde(rename_all = "kebab-case")]
    pub enum Landlock { #[default] Required, BestEffort, Off }
}

fn or_default_folders(given: Option<List>) -> Vec<PathBuf> {
    match given {
        Some(List(folders)) if !folders.is_empty() => {
            folders.into_iter().map(PathBuf::from).collect()
        }
        _ => SEARCH.map(PathBuf::from).to_vec(),
    }
}

fn own_program(_: ()) -> PathBuf {
    Config::own_program()
}

/// `begins_with` is only used by other servers: here git gets its settings from the gateway.
impl Written<ModelSpec> for Model {
    fn plain(self) -> ModelSpec {
        let Self { style, flags, operands, need, operands_need, .. } = self;
        ModelSpec {
            style,
            begins_with: Vec::new(),
            flags,
            operands,
            need,
            operands_need,
            first_operand_unless: self.first_operand_unless,
            subcommands: self.subcommands,
        }
    }
}

impl Written<ModelSpec> for Submodel {
    fn plain(self) -> ModelSpec {
        let Self { style, flags, operands, need, operands_need, first_operand_unless } = self;
        let subcommands = BTreeMap::new();
        Model { style, flags, operands, need, operands_need, first_operand_unless, subcommands }
            .plain()
    }
}

impl Config {
    /// Returns the path of the gateway's program, as seen by its children.
    pub fn own_program() -> PathBuf {
        PathBuf::from("/proc/self/exe")
    }

    /// Returns the rule for permitted programs and arguments.
    pub fn rule(&self) -> Spec {
        let roots = self.roots.iter().map(|root| root.path.display().to_string());
        let mut rule = Spec {
            models: self.models.clone(),
            allow_code_execution: self.allow_code_execution.clone(),
            roots: roots.collect(),
            ..Spec::default()
        };
        if let Some(programs) = &self.programs {
            rule.programs.clone_from(programs);
        }
        rule
    }
}
