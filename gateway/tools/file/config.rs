//! Settings of the `file` server: its folders and limits.

use std::path::PathBuf;
use std::time::Duration;

use lockgate_text::setting::{List, Seconds, Size, Text, Toggle, Whole};
use lockgate_text::settings;

/// Names from which other programs take commands: write access to them allows running programs.
pub(super) const ORDERS: [&str; 4] = [".git", ".npmrc", ".yarnrc*", "**/node_modules/.bin"];

settings! {
    /// Reads and changes files in folders; nothing outside them.
    #[derive(Debug)]
    pub struct Config as "File" {
        /// The folders, at most 64, none in another; relative paths start from the first one.
        /// Required.
        pub roots: Vec<Root>,
        /// Globs of files that are neither read nor changed: `.env*` and `*.pem` at any depth,
        /// `private/**` below a root. Default none.
        pub deny: Vec<String> = List,
        /// Globs of files that are not changed. Default: `.git`, `.npmrc`, `.yarnrc*`,
        /// `**/node_modules/.bin`, which control other programs; your own list replaces the
        /// default, so repeat the entries to keep.
        pub deny_write: Vec<String> = List | ORDERS,
        /// Bytes read from one file at once, 1KiB–16MiB.
        pub read_size: usize = Size<1024, 0x100_0000, 0x10_0000>,
        /// Bytes written to one file at once, 1KiB–16MiB.
        pub write_size: usize = Size<1024, 0x100_0000, 0xA0_0000>,
        /// Entries that one call examines or deletes, 100–1000000.
        pub entries: usize = Whole<100, 1_000_000, 20_000>,
        /// Files that are listed as resources, 0–5000; others can still be read.
        pub resources: usize = Whole<0, 5000, 200>,
        /// Size of a file that is read as a resource, which MCP transfers as a whole, 1KiB–256MiB.
        pub resource_size: usize = Size<1024, 0x1000_0000, 0x100_0000>,
        /// Concurrent calls that access files, 1–256.
        pub concurrent: usize = Whole<1, 256, 8>,
        /// How long a call may take, 1–300 s.
        pub timeout: Duration = Seconds<1, 300, 30>,
    }

    #[derive(Debug)]
    pub struct Root as "FileRoot" {
        /// The folder, relative to this file.
        pub path: PathBuf = Text,
        /// `true`: its files may be changed.
        pub write: bool = Toggle<false>,
    }
}
