//! Runs that are ended, with all their processes: at their time limit, or when the caller is gone.

use std::sync::Arc;
use std::time::Instant;

use lockgate_protocol::method::Method;

use super::*;
use crate::tests::{Notes, request};

#[tokio::test]
async fn the_time_limit_ends_the_whole_group() {
    let place = TestFolder::new();
    let rig = rig(place.code(Landlock::Required, &["sh"]));
    let began = Instant::now();
    let argv = ["sh", "-c", "echo before; sleep 60 & sleep 60 & wait"];
    let result = rig.call("shell/execute", json!({"argv": argv, "timeout_ms": 300})).await.unwrap();
    assert_eq!((&result["timedOut"], &result["stdout"]), (&json!(true), &json!("before\n")));
    assert_eq!((&result["signal"], &result["exitCode"]), (&json!(15), &Value::Null));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    place.assert_quiet().await;
}

#[tokio::test]
async fn what_ignores_the_request_to_end_is_killed() {
    let place = TestFolder::new();
    let rig = rig(place.code(Landlock::Required, &["sh"]));
    let argv =
        ["sh", "-c", "trap '' TERM; sh -c \"trap '' TERM; sleep 60\" & while :; do sleep 1; done"];
    let result = rig.call("shell/execute", json!({"argv": argv, "timeout_ms": 200})).await.unwrap();
    assert_eq!((&result["timedOut"], &result["signal"]), (&json!(true), &json!(9)));
    place.assert_quiet().await;
}

#[tokio::test]
async fn what_a_program_leaves_behind_is_killed() {
    let place = TestFolder::new();
    let rig = rig(place.code(Landlock::Required, &["sh"]));
    let result = sh(&rig, "sleep 60 & sleep 60 & echo gone").await;
    assert_eq!((&result["stdout"], &result["exitCode"]), (&json!("gone\n"), &json!(0)));
    assert!(result["durationMs"].as_f64().unwrap() < 2000.0, "{result}");
    place.assert_quiet().await;
}

#[tokio::test]
async fn a_dropped_call_ends_its_program() {
    let place = TestFolder::new();
    let rig = rig(place.code(Landlock::Required, &["sh"]));
    let call = rig
        .call("shell/execute", json!({"argv": ["sh", "-c", "trap '' TERM; sleep 60 & sleep 60"]}));
    let started = async {
        while place.processes().len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        result = call => panic!("it ended: {result:?}"),
        () = started => {}
    }
    place.assert_quiet().await;
    // Its permit is released.
    assert_eq!(sh(&rig, "echo next").await["stdout"], json!("next\n"));
}

#[tokio::test]
async fn a_program_that_kills_its_guard_ends_with_it() {
    let place = TestFolder::new();
    let rig = rig(place.code(Landlock::Off, &["sh"]));
    let asked = sh(&rig, "trap '' TERM USR1; kill -TERM $PPID; kill -USR1 0; echo on").await;
    assert_eq!((&asked["stdout"], &asked["exitCode"]), (&json!("on\n"), &json!(0)), "{asked}");
    let killed = sh(&rig, "sleep 60 & kill -KILL $PPID; sleep 60").await;
    assert_eq!((&killed["signal"], &killed["exitCode"]), (&json!(9), &Value::Null), "{killed}");
    place.assert_quiet().await;
}

#[test]
fn a_runtime_that_ends_takes_its_programs_along() {
    let place = TestFolder::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let rig = rig(place.code(Landlock::Required, &["sh"]));
        let call =
            rig.call("shell/execute", json!({"argv": ["sh", "-c", "trap '' TERM; sleep 60"]}));
        let _ = tokio::time::timeout(Duration::from_millis(500), call).await;
    });
    drop(runtime);
    for _ in 0..200 {
        if place.processes().is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("processes are left: {:?}", place.processes());
}

#[tokio::test]
async fn places_are_bounded() {
    let place = TestFolder::new();
    let mut config = place.code(Landlock::Required, &["sleep"]);
    config.concurrent = 1;
    let rig = rig(config);
    let began = Instant::now();
    let (one, two, three) =
        tokio::join!(run(&rig, "sleep 0.3"), run(&rig, "sleep 0.3"), run(&rig, "sleep 0.3"));
    assert!(one.is_ok() && two.is_ok() && three.is_ok());
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
}

#[tokio::test]
async fn progress_is_told_while_it_runs() {
    let place = TestFolder::new();
    let rig = rig(place.code(Landlock::Required, &["sleep"]));
    let notes = Arc::new(Notes::default());
    let request = request(Method::ToolsCall, &json!({"arguments": {"command": "sleep 2.3"}}));
    rig.send("shell", "execute", &request, &[], Some(Arc::clone(&notes) as _), None).await.unwrap();
    let notes = notes.progress.lock();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert_eq!(
        (&notes[1]["progress"], &notes[1]["message"]),
        (&json!(2), &json!("running for 2 s"))
    );
}

#[tokio::test]
async fn a_hundred_calls_leave_no_process_and_no_descriptor() {
    let place = TestFolder::new();
    let rig = rig(place.config(Landlock::Required));
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    run(&rig, "echo hi").await.unwrap();
    let before = descriptors();
    for _ in 0..100 {
        assert_eq!(run(&rig, "echo hi").await.unwrap()["stdout"], json!("hi\n"));
    }
    assert!(descriptors() < before + 20, "{before} descriptors before, {} after", descriptors());
    place.assert_quiet().await;
}
