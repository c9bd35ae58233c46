//! Type analysis of a condition before the first call: a comparison that can never hold is a
//! mistake. Arguments, and values computed from them, may have any type and are not checked.

use cel::IdedExpr;
use cel::common::ast::operators::{
    ADD, CONDITIONAL, EQUALS, GREATER, GREATER_EQUALS, IN, INDEX, LESS, LESS_EQUALS, NOT_EQUALS,
};
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, SelectExpr};

use crate::names;

#[derive(Clone, Debug, PartialEq)]
enum Type {
    /// Unknown.
    Any,
    Text(Words),
    Flag,
    Number,
    Bytes,
    Null,
    List(Box<Type>),
    Map,
    Subject,
    Target,
    Annotations,
}

/// The set of values that a text may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Words {
    Any,
    Kind,
    Category,
    Endpoint,
    Principal,
    Certificate,
}

const KINDS: [&str; 4] = ["tool", "prompt", "resource", "completion"];

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
}

/// Refuses a condition with a comparison that can never hold. [`super::inspect`] bounds the
/// recursion.
pub(super) fn check(expression: &IdedExpr) -> Result<(), String> {
    LocalVariables { local: Vec::new() }.of(expression)?;
    Ok(())
}

struct LocalVariables {
    /// Loop variables with their types.
    local: Vec<(String, Type)>,
}

impl LocalVariables {
    fn of(&mut self, node: &IdedExpr) -> Result<Type, String> {
        match &node.expr {
            Expr::Unspecified | Expr::Struct(_) => Ok(Type::Any),
            Expr::Literal(literal) => Ok(of_literal(literal)),
            Expr::Ident(name) => Ok(self.variable(name)),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let mut items = self.of_all(&list.elements)?;
                let first = items.pop().unwrap_or(Type::Any);
                let alike = items.iter().all(|item| *item == first);
                Ok(Type::List(Box::new(if alike { first } else { Type::Any })))
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.of(&entry.key)?;
                        self.of(&entry.value)?;
                    }
                }
                Ok(Type::Map)
            }
            Expr::Comprehension(inner) => self.comprehension(inner),
        }
    }

    fn of_all(&mut self, nodes: &[IdedExpr]) -> Result<Vec<Type>, String> {
        let mut types = Vec::with_capacity(nodes.len());
        for node in nodes {
            types.push(self.of(node)?);
        }
        Ok(types)
    }

    fn variable(&self, name: &str) -> Type {
        // The innermost loop takes precedence.
        if let Some((_, of)) = self.local.iter().rfind(|(local, _)| local == name) {
            return of.clone();
        }
        match name {
            "subject" => Type::Subject,
            "target" => Type::Target,
            "endpoint" => Type::Text(Words::Endpoint),
            _ => Type::Any,
        }
    }

    fn select(&mut self, select: &SelectExpr) -> Result<Type, String> {
        let member = member(&self.of(&select.operand)?, &select.field)?;
        match (select.test, member) {
            (false, member) => Ok(member),
            (true, Type::Any) => Ok(Type::Flag),
            (true, _) => {
                let field = &select.field;
                Err(format!(
                    "tests whether `{field}` exists, which is always true: without a value it is \
                        empty"
                ))
            }
        }
    }

    fn comprehension(&mut self, inner: &ComprehensionExpr) -> Result<Type, String> {
        let item = match self.of(&inner.iter_range)? {
            Type::List(item) if inner.iter_var2.is_none() => *item,
            _ => Type::Any,
        };
        let before = self.local.len();
        let start = self.of(&inner.accu_init)?;
        self.local.push((inner.iter_var.clone(), item));
        if let Some(name) = &inner.iter_var2 {
            self.local.push((name.clone(), Type::Any));
        }
        self.local.push((inner.accu_var.clone(), start));
        self.of(&inner.loop_cond)?;
        self.of(&inner.loop_step)?;
        let result = self.of(&inner.result);
        self.local.truncate(before);
        result
    }

    fn call(&mut self, call: &CallExpr) -> Result<Type, String> {
        if let Some(target) = &call.target {
            self.of(target)?;
        }
        let types = self.of_all(&call.args)?;
        match (call.func_name.as_str(), &*call.args, &*types) {
            (EQUALS | NOT_EQUALS, [left, right], [a, b]) => {
                comparable(a, b, "are never equal")?;
                worded(a, right)?;
                worded(b, left)?;
                Ok(Type::Flag)
            }
            (LESS | LESS_EQUALS | GREATER | GREATER_EQUALS, _, [a, b]) => {
                comparable(a, b, "have no order")?;
                Ok(Type::Flag)
            }
            (IN, [left, right], [a, b]) => {
                within(left, a, right, b)?;
                Ok(Type::Flag)
            }
            (INDEX, [_, key], [of, _]) => match (of, &key.expr) {
                (Type::List(item), _) => Ok(*item.clone()),
                (of, Expr::Literal(LiteralValue::String(key))) => member(of, key.inner()),
                _ => Ok(Type::Any),
            },
            (CONDITIONAL, _, [_, a, b]) if a == b => Ok(a.clone()),
            (ADD, _, [a, b]) if a == b => Ok(a.clone()),
            (name, ..) => Ok(of_function(name, call.target.is_some())),
        }
    }
}

fn of_literal(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => Type::Flag,
        LiteralValue::Bytes(_) => Type::Bytes,
        LiteralValue::Double(_) | LiteralValue::Int(_) | LiteralValue::UInt(_) => Type::Number,
        LiteralValue::Null => Type::Null,
        LiteralValue::String(_) => Type::Text(Words::Any),
    }
}

fn of_function(name: &str, on_target: bool) -> Type {
    match name {
        "size" | "int" | "uint" | "double" => Type::Number,
        "string" => Type::Text(Words::Any),
        "bytes" => Type::Bytes,
        "bool" => Type::Flag,
        "contains" | "startsWith" | "endsWith" | "matches" if on_target => Type::Flag,
        "_&&_" | "_||_" | "!_" | "@not_strictly_false" => Type::Flag,
        _ => Type::Any,
    }
}

fn list_of(words: Words) -> Type {
    Type::List(Box::new(Type::Text(words)))
}

/// Returns the type of a member; `Any` if unknown.
fn member(of: &Type, name: &str) -> Result<Type, String> {
    Ok(match (of, name) {
        (Type::Subject, "issuer" | "id" | "organisation" | "agent") => Type::Text(Words::Any),
        (Type::Subject, "principal") => Type::Text(Words::Principal),
        (Type::Subject, "roles" | "scopes") => list_of(Words::Any),
        (Type::Subject, "certificates") => list_of(Words::Certificate),
        (Type::Subject, "anonymous") => Type::Flag,
        (Type::Target, "kind") => Type::Text(Words::Kind),
        (Type::Target, "server" | "name" | "exposed") => Type::Text(Words::Any),
        (Type::Target, "category") => Type::Text(Words::Category),
        (Type::Target, "annotations") => Type::Annotations,
        (Type::Annotations, "read_only" | "destructive" | "idempotent" | "open_world") => {
            Type::Flag
        }
        (Type::Subject | Type::Target | Type::Annotations, _) => {
            return Err(format!("has no member `{name}`"));
        }
        _ => Type::Any,
    })
}

fn comparable(a: &Type, b: &Type, never: &str) -> Result<(), String> {
    match (said(a), said(b)) {
        (Some(a), Some(b)) if a != b => {
            let hint = if [a, b].contains(&"a list") {
                ": use `in` to search a list, as in \"guest\" in subject.roles"
            } else {
                ""
            };
            Err(format!("compares {a} with {b}, which {never}{hint}"))
        }
        _ => Ok(()),
    }
}

fn within(left: &IdedExpr, a: &Type, right: &IdedExpr, b: &Type) -> Result<(), String> {
    if let Expr::List(list) = &right.expr {
        for item in &list.elements {
            comparable(a, &known(item), "are never equal")?;
            worded(a, item)?;
        }
    }
    match b {
        Type::List(item) => {
            comparable(a, item, "are never equal")?;
            worded(item, left)
        }
        Type::Any | Type::Map | Type::Subject | Type::Target | Type::Annotations => Ok(()),
        other => Err(format!(
            "uses `in` with {}; it needs a list",
            said(other).unwrap_or("something else")
        )),
    }
}

/// Returns the type of a literal; `Any` for every other expression.
fn known(node: &IdedExpr) -> Type {
    match &node.expr {
        Expr::Literal(literal) => of_literal(literal),
        _ => Type::Any,
    }
}

/// Checks a string literal against the possible values of the other operand.
fn worded(of: &Type, node: &IdedExpr) -> Result<(), String> {
    let Type::Text(words) = of else { return Ok(()) };
    let Expr::Literal(LiteralValue::String(text)) = &node.expr else { return Ok(()) };
    let text = text.inner();
    if words.have(text) {
        return Ok(());
    }
    let known = match words {
        Words::Any => return Ok(()),
        Words::Kind => format!("the kinds are {}", KINDS.join(", ")),
        Words::Category => format!("the categories are {}", names::CATEGORIES.join(", ")),
        Words::Endpoint => "the endpoints are /mcp and /servers/NAME/mcp".to_owned(),
        Words::Principal => "principals are written issuer|subject".to_owned(),
        Words::Certificate => {
            format!("names of certificates begin with {}", names::CERTIFICATES.join(", "))
        }
    };
    Err(format!("compares with {text:?}, which never matches: {known}"))
}

fn said(of: &Type) -> Option<&'static str> {
    match of {
        Type::Any => None,
        Type::Text(_) => Some("text"),
        Type::Flag => Some("true or false"),
        Type::Number => Some("a number"),
        Type::Bytes => Some("bytes"),
        Type::Null => Some("null"),
        Type::List(_) => Some("a list"),
        Type::Map | Type::Subject | Type::Target | Type::Annotations => Some("an object"),
    }
}
