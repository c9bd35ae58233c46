//! The tools with which clients find and call other tools, in place of a long list.

/// Names of the management tools.
pub(crate) const FIND: &str = "find_tools";
pub(crate) const DESCRIBE: &str = "describe_tools";
pub(crate) const CALL: &str = "call_tool";

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

/// Returns whether a name is that of a management tool.
pub(crate) fn is_management(name: &str) -> bool {
    matches!(name, FIND | DESCRIBE | CALL)
}
