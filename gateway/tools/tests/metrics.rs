//! Events of tools, their statistics, and the effect of a changed configuration.

use lockgate_upstream::ServerId;

use super::*;

#[tokio::test]
async fn runs_are_counted_by_tool() {
    let rig = rig(&plain());
    for n in [1, 2, 21] {
        let _ = rig.call("example/count", json!({"n": n, "pause_ms": 1})).await;
    }
    let listed = rig.call("system/tools", json!({"name": "example/count"})).await.unwrap();
    let runs = &listed["tools"][0]["runs"];
    assert_eq!(
        (&runs["invocations"], &runs["successes"], &runs["failures"]),
        (&json!(3), &json!(2), &json!(1))
    );
    assert!(runs["p95Ms"].as_f64().unwrap() >= runs["averageMs"].as_f64().unwrap());
    assert!(runs["averageMs"].as_f64().unwrap() > 0.0 && runs["lastInvokedUnix"].is_u64());
}

/// `system/tools` shows the runs of the caller's organisation; to operators, all runs.
#[tokio::test]
async fn runs_are_those_of_the_callers_organisation() {
    let mut rig = rig(&plain());
    rig.call("example/echo", json!({"text": ""})).await.unwrap();
    let echo = rig.builtin.registry.all();
    let echo = echo.iter().find(|entry| &*entry.name == "example/echo").unwrap();
    drop(echo.begin("other"));
    let listed = rig.call("system/tools", json!({"name": "example/echo"})).await.unwrap();
    assert_eq!(listed["tools"][0]["runs"]["invocations"], json!(1));
    rig.is_operator = true;
    let listed = rig.call("system/tools", json!({"name": "example/echo"})).await.unwrap();
    assert_eq!(listed["tools"][0]["runs"]["invocations"], json!(2));
}

#[tokio::test]
async fn a_changed_configuration_touches_only_what_differs() {
    let mut rig = rig(&plain());
    let system = rig.server("system");
    rig.call("example/echo", json!({"text": ""})).await.unwrap();
    while rig.heard.try_recv().is_ok() {}
    rig.apply(&Config { example: Some(false), ..plain() });
    assert_eq!(rig.builtin.servers().len(), 1);
    assert!(Arc::ptr_eq(&system, &rig.server("system")));
    assert!(rig.heard.try_recv().is_err());
    assert!(rig.builtin.registry.all().iter().all(|entry| entry.name.starts_with("system/")));
    rig.apply(&plain());
    assert_eq!(
        rig.call("example/echo", json!({"text": "again"})).await,
        Ok(json!({"text": "again"}))
    );
    assert!(
        matches!(rig.heard.try_recv(), Ok(Event::Changed { server }) if server == ServerId::shared("example"))
    );
}
