//! Splits a text into tokens exactly as the named database does, or refuses it. The parser receives
//! only the tokens, so that no text is a string here and a name for the database. Text that
//! databases read in two ways is refused.

use sqlparser::tokenizer::{Token, Whitespace};

use super::functions::is_joined;
use super::lexer::{Lexer, no};
use super::operators;
use super::quoted;
use super::spec::Dialect;
use crate::Refusal;

/// Maximum number of tokens since the last comma, over all open parentheses. Bounds the depth of
/// the tree.
const MAX_CHAIN: usize = 1000;
/// Limit of the open parentheses and brackets.
const MAX_OPEN: usize = 48;
/// Length limit of a name, in bytes. PostgreSQL truncates longer names, which would then refer to
/// another object.
const MAX_NAME: usize = 63;

pub(super) struct Lexed {
    pub(super) tokens: Vec<Token>,
    /// The end of the last token in the text, before a final semicolon and comments.
    pub(super) end: usize,
}

pub(super) fn lex(text: &str, dialect: Dialect) -> Result<Lexed, Refusal> {
    // The client library of a database would end the text here.
    if text.contains('\0') {
        return no("the SQL statement holds a NUL character: leave it out");
    }
    let tokens = Vec::with_capacity(text.len() / 3 + 8);
    let mut lexer = Lexer {
        dialect,
        text,
        at: 0,
        tokens,
        end: 0,
        chains: vec![0],
        chained: 0,
        ended: false,
        brackets: 0,
    };
    while let Some(byte) = lexer.peek(0) {
        lexer.step(byte)?;
    }
    if lexer.tokens.iter().all(|token| matches!(token, Token::Whitespace(_))) {
        return no("the SQL statement is empty: send one SELECT");
    }
    Ok(Lexed { tokens: lexer.tokens, end: lexer.end })
}

impl Lexer<'_> {
    fn step(&mut self, byte: u8) -> Result<(), Refusal> {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => self.space(1),
            b'-' if self.peek(1) == Some(b'-') => self.line_comment(2)?,
            b'#' if self.dialect == Dialect::Mysql => self.line_comment(1)?,
            b'/' if self.peek(1) == Some(b'*') => self.block_comment()?,
            b';' => {
                self.ended = true;
                self.at += 1;
            }
            _ if self.ended => {
                return no(
                    "only one SQL statement is allowed: send the text after the `;` in a separate \
                        call",
                );
            }
            _ => {
                let token = self.token(byte)?;
                self.push(token)?;
            }
        }
        Ok(())
    }

    fn space(&mut self, bytes: usize) {
        self.at += bytes;
        if !matches!(self.tokens.last(), None | Some(Token::Whitespace(_))) {
            self.tokens.push(Token::Whitespace(Whitespace::Space));
        }
    }

    fn push(&mut self, token: Token) -> Result<(), Refusal> {
        if is_string(&token) && matches!(self.before(), Some(before) if is_string(before)) {
            return no(
                "two string literals are adjacent: write one string, or put || or a comma between \
                    them",
            );
        }
        if self.dialect == Dialect::Mysql && token == Token::LParen {
            self.joined()?;
        }
        match token {
            Token::Comma => {
                if let Some(chain) = self.chains.last_mut() {
                    self.chained -= std::mem::take(chain);
                }
            }
            Token::LParen | Token::LBracket => {
                self.brackets += usize::from(token == Token::LBracket);
                self.chains.push(0);
            }
            Token::RParen | Token::RBracket => {
                self.brackets = self.brackets.saturating_sub(usize::from(token == Token::RBracket));
                if self.chains.len() > 1
                    && let Some(chain) = self.chains.pop()
                {
                    self.chained -= chain;
                }
                self.count_token();
            }
            _ => self.count_token(),
        }
        if self.chains.len() > MAX_OPEN || self.chained > MAX_CHAIN {
            return no(
                "the SQL statement is nested too deeply: use fewer parentheses, and IN (…) in \
                    place of long chains of OR",
            );
        }
        self.tokens.push(token);
        self.end = self.at;
        Ok(())
    }

    /// Checks that MySQL reads the word before this parenthesis as the parser does.
    fn joined(&self) -> Result<(), Refusal> {
        match self.tokens.as_slice() {
            [.., Token::Word(word), Token::Whitespace(_)]
                if word.quote_style.is_none() && is_joined(&word.value) =>
            {
                no(format!(
                    "in MySQL `{0} (` may be a user-defined function: write `{0}(`",
                    word.value
                ))
            }
            _ => Ok(()),
        }
    }

    fn count_token(&mut self) {
        if let Some(chain) = self.chains.last_mut() {
            *chain += 1;
            self.chained += 1;
        }
    }

    fn line_comment(&mut self, prefix: usize) -> Result<(), Refusal> {
        let mysql = self.dialect == Dialect::Mysql && prefix == 2;
        if mysql
            && let Some(after) = self.peek(2)
            && !after.is_ascii_whitespace()
        {
            return no("MySQL reads `--` as a comment only before a space: write `-- ` or `- -`");
        }
        let line = self.rest().split('\n').next().unwrap_or("");
        let bare = line.strip_suffix('\r').unwrap_or(line);
        if bare.bytes().any(|byte| byte < b' ' && byte != b'\t') {
            return no("a comment holds control characters: leave the comment out");
        }
        self.space(line.len());
        Ok(())
    }

    fn block_comment(&mut self) -> Result<(), Refusal> {
        let inside = self.rest().get(2..).unwrap_or("");
        let nests = self.dialect == Dialect::Postgres;
        let length = if nests { nested_comment(inside) } else { inside.find("*/") };
        let Some(length) = length else {
            return no("a comment is not closed: leave the comment out");
        };
        // With the star of its end: inside a comment, PostgreSQL reads `/*/` as the beginning of
        // another comment.
        let comment = &inside[..=length];
        let runs = comment.starts_with(['!', '+']) || comment.starts_with("M!");
        let holds_one =
            comment.contains("/*!") || comment.contains("/*+") || comment.contains("/*M!");
        if runs || holds_one {
            return no(
                "a comment that a database may run (/*! or /*+) is not allowed: leave it out",
            );
        }
        if !nests && comment.contains("/*") {
            return no("a comment inside another is not allowed: leave it out");
        }
        self.space(length + 4);
        Ok(())
    }

    fn token(&mut self, byte: u8) -> Result<Token, Refusal> {
        match byte {
            b'\'' => quoted::string(self, quoted::Escapes::of(self.dialect)),
            b'"' if self.dialect == Dialect::Mysql => quoted::double(self),
            b'"' => quoted::name(self, '"', '"'),
            b'`' if self.dialect != Dialect::Postgres => quoted::name(self, '`', '`'),
            b'[' if self.dialect == Dialect::Sqlite => quoted::name(self, '[', ']'),
            b'0'..=b'9' => self.number(),
            b'.' if matches!(self.peek(1), Some(b'0'..=b'9')) => {
                // Databases differ on whether `.1` in `t.1` is a number or a name.
                match self.tokens.last() {
                    Some(Token::Word(_)) => no("a name begins with a digit: quote it"),
                    _ => self.number(),
                }
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word(),
            b'$' => self.dollar(),
            0x80.. => no("a name has letters beyond ASCII: quote it"),
            _ => operators::token(self, byte),
        }
    }

    fn word(&mut self) -> Result<Token, Refusal> {
        let length = count_bytes(self.rest(), is_of_word);
        let word = &self.text[self.at..self.at + length];
        let after = self.peek(length);
        if matches!(after, Some(0x80..)) {
            return no("a name has letters beyond ASCII: quote it");
        }
        if word.len() > MAX_NAME {
            return no(format!(
                "a name has more than {MAX_NAME} bytes: databases would truncate it"
            ));
        }
        match (after, word) {
            (Some(b'\''), _) if word.len() == 1 => return quoted::prefixed(self, word),
            (Some(b'"'), "b" | "B" | "x" | "X" | "n" | "N") if self.dialect == Dialect::Mysql => {
                return no("write literals with a prefix in single quotes");
            }
            (Some(b'&'), "u" | "U")
                if self.dialect == Dialect::Postgres && self.peek(2) == Some(b'\'') =>
            {
                return quoted::unicode(self);
            }
            (Some(b'&'), "u" | "U") if matches!(self.peek(2), Some(b'"' | b'\'')) => {
                return no("U& strings and names are not allowed: write the characters themselves");
            }
            (Some(b'\''), _) if self.dialect == Dialect::Mysql && word.starts_with('_') => {
                return no(
                    "strings with a character set before them are not allowed: leave the prefix \
                        out",
                );
            }
            _ => {}
        }
        let token = Token::make_word(word, None);
        self.at += length;
        Ok(token)
    }

    fn number(&mut self) -> Result<Token, Refusal> {
        let rest = self.rest();
        let mut length = count_digits(rest);
        if length == 1 && rest.starts_with("0x") {
            length = 2 + count_bytes(&rest[2..], u8::is_ascii_hexdigit);
        } else {
            if rest[length..].starts_with('.') {
                length += 1 + count_digits(&rest[length + 1..]);
            }
            if rest[length..].starts_with(['e', 'E']) {
                let sign = usize::from(rest[length + 1..].starts_with(['+', '-']));
                match count_digits(&rest[length + 1 + sign..]) {
                    0 => {}
                    exponent => length += 1 + sign + exponent,
                }
            }
        }
        if let Some(b) = rest.as_bytes().get(length)
            && (b.is_ascii_alphanumeric()
                || matches!(b, b'_' | b'$' | b'.' | b'\'' | b'"' | 0x80..))
        {
            return no(
                "a number is followed by letters: put a space between them, and quote names that \
                    begin with a digit",
            );
        }
        let token = match rest[..length].strip_prefix("0x") {
            Some(hex) => Token::HexStringLiteral(hex.to_owned()),
            None => Token::Number(rest[..length].to_owned(), false),
        };
        self.at += length;
        Ok(token)
    }

    /// Reads `$1` and, in PostgreSQL, `$tag$string$tag$`; in SQLite also `$name`.
    fn dollar(&mut self) -> Result<Token, Refusal> {
        let rest = self.rest();
        let name = count_bytes(&rest[1..], |b| b.is_ascii_alphanumeric() || *b == b'_');
        let numbered = name > 0 && count_digits(&rest[1..]) == name;
        let closes = rest.as_bytes().get(1 + name) == Some(&b'$');
        match self.dialect {
            Dialect::Postgres if closes && !rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                let tag = &rest[..name + 2];
                let Some(length) = rest[tag.len()..].find(tag) else {
                    return no("a $$ string is not closed");
                };
                let string = rest[tag.len()..tag.len() + length].to_owned();
                self.at += length + 2 * tag.len();
                Ok(Token::SingleQuotedString(string))
            }
            Dialect::Postgres if numbered && !closes => self.placeholder(name + 1),
            Dialect::Sqlite if name > 0 => self.placeholder(name + 1),
            _ => no("a `$` is not allowed here"),
        }
    }
}

fn is_string(token: &Token) -> bool {
    matches!(token, Token::SingleQuotedString(_) | Token::DoubleQuotedString(_))
}

fn is_of_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$')
}

fn count_digits(text: &str) -> usize {
    count_bytes(text, u8::is_ascii_digit)
}

/// Returns the number of leading bytes that satisfy a predicate.
fn count_bytes(text: &str, is_one: impl Fn(&u8) -> bool) -> usize {
    text.bytes().take_while(is_one).count()
}

/// Returns the end of a PostgreSQL comment in the text after its beginning. Comments inside it have
/// ends of their own.
fn nested_comment(inside: &str) -> Option<usize> {
    let bytes = inside.as_bytes();
    let mut at = 0;
    let mut open = 1;
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => {
                open += 1;
                at += 2;
            }
            b"*/" if open == 1 => return Some(at),
            b"*/" => {
                open -= 1;
                at += 2;
            }
            _ => at += 1,
        }
    }
    None
}
