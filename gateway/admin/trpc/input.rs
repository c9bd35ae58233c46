//! The inputs of procedures and their validation. Issues have the format of zod 4, which tRPC's
//! clients expect.

use serde_json::{Map, Value, json};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    pub(crate) is_required: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Text,
    Flag,
    /// A whole number from 1 to this limit.
    Count(u64),
    OneOf(&'static [&'static str]),
    /// A string, a number, a boolean or null.
    Scalar,
    /// An object of any shape.
    Object,
    /// An object with any names, and values of a form.
    Record(&'static Form),
    List(&'static Form),
}

pub(crate) const fn required(name: &'static str, form: Form) -> Field {
    Field { name, form, is_required: true }
}

pub(crate) const fn optional(name: &'static str, form: Form) -> Field {
    Field { name, form, is_required: false }
}

impl Procedure {
    /// Returns whether the input may be omitted.
    pub(crate) fn has_optional_input(&self) -> bool {
        !self.fields.iter().any(|field| field.is_required)
    }

    /// Returns the members of a valid input, or all issues of an invalid one.
    pub(crate) fn check(&self, given: Option<Value>) -> Result<Map<String, Value>, Vec<Value>> {
        let given = match given {
            Some(Value::Object(given)) => given,
            None if self.has_optional_input() => Map::new(),
            other => return Err(vec![invalid_type("object", other.as_ref(), &[])]),
        };
        let mut issues = Vec::new();
        for field in self.fields {
            match given.get(field.name) {
                None if !field.is_required => {}
                value => field.form.check(value, &[field.name.into()], &mut issues),
            }
        }
        if !self.is_open {
            issues.extend(find_unknown(&given, self.fields));
        }
        if issues.is_empty() { Ok(given) } else { Err(issues) }
    }
}

fn find_unknown(given: &Map<String, Value>, fields: &[Field]) -> Option<Value> {
    let mut unknown: Vec<&str> = given.keys().map(String::as_str).collect();
    unknown.retain(|name| !fields.iter().any(|field| field.name == *name));
    let quoted = quote(&unknown);
    let message = match unknown.len() {
        0 => return None,
        1 => format!("Unrecognized key: {}", quoted.concat()),
        _ => format!("Unrecognized keys: {}", quoted.join(", ")),
    };
    Some(json!({"code": "unrecognized_keys", "keys": unknown, "path": [], "message": message}))
}

fn quote(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("\"{name}\"")).collect()
}

impl Form {
    /// Adds the issues of the value at a path.
    fn check(self, value: Option<&Value>, path: &[Value], issues: &mut Vec<Value>) {
        match (self, value) {
            (Self::Text, Some(Value::String(_)))
            | (Self::Flag, Some(Value::Bool(_)))
            | (Self::Object, Some(Value::Object(_))) => {}
            (Self::OneOf(names), Some(Value::String(text))) if names.contains(&text.as_str()) => {}
            (Self::Scalar, Some(value)) if !value.is_object() && !value.is_array() => {}
            (Self::Count(most), Some(Value::Number(number))) => {
                issues.extend(check_count(number.as_f64(), most, path));
            }
            (Self::Record(form), Some(Value::Object(all))) => {
                for (name, value) in all {
                    form.check(Some(value), &[path, &[json!(name)]].concat(), issues);
                }
            }
            (Self::List(form), Some(Value::Array(all))) => {
                for (at, value) in all.iter().enumerate() {
                    form.check(Some(value), &[path, &[json!(at)]].concat(), issues);
                }
            }
            (Self::OneOf(names), _) => issues.push(invalid_option(names, path)),
            (Self::Scalar, _) => issues.push(invalid_union(path)),
            (form, other) => issues.push(invalid_type(form.name(), other, path)),
        }
    }

    /// Returns zod's name of the type.
    fn name(self) -> &'static str {
        match self {
            Self::Text | Self::OneOf(_) | Self::Scalar => "string",
            Self::Flag => "boolean",
            Self::Count(_) => "number",
            Self::Object => "object",
            Self::Record(_) => "record",
            Self::List(_) => "array",
        }
    }
}

/// Returns the issue of an invalid count, or `None` if the count is valid.
fn check_count(number: Option<f64>, most: u64, path: &[Value]) -> Option<Value> {
    let number = number.unwrap_or(f64::NAN);
    if number.fract() != 0.0 {
        let message = "Invalid input: expected int, received number";
        return Some(json!({
            "expected": "int", "format": "safeint", "code": "invalid_type", "path": path,
            "message": message,
        }));
    }
    if number < 1.0 {
        return Some(json!({
            "origin": "number", "code": "too_small", "minimum": 1, "inclusive": true,
            "path": path, "message": "Too small: expected number to be >=1",
        }));
    }
    if number > most as f64 {
        let message = format!("Too big: expected number to be <={most}");
        return Some(json!({
            "origin": "number", "code": "too_big", "maximum": most, "inclusive": true,
            "path": path, "message": message,
        }));
    }
    None
}

fn invalid_type(expected: &str, given: Option<&Value>, path: &[Value]) -> Value {
    let received = match given {
        None => "undefined",
        Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "boolean",
        Some(Value::Number(_)) => "number",
        Some(Value::String(_)) => "string",
        Some(Value::Array(_)) => "array",
        Some(Value::Object(_)) => "object",
    };
    let message = format!("Invalid input: expected {expected}, received {received}");
    json!({"expected": expected, "code": "invalid_type", "path": path, "message": message})
}

fn invalid_option(names: &[&str], path: &[Value]) -> Value {
    let quoted = quote(names);
    let message = format!("Invalid option: expected one of {}", quoted.join("|"));
    json!({"code": "invalid_value", "values": names, "path": path, "message": message})
}

fn invalid_union(path: &[Value]) -> Value {
    let message = "Invalid input: expected string, number, boolean or null";
    json!({"code": "invalid_type", "path": path, "message": message})
}

// The table of all procedures: path, kind, input and action. A test compares the TypeScript types
// with this table.

lockgate_text::words! {
    /// The kind of a procedure, which determines its HTTP method.
    pub(crate) enum ProcedureKind {
        Query = "query",
        Mutation = "mutation",
        Subscription = "subscription",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Status,
    Usage,
    ListTools,
    ExecuteTool,
    /// A tool of the built-in server of a category, as `category/name`.
    Tool(&'static str),
    /// The tool `web/fetch`, with `extractText` converted to its `format`.
    FetchPage,
    FollowEvents,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Procedure {
    pub(crate) path: &'static str,
    pub(crate) kind: ProcedureKind,
    /// The members of the input.
    pub(crate) fields: &'static [Field],
    /// The input may have other members.
    pub(crate) is_open: bool,
    pub(crate) action: Action,
}

impl ProcedureKind {
    /// Returns the HTTP method of the kind.
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Query | Self::Subscription => "GET",
            Self::Mutation => "POST",
        }
    }
}

/// Limit on requested timeouts, in milliseconds.
const MAX_TIMEOUT: u64 = 300_000;
/// Limit on requested rows; the database server has its own limits.
const MAX_ROWS: u64 = 1_000_000;
const ENCODINGS: &[&str] = &["utf-8", "base64", "hex"];
pub(crate) const EVENTS: &[&str] = &["server", "registered", "unregistered", "executed", "missed"];

/// The slug of a server to use in place of the built-in server.
const SERVER: Field = optional("server", Form::Text);
const PATH: Field = required("path", Form::Text);
const URL: Field = required("url", Form::Text);
const TIMEOUT: Field = optional("timeout", Form::Count(MAX_TIMEOUT));
const CONNECTION: Field = optional("connection", Form::Text);
const SCHEMA: Field = optional("schema", Form::Text);

const fn query(path: &'static str, fields: &'static [Field], action: Action) -> Procedure {
    Procedure { path, kind: ProcedureKind::Query, fields, is_open: false, action }
}

const fn mutation(path: &'static str, fields: &'static [Field], action: Action) -> Procedure {
    Procedure { kind: ProcedureKind::Mutation, ..query(path, fields, action) }
}

pub(crate) const ALL: &[Procedure] = &[
    query("mcp.status", &[], Action::Status),
    query(
        "mcp.usage",
        &[
            optional("window", Form::OneOf(&["1h", "24h", "7d"])),
            optional("by", Form::OneOf(&["server", "tool", "caller"])),
            SERVER,
            optional("principal", Form::Text),
        ],
        Action::Usage,
    ),
    query(
        "mcp.listTools",
        &[optional("category", Form::Text), SERVER, optional("cursor", Form::Text)],
        Action::ListTools,
    ),
    mutation(
        "mcp.executeTool",
        &[required("name", Form::Text), optional("arguments", Form::Object)],
        Action::ExecuteTool,
    ),
    query(
        "mcp.file.read",
        &[PATH, optional("encoding", Form::OneOf(ENCODINGS)), SERVER],
        Action::Tool("file/read"),
    ),
    query(
        "mcp.file.list",
        &[PATH, optional("recursive", Form::Flag), optional("includeHidden", Form::Flag), SERVER],
        Action::Tool("file/list"),
    ),
    mutation(
        "mcp.file.write",
        &[
            PATH,
            required("content", Form::Text),
            optional("encoding", Form::OneOf(ENCODINGS)),
            optional("mode", Form::OneOf(&["replace", "create", "append"])),
            SERVER,
        ],
        Action::Tool("file/write"),
    ),
    mutation(
        "mcp.shell.execute",
        &[
            required("command", Form::Text),
            optional("cwd", Form::Text),
            TIMEOUT,
            optional("env", Form::Record(&Form::Text)),
            SERVER,
        ],
        Action::Tool("shell/execute"),
    ),
    Procedure {
        is_open: true,
        ..mutation("mcp.web.request", &[URL, SERVER], Action::Tool("web/request"))
    },
    query(
        "mcp.web.fetch",
        &[URL, optional("extractText", Form::Flag), TIMEOUT, SERVER],
        Action::FetchPage,
    ),
    mutation(
        "mcp.database.query",
        &[
            required("query", Form::Text),
            optional("params", Form::List(&Form::Scalar)),
            optional("limit", Form::Count(MAX_ROWS)),
            CONNECTION,
            SERVER,
        ],
        Action::Tool("database/query"),
    ),
    query("mcp.database.tables", &[SCHEMA, CONNECTION, SERVER], Action::Tool("database/tables")),
    query(
        "mcp.database.schema",
        &[required("table", Form::Text), SCHEMA, CONNECTION, SERVER],
        Action::Tool("database/schema"),
    ),
    Procedure {
        kind: ProcedureKind::Subscription,
        ..query(
            "mcp.events",
            &[
                optional("types", Form::List(&Form::OneOf(EVENTS))),
                optional("lastEventId", Form::Text),
            ],
            Action::FollowEvents,
        )
    },
];

pub(crate) fn find(path: &str) -> Option<&'static Procedure> {
    ALL.iter().find(|procedure| procedure.path == path)
}

#[cfg(test)]
mod tests;
