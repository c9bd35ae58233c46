//! Text that models read but people overlook: invisible characters, terminal escape sequences,
//! instructions to a model, and blobs. Invisible characters can be removed; the others are only
//! reported, because they have harmless uses too.

use std::fmt::Write as _;

use lockgate_text::unseen::{Unseen, unseen as unseen_kind};
use serde_json::Value;

/// Maximum number of findings for a definition.
const MAX_FINDINGS: usize = 32;
/// Length of an excerpt, in characters.
const EXCERPT_CHARS: usize = 80;
/// Number of letters and digits without a blank that count as a blob.
const MIN_BLOB_CHARS: usize = 120;
/// Number of blanks and line breaks that push text out of sight.
const MIN_GAP_CHARS: usize = 60;

/// Instructions to a model, in lower case with single blanks, separated by commas.
const ORDERS: &str = "ignore previous, ignore all previous, ignore the previous, \
    ignore any previous, ignore prior, ignore your instructions, ignore all instructions, \
    disregard previous, disregard all, disregard the above, forget previous, \
    forget your instructions, override your instructions, new instructions:, system prompt, \
    <important>, <system>, <secret>, <hidden>, <instructions>, [system], [inst], <|im_start|>, \
    <!--, do not tell the user, don't tell the user, do not inform the user, do not mention this, \
    don't mention this, never mention, without telling the user, without asking the user, \
    not visible to the user, hide this from, keep this secret, before using this tool, \
    before calling this tool, before you use this tool, always call this tool, \
    always use this tool first, must be called before, instead of any other tool, \
    do not use any other tool, pass its contents, pass the contents, send the contents, \
    include the contents of, contents of the conversation, conversation history, ~/.ssh, id_rsa, \
    ~/.aws, mcp.json, you are now, act as if you";

/// A part of a definition for a person to review.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Finding {
    /// The position, such as `description` or `inputSchema/properties/path/description`.
    pub place: String,
    pub what: &'static str,
    /// The text at that position, with invisible characters escaped.
    pub excerpt: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}: \"{}\"", self.place, self.what, self.excerpt)
    }
}

/// Members that no model reads and that often look suspicious: images, marks, addresses.
const UNREAD: [&str; 2] = ["icons", "_meta"];

/// Inspects every text of a definition that a model may read, including the names of members.
pub fn inspect(definition: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Value::Object(members) = definition else { return findings };
    for (name, value) in members {
        if UNREAD.contains(&name.as_str()) {
            continue;
        }
        let place = shown(name, EXCERPT_CHARS);
        look(&place, name, &mut findings);
        walk(&place, value, &mut findings);
    }
    findings
}

fn walk(at: &str, value: &Value, findings: &mut Vec<Finding>) {
    if findings.len() >= MAX_FINDINGS {
        return;
    }
    match value {
        Value::String(text) => look(at, text, findings),
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                walk(&format!("{at}/{n}"), item, findings);
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                let place = below(at, name, EXCERPT_CHARS);
                look(&place, name, findings);
                walk(&place, value, findings);
            }
        }
        _ => {}
    }
}

fn look(place: &str, text: &str, findings: &mut Vec<Finding>) {
    for (at, what) in find_oddities(text) {
        if findings.len() < MAX_FINDINGS {
            let excerpt = shown(&text[text.floor_char_boundary(at)..], EXCERPT_CHARS);
            findings.push(Finding { place: place.to_owned(), what, excerpt });
        }
    }
}

/// Returns the suspicious parts of a text, each with its byte offset.
fn find_oddities(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::from_iter(first_unseen(text));
    let clean = strip(text);
    let clean = clean.as_deref().unwrap_or(text);
    let plain = Vec::from_iter(clean.split_whitespace()).join(" ").to_lowercase();
    if let Some(order) = ORDERS.split(", ").find(|order| plain.contains(*order)) {
        let first = order.split(' ').next().unwrap_or("");
        let at = text.to_ascii_lowercase().find(first).unwrap_or(0);
        found.push((at, "words that instruct a model"));
    }
    let blob = run(text, MIN_BLOB_CHARS, is_of_blob);
    found.extend(blob.map(|at| (at, "a blob that may hide text")));
    let gap = run(text, MIN_GAP_CHARS, char::is_whitespace);
    found.extend(gap.map(|at| (at, "text hidden behind blanks")));
    found
}

fn is_of_blob(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | '_' | '-')
}

/// Returns the start of the first run of at least `least` matching characters.
fn run(text: &str, least: usize, is_one: impl Fn(char) -> bool) -> Option<usize> {
    let mut start = 0;
    let mut count = 0;
    for (at, c) in text.char_indices() {
        if !is_one(c) {
            count = 0;
            continue;
        }
        if count == 0 {
            start = at;
        }
        count += 1;
        if count >= least {
            return Some(start);
        }
    }
    None
}

fn first_unseen(text: &str) -> Option<(usize, &'static str)> {
    let mut before = None;
    let mut rest = text.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        let after = rest.peek().map(|(_, c)| *c);
        if let Some(what) = unseen(before, c, after) {
            return Some((at, what));
        }
        before = Some(c);
    }
    None
}

/// Returns whether [`strip`] would leave the text unchanged.
pub fn is_clean(text: &str) -> bool {
    text.bytes().all(|b| (b' '..0x7f).contains(&b) || matches!(b, b'\n' | b'\r' | b'\t'))
        || first_unseen(text).is_none()
}

/// Removes invisible characters; returns `None` if there are none.
#[must_use]
pub fn strip(text: &str) -> Option<String> {
    if is_clean(text) {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut before = None;
    while let Some(c) = rest.next() {
        if unseen(before, c, rest.peek().copied()).is_none() {
            out.push(c);
            before = Some(c);
        }
    }
    Some(out)
}

/// Returns the problem with a character between its neighbours. Joiners and variation selectors are
/// parts of emoji and some scripts, where single ones are allowed.
fn unseen(before: Option<char>, c: char, after: Option<char>) -> Option<&'static str> {
    match unseen_kind(c)? {
        Unseen::Control if matches!(c, '\n' | '\r' | '\t') => None,
        Unseen::Control if matches!(c, '\u{1b}' | '\u{9b}') => Some("a terminal escape sequence"),
        Unseen::Control => Some("a control character"),
        Unseen::NoWidth if is_joiner(c) && may_be_joined(before, after) => None,
        Unseen::Selector if may_be_varied(before) => None,
        Unseen::NoWidth | Unseen::Selector => Some("a zero-width character"),
        Unseen::Direction => Some("a character that changes the direction of text"),
        Unseen::LineBreak => Some("a hidden line break"),
        Unseen::Tag => Some("a tag character, which can carry hidden text"),
        Unseen::Private => Some("a private-use character"),
    }
}

fn may_be_joined(before: Option<char>, after: Option<char>) -> bool {
    matches!(before, Some(c) if is_foreign(c) || is_selector(c))
        && matches!(after, Some(c) if is_foreign(c))
}

fn may_be_varied(before: Option<char>) -> bool {
    let Some(c) = before else { return false };
    is_foreign(c) || c.is_ascii_digit() || matches!(c, '#' | '*')
}

/// Returns whether a character is visible and beyond ASCII.
fn is_foreign(c: char) -> bool {
    !c.is_ascii() && !is_selector(c) && !is_joiner(c)
}

fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

fn is_selector(c: char) -> bool {
    unseen_kind(c) == Some(Unseen::Selector)
}

/// Truncates a text to `most` characters and escapes everything that is not plainly visible.
pub fn shown(text: &str, most: usize) -> String {
    let mut out = String::new();
    for c in text.chars().take(most) {
        match c {
            '\n' => out.push_str("\\n"),
            ' ' => out.push(' '),
            c if c.is_control() || c.is_whitespace() || unseen(None, c, None).is_some() => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    if text.chars().nth(most).is_some() {
        out.push('…');
    }
    out
}

// Readable differences between two definitions. The output is bounded and free of terminal control
// characters.

const MAX_LINES: usize = 50;
/// Length limit of a quoted value, in characters.
const MAX_QUOTED_CHARS: usize = 400;

/// Returns one line for each difference.
pub fn changes(old: &Value, new: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    compare("", old, new, &mut lines);
    if lines.len() > MAX_LINES {
        let more = lines.len() - MAX_LINES;
        lines.truncate(MAX_LINES);
        lines.push(format!("… and {more} more"));
    }
    lines
}

fn compare(at: &str, old: &Value, new: &Value, lines: &mut Vec<String>) {
    if old == new || lines.len() > MAX_LINES * 4 {
        return;
    }
    if let (Value::Object(before), Value::Object(after)) = (old, new) {
        for (name, value) in before {
            match after.get(name) {
                Some(now) => compare(&below(at, name, MAX_QUOTED_CHARS), value, now, lines),
                None => {
                    let place = below(at, name, MAX_QUOTED_CHARS);
                    lines.push(format!("{place}: removed, was {}", quoted(value)));
                }
            }
        }
        for (name, value) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
            let place = below(at, name, MAX_QUOTED_CHARS);
            lines.push(format!("{place}: added, {}", quoted(value)));
        }
        return;
    }
    lines.push(format!("{at}: was {}, is {}", quoted(old), quoted(new)));
}

/// Returns the place of a member; `most` characters of its name are shown.
fn below(at: &str, name: &str, most: usize) -> String {
    let name = shown(name, most);
    if at.is_empty() { name } else { format!("{at}/{name}") }
}

fn quoted(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{}\"", shown(text, MAX_QUOTED_CHARS)),
        other => shown(&other.to_string(), MAX_QUOTED_CHARS),
    }
}
