//! TOML with places. Rejects deep nesting; dates are text.

use std::path::PathBuf;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::node::{Lines, MAX_NESTING, Node, STOPPED, Value};
use crate::problem::{Problem, ValuePlace};

pub fn read(path: &Arc<PathBuf>, text: &str) -> Result<Node, Problem> {
    let lines = Lines::new(path, text);
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(error) => {
            let start = error.span().map_or(0, |span| span.start);
            let what = error.message().lines().next().unwrap_or("");
            let what = format!("not valid TOML: {what}");
            return Err(Problem::error(lines.place(start), "", what).hint(STOPPED));
        }
    };
    if table.get_ref().is_empty() {
        return Ok(Node::map(ValuePlace::file(path)));
    }
    let at = table.span().start;
    map(table.get_ref(), at, &lines, 0)
}

fn map(table: &DeTable<'_>, at: usize, lines: &Lines<'_>, depth: usize) -> Result<Node, Problem> {
    let place = lines.place(at);
    if depth > MAX_NESTING {
        return Err(Problem::error(place, "", format!("nested deeper than {MAX_NESTING}")));
    }
    let mut entries = std::collections::BTreeMap::new();
    for (key, value) in table {
        let place = lines.place(key.span().start);
        let node = Node { key: place, ..node(value, lines, depth + 1)? };
        entries.insert(key.get_ref().to_string(), node);
    }
    Ok(Node::new(Value::Map(entries), place))
}

fn node(value: &Spanned<DeValue<'_>>, lines: &Lines<'_>, depth: usize) -> Result<Node, Problem> {
    let at = value.span().start;
    let place = lines.place(at);
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .map(Value::Integer)
            .map_err(|_| Problem::error(place.clone(), "", "this number is too large"))?,
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Datetime(date) => Value::Text(date.to_string()),
        DeValue::Array(_) if depth > MAX_NESTING => {
            return Err(Problem::error(place, "", format!("nested deeper than {MAX_NESTING}")));
        }
        DeValue::Array(items) => {
            let nodes = items.iter().map(|item| node(item, lines, depth + 1));
            Value::List(nodes.collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => return map(table, at, lines, depth),
    };
    Ok(Node::new(value, place))
}
