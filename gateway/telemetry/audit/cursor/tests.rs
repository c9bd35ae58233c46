//! The content of cursor files, and the position at which sending continues.

#![allow(clippy::disallowed_methods)]

use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn a_cursor_says_what_was_written_and_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("audit.jsonl");
    let cursor = Cursor::new(&trail, "syslog").unwrap();
    assert_eq!(cursor.read().unwrap(), Saved::Nothing);
    for last in [7, 5_000_000_000] {
        cursor.write(last).unwrap();
        assert_eq!(cursor.read().unwrap(), Saved::Taken(last));
    }
    let file = folder.path().join("audit.jsonl.syslog.cursor");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(Cursor::new(&trail, "webhook").unwrap().read().unwrap(), Saved::Nothing);
    for garbage in ["", "{", "7", r#"{"seq":-1}"#] {
        std::fs::write(&file, garbage).unwrap();
        assert_eq!(cursor.read().unwrap(), Saved::Unreadable, "{garbage}");
    }
}

#[test]
fn sending_goes_on_where_it_was_and_begins_with_what_is_new() {
    assert_eq!(Saved::Nothing.after(100), 100);
    assert_eq!(Saved::Taken(40).after(100), 40);
    // Another trail is in its place, and needs a start.
    assert_eq!(Saved::Taken(400).after(100), 100);
    assert_eq!(Saved::Unreadable.after(100), 0);
}
