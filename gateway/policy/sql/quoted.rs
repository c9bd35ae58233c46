//! Quoted strings and names. Whether a backslash escapes a quote depends on the settings of a
//! server, so a backslash before a quote is refused.

use sqlparser::tokenizer::Token;

use super::lexer::{Lexer, no};
use super::spec::Dialect;
use crate::Refusal;

/// Length limit of a name, in bytes.
const MAX_NAME: usize = 63;

/// The meaning of a backslash in a string.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Escapes {
    /// Always a plain character.
    Never,
    /// A plain character or an escape, depending on the server's settings.
    Perhaps,
    /// Always an escape, as in `E'…'`.
    Always,
}

impl Escapes {
    pub(super) fn of(dialect: Dialect) -> Self {
        if dialect == Dialect::Sqlite { Self::Never } else { Self::Perhaps }
    }
}

/// Reads a string in single quotes at the lexer's position.
pub(super) fn string(lexer: &mut Lexer<'_>, escapes: Escapes) -> Result<Token, Refusal> {
    Ok(Token::SingleQuotedString(body(lexer, '\'', escapes)?))
}

/// Reads `"…"` in MySQL: a string or a name, depending on the server's settings.
pub(super) fn double(lexer: &mut Lexer<'_>) -> Result<Token, Refusal> {
    Ok(Token::DoubleQuotedString(body(lexer, '"', Escapes::Perhaps)?))
}

/// Reads `E'…'`, `B'…'`, `X'…'` and `N'…'`.
pub(super) fn prefixed(lexer: &mut Lexer<'_>, prefix: &str) -> Result<Token, Refusal> {
    lexer.at += 1;
    let is_sqlite = lexer.dialect == Dialect::Sqlite;
    match prefix {
        "e" | "E" if lexer.dialect == Dialect::Postgres => {
            return string(lexer, Escapes::Always);
        }
        "n" | "N" if !is_sqlite => {
            return Ok(Token::NationalStringLiteral(body(lexer, '\'', Escapes::Perhaps)?));
        }
        "x" | "X" => {
            let hex = body(lexer, '\'', Escapes::Never)?;
            if hex.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Ok(Token::HexStringLiteral(hex));
            }
        }
        "b" | "B" if !is_sqlite => {
            let bits = body(lexer, '\'', Escapes::Never)?;
            if bits.bytes().all(|b| matches!(b, b'0' | b'1')) {
                return Ok(Token::SingleQuotedByteStringLiteral(bits));
            }
        }
        _ => {}
    }
    no(format!("a string with the prefix {prefix} is not allowed here"))
}

/// Reads `U&'…'` of PostgreSQL, with the escape character of a following `UESCAPE`. A database
/// where a backslash is an escape in every string rejects such a string.
pub(super) fn unicode(lexer: &mut Lexer<'_>) -> Result<Token, Refusal> {
    lexer.at += 2;
    let text = body(lexer, '\'', Escapes::Perhaps)?;
    let escape = match uescape(lexer.rest()) {
        Some((length, escape)) => {
            lexer.at += length;
            escape
        }
        None => '\\',
    };
    match unescaped(&text, escape) {
        Some(text) => Ok(Token::SingleQuotedString(text)),
        None => no("a U& string has an invalid escape: write the character itself"),
    }
}

/// Parses a leading `UESCAPE '!'` into its length and the character.
fn uescape(rest: &str) -> Option<(usize, char)> {
    const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];
    let from = rest.trim_start_matches(BLANKS);
    let word = from.get(..7)?;
    if !word.eq_ignore_ascii_case("uescape") {
        return None;
    }
    let quoted = from[word.len()..].trim_start_matches(BLANKS).strip_prefix('\'')?;
    let escape = quoted.chars().next()?;
    if !escape.is_ascii_punctuation() || matches!(escape, '+' | '\'' | '"') {
        return None;
    }
    let after = quoted[1..].strip_prefix('\'')?;
    Some((rest.len() - after.len(), escape))
}

/// Decodes `\0061` and `\+000061`; returns `None` if an escape stands for no character.
fn unescaped(text: &str, escape: char) -> Option<String> {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        if first != escape {
            units.extend(first.encode_utf16(&mut [0; 2]).iter());
            rest = after;
        } else if after.starts_with(escape) {
            units.extend(escape.encode_utf16(&mut [0; 2]).iter());
            rest = &after[escape.len_utf8()..];
        } else {
            let (from, count) = match after.strip_prefix('+') {
                Some(long) => (long, 6),
                None => (after, 4),
            };
            let digits = from.get(..count)?;
            if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                return None;
            }
            let number = u32::from_str_radix(digits, 16).ok()?;
            if number == 0 {
                return None;
            }
            match u16::try_from(number) {
                Ok(unit) => units.push(unit),
                Err(_) => {
                    units.extend(char::from_u32(number)?.encode_utf16(&mut [0; 2]).iter());
                }
            }
            rest = &from[count..];
        }
    }
    // Unpaired surrogates are not characters.
    String::from_utf16(&units).ok()
}

fn body(lexer: &mut Lexer<'_>, quote: char, escapes: Escapes) -> Result<String, Refusal> {
    let rest = &lexer.rest()[1..];
    let mut text = String::new();
    let mut characters = rest.char_indices().peekable();
    let mut backslashes = 0;
    while let Some((at, character)) = characters.next() {
        let escaped = backslashes % 2 == 1;
        backslashes = if character == '\\' { backslashes + 1 } else { 0 };
        if character == quote && escaped && escapes == Escapes::Perhaps {
            return no("a quote is escaped with a backslash: write the quote twice");
        }
        // Some numbers are not characters, and PostgreSQL rejects the statement.
        if escaped && escapes == Escapes::Always && matches!(character, '0'..='7' | 'x' | 'u' | 'U')
        {
            return no("a string has a numeric escape: write the character itself");
        }
        if character == quote && !(escaped && escapes == Escapes::Always) {
            let is_doubled = matches!(characters.peek(), Some((_, next)) if *next == quote);
            if !is_doubled {
                lexer.at += at + 2;
                return Ok(text);
            }
            characters.next();
        }
        text.push(character);
    }
    no("a string is not closed")
}

/// Reads a quoted name and decodes it.
pub(super) fn name(lexer: &mut Lexer<'_>, open: char, close: char) -> Result<Token, Refusal> {
    let rest = &lexer.rest()[1..];
    let mut text = String::new();
    let mut characters = rest.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        if character == close {
            let is_doubled = matches!(characters.peek(), Some((_, next)) if *next == close);
            if open != close || !is_doubled {
                lexer.at += at + 2;
                return match text.len() {
                    1..=MAX_NAME => Ok(Token::make_word(&text, Some(open))),
                    _ => no(format!("a quoted name must have 1 to {MAX_NAME} bytes")),
                };
            }
            characters.next();
        }
        if character.is_control() {
            return no("a quoted name holds control characters");
        }
        text.push(character);
    }
    no("a quoted name is not closed")
}
