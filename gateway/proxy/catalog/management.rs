//! The tools with which clients find and call other tools, in place of a long list.

use crate::items::{CALL, DESCRIBE, FIND};

/// Tools returned by a search: at most, and by default.
pub(crate) const MAX_FOUND: u64 = 25;
pub(crate) const FOUND: u64 = 5;
/// Tools described at once.
pub(crate) const MAX_DESCRIBED: usize = 20;

/// Definitions by name. The limits above stand in them as well.
pub(crate) const DEFINITIONS: [(&str, &str); 3] = [
    (
        FIND,
        concat!(
            r#"{"name":"find_tools","description":"Finds tools by their purpose. Returns "#,
            r#"names, arguments and a line about each. Call a tool that you find with "#,
            r#"call_tool.","inputSchema":{"type":"object","#,
            r#""properties":{"query":{"type":"string","maxLength":4096,"#,
            r#""description":"The task, in a few words"},"server":{"type":"string","#,
            r#""description":"Only tools of this server"},"limit":{"type":"integer","#,
            r#""minimum":1,"maximum":25,"default":5}},"required":["query"],"#,
            r#""additionalProperties":false},"annotations":{"readOnlyHint":true}}"#,
        ),
    ),
    (
        DESCRIBE,
        concat!(
            r#"{"name":"describe_tools","description":"Returns the full definitions of "#,
            r#"tools.","inputSchema":{"type":"object","#,
            r#""properties":{"names":{"type":"array","items":{"type":"string"},"#,
            r#""minItems":1,"maxItems":20}},"required":["names"],"#,
            r#""additionalProperties":false},"annotations":{"readOnlyHint":true}}"#,
        ),
    ),
    (
        CALL,
        concat!(
            r#"{"name":"call_tool","description":"Calls a tool that find_tools "#,
            r#"returned.","inputSchema":{"type":"object","#,
            r#""properties":{"name":{"type":"string"},"arguments":{"type":"object","#,
            r#""description":"The tool's arguments"}},"required":["name"],"#,
            r#""additionalProperties":false}}"#,
        ),
    ),
];

/// Returns the first sentence of a text on one line, of at most so many bytes.
pub(crate) fn first_sentence(text: &str, most: usize) -> String {
    let line = text.trim().lines().next().unwrap_or("");
    let end = line.find(". ").map_or(line.len(), |at| at + 1);
    let sentence = &line[..end];
    let cut = sentence.floor_char_boundary(most);
    if cut < sentence.len() { format!("{}…", &sentence[..cut]) } else { sentence.to_owned() }
}
