//! Tests of `keys_file`.

#![allow(clippy::disallowed_methods)]

use super::*;

#[test]
fn a_full_file_can_still_be_read_and_its_keys_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.yaml");
    let mut keys = Vec::new();
    let refused = loop {
        let (mut key, _) = Key::mint(1_800_000_000).unwrap();
        key.name = "x".into();
        key.roles = vec!["admin".into(); 256];
        if let Err(refused) = edit(&mut keys, &key) {
            keys.pop();
            break refused;
        }
    };
    assert!(matches!(refused, FileChangeError::Full) && keys.len() > 100, "{}", keys.len());
    for key in &mut keys {
        key.revoked = Some(1_800_000_001);
    }
    change(&file, |known| {
        *known = keys.clone();
        Ok(())
    })
    .unwrap();
    assert_eq!(read(&file).unwrap().len(), keys.len());
}

#[test]
fn keys_that_are_good_no_more_make_room_and_notes_stay() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.yaml");
    let mint = |organisation: Option<&str>, revoked: Option<u64>| {
        let (mut key, _) = Key::mint(1_800_000_000).unwrap();
        key.organisation = organisation.map(str::to_owned);
        key.revoked = revoked;
        key
    };
    let mut keys = vec![mint(Some("other"), Some(1)), mint(None, Some(3)), mint(None, Some(2))];
    keys.resize_with(MAX_OF_ORGANISATION + 1, || mint(Some("default"), None));
    change(&file, |known| {
        *known = keys.clone();
        Ok(())
    })
    .unwrap();
    let noted = std::fs::read_to_string(&file).unwrap().replace("keys:\n", "keys:\n  # a note\n");
    std::fs::write(&file, noted).unwrap();
    for gone in [2, 1] {
        let new = mint(Some("default"), None);
        apply(&file, &new).unwrap();
        let now = read(&file).unwrap();
        assert!(!now.contains(&keys[gone]) && now.contains(&new) && now.contains(&keys[0]));
        assert_eq!(now.len(), MAX_OF_ORGANISATION + 1);
    }
    // Neither another organisation's keys nor valid keys are removed to make room.
    let full = apply(&file, &mint(None, None));
    assert_eq!(full, Err(FileChangeError::Full));
    apply(&file, &mint(Some("other"), None)).unwrap();
    assert!(std::fs::read_to_string(&file).unwrap().contains("# a note"));
}
