//! Checks an argument vector against the model of its program: every option is listed and written
//! in full, every value is of its kind, and the program takes as many operands. Arguments are read
//! as the program will read them.

use super::builtin;
use super::model::{Model, ParameterKind, Value};
use super::spec::Style;
use crate::{Refusal, no};

#[derive(Default)]
struct CommandParts {
    paths: Vec<String>,
    subcommands: Vec<String>,
    /// The given options, by their names in the model.
    flags: Vec<String>,
    operands: Vec<String>,
}

impl CommandParts {
    fn has_flag_of(&self, flags: &[String]) -> bool {
        self.flags.iter().any(|flag| flags.contains(flag))
    }
}

/// Checks the arguments of a program. Returns the arguments that name files, and the chosen
/// subcommands.
pub(super) fn arguments(
    model: &Model,
    arguments: &[String],
) -> Result<(Vec<String>, Vec<String>), Refusal> {
    let mut found = CommandParts::default();
    walk(model, arguments, &mut found)?;
    Ok((found.paths, found.subcommands))
}

/// Checks arguments, recursing into subcommands. The depth of models bounds the recursion.
fn walk(model: &Model, arguments: &[String], found: &mut CommandParts) -> Result<(), Refusal> {
    if !arguments.starts_with(&model.spec.begins_with) {
        let name = &model.name;
        let words = model.spec.begins_with.join(" ");
        return no(format!(
            "`{name}` must be called as `{name} {words}`, followed by the other arguments"
        ));
    }
    let mut at = model.spec.begins_with.len();
    let mut ended = model.spec.style == Style::Plain;
    while let Some(word) = arguments.get(at) {
        at += 1;
        let next = arguments.get(at).map(String::as_str);
        if !ended && word == "--" && model.spec.style == Style::Gnu && model.subcommands.is_empty()
        {
            ended = true;
        } else if !ended && is_flag(model, word) {
            at += usize::from(flag(model, word, next, found)?);
        } else if model.subcommands.is_empty() {
            found.operands.push(word.clone());
        } else {
            let Some(sub) = model.subcommands.get(word) else {
                return Err(no_subcommand(model, word));
            };
            found.subcommands.push(word.clone());
            found.flags.clear();
            return walk(sub, &arguments[at..], found);
        }
    }
    operands(model, found)
}

/// Returns whether the program reads this word as an option. A lone `-` is standard input.
fn is_flag(model: &Model, word: &str) -> bool {
    (word.starts_with('-') && word.len() > 1)
        || (model.spec.style == Style::Words && model.flags.contains_key(word))
}

/// Checks an option. Returns true if the next word is its value.
fn flag(
    model: &Model,
    word: &str,
    next: Option<&str>,
    found: &mut CommandParts,
) -> Result<bool, Refusal> {
    if model.digits && ParameterKind::Number.fits(&word[1..]) {
        return Ok(false);
    }
    if model.spec.style == Style::Words {
        return option(model, word, known(model, word)?, None, next, found);
    }
    if word.starts_with("--") {
        let (name, attached) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        return option(model, name, known(model, name)?, attached, next, found);
    }
    cluster(model, word, next, found)
}

/// Returns how an option takes a value, or refuses an unknown option.
fn known<'a>(model: &'a Model, name: &str) -> Result<&'a Value, Refusal> {
    model.flags.get(name).ok_or_else(|| not_allowed(model, name))
}

/// Checks `-la` or `-n5`: letters up to the first that takes a value, which is the rest.
fn cluster(
    model: &Model,
    word: &str,
    next: Option<&str>,
    found: &mut CommandParts,
) -> Result<bool, Refusal> {
    for (at, letter) in word.char_indices().skip(1) {
        let name = format!("-{letter}");
        let value = known(model, &name)?;
        let rest = &word[at + letter.len_utf8()..];
        if *value == Value::None {
            found.flags.push(name);
            continue;
        }
        let attached = if rest.is_empty() { None } else { Some(rest) };
        return option(model, &name, value, attached, next, found);
    }
    Ok(false)
}

fn option(
    model: &Model,
    name: &str,
    value: &Value,
    attached: Option<&str>,
    next: Option<&str>,
    found: &mut CommandParts,
) -> Result<bool, Refusal> {
    found.flags.push(name.to_owned());
    let (kind, needed) = match value {
        Value::None => {
            return match attached {
                Some(_) => no(format!("`{} {name}` takes no value; leave it out", model.name)),
                None => Ok(false),
            };
        }
        Value::Attached(kind) => (kind, false),
        Value::Required(kind) | Value::UnlessLast(kind) => (kind, true),
    };
    let optional_end = matches!(value, Value::UnlessLast(_)) && next.is_none();
    let text = match (attached, next) {
        (Some(text), _) => text,
        (None, _) if !needed || optional_end => return Ok(false),
        (None, Some(next)) => next,
        (None, None) => {
            return no(format!("`{} {name}` needs a value: {}", model.name, kind.words()));
        }
    };
    // If the program read the word as an option after all, that option would be unchecked.
    let detached = attached.is_none();
    let dashed =
        detached && text.starts_with('-') && text.len() > 1 && model.spec.style == Style::Gnu;
    if dashed && !matches!(kind, ParameterKind::Count) && !model.takes_anything(name) {
        let joined =
            if name.starts_with("--") { format!("{name}={text}") } else { format!("{name}{text}") };
        return no(format!(
            "the value of `{} {name}` begins with a dash; write it in one word: {}",
            model.name,
            quoted(&joined)
        ));
    }
    if !kind.fits(text) {
        let program = &model.name;
        let shown = quoted(text);
        let words = kind.words();
        return no(format!("`{program} {name}` must have {words} as its value, received {shown}"));
    }
    if *kind == ParameterKind::Path {
        found.paths.push(text.to_owned());
    }
    Ok(detached)
}

fn operands(model: &Model, found: &mut CommandParts) -> Result<(), Refusal> {
    let given = std::mem::take(&mut found.operands);
    if !model.spec.need.is_empty() && !found.has_flag_of(&model.spec.need) {
        return no(format!(
            "`{}` is allowed only with {}",
            model.name,
            model.spec.need.join(" or ")
        ));
    }
    let is_lacking =
        !model.spec.operands_need.is_empty() && !found.has_flag_of(&model.spec.operands_need);
    if !given.is_empty() && is_lacking {
        let need = model.spec.operands_need.join(" or ");
        return no(format!(
            "`{}` takes {} only together with {need}",
            model.name,
            quoted(&given[0])
        ));
    }
    let is_replaced = found.has_flag_of(&model.spec.first_operand_unless);
    let skip = usize::from(!model.operands.is_empty() && is_replaced);
    let takes = &model.operands[skip..];
    for (at, word) in given.iter().enumerate() {
        let operand = match (takes.get(at), takes.last()) {
            (Some(operand), _) => operand,
            (None, Some(last)) if last.repeats => last,
            _ => {
                let most = takes.len();
                return no(format!(
                    "`{}` takes at most {most} operands here; {} is one too many",
                    model.name,
                    quoted(word)
                ));
            }
        };
        if !operand.kind.fits(word) {
            return no(format!("{} must be {}", quoted(word), operand.kind.words()));
        }
        if operand.kind == ParameterKind::Path && word != "-" {
            found.paths.push(word.clone());
        }
    }
    // `--help` and `--version` need no operands.
    let asks = found.flags.iter().any(|flag| matches!(flag.as_str(), "--help" | "--version"));
    match takes.get(given.len()) {
        Some(operand) if !operand.optional && !asks => {
            no(format!("`{}` needs {} here", model.name, operand.kind.words()))
        }
        _ => Ok(()),
    }
}

fn not_allowed(model: &Model, flag: &str) -> Refusal {
    let program = &model.name;
    let shown = quoted(flag);
    Refusal(match builtin::danger(program, flag) {
        Some(why) => {
            format!("the option {shown} of `{program}` is not allowed: it {why}; leave it out")
        }
        None => format!(
            "the option {shown} of `{program}` is not allowed here; leave it out, or use another \
                option in full"
        ),
    })
}

fn no_subcommand(model: &Model, word: &str) -> Refusal {
    let names = Vec::from_iter(model.subcommands.keys().map(String::as_str)).join(", ");
    Refusal(format!(
        "`{} {}` is not allowed; allowed are: {names}",
        model.name,
        quoted(word).trim_matches('`')
    ))
}

pub(super) fn split(text: &str) -> Result<Vec<String>, Refusal> {
    printable(text)?;
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => single(&mut chars, word.get_or_insert_default())?,
            '"' => double(&mut chars, word.get_or_insert_default())?,
            '\\' => match chars.next() {
                Some(next) => word.get_or_insert_default().push(next),
                None => {
                    return no("the command ends with a backslash; remove or quote it");
                }
            },
            _ => {
                if let Some(why) = special(c, word.as_deref(), chars.peek().copied()) {
                    return no(format!(
                        "unquoted `{c}` {why}; there is no shell here: send one program with its \
                            arguments, and put literal text in single quotes"
                    ));
                }
                word.get_or_insert_default().push(c);
            }
        }
    }
    words.extend(word);
    Ok(words)
}

/// Refuses control characters other than tabs, quoted or not.
pub(super) fn printable(text: &str) -> Result<(), Refusal> {
    match text.chars().find(|c| c.is_control() && *c != '\t') {
        Some('\n' | '\r') => no("the command has a line break; send one command, on one line"),
        Some(c) => {
            no(format!("the command has the control character U+{:04X}; remove it", u32::from(c)))
        }
        None => Ok(()),
    }
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn single(chars: &mut Chars<'_>, word: &mut String) -> Result<(), Refusal> {
    for c in chars.by_ref() {
        if c == '\'' {
            return Ok(());
        }
        word.push(c);
    }
    Err(open('\''))
}

fn double(chars: &mut Chars<'_>, word: &mut String) -> Result<(), Refusal> {
    while let Some(c) = chars.next() {
        match c {
            '"' => return Ok(()),
            '\\' => match chars.next() {
                Some(next @ ('"' | '\\' | '$' | '`')) => word.push(next),
                Some(next) => word.extend(['\\', next]),
                None => break,
            },
            '$' | '`' => {
                return no(format!(
                    "`{c}` inside double quotes is a substitution; nothing is substituted here: \
                        use single quotes"
                ));
            }
            _ => word.push(c),
        }
    }
    Err(open('"'))
}

fn open(quote: char) -> Refusal {
    Refusal(format!("a {quote} is not closed; close the quote"))
}

/// Returns the effect that an unquoted character would have in a shell. `word` is the text before
/// it in the same word.
fn special(c: char, word: Option<&str>, next: Option<char>) -> Option<&'static str> {
    let starts = word.is_none();
    match c {
        '|' => Some("would start a pipe"),
        '&' => Some("would run in the background or chain commands"),
        ';' => Some("would chain commands"),
        '<' | '>' => Some("would redirect"),
        '(' | ')' => Some("would start a subshell"),
        '`' | '$' => Some("would substitute"),
        '*' | '?' | '[' | ']' => Some("is a wildcard"),
        '{' | '}' => Some("would expand braces"),
        '~' if starts || matches!(word, Some(word) if word.ends_with(['=', ':'])) => {
            Some("would expand to a home folder")
        }
        '#' if starts => Some("would start a comment"),
        '=' if starts => Some("would name a program"),
        '!' if !matches!(next, None | Some(' ' | '\t')) => Some("would recall the history"),
        _ => None,
    }
}

/// Formats a word of the caller for a message: shortened, in backticks.
pub(super) fn quoted(word: &str) -> String {
    const MAX_SHOWN: usize = 60;
    let mut short = String::new();
    short.extend(word.chars().take(MAX_SHOWN).map(|c| if c.is_control() { '\u{fffd}' } else { c }));
    let more = if word.chars().nth(MAX_SHOWN).is_some() { "…" } else { "" };
    format!("`{short}{more}`")
}
