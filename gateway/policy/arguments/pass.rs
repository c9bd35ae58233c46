//! What judging the arguments of one call leads to, and what it may cost.

use super::edit::Edit;
use crate::Target;
use crate::sql::Effort;
use crate::target::Kind;

/// Words of which the names of tools that list folders consist. Many servers say nothing else of
/// such tools.
const LISTING: [&str; 25] = [
    "list",
    "ls",
    "dir",
    "tree",
    "stat",
    "find",
    "search",
    "glob",
    "show",
    "view",
    "get",
    "file",
    "files",
    "folder",
    "folders",
    "directory",
    "directories",
    "path",
    "entries",
    "content",
    "contents",
    "info",
    "with",
    "sizes",
    "recursive",
];

/// What the rules of one call have led to so far.
#[derive(Debug, Default)]
pub(crate) struct Pass {
    pub(crate) edits: Vec<Edit>,
    pub(super) effort: Effort,
    /// The call changes nothing, as far as the tool says or its name does.
    pub(super) reads: bool,
}

impl Pass {
    /// For a call of this.
    pub(crate) fn of(target: &Target<'_>) -> Self {
        let reads = target.kind != Kind::Tool
            || target.annotations.read_only
            || is_name_of_listing(target.own);
        Self { reads, ..Self::default() }
    }

    /// For rules whose changes are not wanted; the time is the same.
    pub(crate) fn aside(&self) -> Self {
        Self { edits: Vec::new(), effort: self.effort.clone(), reads: self.reads }
    }
}

/// Whether a name has only such words: `list_directory_with_sizes`, `directoryTree`.
fn is_name_of_listing(name: &str) -> bool {
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric()).flat_map(parts_of_word);
    name.is_ascii()
        && words.all(|word| LISTING.iter().any(|known| word.eq_ignore_ascii_case(known)))
}

/// The parts of a word, each of which begins with a capital.
fn parts_of_word(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let inner = rest.get(1..)?;
        let end = inner.find(|c: char| c.is_ascii_uppercase()).map_or(rest.len(), |at| at + 1);
        let (part, after) = rest.split_at(end);
        rest = after;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_lists_by_its_name_changes_nothing() {
        for name in
            ["list_directory", "list_directory_with_sizes", "directoryTree", "ls", "get-file-info"]
        {
            assert!(is_name_of_listing(name), "{name}");
        }
        for name in [
            "list_and_delete",
            "find_replace",
            "move_file",
            "get_or_create",
            "listx",
            "list_l\u{f6}schen",
        ] {
            assert!(!is_name_of_listing(name), "{name}");
        }
    }
}
