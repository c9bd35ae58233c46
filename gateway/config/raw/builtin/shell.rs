//! `builtin.shell`: the allowed programs, their folders and limits.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::leaf::{List, Seconds, Size, Text, Toggle, Whole};

/// Runs allowed programs, each confined to the roots; never a shell. Linux only.
#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Shell {
    /// Folders that programs may work in, at most 64; the first one is the default. Required.
    pub roots: Vec<Root>,
    /// Programs that may be run, by name or absolute path. Default: cat, echo, find, git, grep,
    /// head, ls, node, npm, pnpm, pwd, sort, tail, uniq, wc, yarn, with options that read and
    /// print; of node, npm, pnpm and yarn only `--version`.
    pub programs: Option<List>,
    /// How further programs may be called; replaces the built-in model of a program of the same
    /// name.
    pub models: BTreeMap<String, Model>,
    /// Programs of the list that may be called with any arguments: this is code execution,
    /// restricted only by the confinement.
    pub allow_code_execution: List,
    /// Folders searched for programs, once, at startup. Default: /usr/local/bin, /usr/bin, /bin.
    pub search: Option<List>,
    /// Absolute paths outside the roots that programs may also read, in addition to libraries and
    /// time zones.
    pub read: List,
    /// Variables of programs in addition to PATH, HOME, LANG and TERM; nothing is inherited. Not
    /// `LD_*`, `GIT_*` or `PATH`.
    pub environment: BTreeMap<String, Text>,
    /// Names of variables that callers may set for a program, with the argument `env`. The limits
    /// of `environment` apply.
    pub caller_environment: List,
    /// Confinement by the kernel to the roots: `required` (the server fails without it),
    /// `best-effort` or `off`.
    pub landlock: Landlock,
    /// Default time for a program, 1–300 s.
    pub timeout: Seconds<1, 300, 30>,
    /// Longest time for a program that a caller may request, 1–300 s.
    pub max_timeout: Seconds<1, 300, 300>,
    /// Bytes kept of standard output and of standard error each, 1KiB–10MB, with a control
    /// character counted as its six bytes in JSON; the result states how much was omitted.
    pub output_size: Size<1024, 10_000_000, 10_000_000>,
    /// Concurrent programs, 1–256; further calls wait up to 10 s.
    pub concurrent: Whole<1, 256, 8>,
    /// Memory of one process, 16MiB–1024GiB.
    pub memory: Size<0x100_0000, 0x100_0000_0000, 0x4000_0000>,
    /// Size of one file that a program writes, 0–1024GiB.
    pub file_size: Size<0, 0x100_0000_0000, 0x400_0000>,
    /// Open files of one process, 16–65536.
    pub open_files: Whole<16, 65_536, 1024>,
    /// Processes and threads of the gateway's user for programs that run code, 16–65536; other
    /// programs start none.
    pub processes: Whole<16, 65_536, 512>,
}

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(test, schemars(rename = "ShellRoot"))]
pub struct Root {
    /// The folder, relative to this file.
    pub path: Text,
    /// `true`: programs may change its files. The built-in models have no option that does.
    pub write: Toggle<false>,
}

/// How a program may be called.
#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(test, schemars(rename = "ShellModel"))]
pub struct Model {
    /// How its arguments are read: `gnu` (short options in clusters, long ones), `words` (as find)
    /// or `plain` (no options).
    pub style: Style,
    /// Options in full: `-l`, `-n=number`, `--include=text`, `-#` for `-5`; `?=` if the value is
    /// optional. Values are text, path, number, count, or words separated by bars.
    pub flags: List,
    /// Arguments that are not options, in order: `text` or `path`; `path?` is optional, `path...`
    /// repeats.
    pub operands: List,
    /// Options of which one is required.
    pub need: List,
    /// Options of which one is required before any operand is allowed.
    pub operands_need: List,
    /// Options that replace the first operand, as `-e` replaces grep's pattern.
    pub first_operand_unless: List,
    /// The first operand chooses one of these.
    pub subcommands: BTreeMap<String, Submodel>,
}

/// How a program may be called with a subcommand.
#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(test, schemars(rename = "ShellSubmodel"))]
pub struct Submodel {
    /// How its arguments are read: `gnu` (short options in clusters, long ones), `words` (as find)
    /// or `plain` (no options).
    pub style: Style,
    /// Options in full: `-l`, `-n=number`, `--include=text`, `-#` for `-5`; `?=` if the value is
    /// optional. Values are text, path, number, count, or words separated by bars.
    pub flags: List,
    /// Arguments that are not options, in order: `text` or `path`; `path?` is optional, `path...`
    /// repeats.
    pub operands: List,
    /// Options of which one is required.
    pub need: List,
    /// Options of which one is required before any operand is allowed.
    pub operands_need: List,
    /// Options that replace the first operand, as `-e` replaces grep's pattern.
    pub first_operand_unless: List,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, schemars(inline))]
pub enum Style {
    #[default]
    Gnu,
    Words,
    Plain,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, schemars(inline))]
pub enum Landlock {
    #[default]
    Required,
    BestEffort,
    Off,
}
