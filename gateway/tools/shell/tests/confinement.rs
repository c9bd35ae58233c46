//! The kernel's confinement when the rule permits everything: files, processes, sockets, limits.
//! The same tests without Landlock show that Landlock is the cause.

use super::*;

#[tokio::test]
async fn landlock_alone_keeps_programs_inside() {
    let place = TestFolder::new();
    let rig = rig(place.code(Landlock::Required, &["sh", "cat", "touch"]));
    for script in [
        "cat ../secret.txt",
        "cat link-out",
        "cat folder-out/secret.txt",
        "cat /etc/shadow",
        "cat /etc/passwd",
        "cat /proc/self/environ",
        "cat /proc/1/environ",
        "ls ..",
        "ls /etc",
        "ls /tmp",
        "cd .. && cat secret.txt",
        "touch pwned",
        "touch ../pwned",
        "touch /tmp/pwned-by-shell",
        "echo x > victim.txt",
        "rm victim.txt",
        "mv victim.txt pwned",
        "ln victim.txt pwned",
        "ln -s / pwned",
        "mkdir pwned",
        "cp ../secret.txt /dev/shm/pwned-by-shell",
    ] {
        let result = sh(&rig, script).await;
        assert_ne!(result["exitCode"], json!(0), "{script}: {result}");
        assert!(!result.to_string().contains(SECRET), "{script}: {result}");
        place.assert_untouched();
    }
    assert!(
        !Path::new("/tmp/pwned-by-shell").exists()
            && !Path::new("/dev/shm/pwned-by-shell").exists()
    );
    let inside = sh(&rig, "cat victim.txt").await;
    assert_eq!(inside["stdout"], json!(VICTIM));
}

#[tokio::test]
async fn without_landlock_the_same_programs_leave() {
    let place = TestFolder::new();
    let result = sh(&rig(place.code(Landlock::Off, &["sh"])), "cat ../secret.txt").await;
    assert!(result.to_string().contains(SECRET), "{result}");
}

/// Tests inherited descriptors, because Landlock does not affect files that are already open.
#[tokio::test]
async fn files_that_the_gateway_was_started_with_stay_with_it() {
    let place = TestFolder::new();
    let secret = std::fs::File::open(place.folder.path().join("secret.txt")).unwrap();
    rustix::io::fcntl_setfd(&secret, rustix::io::FdFlags::empty()).unwrap();
    for landlock in [Landlock::Required, Landlock::Off] {
        let rig = rig(place.code(landlock, &["sh", "cat"]));
        let number = std::os::fd::AsRawFd::as_raw_fd(&secret);
        let result = sh(&rig, &format!("cat <&{number}")).await;
        assert!(result["exitCode"] != json!(0) && !result.to_string().contains(SECRET), "{result}");
        let open =
            sh(&rig, "for fd in 3 4 5 6 7 8 9; do (: <&$fd) 2>/dev/null && echo $fd; done").await;
        assert_eq!(open["stdout"], json!(""), "{open}");
    }
}

#[tokio::test]
async fn a_root_that_is_gone_stops_nobody_elsewhere() {
    let place = TestFolder::new();
    let mut config = place.code(Landlock::Required, &["sh"]);
    let more = place.folder.path().canonicalize().unwrap().join("more");
    std::fs::create_dir(&more).unwrap();
    config.roots.push(Root { path: more.clone(), write: true });
    let rig = rig(config);
    std::fs::remove_dir(&more).unwrap();
    assert_eq!(sh(&rig, "echo hi").await["stdout"], json!("hi\n"));
    std::fs::create_dir(&more).unwrap();
    assert_eq!(sh(&rig, "echo hi").await["stdout"], json!("hi\n"));
    let other = sh(&rig, &format!("echo x > {}/pwned", more.display())).await;
    assert_ne!(other["exitCode"], json!(0), "another folder of the name: {other}");
    let words = rig
        .call("shell/execute", json!({"argv": ["sh", "-c", "echo hi"], "cwd": more}))
        .await
        .unwrap_err();
    assert!(words.contains("use an existing one") || words.contains("does not exist"), "{words}");
    place.assert_untouched();
}

#[tokio::test]
async fn a_writable_root_is_writable_and_nothing_else() {
    let place = TestFolder::new();
    let mut config = place.code(Landlock::Required, &["sh"]);
    config.roots[0].write = true;
    let rig = rig(config);
    assert_eq!(sh(&rig, "echo hi > made && cat made && rm made").await["stdout"], json!("hi\n"));
    assert_ne!(sh(&rig, "echo hi > ../pwned").await["exitCode"], json!(0));
    place.assert_untouched();
}

#[tokio::test]
async fn programs_that_run_no_code_start_no_process() {
    let place = TestFolder::new();
    for landlock in [Landlock::Required, Landlock::Off] {
        let mut config = place.code(landlock, &["sh"]);
        // `sh` through a model instead of the opt-in, like a gap in a model.
        config.allow_code_execution.clear();
        let model = lockgate_policy::command::ModelSpec {
            flags: vec!["-c=text".into()],
            ..Default::default()
        };
        config.models.insert("sh".into(), model);
        let rig = rig(config);
        assert_eq!(sh(&rig, "echo in this process").await["stdout"], json!("in this process\n"));
        for script in [
            "cat victim.txt; true",
            "(echo x); true",
            "echo x | cat",
            "sleep 60 & true",
            "./evil; true",
        ] {
            let result = sh(&rig, script).await;
            let words = result["stderr"].as_str().unwrap();
            assert!(
                words.contains("fork") || words.contains("Permission denied"),
                "{script}: {result}"
            );
        }
        place.assert_untouched();
        place.assert_quiet().await;
    }
}

#[tokio::test]
async fn nothing_reaches_the_network_or_leaves_its_group() {
    let place = TestFolder::new();
    let canary = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    canary.set_nonblocking(true).unwrap();
    let port = canary.local_addr().unwrap().port();
    for landlock in [Landlock::Required, Landlock::Off] {
        let rig = rig(place.code(landlock, &["bash", "sh"]));
        let argv = json!({"argv": ["bash", "-c", format!("echo hi > /dev/tcp/127.0.0.1/{port}")]});
        let result = rig.call("shell/execute", argv).await.unwrap();
        assert_ne!(result["exitCode"], json!(0), "{result}");
        assert_eq!(canary.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        // A process that left the group would outlive the call.
        let result = sh(&rig, "setsid sleep 60; setsid -f sleep 60; echo done").await;
        assert!(result["stderr"].as_str().unwrap().contains("setsid"), "{result}");
        place.assert_quiet().await;
    }
}

#[tokio::test]
async fn the_environment_is_made_from_nothing() {
    let place = TestFolder::new();
    let mut config = place.code(Landlock::Required, &["env"]);
    config.environment.insert("GREETING".into(), "hi".into());
    let result = run(&rig(config), "env").await.unwrap();
    let mut names: Vec<&str> = result["stdout"]
        .as_str()
        .unwrap()
        .lines()
        .filter_map(|line| line.split('=').next())
        .collect();
    names.sort_unstable();
    let expected = [
        "COREPACK_ENABLE_NETWORK",
        "COREPACK_ENABLE_PROJECT_SPEC",
        "GREETING",
        "HOME",
        "LANG",
        "LOCKGATE_MARK",
        "NO_UPDATE_NOTIFIER",
        "PATH",
        "TERM",
    ];
    assert_eq!(names, expected);
}

#[tokio::test]
async fn limits_hold() {
    let place = TestFolder::new();
    let mut config = place.code(Landlock::Required, &["sh"]);
    config.roots[0].write = true;
    config.memory = 128 << 20;
    let rig = rig(config);
    let limits = sh(&rig, "ulimit -c; ulimit -n; ulimit -d").await;
    assert_eq!(limits["stdout"], json!(format!("0\n256\n{}\n", (128 << 20) / 1024)));
    let result = sh(&rig, "head -c 3000000 /dev/urandom > big; wc -c < big; rm big").await;
    assert_eq!(result["stdout"], json!("1048576\n"), "{result}");
    let result = sh(&rig, "head -c 400M /dev/urandom | tail -c 400M").await;
    assert!(result["stderr"].as_str().unwrap().contains("memory"), "{:?}", result["stderr"]);
}

/// Tests the minimum limits of a configuration. The guard, subject to the same limits, still starts
/// the program.
#[tokio::test]
async fn the_least_limits_are_enough_to_start() {
    let place = TestFolder::new();
    let mut config = place.code(Landlock::Required, &["sh"]);
    config.memory = 16 << 20;
    config.open_files = 16;
    let result = sh(&rig(config), "sh -c 'echo hi | cat'; ulimit -n").await;
    assert_eq!(result["stdout"], json!("hi\n16\n"), "{result}");
}

#[test]
fn landlock_is_required_unless_told() {
    assert_eq!(confine::wanted(Landlock::Required, true), Ok(true));
    assert_eq!(confine::wanted(Landlock::BestEffort, true), Ok(true));
    assert_eq!(confine::wanted(Landlock::BestEffort, false), Ok(false));
    assert_eq!(confine::wanted(Landlock::Off, true), Ok(false));
    assert!(confine::wanted(Landlock::Required, false).unwrap_err().contains("no Landlock"));
    assert!(confine::found(), "this machine has no Landlock; the tests of confinement need it");
}

#[tokio::test]
async fn a_server_that_cannot_be_trusted_fails_and_says_why() {
    let place = TestFolder::new();
    let mut config = place.config(Landlock::Required);
    config.roots[0].path = place.root().join("nowhere");
    let rig = crate::tests::rig(&crate::Config { shell: Some(config), ..crate::Config::default() });
    let server = rig.server("shell");
    let status = server.status();
    assert_eq!(status.state, lockgate_upstream::UpstreamState::Failed);
    assert!(status.trouble.as_ref().unwrap().words.contains("nowhere"), "{status:?}");
    assert!(server.catalog().items(lockgate_upstream::ListKind::Tools).is_empty());
}

#[tokio::test]
async fn a_root_that_was_replaced_is_not_the_root() {
    let place = TestFolder::new();
    let rig = rig(place.config(Landlock::Required));
    std::fs::rename(place.root(), place.folder.path().join("moved")).unwrap();
    std::fs::create_dir(place.root()).unwrap();
    std::fs::write(place.root().join("victim.txt"), "other").unwrap();
    let refused = run(&rig, "cat victim.txt").await.unwrap_err();
    assert!(refused.contains("the folder was replaced"), "{refused}");
}

#[tokio::test]
async fn a_path_may_go_up_behind_a_name_as_far_as_links_lead_nowhere_else() {
    for landlock in [Landlock::Required, Landlock::Off] {
        let place = TestFolder::new();
        let rig = rig(place.config(landlock));
        let read = async |line: &str| rig.call("shell/execute", json!({"command": line})).await;
        for line in ["cat ./src/../victim.txt", "cat src/deep/../../victim.txt"] {
            assert_eq!(read(line).await.unwrap()["stdout"], json!(VICTIM), "{line}");
        }
        for line in ["cat folder-out/../secret.txt", "cat src/../../secret.txt"] {
            assert!(read(line).await.is_err(), "{line}");
        }
    }
}
