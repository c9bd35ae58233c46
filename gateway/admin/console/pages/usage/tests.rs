//! Tests of `usage`: figures as text, and cells that differ in shape.

use serde_json::json;

use super::*;

fn day(states: &[HourState]) -> ServerDay {
    let mut hours = Vec::new();
    for (hour, state) in states.iter().enumerate() {
        let at = format!("2026-11-27T{hour:02}:00:00Z");
        hours.push(ServerHour { at, state: *state, ..ServerHour::default() });
    }
    ServerDay { name: "time".to_owned(), organization_id: None, hours }
}

#[test]
fn states_have_different_heights_and_the_label_names_the_bad_hours() {
    use HourState::{Down, Failing, NoData, Ok};

    let day = day(&[NoData, Ok, Failing, Down, Ok]);
    let heights: Vec<usize> = day.hours.iter().map(ServerHour::height).collect();
    assert_eq!(heights, [1, 4, 8, 16, 4]);
    assert_eq!(day.summary(), "2 h ok, 1 h failing, 1 h down, 1 h without data");
    assert_eq!(
        day.label(),
        "time in the last 24 hours: 2 h ok, 1 h failing, 1 h down, 1 h without data; failing from \
         02:00 UTC; down from 03:00 UTC"
    );
}

#[test]
fn figures_have_a_rate_and_no_duration_is_a_dash() {
    let figures: CallFigures =
        serde_json::from_value(json!({"calls": 8, "failed": 1, "p50Ms": 4.24, "p95Ms": 420.6}))
            .unwrap();
    let texts = [figures.error_rate(), figures.p50(), figures.p95()];
    assert_eq!(texts, ["12.5", "4.2", "421"]);
    let none = CallFigures::default();
    assert_eq!([none.error_rate(), none.p50()], ["–", "–"]);
}

#[test]
fn plots_cover_all_steps_and_servers_without_calls_are_listed_if_they_have_data() {
    let steps = json!([{"at": "a", "calls": 0, "failed": 0}, {"at": "b", "calls": 2, "failed": 1}]);
    let total = CallFigures { calls: 2, failed: 1, ..CallFigures::default() };
    let steps = serde_json::from_value(steps).unwrap();
    let mut usage = Usage { total, steps, ..Usage::default() };
    let plots = usage.plots();
    assert_eq!(plots.len(), 4);
    assert!(plots[1].title == "Errors");
    assert_eq!(plots[0].rows(), [("b".to_owned(), "2".to_owned())]);
    usage.servers = vec![day(&[HourState::Ok]), day(&[HourState::NoData])];
    assert_eq!(usage.idle_days().len(), 1);
    let item = UsageItem { server: "time".to_owned(), ..UsageItem::default() };
    assert!(usage.find_day(&item).is_some());
    usage.items.push(item);
    assert!(usage.idle_days().is_empty());
}
