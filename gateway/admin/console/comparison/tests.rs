//! Tests of `comparison`.

use serde_json::json;

use super::*;

/// Formats rows as `kind: before | after`, with the differing part in brackets.
fn write(comparison: &Comparison) -> Vec<String> {
    let side = |line: &Option<Line>| match line {
        None => String::new(),
        Some(Line { start, middle, end, .. }) if middle.is_empty() => format!("{start}{end}"),
        Some(Line { start, middle, end, .. }) => format!("{start}[{middle}]{end}"),
    };
    let write_row =
        |row: &Row| format!("{}: {} | {}", row.kind.as_str(), side(&row.before), side(&row.after));
    comparison.rows.iter().map(write_row).collect()
}

#[test]
fn words_that_differ_are_marked_where_they_are() {
    let before = json!({"description": "Finds issues by words.", "name": "find"});
    let after = json!({"description": "Finds issues by secret words.", "name": "find"});
    assert_eq!(
        write(&Comparison::new(Some(&before), &after)),
        [
            "same: { | {",
            r#"changed: "description": "Finds issues by words." | "description": "Finds issues by [secret ]words.""#,
            r#"same: "name": "find" | "name": "find""#,
            "same: } | }",
        ]
    );
}

#[test]
fn members_stand_beside_those_of_their_name() {
    let before = json!({"a": 1, "gone": {"x": true}});
    let after = json!({"a": 2, "fresh": [1]});
    assert_eq!(
        write(&Comparison::new(Some(&before), &after)),
        [
            "same: { | {",
            r#"changed: "a": [1] | "a": [2]"#,
            r#"added:  | "fresh": ["#,
            "added:  | 1",
            "added:  | ]",
            r#"removed: "gone": { | "#,
            r#"removed: "x": true | "#,
            "removed: } | ",
            "same: } | }",
        ]
    );
}

#[test]
fn an_item_put_into_a_list_is_the_one_that_differs() {
    let before = json!(["id", "words"]);
    let after = json!(["id", "token", "words"]);
    let rows = write(&Comparison::new(Some(&before), &after));
    let differing: Vec<_> = rows.iter().filter(|row| !row.starts_with("same")).collect();
    assert_eq!(differing, [r#"added:  | "token""#]);
}

#[test]
fn a_text_of_several_lines_is_compared_line_by_line() {
    let before = json!({"description": "One.\nTwo.\nThree."});
    let after = json!({"description": "One.\nTwo, and more.\nThree."});
    let rows = write(&Comparison::new(Some(&before), &after));
    let differing: Vec<_> = rows.iter().filter(|row| !row.starts_with("same")).collect();
    assert_eq!(differing, ["changed: [Two.] | [Two, and more.]"]);
}

#[test]
fn what_nobody_sees_is_written_out() {
    let before = json!({"description": "Reads \"a\"."});
    let after = json!({"description": "Reads \"a\".\u{200b}\u{202e}"});
    let rows = write(&Comparison::new(Some(&before), &after));
    assert!(rows[1].ends_with(r#"[\"a\".\u{200b}\u{202e}"]"#), "{rows:?}");
}

#[test]
fn equal_lines_far_from_what_differs_are_folded() {
    let mut before = serde_json::Map::new();
    for at in 10..40 {
        before.insert(format!("k{at}"), json!(at));
    }
    let mut after = before.clone();
    after.insert("k20".to_owned(), json!(0));
    let rows = Comparison::new(Some(&before.into()), &after.into()).rows;
    let folds: Vec<_> = rows.iter().map(|row| row.folded).filter(|count| *count > 0).collect();
    assert_eq!((folds, rows.len()), (vec![8, 17], 9));
}

#[test]
fn what_is_new_stands_alone() {
    let comparison = Comparison::new(None, &json!({"name": "find"}));
    assert!(comparison.is_new);
    assert!(comparison.rows.iter().all(|row| row.kind == RowKind::Added && row.before.is_none()));
}

#[test]
fn more_than_anybody_would_read_is_not_shown_in_part() {
    let items = |count: usize| Value::Array(vec![json!(1); count]);
    let shown = Comparison::new(None, &items(MAX_ROWS - 2));
    assert_eq!((shown.rows.len(), shown.is_too_long), (MAX_ROWS, false));
    let long = Comparison::new(None, &items(MAX_ROWS - 1));
    assert!(long.rows.is_empty() && long.is_too_long);
}
