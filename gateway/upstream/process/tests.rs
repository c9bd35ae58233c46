//! Tests of `process`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::process::ChildStdout;
use tokio::time::timeout;

use super::{Child, inherited, spawn};
use crate::status::{Stage, StageError};

const EVENT_TIMEOUT: Duration = Duration::from_secs(10);
const GRACE_PERIOD: Duration = Duration::from_millis(300);

/// Returns the guard program, which cargo builds with these tests.
fn guard() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let path = own.parent().and_then(Path::parent).unwrap().join("examples/guard");
    assert!(path.exists(), "build it with `cargo build -p lockgate-upstream --example guard`");
    path
}

async fn start(
    command: &str,
    args: &[&str],
) -> Result<(Child, pipe::Sender, ChildStdout), StageError> {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    spawn(&guard(), "test", command, &args, &BTreeMap::new(), None).await
}

async fn sh(script: &str) -> (Child, pipe::Sender, BufReader<ChildStdout>) {
    let (child, stdin, stdout) = start("sh", &["-c", script]).await.unwrap();
    (child, stdin, BufReader::new(stdout))
}

async fn line(stdout: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    timeout(EVENT_TIMEOUT, stdout.read_line(&mut line)).await.unwrap().unwrap();
    line.trim_end().to_owned()
}

fn pid(text: &str) -> Pid {
    Pid::from_raw(text.parse().unwrap()).unwrap()
}

/// Reports whether a process runs; zombies do not.
fn runs(pid: Pid) -> bool {
    let stat =
        std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    test_kill_process(pid).is_ok() && !stat.contains(") Z ")
}

async fn gone(what: impl Fn() -> bool) {
    let end = Instant::now() + EVENT_TIMEOUT;
    while what() {
        assert!(Instant::now() < end, "still there");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_child_that_reads_its_end_exits_on_its_own() {
    let (child, mut stdin, mut stdout) =
        sh("while read -r x; do echo \"got $x\"; done; exit 3").await;
    stdin.write_all(b"hello\n").await.unwrap();
    assert_eq!(line(&mut stdout).await, "got hello");
    drop(stdin);
    assert_eq!(
        timeout(EVENT_TIMEOUT, child.close(EVENT_TIMEOUT)).await.unwrap(),
        "exited with code 3"
    );
    assert_eq!(child.exit().await, "exited with code 3");
}

#[tokio::test]
async fn a_child_that_ignores_its_end_is_terminated() {
    let (child, stdin, mut stdout) =
        sh("trap 'echo terminated; exit 0' TERM; echo up; while :; do sleep 0.01; done").await;
    assert_eq!(line(&mut stdout).await, "up");
    drop(stdin);
    assert_eq!(
        timeout(EVENT_TIMEOUT, child.close(GRACE_PERIOD)).await.unwrap(),
        "exited with code 0"
    );
    assert_eq!(line(&mut stdout).await, "terminated");
}

#[tokio::test]
async fn a_child_that_ignores_termination_is_killed_with_its_group() {
    let (child, stdin, mut stdout) =
        sh("trap '' TERM; sleep 1000 & echo $!; while :; do sleep 0.01; done").await;
    let grandchild = pid(&line(&mut stdout).await);
    drop(stdin);
    assert_eq!(
        timeout(EVENT_TIMEOUT, child.close(GRACE_PERIOD)).await.unwrap(),
        "was killed by signal 9"
    );
    gone(|| runs(grandchild)).await;
}

#[tokio::test]
async fn grandchildren_do_not_outlive_a_leader_that_exits() {
    let (child, stdin, mut stdout) = sh("sleep 1000 & echo $!; cat >/dev/null").await;
    let grandchild = pid(&line(&mut stdout).await);
    assert!(runs(grandchild));
    drop(stdin);
    assert_eq!(
        timeout(EVENT_TIMEOUT, child.close(EVENT_TIMEOUT)).await.unwrap(),
        "exited with code 0"
    );
    gone(|| runs(grandchild)).await;
    // Its standard output has ended too, because no process holds it.
    timeout(EVENT_TIMEOUT, stdout.read_to_end(&mut Vec::new())).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_leader_that_crashes_takes_its_group_along_without_being_asked() {
    let (child, mut stdin, mut stdout) = sh("sleep 1000 & echo $!; read -r x; kill -SEGV $$").await;
    let grandchild = pid(&line(&mut stdout).await);
    stdin.write_all(b"\n").await.unwrap();
    assert_eq!(timeout(EVENT_TIMEOUT, child.exit()).await.unwrap(), "was killed by signal 11");
    gone(|| runs(grandchild)).await;
}

#[tokio::test]
async fn dropping_a_child_kills_its_group() {
    let (child, _stdin, mut stdout) = sh("sleep 1000 & echo $!; wait").await;
    let grandchild = pid(&line(&mut stdout).await);
    let leader = pid(&child.id().to_string());
    drop(child);
    gone(|| runs(leader) || runs(grandchild)).await;
}

#[test]
fn the_end_of_the_runtime_kills_the_group() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (child, stdin, leader, grandchild) = runtime.block_on(async {
        let (child, stdin, mut stdout) = sh("sleep 1000 & echo $!; wait").await;
        let grandchild = pid(&line(&mut stdout).await);
        let leader = pid(&child.id().to_string());
        (child, stdin, leader, grandchild)
    });
    drop(runtime);
    let end = Instant::now() + EVENT_TIMEOUT;
    while runs(leader) || runs(grandchild) {
        assert!(Instant::now() < end);
        std::thread::yield_now();
    }
    drop((child, stdin));
}

/// A process that leaves the group, an orphan, and a process that ignores signals.
const STRAYS: &str = "setsid sh -c 'echo $$; exec sleep 1000' & \
    (setsid sh -c 'trap \"\" TERM HUP INT; echo $$; while :; do sleep 0.01; done' &) ; ";

#[tokio::test]
async fn descendants_outside_the_group_end_with_the_child() {
    for (rest, how) in
        [("cat >/dev/null", "exited with code 0"), ("kill -9 $$", "was killed by signal 9")]
    {
        let (child, stdin, mut stdout) = sh(&format!("{STRAYS} sleep 0.2; {rest}")).await;
        let strays = [pid(&line(&mut stdout).await), pid(&line(&mut stdout).await)];
        drop(stdin);
        assert_eq!(timeout(EVENT_TIMEOUT, child.close(EVENT_TIMEOUT)).await.unwrap(), how);
        assert!(!strays.into_iter().any(runs), "{how}");
    }
}

#[tokio::test]
async fn orphans_are_waited_for_while_the_child_runs() {
    let (child, _stdin, mut stdout) = sh("(sh -c 'echo $$; exit 5' &) ; sleep 1000").await;
    let orphan = pid(&line(&mut stdout).await);
    // Not even a zombie is left.
    gone(|| test_kill_process(orphan).is_ok()).await;
    drop(child);
}

#[tokio::test]
async fn a_guard_that_is_killed_takes_the_child_along() {
    let (child, _stdin, mut stdout) =
        sh("echo up; trap '' TERM; while :; do sleep 0.01; done").await;
    assert_eq!(line(&mut stdout).await, "up");
    let server = pid(&child.id().to_string());
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let guard = pid(stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap());
    // The guard survives SIGTERM, which a service manager sends to all processes.
    kill_process(guard, Signal::TERM).unwrap();
    assert!(timeout(GRACE_PERIOD, child.exit()).await.is_err() && runs(guard));
    kill_process(guard, Signal::KILL).unwrap();
    let words = timeout(EVENT_TIMEOUT, child.exit()).await.unwrap();
    assert_eq!(words, "lost its guard (was killed by signal 9)");
    gone(|| runs(server)).await;
}

#[tokio::test]
async fn stderr_is_kept_bounded_and_harmless() {
    let (child, _stdin, _stdout) =
        sh("i=0; while [ $i -lt 30 ]; do echo line $i >&2; i=$((i+1)); done; \
         printf '\\033[31mred\\033[0m \\377 \\342\\200\\256evil\\r\\n' >&2; \
         head -c 100000 /dev/zero | tr '\\0' x >&2; printf '\\n\\n  \\nlast words' >&2")
        .await;
    assert_eq!(timeout(EVENT_TIMEOUT, child.exit()).await.unwrap(), "exited with code 0");
    let lines = child.stderr_tail();
    assert_eq!(lines.len(), 20);
    assert_eq!(lines[0], "line 13");
    assert_eq!(lines[17], "\\u{1b}[31mred\\u{1b}[0m \u{fffd} \\u{202e}evil");
    assert!(
        lines[18].ends_with("x … (100000 bytes)") && lines[18].len() < 8300,
        "{}",
        lines[18].len()
    );
    assert_eq!(lines[19], "last words");
}

#[tokio::test]
async fn the_environment_is_made_from_nothing() {
    // Cargo sets this for every test.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let env = BTreeMap::from([
        ("TOKEN".to_owned(), "x".to_owned()),
        ("HOME".to_owned(), "/nowhere".to_owned()),
    ]);
    let directory = tempfile::tempdir().unwrap();
    let (child, _stdin, mut stdout) = spawn(
        &guard(),
        "test",
        "sh",
        &["-c".to_owned(), "pwd; env".to_owned()],
        &env,
        Some(directory.path()),
    )
    .await
    .unwrap();
    let mut text = String::new();
    timeout(EVENT_TIMEOUT, stdout.read_to_string(&mut text)).await.unwrap().unwrap();
    assert_eq!(child.exit().await, "exited with code 0");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(Path::new(lines[0]), directory.path().canonicalize().unwrap());
    assert!(lines.contains(&"TOKEN=x") && lines.contains(&"HOME=/nowhere"), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("PATH=")));
    assert!(!lines.iter().any(|line| line.starts_with("CARGO")), "{lines:?}");
}

#[test]
fn only_listed_variables_are_inherited() {
    let all = [
        "PATH",
        "LC_ALL",
        "AWS_SECRET_ACCESS_KEY",
        "HTTPS_PROXY",
        "LD_PRELOAD",
        "SSH_AUTH_SOCK",
        "lc_all",
    ];
    let kept: Vec<OsString> =
        inherited(all.iter().map(|name| (name.into(), "x".into()))).map(|(name, _)| name).collect();
    assert_eq!(kept, ["PATH", "LC_ALL"]);
}

#[tokio::test]
async fn a_start_that_fails_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str, mode: u32| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let plain = file("plain", "#!/bin/sh\n", 0o644);
    let script = file("script", "#!/no/such/interpreter\n", 0o755);
    let garbage = file("garbage", "\u{1}\u{2}", 0o755);
    let cases = [
        (
            "uvx-not-here".to_owned(),
            "`uvx-not-here` was not found in PATH; install it or give its full path".to_owned(),
        ),
        ("/no/such/server".to_owned(), "`/no/such/server` does not exist".to_owned()),
        (plain.clone(), format!("permission denied: the gateway's user cannot execute `{plain}`")),
        (
            script.clone(),
            format!("`{script}` exists, but the interpreter in its first line does not"),
        ),
        (
            garbage.clone(),
            format!(
                "`{garbage}` is not a program; a script needs a first line such as `#!/bin/sh`"
            ),
        ),
        (
            "a\0b".to_owned(),
            "`a\0b`: command, arguments and environment must not contain NUL bytes".to_owned(),
        ),
    ];
    for (command, words) in cases {
        let trouble = start(&command, &[]).await.err().unwrap();
        assert_eq!((trouble.stage, trouble.words), (Stage::Start, words));
    }
    for (cwd, words) in [
        (
            Path::new("/no/such/place"),
            "working directory `/no/such/place` does not exist".to_owned(),
        ),
        (Path::new(&plain), format!("working directory `{plain}` is not a directory")),
    ] {
        let trouble =
            spawn(&guard(), "test", "sh", &[], &BTreeMap::new(), Some(cwd)).await.err().unwrap();
        assert_eq!(trouble.words, words);
    }
}

#[tokio::test]
async fn a_child_that_fails_at_once_leaves_its_words() {
    let (child, stdin, _stdout) =
        start("python3", &["-c", "import sys; sys.exit('no API key')"]).await.unwrap();
    drop(stdin);
    assert_eq!(timeout(EVENT_TIMEOUT, child.exit()).await.unwrap(), "exited with code 1");
    assert_eq!(child.stderr_tail(), ["no API key"]);
}

mod served {
    //! The connection and the child together.

    use std::sync::Arc;

    use bytes::Bytes;
    use lockgate_protocol::jsonrpc::Request;

    use super::*;
    use crate::BoxFuture;
    use crate::call::ClientChannel;
    use crate::duplex::{Bounds, Duplex, Role};
    use crate::failure::UpstreamErrorKind;
    use crate::incoming::Inbox;
    use crate::incoming::Intake;

    struct Nothing;

    impl Inbox for Nothing {
        fn notification(&self, _note: Request, _running: Option<Arc<dyn ClientChannel>>) {}

        fn question(
            &self,
            _: Request,
            _: Option<Arc<dyn ClientChannel>>,
        ) -> BoxFuture<'static, Bytes> {
            Box::pin(std::future::pending())
        }

        fn closed(&self, _words: String) {}
    }

    const SERVER: &str = r#"
import json, sys
print("starting up")
for line in sys.stdin:
    message = json.loads(line)
    name = message["params"]["name"]
    if name == "crash":
        sys.stdout.write('{"jsonrpc":"2.0","id":')
        sys.stdout.flush()
        sys.exit(9)
    if name == "huge":
        sys.stdout.write("x" * 5_000_000)
        sys.stdout.write("\n")
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"name": name}}))
    sys.stdout.flush()
"#;

    fn call(id: u64, name: &str) -> Bytes {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}"}}}}"#
        )
        .into()
    }

    #[tokio::test]
    async fn a_real_child_answers_and_its_crash_is_told() {
        let (child, stdin, stdout) = start("python3", &["-c", SERVER]).await.unwrap();
        let bounds = Bounds { message_bytes: 1 << 20, depth: 32, outgoing: 64 };
        let duplex = Duplex::lines(stdout, stdin, bounds, Arc::new(Nothing), Intake::for_tests());
        for id in 0..50 {
            let answer = timeout(
                EVENT_TIMEOUT,
                duplex.request(id, call(id, "echo"), Role::Call(None), None, true),
            )
            .await
            .unwrap()
            .unwrap();
            assert!(String::from_utf8_lossy(&answer.text).contains("echo"));
        }
        let failure = timeout(
            EVENT_TIMEOUT,
            duplex.request(50, call(50, "huge"), Role::Call(None), None, true),
        )
        .await
        .unwrap()
        .unwrap_err();
        assert_eq!(failure.kind, UpstreamErrorKind::TooLarge);
        let failure = timeout(
            EVENT_TIMEOUT,
            duplex.request(51, call(51, "crash"), Role::Call(None), None, true),
        )
        .await
        .unwrap()
        .unwrap_err();
        assert_eq!((failure.kind, failure.sent), (UpstreamErrorKind::Lost, true));
        assert_eq!(timeout(EVENT_TIMEOUT, child.exit()).await.unwrap(), "exited with code 9");
    }

    #[tokio::test]
    async fn closing_the_connection_lets_the_child_end() {
        let (child, stdin, stdout) = start("python3", &["-c", SERVER]).await.unwrap();
        let bounds = Bounds { message_bytes: 1 << 20, depth: 32, outgoing: 64 };
        let duplex = Duplex::lines(stdout, stdin, bounds, Arc::new(Nothing), Intake::for_tests());
        timeout(EVENT_TIMEOUT, duplex.request(1, call(1, "echo"), Role::Call(None), None, true))
            .await
            .unwrap()
            .unwrap();
        duplex.close();
        assert_eq!(
            timeout(EVENT_TIMEOUT, child.close(EVENT_TIMEOUT)).await.unwrap(),
            "exited with code 0"
        );
    }
}
