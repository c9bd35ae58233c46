//! Tests of the names of tools that list.

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
