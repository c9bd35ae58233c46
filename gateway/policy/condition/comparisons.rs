//! Comparisons in a condition that can never hold, which are mistakes. Only the members of callers
//! and targets, literals and simple conversions have a known kind. Arguments may have any.

use cel::common::ast::LiteralValue;
use cel::common::ast::operators::{
    EQUALS, GREATER, GREATER_EQUALS, IN, LESS, LESS_EQUALS, NOT_EQUALS,
};

use crate::names;

/// The kind of a value, as messages show it.
pub(super) type Kind = &'static str;

pub(super) const LIST: Kind = "a list";
const TEXT: Kind = "text";
const FLAG: Kind = "true or false";
const OBJECT: Kind = "an object";

/// The members of the variables by their kind, besides arguments. Lists contain texts.
const MEMBERS: [(Kind, &str); 4] = [
    (OBJECT, "subject target target.annotations"),
    (
        TEXT,
        "subject.issuer subject.id subject.principal subject.organisation subject.agent \
            target.kind target.server target.name target.exposed target.category endpoint",
    ),
    (LIST, "subject.roles subject.scopes subject.certificates"),
    (
        FLAG,
        "subject.anonymous target.annotations.read_only target.annotations.destructive \
            target.annotations.idempotent target.annotations.open_world",
    ),
];

const KINDS: [&str; 4] = ["tool", "prompt", "resource", "completion"];

/// One side of a comparison.
pub(super) struct Operand<'a> {
    pub(super) kind: Option<Kind>,
    /// The path of a member.
    pub(super) path: Option<String>,
    /// The value of a text literal.
    pub(super) text: Option<&'a str>,
}

/// Returns the paths of all members, each with its kind.
pub(super) fn members() -> impl Iterator<Item = (&'static str, Kind)> {
    MEMBERS.into_iter().flat_map(|(kind, paths)| paths.split(' ').map(move |path| (path, kind)))
}

pub(super) fn kind_of_literal(literal: &LiteralValue) -> Kind {
    match literal {
        LiteralValue::Boolean(_) => FLAG,
        LiteralValue::Bytes(_) => "bytes",
        LiteralValue::Double(_) | LiteralValue::Int(_) | LiteralValue::UInt(_) => "a number",
        LiteralValue::Null => "null",
        LiteralValue::String(_) => TEXT,
    }
}

/// Returns the kind of a function's result, if it does not depend on the arguments.
pub(super) fn kind_of_function(name: &str) -> Option<Kind> {
    match name {
        "size" | "int" | "uint" | "double" => Some("a number"),
        "string" => Some(TEXT),
        "bytes" => Some("bytes"),
        "bool" | "contains" | "startsWith" | "endsWith" | "matches" => Some(FLAG),
        _ => None,
    }
}

/// Refuses a comparison that can never hold.
pub(super) fn check(operator: &str, left: &Operand<'_>, right: &Operand<'_>) -> Result<(), String> {
    match operator {
        EQUALS | NOT_EQUALS => {
            comparable(left.kind, right.kind, "are never equal")?;
            worded(left, right.text)?;
            worded(right, left.text)
        }
        LESS | LESS_EQUALS | GREATER | GREATER_EQUALS => {
            comparable(left.kind, right.kind, "have no order")
        }
        IN => match right.kind {
            Some(LIST) if right.path.is_some() => {
                comparable(left.kind, Some(TEXT), "are never equal")?;
                worded(right, left.text)
            }
            Some(LIST | OBJECT) | None => Ok(()),
            Some(other) => Err(format!("uses `in` with {other}; it needs a list")),
        },
        _ => Ok(()),
    }
}

fn comparable(left: Option<Kind>, right: Option<Kind>, never: &str) -> Result<(), String> {
    match (left, right) {
        (Some(left), Some(right)) if left != right => {
            let hint = if [left, right].contains(&LIST) {
                ": use `in` to search a list, as in \"guest\" in subject.roles"
            } else {
                ""
            };
            Err(format!("compares {left} with {right}, which {never}{hint}"))
        }
        _ => Ok(()),
    }
}

/// Checks a text literal against the possible values of a member.
fn worded(member: &Operand<'_>, text: Option<&str>) -> Result<(), String> {
    let Some(path) = member.path.as_deref() else { return Ok(()) };
    let Some(text) = text else { return Ok(()) };
    let (fits, known) = match path {
        "target.kind" => (KINDS.contains(&text), format!("the kinds are {}", KINDS.join(", "))),
        "target.category" => (
            text.is_empty() || names::CATEGORIES.contains(&text),
            format!("the categories are {}", names::CATEGORIES.join(", ")),
        ),
        "endpoint" => (
            names::is_endpoint(text),
            "the endpoints are /mcp, /servers/NAME/mcp and /endpoints/NAME/mcp".to_owned(),
        ),
        "subject.principal" => {
            (text.contains('|'), "principals are written issuer|subject".to_owned())
        }
        "subject.certificates" => (
            names::CERTIFICATES.iter().any(|start| text.starts_with(start)),
            format!("names of certificates begin with {}", names::CERTIFICATES.join(", ")),
        ),
        _ => return Ok(()),
    };
    if fits { Ok(()) } else { Err(format!("compares with {text:?}, which never matches: {known}")) }
}
