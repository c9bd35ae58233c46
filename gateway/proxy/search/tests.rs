//! Tests of the lines of tools.

use serde_json::json;

use super::write_summary;
use crate::catalog::tool_index::first_sentence;

#[test]
fn a_line_has_arguments_and_the_first_sentence() {
    let tool = json!({"description": "Finds issues. Slowly.\nMore.", "inputSchema": {
        "properties": {
            "query": {"type": "string"},
            "state": {"enum": ["open", "closed"]},
            "labels": {"type": "array", "items": {"type": "string"}},
            "page": {"type": ["integer", "null"]},
            "any": {},
        },
        "required": ["query"],
    }});
    let mut line = String::from("before");
    write_summary(&mut line, "gh__issues", tool.to_string().as_bytes());
    let expected = "before\ngh__issues(query: string, state?: \"open\"|\"closed\", \
        labels?: string[], page?: integer|null, any?: any) – Finds issues.";
    assert_eq!(line, expected);
}

#[test]
fn a_line_is_bounded() {
    let mut properties = json!({});
    for number in 0..100 {
        properties[format!("p{number}")] = json!({"type": "string"});
    }
    let tool = json!({"description": "é".repeat(1000), "inputSchema": {"properties": properties}});
    let mut line = String::new();
    write_summary(&mut line, "t", tool.to_string().as_bytes());
    assert!(line.contains("p15?: string, …)") && line.len() < 500, "{line}");
    let mut bare = String::new();
    write_summary(&mut bare, "t", b"{}");
    assert_eq!(bare, "t()");
}

#[test]
fn sentences_end_at_lines_and_full_stops() {
    assert_eq!(first_sentence(" One. Two.", 99), "One.");
    assert_eq!(first_sentence("One\nTwo", 99), "One");
    assert_eq!(first_sentence("v1.2 of it", 99), "v1.2 of it");
    assert_eq!(first_sentence("ééé", 3), "é…");
}
