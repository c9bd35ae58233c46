//! The function of each tool.

use super::*;

#[tokio::test]
async fn names_that_no_rule_can_judge_are_missed_aloud() {
    let yard = Yard::new();
    std::fs::create_dir(yard.path("data/odd")).unwrap();
    for name in ["a%20b.txt", "a%2fb", ".env", "plain"] {
        std::fs::write(yard.path("data/odd").join(name), "findme").unwrap();
    }
    let listed = yard.call("list", json!({"path": "odd", "hidden": true})).await.unwrap();
    assert_eq!(
        (listed["entries"].as_array().unwrap().len(), &listed["partial"]),
        (1, &json!(true)),
        "{listed}"
    );
    let found = yard.call("search", json!({"path": "odd", "text": "findme"})).await.unwrap();
    assert_eq!(
        (found["matches"].as_array().unwrap().len(), &found["partial"]),
        (1, &json!(true)),
        "{found}"
    );
    let refused = yard.call("delete", json!({"path": "odd", "recursive": true})).await.unwrap_err();
    assert!(refused.contains("may not be changed"), "{refused}");
    for name in [".env", "plain"] {
        std::fs::remove_file(yard.path("data/odd").join(name)).unwrap();
    }
    let refused = yard.call("delete", json!({"path": "odd", "recursive": true})).await.unwrap_err();
    assert!(refused.contains("the name cannot be checked"), "{refused}");
    for name in ["a%20b.txt", "a%2fb"] {
        std::fs::remove_file(yard.path("data/odd").join(name)).unwrap();
    }
    std::fs::write(yard.path("data/odd/.env"), "denied").unwrap();
    let listed = yard.call("list", json!({"path": "odd", "hidden": true})).await.unwrap();
    assert_eq!(listed["partial"], json!(false), "what is denied is not missed: {listed}");
}

/// There is no shell and no other separator here: such names are literal, inside the root and
/// subject to the denied globs.
#[tokio::test]
async fn names_that_mean_something_elsewhere_are_names() {
    let yard = Yard::new();
    for name in ["~", "$HOME", "${HOME}", "back\\slash", "a\\..\\..\\b", "{a,b}", "`id`", "$(id)"] {
        yard.call("write", json!({"path": name, "content": "mine"})).await.unwrap();
        assert_eq!(
            std::fs::read_to_string(yard.path("data").join(name)).unwrap(),
            "mine",
            "{name}"
        );
        assert_eq!(
            yard.call("read", json!({"path": name})).await.unwrap()["content"],
            "mine",
            "{name}"
        );
        yard.call("delete", json!({"path": name})).await.unwrap();
    }
    for name in
        ["~/../../b", "$HOME/../../b", "\\/../../b", "~/../.env", "private\\/../private/a.txt"]
    {
        let before = yard.protected();
        assert!(yard.call("read", json!({"path": name})).await.is_err(), "{name}");
        assert!(yard.call("write", json!({"path": name, "content": "x"})).await.is_err(), "{name}");
        assert_eq!(yard.protected(), before, "{name}");
    }
}

#[tokio::test]
async fn files_are_read_whole_and_in_parts() {
    let yard = Yard::new();
    std::fs::write(yard.path("data/bytes.bin"), [0, 159, 146, 150]).unwrap();
    std::fs::write(yard.path("data/wide.txt"), "aäöü").unwrap();
    let whole = yard.call("read", json!({"path": "readme.txt"})).await.unwrap();
    assert_eq!(whole["content"], "first\nsecond\nthird\n");
    assert_eq!(
        (&whole["size"], &whole["type"], &whole["mimeType"]),
        (&json!(19), &json!("file"), &json!("text/plain"))
    );
    assert!(whole["modified"].as_str().unwrap().ends_with('Z') && whole.get("next").is_none());
    for (arguments, content, next) in [
        (json!({"path": "readme.txt", "offset": 6, "length": 6}), "second", json!(12)),
        (json!({"path": "readme.txt", "offset": 100}), "", Value::Null),
        (json!({"path": "readme.txt", "head": 1}), "first\n", json!(6)),
        (json!({"path": "readme.txt", "head": 9}), "first\nsecond\nthird\n", Value::Null),
        (json!({"path": "readme.txt", "tail": 2}), "second\nthird\n", Value::Null),
        (json!({"path": "readme.txt", "tail": 9}), "first\nsecond\nthird\n", Value::Null),
        (json!({"path": "wide.txt", "length": 4}), "aä", json!(3)),
        (json!({"path": "bytes.bin", "encoding": "hex"}), "009f9296", Value::Null),
        (json!({"path": "bytes.bin", "encoding": "base64"}), "AJ+Slg==", Value::Null),
        (
            json!({"path": "bytes.bin", "encoding": "hex", "offset": 1, "length": 2}),
            "9f92",
            json!(3),
        ),
    ] {
        let read = yard.call("read", arguments.clone()).await.unwrap();
        assert_eq!((&read["content"], &read["next"]), (&json!(content), &next), "{arguments}");
    }
    for (arguments, words) in [
        (json!({"path": "bytes.bin"}), "is not UTF-8 text: read it with `encoding` base64 or hex"),
        (json!({"path": "src"}), "is a folder: use `list`"),
        (json!({"path": "none.txt"}), "does not exist: list its folder"),
        (json!({"path": "readme.txt/x"}), "a part of the path is a file, not a folder"),
        (
            json!({"path": "wide.txt", "offset": 1, "length": 1}),
            "`length` ends within the first character: give at least 4",
        ),
        (
            json!({"path": "wide.txt", "offset": 9_223_372_036_854_775_808_u64}),
            "`offset` must be a whole number from 0 to",
        ),
        (
            json!({"path": "readme.txt", "head": 1, "tail": 1}),
            "give one of `offset`, `head` and `tail`",
        ),
        (json!({"path": "../secret.txt"}), "the path leaves the allowed folders: use a path in"),
    ] {
        let words_now = yard.call("read", arguments).await.unwrap_err();
        assert!(words_now.contains(words), "{words_now}");
    }
}

#[tokio::test]
async fn large_files_are_read_up_to_the_bound() {
    let yard = Yard::with(|config| config.read_size = 1000);
    std::fs::write(yard.path("data/large.txt"), "x".repeat(2500)).unwrap();
    let mut offset = 0;
    let mut sizes = Vec::new();
    loop {
        let read = yard.call("read", json!({"path": "large.txt", "offset": offset})).await.unwrap();
        sizes.push(read["length"].as_u64().unwrap());
        let Some(next) = read["next"].as_u64() else { break };
        offset = next;
    }
    assert_eq!(sizes, [1000, 1000, 500]);
}

#[tokio::test]
async fn folders_are_listed_in_pages() {
    let yard = Yard::with(|config| config.deny.clear());
    let names = |listed: &Value| -> Vec<String> {
        let root = format!("{}/", yard.text("data"));
        listed["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e["path"].as_str().unwrap().replace(&root, ""))
            .collect()
    };
    let plain = yard.call("list", json!({})).await.unwrap();
    assert_eq!(names(&plain), ["certs", "private", "readme.txt", "src"]);
    assert_eq!(plain["roots"][1], json!({"path": yard.text("library"), "write": false}));
    let all =
        yard.call("list", json!({"path": ".", "recursive": true, "hidden": true})).await.unwrap();
    assert_eq!(names(&all)[..4], [".env", ".env.local", ".git", ".git/config"]);
    let (mut offset, mut paged) = (0, Vec::new());
    loop {
        let page = json!({"path": ".", "recursive": true, "hidden": true, "limit": 3, "offset": offset, "metadata": false});
        let page = yard.call("list", page).await.unwrap();
        assert!(page["entries"][0].get("size").is_none());
        paged.extend(names(&page));
        let Some(next) = page["next"].as_u64() else { break };
        offset = next;
    }
    assert_eq!(paged, names(&all));
    assert!(yard.call("list", json!({"path": "readme.txt"})).await.is_err());
}

#[tokio::test]
async fn what_is_denied_is_not_listed_and_not_found() {
    let yard = Yard::new();
    let listed =
        yard.call("list", json!({"recursive": true, "hidden": true})).await.unwrap().to_string();
    assert!(
        !listed.contains("private") && !listed.contains(".env") && !listed.contains(".pem"),
        "{listed}"
    );
    let found = yard.call("search", json!({"text": "4711", "hidden": true})).await.unwrap();
    assert_eq!(found["matches"], json!([]));
}

#[tokio::test]
async fn files_are_described() {
    let yard = Yard::new();
    let file = yard.call("stat", json!({"path": "readme.txt"})).await.unwrap();
    assert_eq!(
        (&file["type"], &file["size"], &file["links"], &file["writable"]),
        (&json!("file"), &json!(19), &json!(1), &json!(true))
    );
    let root = yard.call("stat", json!({"path": "."})).await.unwrap();
    assert_eq!((&root["type"], &root["writable"]), (&json!("folder"), &json!(false)));
    let git = yard.call("stat", json!({"path": ".git/config"})).await.unwrap();
    assert_eq!(git["writable"], false);
}

#[tokio::test]
async fn files_are_found_by_name_and_by_text() {
    let yard = Yard::new();
    for (path, text) in
        [("docs/a.md", "Hello\nhello again"), ("docs/deep/b.md", "none"), (".hidden/c.md", "hello")]
    {
        yard.call("write", json!({"path": path, "content": text})).await.unwrap();
    }
    std::fs::write(yard.path("data/binary"), b"hello\0hello").unwrap();
    let found = |arguments: Value| {
        let yard = &yard;
        async move {
            let found = yard.call("search", arguments).await.unwrap();
            let each = found["matches"].as_array().unwrap().iter();
            let short =
                |m: &Value| m["path"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
            (
                each.map(|m| (short(m), m["line"].as_u64())).collect::<Vec<_>>(),
                found["partial"] == true,
            )
        }
    };
    let (a, b, c) = ("a.md".to_owned(), "b.md".to_owned(), "c.md".to_owned());
    let name = |name: &String| (name.clone(), None);
    assert_eq!(found(json!({"glob": "*.md"})).await, (vec![name(&a), name(&b)], false));
    assert_eq!(found(json!({"glob": "docs/*.md"})).await, (vec![name(&a)], false));
    assert_eq!(found(json!({"glob": "**/b.md"})).await, (vec![name(&b)], false));
    assert_eq!(found(json!({"text": "hello"})).await, (vec![(a.clone(), Some(2))], false));
    let both = vec![(c.clone(), Some(1)), (a.clone(), Some(1)), (a.clone(), Some(2))];
    assert_eq!(
        found(json!({"text": "HELLO", "ignore_case": true, "hidden": true})).await,
        (both, false)
    );
    assert_eq!(found(json!({"text": "hello", "glob": "b.*"})).await, (vec![], false));
    assert_eq!(found(json!({"glob": "*.md", "limit": 1})).await, (vec![name(&a)], true));
    let nothing = yard.call("search", json!({})).await.unwrap_err();
    assert_eq!(nothing, "give `glob`, `text` or both");
    assert!(
        yard.call("search", json!({"glob": "[a"})).await.unwrap_err().contains("is not a glob")
    );
    for tool in ["file/search", "file/list"] {
        let arguments = if tool == "file/search" {
            json!({"path": "readme.txt", "text": "a"})
        } else {
            json!({"path": "readme.txt"})
        };
        let words = yard.rig.call(tool, arguments).await.unwrap_err();
        assert!(
            words.ends_with(
                "readme.txt is a file, not a folder: name the folder that it is in, or `read` it"
            ),
            "{words}"
        );
    }
}

#[tokio::test]
async fn a_server_whose_root_is_missing_says_so_and_harms_no_other() {
    let yard =
        Yard::with(|config| config.roots.iter_mut().for_each(|root| root.path.push("missing")));
    let status = yard.rig.server("file").status();
    assert_eq!(status.state, lockgate_upstream::UpstreamState::Failed);
    assert!(status.trouble.as_ref().unwrap().words.contains("missing does not exist"));
    assert!(yard.rig.call("system/info", json!({})).await.is_ok());
}

/// Lines omitted before the returned part are reported, and no character is split.
#[tokio::test]
async fn the_last_lines_of_a_long_file_say_that_more_stands_before() {
    let yard = Yard::with(|config| config.read_size = 1024);
    std::fs::write(yard.path("data/long.txt"), "é\n".repeat(1000)).unwrap();
    std::fs::write(yard.path("data/one.txt"), "é".repeat(1000) + "x").unwrap();
    let tail = async |path: &str, lines: u64| {
        yard.call("read", json!({"path": path, "tail": lines})).await.unwrap()
    };
    let whole = tail("long.txt", 3).await;
    assert_eq!((&whole["content"], &whole["truncated"]), (&json!("é\né\né\n"), &Value::Null));
    let cut = tail("long.txt", 900).await;
    assert!(
        cut["truncated"] == true && cut["offset"] == 3000 - cut["length"].as_u64().unwrap(),
        "{cut}"
    );
    assert!(cut["content"].as_str().unwrap().lines().count() >= 340);
    let one = tail("one.txt", 1).await;
    assert_eq!(
        (&one["truncated"], &one["length"], &one["offset"]),
        (&json!(true), &json!(1023), &json!(978))
    );
    assert_eq!(tail("readme.txt", 9).await["truncated"], Value::Null);
}

/// The other roots are served. Relative paths belong to the first root, so they do not resolve to
/// another.
#[tokio::test]
async fn a_missing_root_harms_no_other_root() {
    let yard = Yard::with(|config| config.roots[0].path.push("missing"));
    let book = yard.text("library/book.txt");
    assert_eq!(yard.call("read", json!({"path": book})).await.unwrap()["content"], "a book\n");
    let refused = yard.call("read", json!({"path": "book.txt"})).await.unwrap_err();
    assert!(refused.contains("the path is relative: use an absolute path"), "{refused}");
    let listed = yard.call("list", json!({})).await;
    assert!(!format!("{listed:?}").contains("missing"), "{listed:?}");
    let yard = Yard::with(|config| config.roots[1].path.push("missing"));
    assert!(yard.call("read", json!({"path": "readme.txt"})).await.is_ok());
}

#[tokio::test]
async fn a_cancelled_search_ends_and_gives_its_place_back() {
    let yard = Yard::with(|config| config.concurrent = 1);
    for _ in 0..20 {
        let search = yard.call("search", json!({"text": "x", "hidden": true}));
        let _ = tokio::time::timeout(Duration::from_micros(50), search).await;
    }
    let read = yard.call("read", json!({"path": "readme.txt"}));
    tokio::time::timeout(Duration::from_secs(5), read).await.unwrap().unwrap();
}

/// `cargo test --release -p lockgate-tools p95 -- --nocapture` prints the cost of a read.
#[tokio::test]
async fn p95_of_reading_four_kibibytes_is_measured_beside_the_bare_read() {
    let yard = Yard::new();
    let path = yard.path("data/four.txt");
    std::fs::write(&path, "x".repeat(4096)).unwrap();
    let rounds = if cfg!(debug_assertions) { 50 } else { 5000 };
    let (mut bare, mut thread, mut tool) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let began = std::time::Instant::now();
        assert_eq!(std::fs::read(&path).unwrap().len(), 4096);
        bare.push(began.elapsed());
        let (began, there) = (std::time::Instant::now(), path.clone());
        tokio::task::spawn_blocking(move || std::fs::read(there).unwrap().len()).await.unwrap();
        thread.push(began.elapsed());
        let began = std::time::Instant::now();
        yard.call("read", json!({"path": "four.txt"})).await.unwrap();
        tool.push(began.elapsed());
    }
    let say = |what: &str, mut times: Vec<Duration>| {
        times.sort_unstable();
        eprintln!(
            "{what}: median {:?}, p95 {:?} of {rounds}",
            times[times.len() / 2],
            times[times.len() * 95 / 100]
        );
    };
    say("4 KiB, bare", bare);
    say("4 KiB, bare, on a blocking thread", thread);
    say("4 KiB, file/read", tool);
}
