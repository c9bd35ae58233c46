//! Tests of `audit`: changes with the previous state, and the room for their records.

use super::*;

const BEFORE: &str = r#"{"id":"int_1","name":"Überblick"}"#;
const AFTER: &str = r#"{"id":"int_1","name":"x\",\"hash\":\"0"}"#;

fn change<'a>(before: Option<&'a str>, after: Option<&'a str>) -> Change<'a> {
    Change {
        action: "change mcp-integration",
        issuer: "key",
        subject: "0123456789abcdef",
        key: Some("ci"),
        organisation: Some("acme"),
        before,
        after,
    }
}

#[test]
fn a_change_is_recorded_with_before_and_after_and_the_trail_still_verifies() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let trail = start(&config(&path));
    let long = format!(r#"{{"name":"{}"}}"#, "é\u{1}".repeat(100_000));
    for (before, after) in [
        (None, Some(AFTER)),
        (Some(BEFORE), Some(AFTER)),
        (Some(BEFORE), None),
        (None, Some(&long)),
    ] {
        trail.reserve_change().unwrap().record(&change(before, after));
    }
    drop(trail.reserve_change().unwrap());
    trail.close();
    assert!(verified(&path, None, &[]).intact);
    let written: Vec<Value> =
        lines(&path).into_iter().filter(|line| line["kind"] == "change").collect();
    assert_eq!(written.len(), 4, "{written:?}");
    let [made, changed, gone, cut] = written.as_slice() else { unreachable!() };
    for record in &written {
        let who = (&record["issuer"], &record["who"], &record["key"]);
        assert_eq!(who, (&"key".into(), &"0123456789abcdef".into(), &"ci".into()));
        assert_eq!(record["organisation"], "acme");
    }
    assert!(made.get("before").is_none() && gone.get("after").is_none());
    assert_eq!(changed["before"]["name"], "Überblick");
    assert_eq!(changed["after"]["name"], r#"x","hash":"0"#);
    assert!(cut["after"].as_str().is_some_and(|text| text.len() < 9000), "{cut}");
}

#[test]
fn no_change_without_room_for_its_record_where_calls_are_denied() {
    let folder = tempfile::tempdir().unwrap();
    let how = config(&folder.path().join("audit.jsonl"));
    let trail = start(&how);
    let held: Vec<ChangePlace> =
        std::iter::from_fn(|| trail.reserve_change().ok()).take(1000).collect();
    assert!(held.len() <= how.queue && held.len() >= how.queue - 1, "{}", held.len());
    assert_eq!(call(&trail, "t"), Err(RecordError), "calls and changes share the places");
    drop(held);
    until("the places are free again", || call(&trail, "t").is_ok());
    let lossy = Config { on_full: OnFull::Drop, ..config(&folder.path().join("other.jsonl")) };
    let trail = start(&lossy);
    let held: Vec<ChangePlace> =
        (0..=lossy.queue).map(|_| trail.reserve_change().unwrap()).collect();
    for place in held {
        place.record(&change(None, Some(AFTER)));
    }
    trail.close();
    let report = verified(&folder.path().join("other.jsonl"), None, &[]);
    assert!(report.intact && report.lost >= 1, "{report:?}");
}
