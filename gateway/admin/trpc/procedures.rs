//! The table of all procedures: path, kind, input and action. A test compares the TypeScript types
//! with this table.

use super::input::{Field, Form, Input, optional, required};

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
    pub(crate) input: Input,
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

const fn query(path: &'static str, input: Input, action: Action) -> Procedure {
    Procedure { path, kind: ProcedureKind::Query, input, action }
}

const fn mutation(path: &'static str, input: Input, action: Action) -> Procedure {
    Procedure { path, kind: ProcedureKind::Mutation, input, action }
}

pub(crate) const ALL: &[Procedure] = &[
    query("mcp.status", Input::Nothing, Action::Status),
    query(
        "mcp.usage",
        Input::Exactly(&[
            optional("window", Form::OneOf(&["1h", "24h", "7d"])),
            optional("by", Form::OneOf(&["server", "tool", "caller"])),
            SERVER,
            optional("principal", Form::Text),
        ]),
        Action::Usage,
    ),
    query(
        "mcp.listTools",
        Input::Exactly(&[optional("category", Form::Text), SERVER, optional("cursor", Form::Text)]),
        Action::ListTools,
    ),
    mutation(
        "mcp.executeTool",
        Input::Exactly(&[required("name", Form::Text), optional("arguments", Form::Object)]),
        Action::ExecuteTool,
    ),
    query(
        "mcp.file.read",
        Input::Exactly(&[PATH, optional("encoding", Form::OneOf(ENCODINGS)), SERVER]),
        Action::Tool("file/read"),
    ),
    query(
        "mcp.file.list",
        Input::Exactly(&[
            PATH,
            optional("recursive", Form::Flag),
            optional("includeHidden", Form::Flag),
            SERVER,
        ]),
        Action::Tool("file/list"),
    ),
    mutation(
        "mcp.file.write",
        Input::Exactly(&[
            PATH,
            required("content", Form::Text),
            optional("encoding", Form::OneOf(ENCODINGS)),
            optional("mode", Form::OneOf(&["replace", "create", "append"])),
            SERVER,
        ]),
        Action::Tool("file/write"),
    ),
    mutation(
        "mcp.shell.execute",
        Input::Exactly(&[
            required("command", Form::Text),
            optional("cwd", Form::Text),
            TIMEOUT,
            optional("env", Form::Texts),
            SERVER,
        ]),
        Action::Tool("shell/execute"),
    ),
    mutation("mcp.web.request", Input::AtLeast(&[URL, SERVER]), Action::Tool("web/request")),
    query(
        "mcp.web.fetch",
        Input::Exactly(&[URL, optional("extractText", Form::Flag), TIMEOUT, SERVER]),
        Action::FetchPage,
    ),
    mutation(
        "mcp.database.query",
        Input::Exactly(&[
            required("query", Form::Text),
            optional("params", Form::Scalars),
            optional("limit", Form::Count(MAX_ROWS)),
            CONNECTION,
            SERVER,
        ]),
        Action::Tool("database/query"),
    ),
    query(
        "mcp.database.tables",
        Input::Exactly(&[SCHEMA, CONNECTION, SERVER]),
        Action::Tool("database/tables"),
    ),
    query(
        "mcp.database.schema",
        Input::Exactly(&[required("table", Form::Text), SCHEMA, CONNECTION, SERVER]),
        Action::Tool("database/schema"),
    ),
    Procedure {
        path: "mcp.events",
        kind: ProcedureKind::Subscription,
        input: Input::Exactly(&[
            optional("types", Form::Some(EVENTS)),
            optional("lastEventId", Form::Text),
        ]),
        action: Action::FollowEvents,
    },
];

pub(crate) fn find(path: &str) -> Option<&'static Procedure> {
    ALL.iter().find(|procedure| procedure.path == path)
}
