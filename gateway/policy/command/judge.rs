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
            at += usize::from(Flag { model, next, found }.check(word)?);
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

/// Reads an option, with the word after it, which may be its value.
struct Flag<'a> {
    model: &'a Model,
    next: Option<&'a str>,
    found: &'a mut CommandParts,
}

impl Flag<'_> {
    /// Checks an option. Returns true if the next word is its value.
    fn check(&mut self, word: &str) -> Result<bool, Refusal> {
        let model = self.model;
        if model.digits && ParameterKind::Number.fits(&word[1..]) {
            return Ok(false);
        }
        if model.spec.style == Style::Words {
            return self.option(word, known(model, word)?, None);
        }
        if word.starts_with("--") {
            let (name, attached) = word.split_once('=').unzip();
            let name = name.unwrap_or(word);
            return self.option(name, known(model, name)?, attached);
        }
        // `-la` or `-n5`: letters up to the first that takes a value, which is the rest.
        for (at, letter) in word.char_indices().skip(1) {
            let name = format!("-{letter}");
            let value = known(model, &name)?;
            let rest = &word[at + letter.len_utf8()..];
            if *value != Value::None {
                return self.option(&name, value, (!rest.is_empty()).then_some(rest));
            }
            self.found.flags.push(name);
        }
        Ok(false)
    }

    fn option(
        &mut self,
        name: &str,
        value: &Value,
        attached: Option<&str>,
    ) -> Result<bool, Refusal> {
        let model = self.model;
        let program = &model.name;
        self.found.flags.push(name.to_owned());
        let (kind, needed) = match value {
            Value::None if attached.is_some() => {
                return no(format!("`{program} {name}` takes no value; leave it out"));
            }
            Value::None => return Ok(false),
            Value::Attached(kind) => (kind, false),
            Value::Required(kind) | Value::UnlessLast(kind) => (kind, true),
        };
        let optional_end = matches!(value, Value::UnlessLast(_)) && self.next.is_none();
        let text = match (attached, self.next) {
            (Some(text), _) => text,
            (None, _) if !needed || optional_end => return Ok(false),
            (None, Some(next)) => next,
            (None, None) => {
                return no(format!("`{program} {name}` needs a value: {}", kind.words()));
            }
        };
        // If the program read the word as an option after all, that option would be unchecked.
        let detached = attached.is_none();
        let dashed =
            detached && text.starts_with('-') && text.len() > 1 && model.spec.style == Style::Gnu;
        if dashed && !matches!(kind, ParameterKind::Count) && !model.takes_anything(name) {
            let between = if name.starts_with("--") { "=" } else { "" };
            let joined = quoted(&format!("{name}{between}{text}"));
            return no(format!(
                "the value of `{program} {name}` begins with a dash; write it in one word: {joined}"
            ));
        }
        if !kind.fits(text) {
            let shown = quoted(text);
            let words = kind.words();
            return no(format!(
                "`{program} {name}` must have {words} as its value, received {shown}"
            ));
        }
        if *kind == ParameterKind::Path {
            self.found.paths.push(text.to_owned());
        }
        Ok(detached)
    }
}

/// Returns how an option takes a value, or refuses an unknown option.
fn known<'a>(model: &'a Model, name: &str) -> Result<&'a Value, Refusal> {
    model.flags.get(name).ok_or_else(|| not_allowed(model, name))
}

fn operands(model: &Model, found: &mut CommandParts) -> Result<(), Refusal> {
    let name = &model.name;
    let given = std::mem::take(&mut found.operands);
    if !model.spec.need.is_empty() && !found.has_flag_of(&model.spec.need) {
        return no(format!("`{name}` is allowed only with {}", model.spec.need.join(" or ")));
    }
    let need = &model.spec.operands_need;
    if let Some(first) = given.first()
        && !need.is_empty()
        && !found.has_flag_of(need)
    {
        let need = need.join(" or ");
        return no(format!("`{name}` takes {} only together with {need}", quoted(first)));
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
                let word = quoted(word);
                return no(format!(
                    "`{name}` takes at most {most} operands here; {word} is one too many"
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
            no(format!("`{name}` needs {} here", operand.kind.words()))
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
    let name = &model.name;
    let word = quoted(word);
    let word = word.trim_matches('`');
    Refusal(format!("`{name} {word}` is not allowed; allowed are: {names}"))
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
