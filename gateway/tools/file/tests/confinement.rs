//! No path outside of the roots, and no denied path, is read, written, listed or deleted.

use super::*;

const ATTACKS: &str = include_str!("../../../../tests/corpora/path/attack.txt");
const BENIGN: &str = include_str!("../../../../tests/corpora/path/benign.txt");

/// Returns the paths of a corpus, with the real root substituted. Omits rules that the server does
/// not have.
fn corpus(text: &str, yard: &Yard) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let paths = lines.filter_map(|line| {
        let (rule, path) = line.split_once(' ').unwrap();
        let path = if path.starts_with('"') {
            serde_json::from_str(path).unwrap()
        } else {
            path.to_owned()
        };
        let ours = matches!(rule, "rel" | "abs" | "deny" | "uri" | "all");
        ours.then(|| {
            path.replace("/srv/data", &yard.text("data"))
                .replace("/srv/", &format!("{}/", yard.text("")))
        })
    });
    paths.collect()
}

/// Calls all tools with a path. Returns all results.
async fn try_all(yard: &Yard, path: &str) -> Vec<Result<Value, String>> {
    let calls = [
        ("read", json!({"path": path})),
        ("read", json!({"path": path, "encoding": "base64"})),
        ("stat", json!({"path": path})),
        ("list", json!({"path": path, "recursive": true, "hidden": true})),
        ("search", json!({"path": path, "text": "4711", "hidden": true})),
        ("write", json!({"path": path, "content": "overwritten"})),
        ("write", json!({"path": path, "content": "appended", "mode": "append"})),
        ("write", json!({"path": format!("{path}/new.txt"), "content": "new"})),
        ("move", json!({"from": path, "to": "moved.txt"})),
        ("move", json!({"from": "src/main.rs", "to": path, "overwrite": true})),
        ("delete", json!({"path": path, "recursive": true})),
    ];
    let mut answers = Vec::new();
    for (tool, arguments) in calls {
        answers.push(yard.call(tool, arguments).await);
    }
    let uri = if path.starts_with("file:") { path.to_owned() } else { format!("file://{path}") };
    let method = lockgate_protocol::method::Method::ResourcesRead;
    answers.push(yard.rig.ask("file", method, &uri, json!({})).await);
    answers
}

#[tokio::test]
async fn no_attack_of_the_corpus_reaches_anything_outside() {
    let yard = Yard::new();
    let attacks = corpus(ATTACKS, &yard);
    assert!(attacks.len() >= 80, "{}", attacks.len());
    let before = yard.protected();
    for path in attacks {
        for answer in try_all(&yard, &path).await.into_iter().flatten() {
            let told = answer.to_string();
            let secret =
                told.contains(CANARY) || told.contains(DENIED) || told.contains("Y2FuYXJ5");
            assert!(!secret, "{path:?} gave {told}");
        }
        assert_eq!(yard.protected(), before, "{path:?} changed something");
    }
    assert_eq!(yard.call("read", json!({"path": "readme.txt"})).await.unwrap()["size"], 19);
}

#[tokio::test]
async fn benign_paths_of_the_corpus_can_be_written_and_read() {
    let yard = Yard::with(|config| config.deny.clear());
    let (mut count, mut refused) = (0, Vec::new());
    for line in BENIGN.lines().filter_map(|line| line.strip_prefix("rel ")) {
        let path = if line.starts_with('"') {
            serde_json::from_str(line).unwrap()
        } else {
            line.to_owned()
        };
        if path.starts_with('/') || path.ends_with(['/', '.']) || path == "sys" {
            continue; // folders
        }
        count += 1;
        let path = format!("one/{path}");
        let arguments = json!({"path": path, "content": "text"});
        let read = match yard.call("write", arguments).await {
            Ok(_) => {
                yard.call("read", json!({"path": path})).await.map(|read| read["content"].clone())
            }
            Err(words) => Err(words),
        };
        if read != Ok(json!("text")) {
            refused.push((path, read));
        }
    }
    assert!(count >= 80, "{count}");
    assert!(refused.len() * 100 <= count * 2, "{refused:#?}");
}

#[tokio::test]
async fn links_lead_nowhere_outside() {
    let yard = Yard::new();
    yard.link("../outside", "data/out");
    yard.link(yard.path("outside"), "data/absolute");
    yard.link("../secret.txt", "data/secret-link.txt");
    yard.link("../../data/../outside", "data/src/round");
    yard.link("/proc/self/root", "data/magic");
    yard.link("/proc/self/fd", "data/descriptors");
    yard.link("private", "data/open");
    yard.link(".env", "data/environment.txt");
    yard.link(".git", "data/repository");
    yard.link(".", "data/here");
    let before = yard.protected();
    for path in [
        "out",
        "out/secret.txt",
        "out/deep/secret.txt",
        "out/../outside/secret.txt",
        "absolute/secret.txt",
        "secret-link.txt",
        "src/round/secret.txt",
        "magic/etc/passwd",
        "descriptors/0",
        "open/a.txt",
        "environment.txt",
        "repository/config",
        "here/private/a.txt",
        "here/here/.env",
        "here/out/secret.txt",
    ] {
        for answer in try_all(&yard, path).await.into_iter().flatten() {
            let told = answer.to_string();
            assert!(
                !told.contains(CANARY) && !told.contains(DENIED) && !told.contains("root:"),
                "{path} gave {told}"
            );
        }
        assert_eq!(yard.protected(), before, "{path} changed something");
    }
}

#[tokio::test]
async fn links_inside_can_be_read_through_and_are_deleted_themselves() {
    let yard = Yard::new();
    yard.link("src", "data/source");
    let read = yard.call("read", json!({"path": "source/main.rs"})).await.unwrap();
    assert_eq!(read["content"], "fn main() {}\n");
    let written =
        yard.call("write", json!({"path": "source/x.rs", "content": ""})).await.unwrap_err();
    assert!(written.contains("it is a symbolic link"), "{written}");
    let gone = yard.call("delete", json!({"path": "source", "recursive": true})).await.unwrap();
    assert_eq!((&gone["type"], &gone["count"]), (&json!("symlink"), &json!(1)));
    assert!(yard.path("data/src/main.rs").exists());
}

#[tokio::test]
async fn hard_links_to_outside_are_not_changed() {
    let yard = Yard::new();
    std::fs::hard_link(yard.path("outside/secret.txt"), yard.path("data/hard.txt")).unwrap();
    let append = yard
        .call("write", json!({"path": "hard.txt", "content": "x", "mode": "append"}))
        .await
        .unwrap_err();
    assert!(append.contains("has several names (hard links)"), "{append}");
    yard.call("write", json!({"path": "hard.txt", "content": "mine"})).await.unwrap();
    assert_eq!(std::fs::read_to_string(yard.path("data/hard.txt")).unwrap(), "mine");
    assert_eq!(std::fs::read_to_string(yard.path("outside/secret.txt")).unwrap(), CANARY);
}

#[tokio::test]
async fn what_is_no_file_is_not_waited_for() {
    let yard = Yard::new();
    let fifo = rustix::fs::mknodat(
        rustix::fs::CWD,
        yard.path("data/pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    );
    fifo.unwrap();
    let all = async {
        for (tool, arguments) in [
            ("read", json!({"path": "pipe"})),
            ("write", json!({"path": "pipe", "content": "x"})),
            ("write", json!({"path": "pipe", "content": "x", "mode": "append"})),
        ] {
            assert!(yard.call(tool, arguments).await.unwrap_err().contains("not a regular file"));
        }
        yard.call("search", json!({"text": "x"})).await.unwrap();
    };
    tokio::time::timeout(Duration::from_secs(10), all).await.unwrap();
}

#[tokio::test]
async fn roots_stay_and_read_only_ones_are_not_changed() {
    let yard = Yard::new();
    for path in [".", "./", "src/..", &yard.text("data"), &yard.text("library")] {
        for recursive in [true, false] {
            assert!(
                yard.call("delete", json!({"path": path, "recursive": recursive})).await.is_err(),
                "{path}"
            );
        }
        assert!(yard.call("move", json!({"from": path, "to": "elsewhere"})).await.is_err());
        assert!(yard.call("write", json!({"path": path, "content": ""})).await.is_err());
    }
    let (book, new) = (yard.text("library/book.txt"), yard.text("library/new.txt"));
    assert_eq!(yard.call("read", json!({"path": book})).await.unwrap()["content"], "a book\n");
    for (tool, arguments) in [
        ("write", json!({"path": new, "content": ""})),
        ("write", json!({"path": book, "content": ""})),
        ("delete", json!({"path": book})),
        ("move", json!({"from": book, "to": "book.txt"})),
        ("move", json!({"from": "readme.txt", "to": new})),
    ] {
        let refused = yard.call(tool, arguments).await.unwrap_err();
        assert!(refused.contains("is read-only"), "{refused}");
    }
    assert!(yard.path("library/book.txt").exists() && yard.path("data/readme.txt").exists());
}

#[tokio::test]
async fn what_programs_take_orders_from_is_not_changed_by_any_way() {
    let yard = Yard::new();
    let write = |path: &'static str| yard.call("write", json!({"path": path, "content": "x"}));
    for path in [
        ".git/config",
        "src/.git/hooks/pre-commit",
        ".npmrc",
        "a/.yarnrc.yml",
        ".GIT/config",
        "node_modules/.bin/x",
        "a/node_modules/.bin/x",
    ] {
        assert!(write(path).await.unwrap_err().contains("may not be changed"), "{path}");
    }
    assert_eq!(
        yard.call("read", json!({"path": ".git/config"})).await.unwrap()["content"],
        "[core]\n"
    );
    // Nor by creating it elsewhere first.
    write("parts/.bin/x").await.unwrap();
    write("bin/config").await.unwrap();
    for (from, to) in [
        ("parts", "node_modules"),
        ("parts/.bin", "node_modules/.bin"),
        ("bin", ".git"),
        ("bin/config", ".npmrc"),
    ] {
        let moved = yard
            .call("move", json!({"from": from, "to": to, "overwrite": true}))
            .await
            .unwrap_err();
        assert!(moved.contains("may not be changed"), "{moved}");
    }
    // Nor by deleting or moving its parent.
    write("project/a.txt").await.unwrap();
    std::fs::create_dir_all(yard.path("data/project/.git/hooks")).unwrap();
    for (tool, arguments) in [
        ("delete", json!({"path": "project", "recursive": true})),
        ("move", json!({"from": "project", "to": "other"})),
    ] {
        assert!(yard.call(tool, arguments).await.unwrap_err().contains("may not be changed"));
    }
    assert!(yard.path("data/project/a.txt").exists());
}
