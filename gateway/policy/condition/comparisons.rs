//! Comparisons in a condition that can never hold, which are mistakes. Only the members of callers
//! and targets, literals and simple conversions have a known kind. Arguments may have any.

use cel::common::ast::LiteralValue;
use cel::common::ast::operators::{
    EQUALS, GREATER, GREATER_EQUALS, IN, LESS, LESS_EQUALS, NOT_EQUALS,
};

use crate::names;

/// The kind of a value, and what a text may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text(Words),
    /// A list of texts.
    Texts(Words),
    List,
    Flag,
    Number,
    Bytes,
    Null,
    Object,
}

/// The set of values that a text may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    Any,
    Kind,
    Category,
    Endpoint,
    Principal,
    Certificate,
}

/// The members of the variables, besides arguments.
pub(super) const MEMBERS: [(&str, Kind); 22] = [
    ("subject", Kind::Object),
    ("subject.issuer", Kind::Text(Words::Any)),
    ("subject.id", Kind::Text(Words::Any)),
    ("subject.principal", Kind::Text(Words::Principal)),
    ("subject.organisation", Kind::Text(Words::Any)),
    ("subject.roles", Kind::Texts(Words::Any)),
    ("subject.scopes", Kind::Texts(Words::Any)),
    ("subject.agent", Kind::Text(Words::Any)),
    ("subject.certificates", Kind::Texts(Words::Certificate)),
    ("subject.anonymous", Kind::Flag),
    ("target", Kind::Object),
    ("target.kind", Kind::Text(Words::Kind)),
    ("target.server", Kind::Text(Words::Any)),
    ("target.name", Kind::Text(Words::Any)),
    ("target.exposed", Kind::Text(Words::Any)),
    ("target.category", Kind::Text(Words::Category)),
    ("target.annotations", Kind::Object),
    ("target.annotations.read_only", Kind::Flag),
    ("target.annotations.destructive", Kind::Flag),
    ("target.annotations.idempotent", Kind::Flag),
    ("target.annotations.open_world", Kind::Flag),
    ("endpoint", Kind::Text(Words::Endpoint)),
];

const KINDS: [&str; 4] = ["tool", "prompt", "resource", "completion"];

/// One side of a comparison.
pub(super) struct Operand<'a> {
    pub(super) kind: Option<Kind>,
    /// The value of a text literal.
    pub(super) text: Option<&'a str>,
}

impl Kind {
    pub(super) fn of(literal: &LiteralValue) -> Self {
        match literal {
            LiteralValue::Boolean(_) => Self::Flag,
            LiteralValue::Bytes(_) => Self::Bytes,
            LiteralValue::Double(_) | LiteralValue::Int(_) | LiteralValue::UInt(_) => Self::Number,
            LiteralValue::Null => Self::Null,
            LiteralValue::String(_) => Self::Text(Words::Any),
        }
    }

    /// Returns the kind of a function's result, if it does not depend on the arguments.
    pub(super) fn of_function(name: &str) -> Option<Self> {
        match name {
            "size" | "int" | "uint" | "double" => Some(Self::Number),
            "string" => Some(Self::Text(Words::Any)),
            "bytes" => Some(Self::Bytes),
            "bool" | "contains" | "startsWith" | "endsWith" | "matches" => Some(Self::Flag),
            _ => None,
        }
    }

    fn shown(self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Texts(_) | Self::List => "a list",
            Self::Flag => "true or false",
            Self::Number => "a number",
            Self::Bytes => "bytes",
            Self::Null => "null",
            Self::Object => "an object",
        }
    }
}

impl Words {
    fn have(self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Kind => KINDS.contains(&text),
            Self::Category => text.is_empty() || names::CATEGORIES.contains(&text),
            Self::Endpoint => names::is_endpoint(text),
            Self::Principal => text.contains('|'),
            Self::Certificate => names::CERTIFICATES.iter().any(|start| text.starts_with(start)),
        }
    }

    fn known(self) -> String {
        match self {
            Self::Any => String::new(),
            Self::Kind => format!("the kinds are {}", KINDS.join(", ")),
            Self::Category => format!("the categories are {}", names::CATEGORIES.join(", ")),
            Self::Endpoint => {
                "the endpoints are /mcp, /servers/NAME/mcp and /endpoints/NAME/mcp".to_owned()
            }
            Self::Principal => "principals are written issuer|subject".to_owned(),
            Self::Certificate => {
                format!("names of certificates begin with {}", names::CERTIFICATES.join(", "))
            }
        }
    }
}

/// Refuses a comparison that can never hold.
pub(super) fn check(operator: &str, left: &Operand<'_>, right: &Operand<'_>) -> Result<(), String> {
    match operator {
        EQUALS | NOT_EQUALS => {
            comparable(left, right, "are never equal")?;
            worded(left.kind, right.text)?;
            worded(right.kind, left.text)
        }
        LESS | LESS_EQUALS | GREATER | GREATER_EQUALS => comparable(left, right, "have no order"),
        IN => match right.kind {
            Some(Kind::Texts(words)) => {
                let item = Operand { kind: Some(Kind::Text(words)), text: None };
                check(EQUALS, left, &item)
            }
            Some(Kind::List | Kind::Object) | None => Ok(()),
            Some(other) => Err(format!("uses `in` with {}; it needs a list", other.shown())),
        },
        _ => Ok(()),
    }
}

fn comparable(left: &Operand<'_>, right: &Operand<'_>, never: &str) -> Result<(), String> {
    let Some(left) = left.kind else { return Ok(()) };
    let Some(right) = right.kind else { return Ok(()) };
    let left = left.shown();
    let right = right.shown();
    if left == right {
        return Ok(());
    }
    let hint = if [left, right].contains(&"a list") {
        ": use `in` to search a list, as in \"guest\" in subject.roles"
    } else {
        ""
    };
    Err(format!("compares {left} with {right}, which {never}{hint}"))
}

/// Checks a text literal against the possible values of the other operand.
fn worded(kind: Option<Kind>, text: Option<&str>) -> Result<(), String> {
    match (kind, text) {
        (Some(Kind::Text(words)), Some(text)) if !words.have(text) => {
            let known = words.known();
            Err(format!("compares with {text:?}, which never matches: {known}"))
        }
        _ => Ok(()),
    }
}
