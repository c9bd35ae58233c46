//! Splits a command line into words: blanks separate words, quotes and backslashes join them.
//! Anything that a shell would expand, redirect or chain is refused, so that the words mean the
//! same to every program that reads them.

use crate::Refusal;

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
                    return Err(Refusal(
                        "the command ends with a backslash; remove or quote it".into(),
                    ));
                }
            },
            _ => {
                if let Some(why) = special(c, word.as_deref(), chars.peek().copied()) {
                    return Err(Refusal(format!(
                        "unquoted `{c}` {why}; there is no shell here: send one program with its \
                            arguments, and put literal text in single quotes"
                    )));
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
        Some('\n' | '\r') => {
            Err(Refusal("the command has a line break; send one command, on one line".into()))
        }
        Some(c) => Err(Refusal(format!(
            "the command has the control character U+{:04X}; remove it",
            u32::from(c)
        ))),
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
                return Err(Refusal(format!(
                    "`{c}` inside double quotes is a substitution; nothing is substituted here: \
                        use single quotes"
                )));
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
