//! Tests of `trpc`: consistency of the table of procedures.

use std::collections::BTreeSet;

use super::TYPES;
use super::input::{ALL, Action, Form, Procedure, ProcedureKind, find};

#[test]
fn procedures_have_distinct_paths_by_which_they_are_found() {
    let paths: BTreeSet<&str> = ALL.iter().map(|procedure| procedure.path).collect();
    assert_eq!(paths.len(), ALL.len());
    for path in paths {
        assert!(find(path).is_some_and(|found| found.path == path), "{path}");
    }
    for other in ["", "mcp", "mcp.status.", "MCP.status", "mcp/status", "mcp.file"] {
        assert!(find(other).is_none(), "{other}");
    }
}

/// Returns the TypeScript type of a form, as written in the declaration file.
fn write_form(form: Form) -> String {
    match form {
        Form::Text => "string".to_owned(),
        Form::Flag => "boolean".to_owned(),
        Form::Count(_) => "number".to_owned(),
        Form::Scalar => "Scalar".to_owned(),
        Form::Object => "Record<string, unknown>".to_owned(),
        Form::Record(form) => format!("Record<string, {}>", write_form(*form)),
        Form::List(Form::OneOf(names)) => format!("({})[]", write_choice(names)),
        Form::List(form) => format!("{}[]", write_form(*form)),
        Form::OneOf(names) if names.len() == 3 && names[0] == "utf-8" => "Encoding".to_owned(),
        Form::OneOf(names) => write_choice(names),
    }
}

fn write_choice(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    quoted.join(" | ")
}

fn write_input(procedure: &Procedure) -> String {
    if procedure.action == Action::Status {
        return "void".to_owned();
    }
    let mut members = Vec::new();
    for field in procedure.fields {
        let mark = if field.is_required { "" } else { "?" };
        members.push(format!("{}{mark}: {}", field.name, write_form(field.form)));
    }
    if procedure.is_open {
        members.push("[member: string]: unknown".to_owned());
    }
    let or_nothing = if procedure.has_optional_input() { " | void" } else { "" };
    format!("{{ {} }}{or_nothing}", members.join("; "))
}

/// Checks the declaration file for TypeScript against the table.
#[test]
fn the_types_are_those_of_the_procedures() {
    let mut lines = 0;
    for procedure in ALL {
        let (_, name) = procedure.path.rsplit_once('.').unwrap();
        let kind = match procedure.kind {
            ProcedureKind::Query => "Query",
            ProcedureKind::Mutation => "Mutation",
            ProcedureKind::Subscription => "Subscription",
        };
        let output = match procedure.action {
            Action::Status => "Status",
            Action::Usage => "Usage",
            Action::ListTools => "ToolList",
            Action::FollowEvents => "Event",
            Action::ExecuteTool | Action::Tool(..) | Action::FetchPage => "ToolResult",
        };
        let line = format!("{name}: {kind}<{}, {output}>;", write_input(procedure));
        assert!(TYPES.contains(&line), "{line}");
        lines += 1;
    }
    let written = ["Query<", "Mutation<", "Subscription<"];
    let written = TYPES.lines().filter(|line| {
        let line = line.trim();
        let declared = line.split_once(": ").map_or("", |(_, rest)| rest);
        written.iter().any(|kind| declared.starts_with(kind))
    });
    assert_eq!(written.count(), lines);
}
