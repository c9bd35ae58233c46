//! Tests of change detection.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::fs;

use super::*;

#[test]
fn writes_to_files_beside_the_configuration_are_no_change() {
    let folder = tempfile::tempdir().unwrap();
    let (file, beside) = (folder.path().join("lockgate.yaml"), folder.path().join("audit.jsonl"));
    fs::write(&file, "a: 1").unwrap();
    fs::write(&beside, "1").unwrap();
    let files = [file.clone()];
    let look = || Look::at(&files);
    let before = look();
    fs::write(&beside, "12").unwrap();
    assert_eq!(look(), before);

    // A new inode, as editors create it; then a new file; then a deletion.
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

/// Links may be swapped for others to older files.
#[test]
fn what_was_read_is_read_again_only_after_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, at(name)).unwrap();
    for name in ["old", "new"] {
        fs::create_dir(at(name)).unwrap();
        fs::write(at(name).join("lockgate.yaml"), "a: 1").unwrap();
    }
    link("old", "current");
    let files = [at("current/lockgate.yaml"), at("missing/keys.yaml")];
    let pause = || std::thread::sleep(Duration::from_millis(60));
    let unchanged_after = |act: &dyn Fn()| {
        pause();
        let begun = SystemTime::now();
        pause();
        act();
        are_unchanged_since(&files, begun)
    };
    assert!(unchanged_after(&|| {}));
    assert!(unchanged_after(&|| fs::write(at("new/lockgate.yaml"), "a: 2").unwrap()));
    assert!(!unchanged_after(&|| fs::write(at("old/lockgate.yaml"), "a: 2").unwrap()));
    assert!(!unchanged_after(&|| fs::write(at("old/policy.yaml"), "").unwrap()));
    assert!(!unchanged_after(&|| {
        link("new", "swap");
        fs::rename(at("swap"), at("current")).unwrap();
    }));
    assert!(!unchanged_after(&|| fs::create_dir(at("missing")).unwrap()));
}

/// Checks that each operation on a file or a folder on its path causes an event.
#[tokio::test]
async fn ways_to_files_are_watched_through_links_and_missing_folders() {
    let folder = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(folder.path()).unwrap();
    let at = |name: &str| root.join(name);
    let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, at(name)).unwrap();
    for name in ["releases/1", "releases/2", "shared", "policies", "loop"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    for name in [
        "releases/1/lockgate.yaml",
        "releases/2/lockgate.yaml",
        "shared/keys.yaml",
        "policies/a.yaml",
    ] {
        fs::write(at(name), "1").unwrap();
    }
    link("releases/1", "current");
    link("../shared/../shared/keys.yaml", "policies/keys.yaml");
    link("loop", "loop/loop");
    let names = [
        "current/lockgate.yaml",
        "policies/keys.yaml",
        "policies/a.yaml",
        "later/on/b.yaml",
        "loop/loop/loop/x",
    ];
    let files = names.map(at);
    let mut watcher = Watcher::new().unwrap();
    let mut step = async |what: &str, act: &dyn Fn()| {
        watcher.follow(&files);
        while tokio::time::timeout(Duration::from_millis(300), watcher.changed()).await.is_ok() {}
        act();
        let noticed = tokio::time::timeout(Duration::from_secs(5), watcher.changed()).await;
        assert_eq!(noticed, Ok(Some(true)), "{what}");
    };
    step("a write at a link's target", &|| fs::write(at("shared/keys.yaml"), "2").unwrap()).await;
    step("a link that is swapped", &|| {
        link("releases/2", "swap");
        fs::rename(at("swap"), at("current")).unwrap();
    })
    .await;
    step("a write behind it", &|| fs::write(at("releases/2/lockgate.yaml"), "2").unwrap()).await;
    step("a folder that is moved", &|| fs::rename(at("releases"), at("old")).unwrap()).await;
    step("and comes back", &|| fs::rename(at("old"), at("releases")).unwrap()).await;
    step("a write in it", &|| fs::write(at("releases/2/lockgate.yaml"), "3").unwrap()).await;
    step("a folder that goes", &|| fs::remove_dir_all(at("policies")).unwrap()).await;
    step("is made again", &|| fs::create_dir(at("policies")).unwrap()).await;
    step("and filled", &|| fs::write(at("policies/a.yaml"), "2").unwrap()).await;
    step("a folder that was never there", &|| fs::create_dir(at("later")).unwrap()).await;
    step("one in it", &|| fs::create_dir(at("later/on")).unwrap()).await;
    step("and its file", &|| fs::write(at("later/on/b.yaml"), "").unwrap()).await;
    watcher.follow(&files);
    assert!(!watcher.watched.contains_key(&at("releases/1")), "what leads nowhere is left alone");
}
