//! What counts as a change of the configuration, and what does not.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::fs;

use super::*;

#[test]
fn writes_to_files_beside_the_configuration_are_no_change() {
    let folder = tempfile::tempdir().unwrap();
    let (file, beside) = (folder.path().join("lockgate.yaml"), folder.path().join("audit.jsonl"));
    fs::write(&file, "a: 1").unwrap();
    fs::write(&beside, "1").unwrap();
    let (files, folders) = ([file.clone()], BTreeSet::from([folder.path().to_owned()]));
    let look = || Look::at(&files, &folders);
    let before = look();
    fs::write(&beside, "12").unwrap();
    assert_eq!(look(), before);

    // A new inode, as editors make it; then a new file; then none.
    fs::write(folder.path().join("new"), "a: 2").unwrap();
    fs::rename(folder.path().join("new"), &file).unwrap();
    let edited = look();
    assert_ne!(edited, before);
    fs::write(folder.path().join("policy.yaml"), "").unwrap();
    let added = look();
    assert_ne!(added, edited);
    fs::remove_file(&file).unwrap();
    assert_ne!(look(), added);
}
