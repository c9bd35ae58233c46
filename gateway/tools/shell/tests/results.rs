//! Results for the caller: output, exit codes, limits, working folders, and refusals with the fix.

use super::*;

#[tokio::test]
async fn control_characters_take_the_room_that_they_have_in_json() {
    let place = TestFolder::new();
    let mut config = place.config(Landlock::Required);
    config.output_size = 1024;
    std::fs::write(place.root().join("controls"), "\u{1}".repeat(5000)).unwrap();
    std::fs::write(place.root().join("lines"), "line\n".repeat(1000)).unwrap();
    let rig = rig(config);
    for (file, kept, total) in [("controls", 170, 5000), ("lines", 1024, 5000)] {
        let result = run(&rig, &format!("cat {file}")).await.unwrap();
        let stdout = result["stdout"].as_str().unwrap();
        assert_eq!((stdout.len(), &result["stdoutTruncated"]), (kept, &json!(true)), "{file}");
        assert_eq!(result["stdoutBytes"], json!(total), "{file}");
    }
}

#[tokio::test]
async fn output_and_exit_codes_come_back() {
    let place = TestFolder::new();
    let rig = rig(place.config(Landlock::Required));
    let result = run(&rig, "grep -n needle victim.txt").await.unwrap();
    assert_eq!((&result["stdout"], &result["exitCode"]), (&json!("2:needle\n"), &json!(0)));
    let result = run(&rig, "grep nothing victim.txt").await.unwrap();
    assert_eq!((&result["stdout"], &result["exitCode"]), (&json!(""), &json!(1)));
    let result = run(&rig, "cat missing.txt").await.unwrap();
    assert_eq!(result["exitCode"], json!(1));
    assert!(result["stderr"].as_str().unwrap().contains("No such file"), "{result}");
    let argv = rig
        .call("shell/execute", json!({"argv": ["echo", "a  b", "$HOME", "; ls"]}))
        .await
        .unwrap();
    assert_eq!(argv["stdout"], json!("a  b $HOME ; ls\n"));
    // Standard input is empty.
    assert_eq!(run(&rig, "cat").await.unwrap()["stdout"], json!(""));
    assert_eq!(run(&rig, "cat link-in").await.unwrap()["stdout"], json!(VICTIM));
}

#[tokio::test]
async fn text_for_the_model_says_what_matters() {
    let place = TestFolder::new();
    let rig = rig(place.config(Landlock::Required));
    let text = async |command: &str| {
        let params = json!({"arguments": {"command": command}});
        let result = rig
            .ask("shell", lockgate_protocol::method::Method::ToolsCall, "execute", params)
            .await
            .unwrap();
        result["content"][0]["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(text("echo hi").await, "hi\n");
    let text = text("cat victim.txt missing.txt").await;
    assert!(
        text.starts_with(VICTIM)
            && text.contains("[stderr]\ncat: missing.txt")
            && text.ends_with("[exit code 1]")
    );
}

#[tokio::test]
async fn long_output_is_cut_and_said() {
    let place = TestFolder::new();
    std::fs::write(place.root().join("big.txt"), "é".repeat(6 << 20)).unwrap();
    let rig = rig(place.config(Landlock::Required));
    let result = run(&rig, "cat big.txt").await.unwrap();
    assert_eq!(
        (&result["stdoutBytes"], &result["stdoutTruncated"]),
        (&json!(12 << 20), &json!(true))
    );
    assert_eq!((&result["stderrTruncated"], &result["binary"]), (&json!(false), &json!(false)));
    assert_eq!(result["stdout"].as_str().unwrap().len(), 1 << 20);
    std::fs::write(place.root().join("bytes"), [b'a', 0xff, 0, b'b']).unwrap();
    let result = run(&rig, "cat bytes").await.unwrap();
    assert_eq!((&result["stdout"], &result["binary"]), (&json!("a\u{fffd}\0b"), &json!(true)));
}

#[tokio::test]
async fn working_folders_are_inside() {
    let place = TestFolder::new();
    let rig = rig(place.config(Landlock::Required));
    let pwd =
        async |cwd: &str| rig.call("shell/execute", json!({"command": "pwd", "cwd": cwd})).await;
    let root = place.root();
    assert_eq!(
        pwd("src").await.unwrap()["stdout"],
        json!(format!("{}\n", root.join("src").display()))
    );
    assert_eq!(pwd(root.join("src/deep").to_str().unwrap()).await.unwrap()["exitCode"], json!(0));
    assert_eq!(pwd("src/..").await.unwrap()["stdout"], json!(format!("{}\n", root.display())));
    for (cwd, words) in [
        ("..", "outside of the roots"),
        ("/etc", "outside of the folders that may be used"),
        ("folder-out", "contains a link"),
        ("nowhere", "does not exist"),
        ("victim.txt", "is not a folder"),
        ("src/../../outside", "outside of the roots"),
    ] {
        let refused = pwd(cwd).await.unwrap_err();
        assert!(refused.contains(words), "{cwd}: {refused}");
    }
    let up = json!({"command": "cat ../victim.txt", "cwd": "src"});
    assert_eq!(rig.call("shell/execute", up).await.unwrap()["stdout"], json!(VICTIM));
    let out = json!({"command": "cat ../../secret.txt", "cwd": "src"});
    assert!(rig.call("shell/execute", out).await.is_err());
}

#[tokio::test]
async fn refusals_say_what_to_do() {
    let place = TestFolder::new();
    let rig = rig(place.config(Landlock::Required));
    for (arguments, words) in [
        (json!({}), "give either `command`, a command line, or `argv`"),
        (json!({"command": "ls", "argv": ["ls"]}), "give either `command`"),
        (json!({"command": "ls | wc"}), "unquoted `|` would start a pipe"),
        (json!({"command": "rm x"}), "the program `rm` is not allowed"),
        (json!({"command": "cat link-out"}), "leads through a link"),
        (json!({"command": "cat /etc/shadow"}), "outside of the folders that may be used"),
        (json!({"command": "ls", "timeout_ms": 60_001}), "60000"),
        (json!({"argv": []}), "argv"),
    ] {
        let refused = rig.call("shell/execute", arguments.clone()).await.unwrap_err();
        assert!(refused.contains(words), "{arguments}: {refused}");
    }
}

#[tokio::test]
async fn versions_are_asked_away_from_the_project() {
    let place = TestFolder::new();
    std::fs::write(place.root().join(".yarnrc"), "yarn-path \"./evil.js\"\n").unwrap();
    std::fs::write(place.root().join(".npmrc"), "script-shell=./evil\n").unwrap();
    let rig = rig(place.config(Landlock::Required));
    for program in ["node", "npm", "pnpm", "yarn"] {
        match run(&rig, &format!("{program} --version")).await {
            Ok(result) => assert_eq!(result["exitCode"], json!(0), "{result}"),
            Err(words) => assert!(words.contains("not installed"), "{words}"),
        }
    }
    place.assert_untouched();
}

#[tokio::test]
async fn callers_set_the_variables_that_are_named_for_them_and_no_others() {
    let place = TestFolder::new();
    let call = |env: Value| json!({"argv": ["sh", "-c", "echo $COLOUR-$HOME"], "env": env});
    let code = place.code(Landlock::Required, &["sh"]);
    let closed = rig(code.clone());
    let refused = closed.call("shell/execute", call(json!({"COLOUR": "red"}))).await.unwrap_err();
    assert!(refused.contains("unknown argument `env`"), "{refused}");
    let open = rig(Config { caller_environment: vec!["COLOUR".to_owned()], ..code });
    let ran = open.call("shell/execute", call(json!({"COLOUR": "red"}))).await.unwrap();
    assert_eq!(ran["stdout"], "red-/nonexistent\n");
    for (env, words) in [
        (json!({"HOME": "/"}), "unknown argument `env.HOME`"),
        (json!({"COLOUR": 1}), "`env.COLOUR` must be a string"),
        (json!({"COLOUR": "a\u{0}b"}), "must not contain NUL"),
    ] {
        let refused = open.call("shell/execute", call(env)).await.unwrap_err();
        assert!(refused.contains(words), "{refused}");
    }
}
