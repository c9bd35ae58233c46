//! Writing, moving and deleting.

use super::*;

#[tokio::test]
async fn files_are_written_whole_and_folders_made() {
    let yard = Yard::new();
    let made = yard.call("write", json!({"path": "a/b/c.txt", "content": "one"})).await.unwrap();
    let facts = (&made["created"], &made["foldersMade"], &made["size"], &made["written"]);
    assert_eq!(facts, (&json!(true), &json!(2), &json!(3), &json!(3)));
    let again = yard
        .call("write", json!({"path": "a/b/c.txt", "content": "0a0b", "encoding": "hex"}))
        .await
        .unwrap();
    assert_eq!((&again["created"], &again["size"]), (&json!(false), &json!(2)));
    let more =
        json!({"path": "a/b/c.txt", "content": "Yw==", "encoding": "base64", "mode": "append"});
    yard.call("write", more).await.unwrap();
    assert_eq!(std::fs::read(yard.path("data/a/b/c.txt")).unwrap(), b"\n\x0bc");
    yard.call("write", json!({"path": "new.txt", "content": "x", "mode": "append"})).await.unwrap();
    for (arguments, words) in [
        (
            json!({"path": "new.txt", "content": "", "mode": "create"}),
            "something with this name exists already",
        ),
        (json!({"path": "src", "content": ""}), "it is a folder: name a file"),
        (json!({"path": "new.txt/x", "content": ""}), "a part of the path is a file"),
        (json!({"path": "x", "content": "0", "encoding": "hex"}), "`content` is not hex"),
        (json!({"path": "x", "content": "a", "encoding": "base64"}), "`content` is not base64"),
        (
            json!({"path": "x", "content": "y".repeat((1 << 20) + 1)}),
            "at most 1048576 are written at once",
        ),
    ] {
        let said = yard.call("write", arguments).await.unwrap_err();
        assert!(said.contains(words), "{said}");
    }
    let left = std::fs::read_dir(yard.path("data")).unwrap().flatten();
    assert!(
        !left.map(|e| e.file_name()).any(|name| name.to_string_lossy().contains("lockgate")),
        "a temporary file is left"
    );
}

#[tokio::test]
async fn a_replaced_file_keeps_its_rights_and_readers_see_all_or_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let yard = Yard::new();
    let path = yard.path("data/run.sh");
    std::fs::write(&path, "old").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4751)).unwrap();
    let open = std::fs::File::open(&path).unwrap();
    yard.call("write", json!({"path": "run.sh", "content": "new"})).await.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o751);
    assert_eq!(std::io::read_to_string(open).unwrap(), "old");
}

#[tokio::test]
async fn folders_are_deleted_only_when_asked_and_what_went_is_told() {
    let yard = Yard::new();
    yard.call("write", json!({"path": "old/a/b.txt", "content": ""})).await.unwrap();
    let refused = yard.call("delete", json!({"path": "old"})).await.unwrap_err();
    assert!(refused.contains("is not empty: set `recursive`"), "{refused}");
    let gone = yard.call("delete", json!({"path": "old", "recursive": true})).await.unwrap();
    let paths = ["old/a/b.txt", "old/a", "old"].map(|path| yard.text(&format!("data/{path}")));
    assert_eq!((&gone["count"], &gone["deleted"]), (&json!(3), &json!(paths)));
    assert!(!yard.path("data/old").exists());
    let one = yard.call("delete", json!({"path": "readme.txt"})).await.unwrap();
    assert_eq!((&one["type"], &one["count"]), (&json!("file"), &json!(1)));
    assert!(
        yard.call("delete", json!({"path": "readme.txt"}))
            .await
            .unwrap_err()
            .contains("does not exist")
    );
}

#[tokio::test]
async fn a_folder_with_too_much_in_it_is_left_whole() {
    let yard = Yard::with(|config| config.entries = 5);
    for at in 0..6 {
        yard.call("write", json!({"path": format!("many/{at}.txt"), "content": ""})).await.unwrap();
    }
    let refused =
        yard.call("delete", json!({"path": "many", "recursive": true})).await.unwrap_err();
    assert!(refused.contains("more than 5 entries"), "{refused}");
    assert_eq!(std::fs::read_dir(yard.path("data/many")).unwrap().count(), 6);
    let listed = yard.call("list", json!({"path": "many"})).await.unwrap();
    assert_eq!(listed["partial"], true);
}

#[tokio::test]
async fn files_and_folders_are_moved() {
    let yard = Yard::new();
    let moved =
        yard.call("move", json!({"from": "readme.txt", "to": "docs/new/read.me"})).await.unwrap();
    assert_eq!((&moved["type"], &moved["replaced"]), (&json!("file"), &json!(false)));
    yard.call("move", json!({"from": "src", "to": "source"})).await.unwrap();
    assert!(
        yard.path("data/source/main.rs").exists() && yard.path("data/docs/new/read.me").exists()
    );
    let taken = json!({"from": "source/main.rs", "to": "docs/new/read.me"});
    assert!(
        yard.call("move", taken).await.unwrap_err().contains("exists already: set `overwrite`")
    );
    let over = json!({"from": "source/main.rs", "to": "docs/new/read.me", "overwrite": true});
    assert_eq!(yard.call("move", over).await.unwrap()["replaced"], true);
    let into = yard.call("move", json!({"from": "docs", "to": "docs/new/docs"})).await.unwrap_err();
    assert!(into.contains("cannot be moved into itself"), "{into}");
    assert!(
        yard.call("move", json!({"from": "none", "to": "x"}))
            .await
            .unwrap_err()
            .contains("does not exist")
    );
}

#[tokio::test]
async fn many_may_begin_a_file_by_adding_to_it() {
    let yard = Yard::with(|config| config.concurrent = 8);
    for round in 0..20 {
        let path = format!("log-{round}.txt");
        let add = async |n: usize| {
            yard.call("write", json!({"path": path, "content": format!("{n}\n"), "mode": "append"}))
                .await
        };
        let (a, b, c, d, e, f, g, h) =
            tokio::join!(add(0), add(1), add(2), add(3), add(4), add(5), add(6), add(7));
        let all = [a, b, c, d, e, f, g, h];
        assert!(all.iter().all(Result::is_ok), "{all:?}");
        let text = std::fs::read_to_string(yard.path(&format!("data/{path}"))).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    }
}
