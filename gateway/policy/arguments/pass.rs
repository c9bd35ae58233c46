//! What judging the arguments of one call leads to, and what it may cost.

use super::edit::Edit;
use crate::Target;
use crate::sql::Effort;
use crate::target::Kind;

/// The name of a tool that lists folders has one of these words, and no others than these and
/// [`OBJECTS`]. Many servers mark such tools in no other way.
const LISTING: [&str; 11] =
    ["dir", "find", "get", "glob", "list", "ls", "search", "show", "stat", "tree", "view"];
const OBJECTS: [&str; 14] = [
    "content",
    "contents",
    "directories",
    "directory",
    "entries",
    "file",
    "files",
    "folder",
    "folders",
    "info",
    "path",
    "recursive",
    "sizes",
    "with",
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

/// Returns whether a name is one of a tool that lists: `list_directory_with_sizes`,
/// `directoryTree`. A noun alone (`file`) may be a tool that takes an action as an argument.
fn is_name_of_listing(name: &str) -> bool {
    let mut lists = false;
    for word in name.split(|c: char| !c.is_ascii_alphanumeric()).flat_map(parts_of_word) {
        if is_among(word, &LISTING) {
            lists = true;
        } else if !is_among(word, &OBJECTS) {
            return false;
        }
    }
    lists && name.is_ascii()
}

fn is_among(word: &str, words: &[&str]) -> bool {
    words.iter().any(|known| word.eq_ignore_ascii_case(known))
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
            "file",
            "folder_path",
            "_",
            "list_l\u{f6}schen",
        ] {
            assert!(!is_name_of_listing(name), "{name}");
        }
    }
}
