//! Finds the names in the syntax tree of a condition, refuses comparisons that can never hold,
//! which are mistakes, and bounds the work of evaluating it. Only the members of callers and
//! targets, literals and simple conversions have a known kind. Arguments may have any.

use std::collections::{BTreeMap, BTreeSet};

use cel::IdedExpr;
use cel::common::ast::operators::{
    EQUALS, GREATER, GREATER_EQUALS, IN, INDEX, LESS, LESS_EQUALS, NOT_EQUALS,
};
use cel::common::ast::{EntryExpr, Expr, LiteralValue};

use crate::names::{self, find_near, is_listed};

const VARIABLES: [&str; 4] = ["subject", "target", "endpoint", "arguments"];
/// The functions that a condition may call, besides operators.
const FUNCTIONS: &str = "size contains startsWith endsWith matches has int uint double string \
    bool dyn type bytes";
/// Nesting limit of `all`, `exists`, `exists_one`, `map` and `filter`.
const MAX_LOOPS: usize = 2;
const MAX_DEPTH: usize = 64;
/// Limit of the literal items in a condition with nested loops.
const MAX_ITEMS: usize = 64;

/// The names, types and loops of a condition.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    variables: BTreeSet<&'static str>,
    /// Regular expressions, as written.
    pub(crate) patterns: BTreeSet<String>,
    /// The named members of arguments, as paths; `*` stands for every item of a list.
    pub(crate) members: BTreeSet<Vec<String>>,
    /// Their kinds, from comparisons with literals: `arguments.mode == "delete"`.
    pub(crate) kinds: BTreeMap<Vec<String>, BTreeSet<Kind>>,
    /// The members that the condition passes to `type`.
    typed: BTreeSet<Vec<String>>,
    loops: usize,
    items: usize,
}

impl Findings {
    pub(crate) fn uses(&self, variable: &str) -> bool {
        self.variables.contains(variable)
    }

    /// Returns whether the condition uses no variable, so that its result is constant.
    pub(crate) fn asks_nothing(&self) -> bool {
        self.variables.is_empty()
    }

    /// Returns the members that the condition reads, excluding those only traversed to reach
    /// others.
    pub(crate) fn taken(&self) -> impl Iterator<Item = &Vec<String>> {
        self.members.iter().filter(move |steps| {
            let mut others = self.members.iter();
            !others.any(|other| other.len() > steps.len() && other.starts_with(steps))
        })
    }

    /// Returns the limit of argument values for the loops of the condition.
    pub(crate) fn bound(&self) -> usize {
        match self.loops {
            0 => 100_000,
            1 => 5_000,
            _ => 100,
        }
    }
}

pub(super) fn inspect(expression: &IdedExpr) -> Result<Findings, String> {
    let mut findings = Findings::default();
    let mut walk = Walk { findings: &mut findings, local: Vec::new(), depth: 0, loops: 0 };
    walk.expression(expression)?;
    findings.kinds.retain(|place, _| !findings.typed.contains(place));
    if findings.loops >= MAX_LOOPS && findings.items > MAX_ITEMS {
        return Err(format!("has nested loops and more than {MAX_ITEMS} items in lists"));
    }
    Ok(findings)
}

struct Walk<'a> {
    findings: &'a mut Findings,
    /// Loop variables, with the path in the arguments that they iterate over.
    local: Vec<(String, Option<Vec<String>>)>,
    depth: usize,
    loops: usize,
}

impl Walk<'_> {
    fn expression(&mut self, node: &IdedExpr) -> Result<(), String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("is nested too deeply".into());
        }
        let result = match &node.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.member(&select.operand, &select.field, select.test),
            Expr::Call(call) => self.call(&call.func_name, call.target.as_deref(), &call.args),
            Expr::List(list) => {
                self.findings.items += list.elements.len();
                list.elements.iter().try_for_each(|element| self.expression(element))
            }
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| self.entry(&entry.expr)),
            Expr::Struct(_) => Err("creates a message, which conditions do not support".into()),
            Expr::Comprehension(inner) => self.comprehension(inner),
        };
        self.depth -= 1;
        result
    }

    fn entry(&mut self, entry: &EntryExpr) -> Result<(), String> {
        self.findings.items += 1;
        match entry {
            EntryExpr::MapEntry(entry) => {
                self.expression(&entry.key)?;
                self.expression(&entry.value)
            }
            EntryExpr::StructField(_) => {
                Err("creates a message, which conditions do not support".into())
            }
        }
    }

    fn comprehension(&mut self, inner: &cel::common::ast::ComprehensionExpr) -> Result<(), String> {
        self.expression(&inner.iter_range)?;
        self.loops += 1;
        self.findings.loops = self.findings.loops.max(self.loops);
        if self.loops > MAX_LOOPS {
            return Err(format!("has loops nested more than {MAX_LOOPS} deep"));
        }
        let before = self.local.len();
        // With two variables, the first is an index or a key.
        let mut items = self.place(&inner.iter_range);
        if let Some(place) = &mut items {
            place.push("*".to_owned());
        }
        let (first, second) = if inner.iter_var2.is_some() { (None, items) } else { (items, None) };
        self.local.extend([(inner.iter_var.clone(), first), (inner.accu_var.clone(), None)]);
        if let Some(name) = &inner.iter_var2 {
            self.local.push((name.clone(), second));
        }
        for part in [&inner.accu_init, &inner.loop_cond, &inner.loop_step, &inner.result] {
            self.expression(part)?;
        }
        self.local.truncate(before);
        self.loops -= 1;
        Ok(())
    }

    fn variable(&mut self, name: &str) -> Result<(), String> {
        if self.is_local(name) {
            return Ok(());
        }
        let Some(known) = VARIABLES.into_iter().find(|known| *known == name) else {
            return Err(unknown("variable", name, &VARIABLES));
        };
        self.findings.variables.insert(known);
        Ok(())
    }

    fn is_local(&self, name: &str) -> bool {
        self.local.iter().any(|(local, _)| local == name)
    }

    fn member(&mut self, operand: &IdedExpr, field: &str, test: bool) -> Result<(), String> {
        self.expression(operand)?;
        self.named(operand, field);
        if self.fixed_member(operand, field)? && test {
            return Err(format!(
                "tests whether `{field}` exists, which is always true: without a value it is empty"
            ));
        }
        Ok(())
    }

    /// Refuses a member that callers, targets and annotations do not have. Returns whether the
    /// operand is one of them.
    fn fixed_member(&self, operand: &IdedExpr, field: &str) -> Result<bool, String> {
        let Some(path) = self.fixed(operand) else { return Ok(false) };
        let members = members().filter_map(|(member, _)| member.rsplit_once('.'));
        let own = members.filter(|(parent, _)| *parent == path);
        let known = Vec::from_iter(own.map(|(_, name)| name));
        if known.is_empty() || known.contains(&field) {
            return Ok(!known.is_empty());
        }
        Err(unknown("member", field, &known))
    }

    /// Returns the path of a member of a caller or target, such as `subject.id`.
    fn fixed(&self, node: &IdedExpr) -> Option<String> {
        let (operand, name) = match &node.expr {
            Expr::Ident(name) => return (!self.is_local(name)).then(|| name.clone()),
            Expr::Select(select) => (&*select.operand, select.field.as_str()),
            Expr::Call(call) if call.func_name == INDEX => match call.args.as_slice() {
                [operand, index] => (operand, text(index)?),
                _ => return None,
            },
            _ => return None,
        };
        Some([self.fixed(operand)?.as_str(), ".", name].concat())
    }

    /// Returns the part of an expression that comparisons are checked for.
    fn operand<'e>(&self, node: &'e IdedExpr) -> Operand<'e> {
        let path = self.fixed(node);
        let kind = match &node.expr {
            Expr::Literal(literal) => Some(kind_of_literal(literal)),
            Expr::List(_) => Some(LIST),
            Expr::Call(call) if call.func_name != INDEX => kind_of_function(&call.func_name),
            _ => {
                let mut members = members();
                members.find(|(member, _)| path.as_deref() == Some(member)).map(|(_, kind)| kind)
            }
        };
        Operand { kind, path, text: text(node) }
    }

    /// Returns the path in the arguments that an expression refers to, if that is static.
    fn place(&self, node: &IdedExpr) -> Option<Vec<String>> {
        match &node.expr {
            Expr::Ident(name) => match self.local.iter().rfind(|(local, _)| local == name) {
                Some((_, place)) => place.clone(),
                None if name == "arguments" => Some(Vec::new()),
                None => None,
            },
            Expr::Select(select) => Some(below(self.place(&select.operand)?, &select.field)),
            Expr::Call(call) if call.func_name == INDEX => match call.args.as_slice() {
                [operand, index] => Some(below(self.place(operand)?, text(index).unwrap_or("*"))),
                _ => None,
            },
            _ => None,
        }
    }

    fn named(&mut self, operand: &IdedExpr, name: &str) {
        if let Some(place) = self.place(operand) {
            self.findings.members.insert(below(place, name));
        }
    }

    /// Records the kind of the literal that a path is compared with.
    fn compared(&mut self, node: &IdedExpr, with: &IdedExpr) {
        if let Expr::Literal(literal) = &with.expr
            && let kind @ (TEXT | NUMBER | FLAG) = kind_of_literal(literal)
            && let Some(place) = self.place(node)
            && !place.is_empty()
        {
            self.findings.kinds.entry(place).or_default().insert(kind);
        }
    }

    fn call(
        &mut self,
        name: &str,
        target: Option<&IdedExpr>,
        arguments: &[IdedExpr],
    ) -> Result<(), String> {
        let operator = !name.starts_with(|c: char| c.is_ascii_alphabetic());
        if !operator && !is_listed(FUNCTIONS, name) {
            return Err(unknown("function", name, &Vec::from_iter(FUNCTIONS.split(' '))));
        }
        if name == "matches" {
            let Some(pattern) = arguments.last().and_then(text) else {
                return Err("`matches` needs a pattern written in quotes".into());
            };
            self.findings.patterns.insert(pattern.to_owned());
        }
        match (name, arguments) {
            (INDEX, [operand, index]) => {
                if let Some(name) = text(index) {
                    self.fixed_member(operand, name)?;
                    self.named(operand, name);
                }
            }
            (IN, [item, list]) => {
                if let Some(name) = text(item) {
                    self.named(list, name);
                }
                if let Expr::List(list) = &list.expr {
                    for with in &list.elements {
                        check(EQUALS, &self.operand(item), &self.operand(with))?;
                        self.compared(item, with);
                    }
                }
            }
            (EQUALS | NOT_EQUALS, [left, right]) => {
                self.compared(left, right);
                self.compared(right, left);
            }
            ("type", [of]) => self.findings.typed.extend(self.place(of)),
            _ => {}
        }
        if let Some(target) = target {
            self.expression(target)?;
        }
        arguments.iter().try_for_each(|part| self.expression(part))?;
        match arguments {
            [left, right] => check(name, &self.operand(left), &self.operand(right)),
            _ => Ok(()),
        }
    }
}

fn below(mut place: Vec<String>, step: &str) -> Vec<String> {
    place.push(step.to_owned());
    place
}

/// Returns the text of a string literal.
fn text(node: &IdedExpr) -> Option<&str> {
    match &node.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    match find_near(name, known) {
        Some(near) => format!("has no {what} `{name}`; did you mean `{near}`?"),
        None => format!("has no {what} `{name}`; use one of {}", known.join(", ")),
    }
}

// Comparisons that can never hold.

/// The kind of a value, as messages show it.
pub(super) type Kind = &'static str;

const LIST: Kind = "a list";
pub(super) const TEXT: Kind = "text";
pub(super) const NUMBER: Kind = "a number";
pub(super) const FLAG: Kind = "true or false";
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

/// The kinds of targets.
const KINDS: [&str; 4] = ["tool", "prompt", "resource", "completion"];

/// One side of a comparison.
struct Operand<'a> {
    kind: Option<Kind>,
    /// The path of a member.
    path: Option<String>,
    /// The value of a text literal.
    text: Option<&'a str>,
}

/// Returns the paths of all members, each with its kind.
fn members() -> impl Iterator<Item = (&'static str, Kind)> {
    MEMBERS.into_iter().flat_map(|(kind, paths)| paths.split(' ').map(move |path| (path, kind)))
}

fn kind_of_literal(literal: &LiteralValue) -> Kind {
    match literal {
        LiteralValue::Boolean(_) => FLAG,
        LiteralValue::Bytes(_) => "bytes",
        LiteralValue::Double(_) | LiteralValue::Int(_) | LiteralValue::UInt(_) => NUMBER,
        LiteralValue::Null => "null",
        LiteralValue::String(_) => TEXT,
    }
}

/// Returns the kind of a function's result, if it does not depend on the arguments.
fn kind_of_function(name: &str) -> Option<Kind> {
    match name {
        "size" | "int" | "uint" | "double" => Some(NUMBER),
        "string" => Some(TEXT),
        "bytes" => Some("bytes"),
        "bool" | "contains" | "startsWith" | "endsWith" | "matches" => Some(FLAG),
        _ => None,
    }
}

/// Refuses a comparison that can never hold.
fn check(operator: &str, left: &Operand<'_>, right: &Operand<'_>) -> Result<(), String> {
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
            let is_list = [left, right].contains(&LIST);
            let hint = ": use `in` to search a list, as in \"guest\" in subject.roles";
            let hint = if is_list { hint } else { "" };
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
