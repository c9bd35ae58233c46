//! A line-by-line comparison of two JSON values, such as the approved and the current definition of
//! a tool. Invisible characters are escaped, and text is never truncated: a comparison that is too
//! long is reported as such.

use std::collections::BTreeSet;

use lockgate_policy::pin::shown;
use serde_json::Value;

const MAX_ROWS: usize = 2000;
/// Equal lines shown around each difference.
const AROUND: usize = 3;
/// Minimum number of equal lines to fold.
const LEAST_FOLDED: usize = 3;
/// Maximum indentation.
const MAX_DEPTH: usize = 12;

#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) rows: Vec<Row>,
    /// There is no earlier value.
    pub(crate) is_new: bool,
    /// The comparison exceeds [`MAX_ROWS`], so it cannot be reviewed.
    pub(crate) is_too_long: bool,
}

/// A line on one or both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) kind: RowKind,
    pub(crate) before: Option<Line>,
    pub(crate) after: Option<Line>,
    /// The number of equal lines that it stands for.
    pub(crate) folded: usize,
    /// Its current line has suspicious text.
    pub(crate) is_found: bool,
}

lockgate_text::words! {
    /// The kind of a row, as its CSS class.
    pub(crate) enum RowKind {
        Same = "same",
        Changed = "changed",
        Added = "added",
        Removed = "removed",
        Fold = "fold",
    }
}

/// A line in three parts; the middle differs from the other side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) depth: usize,
    pub(crate) start: String,
    pub(crate) middle: String,
    pub(crate) end: String,
}

impl Row {
    fn new(kind: RowKind, before: Option<Line>, after: Option<Line>) -> Self {
        Self { kind, before, after, folded: 0, is_found: false }
    }
}

impl Line {
    fn plain(depth: usize, text: String) -> Self {
        Self { depth: depth.min(MAX_DEPTH), start: text, ..Self::default() }
    }

    /// Splits the line into `first` leading words, the middle, and `last` trailing words.
    fn divide(&self, words: &[&str], first: usize, last: usize) -> Self {
        let end = words.len() - last;
        Self {
            depth: self.depth,
            start: words[..first].concat(),
            middle: words[first..end].concat(),
            end: words[end..].concat(),
        }
    }
}

impl Comparison {
    /// Compares two values; `before` is `None` for a new value.
    pub(crate) fn new(before: Option<&Value>, after: &Value) -> Self {
        let mut rows = Vec::new();
        match before {
            Some(before) => compare(&mut rows, 0, "", before, after),
            None => pair(&mut rows, &[], &write_lines(0, "", after)),
        }
        let rows = fold(rows);
        let is_too_long = rows.len() > MAX_ROWS;
        let rows = if is_too_long { Vec::new() } else { rows };
        Self { rows, is_new: before.is_none(), is_too_long }
    }

    /// Marks the rows that contain the excerpts quoted at the end of findings.
    pub(crate) fn mark(&mut self, findings: &[String]) {
        let quoted = findings.iter().filter_map(|finding| {
            let (_, excerpt) = finding.strip_suffix('"')?.rsplit_once(": \"")?;
            Some(excerpt.trim_matches(['…', '.']).trim())
        });
        let excerpts: Vec<&str> = quoted.filter(|excerpt| !excerpt.is_empty()).collect();
        for row in &mut self.rows {
            let Some(line) = &row.after else { continue };
            let text = format!("{}{}{}", line.start, line.middle, line.end);
            row.is_found = excerpts.iter().any(|excerpt| text.contains(excerpt));
        }
    }
}

fn compare(rows: &mut Vec<Row>, depth: usize, head: &str, before: &Value, after: &Value) {
    match (before, after) {
        _ if before == after => {
            rows.extend(write_lines(depth, head, after).into_iter().map(same));
        }
        (Value::Object(old), Value::Object(new)) => {
            rows.push(same(Line::plain(depth, format!("{head}{{"))));
            let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                let head = write_head(name);
                match (old.get(name), new.get(name)) {
                    (Some(old), Some(new)) => compare(rows, depth + 1, &head, old, new),
                    (Some(old), None) => pair(rows, &write_lines(depth + 1, &head, old), &[]),
                    (None, Some(new)) => pair(rows, &[], &write_lines(depth + 1, &head, new)),
                    (None, None) => {}
                }
            }
            rows.push(same(Line::plain(depth, "}".to_owned())));
        }
        _ => pair(rows, &write_lines(depth, head, before), &write_lines(depth, head, after)),
    }
}

/// Counts of equal items at the start and end of two lists. No item is counted in both.
struct Ends {
    first: usize,
    last: usize,
}

impl Ends {
    fn of<T: PartialEq>(before: &[T], after: &[T]) -> Self {
        let shorter = before.len().min(after.len());
        let mut first = 0;
        while first < shorter && before[first] == after[first] {
            first += 1;
        }
        let mut last = 0;
        while last < shorter - first
            && before[before.len() - 1 - last] == after[after.len() - 1 - last]
        {
            last += 1;
        }
        Self { first, last }
    }
}

fn same(line: Line) -> Row {
    Row::new(RowKind::Same, Some(line.clone()), Some(line))
}

/// Pairs equal lines at both ends, and the lines between them by position.
fn pair(rows: &mut Vec<Row>, before: &[Line], after: &[Line]) {
    let Ends { first, last } = Ends::of(before, after);
    rows.extend(before[..first].iter().map(|line| same(line.clone())));
    let old = &before[first..before.len() - last];
    let new = &after[first..after.len() - last];
    for at in 0..old.len().max(new.len()) {
        rows.push(match (old.get(at), new.get(at)) {
            (Some(old), Some(new)) => mark(old, new),
            (Some(old), None) => Row::new(RowKind::Removed, Some(old.clone()), None),
            (None, new) => Row::new(RowKind::Added, None, new.cloned()),
        });
    }
    rows.extend(after[after.len() - last..].iter().map(|line| same(line.clone())));
}

/// Creates a row for two different lines. The middle spans the first to the last differing word.
fn mark(old: &Line, new: &Line) -> Row {
    let before: Vec<&str> = old.start.split_inclusive(' ').collect();
    let after: Vec<&str> = new.start.split_inclusive(' ').collect();
    let Ends { first, last } = Ends::of(&before, &after);
    let before = old.divide(&before, first, last);
    Row::new(RowKind::Changed, Some(before), Some(new.divide(&after, first, last)))
}

/// Formats a value as indented lines. A text with line breaks takes several lines.
fn write_lines(depth: usize, head: &str, value: &Value) -> Vec<Line> {
    match value {
        Value::Object(members) if !members.is_empty() => {
            let members = members.iter();
            let inner = members
                .flat_map(|(name, member)| write_lines(depth + 1, &write_head(name), member));
            enclose(depth, head, ["{", "}"], inner)
        }
        Value::Array(items) if !items.is_empty() => {
            let inner = items.iter().flat_map(|item| write_lines(depth + 1, "", item));
            enclose(depth, head, ["[", "]"], inner)
        }
        Value::String(text) if text.contains('\n') => {
            let inner = text.split('\n').map(|part| Line::plain(depth + 1, write_text(part)));
            enclose(depth, head, ["\"", "\""], inner)
        }
        Value::String(text) => {
            vec![Line::plain(depth, format!("{head}\"{}\"", write_text(text)))]
        }
        single => vec![Line::plain(depth, format!("{head}{single}"))],
    }
}

fn enclose(
    depth: usize,
    head: &str,
    [open, close]: [&str; 2],
    inner: impl Iterator<Item = Line>,
) -> Vec<Line> {
    let mut lines = vec![Line::plain(depth, format!("{head}{open}"))];
    lines.extend(inner);
    lines.push(Line::plain(depth, close.to_owned()));
    lines
}

fn write_head(name: &str) -> String {
    format!("\"{}\": ", write_text(name))
}

/// Escapes quotes and backslashes as JSON does, and invisible characters by code point.
fn write_text(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    shown(&text, usize::MAX)
}

/// Folds equal lines far from any difference.
fn fold(rows: Vec<Row>) -> Vec<Row> {
    let mut near = vec![false; rows.len()];
    for (at, row) in rows.iter().enumerate() {
        if row.kind != RowKind::Same {
            let last = (at + AROUND).min(rows.len() - 1);
            near[at.saturating_sub(AROUND)..=last].fill(true);
        }
    }
    let mut folded = Vec::new();
    let mut rows = rows.into_iter();
    for run in near.chunk_by(PartialEq::eq) {
        let part: Vec<Row> = rows.by_ref().take(run.len()).collect();
        if run[0] || run.len() < LEAST_FOLDED {
            folded.extend(part);
        } else {
            folded.push(Row { folded: run.len(), ..Row::new(RowKind::Fold, None, None) });
        }
    }
    folded
}

#[cfg(test)]
mod tests;
