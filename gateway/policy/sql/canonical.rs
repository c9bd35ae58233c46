//! The canonical text of a statement: the text that the parser prints, which is parsed again and
//! must give the same statement. Only this text is sent. It has no comments, one spelling of each
//! literal, and spaces around operators, so that a database reads the statement that was checked.
//! Text that a database could read differently is refused.

use sqlparser::ast::Statement;
use sqlparser::dialect::{self, MySqlDialect, PostgreSqlDialect, SQLiteDialect};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Whitespace, Word};

use super::functions;
use super::metered::{Effort, Metered};
use super::names::{cut, short};
use super::spec::Dialect;
use crate::{Refusal, no};

const PARSER_DEPTH: usize = 150;
/// Length limit of a name, in bytes. PostgreSQL truncates longer names, which would then refer to
/// another object.
const MAX_NAME: usize = 63;
/// The beginnings of comments that a database may run.
const RUN: [&str; 3] = ["/*!", "/*+", "/*M!"];
/// The characters of operators.
const SIGNS: &[u8] = b"+-*/<>=~!@#%^&|?";

/// The refusal of a statement that exceeds the limits on parsing.
const TOO_LONG: &str = "the SQL statement takes too long to parse: use fewer parentheses, check \
    that each is closed, and send fewer statements at once";

/// Parses and prints statements of one dialect.
pub(super) struct Reader<'a> {
    pub(super) dialect: Dialect,
    pub(super) effort: &'a Effort,
}

impl Reader<'_> {
    /// Parses a statement as sent, with comments and a final semicolon.
    pub(super) fn read(&self, text: &str) -> Result<Statement, Refusal> {
        if self.effort.is_spent() {
            return no(TOO_LONG);
        }
        // A NUL ends the text in a client library, and a CR alone ends a comment in some databases.
        if text.replace("\r\n", "\n").contains(|c: char| c.is_control() && !"\t\n".contains(c)) {
            return no("the SQL statement holds a control character: leave it out");
        }
        if RUN.iter().any(|mark| text.contains(mark)) {
            return no(
                "a comment that a database may run (/*! or /*+) is not allowed: leave it out",
            );
        }
        let mut nesting = Nesting::default();
        let mut plain: Vec<Token> = Vec::new();
        let mut ended = false;
        for sent in self.split(text)? {
            match self.plain(sent)? {
                Token::Whitespace(_) if matches!(plain.last(), Some(Token::Whitespace(_))) => {}
                Token::Whitespace(_) => plain.push(Token::Whitespace(Whitespace::Space)),
                Token::SemiColon => ended = true,
                _ if ended => {
                    return no(
                        "only one SQL statement is allowed: send the text after the `;` in a \
                            separate call",
                    );
                }
                token => {
                    nesting.count(&token)?;
                    self.check_neighbours(&plain, &token)?;
                    plain.push(token);
                }
            }
        }
        if plain.iter().all(|token| matches!(token, Token::Whitespace(_))) {
            return no("the SQL statement is empty: send one SELECT");
        }
        self.parse(plain)
    }

    /// Refuses a token that a database may join to the tokens before it.
    fn check_neighbours(&self, before: &[Token], token: &Token) -> Result<(), Refusal> {
        let last = before.iter().rfind(|token| !matches!(token, Token::Whitespace(_)));
        if is_string(token) && last.is_some_and(is_string) {
            return no(
                "two string literals are adjacent: write one string, or put || or a comma between \
                    them",
            );
        }
        if matches!(token, Token::Placeholder(_) | Token::Colon | Token::AtSign)
            && last == Some(&Token::Period)
        {
            return no("a parameter is used in place of a name: write the name itself");
        }
        match before {
            [.., Token::Number(..) | Token::Placeholder(_)] if is_solid(token) => {
                no("a number or parameter is followed by letters: put a space between them")
            }
            [.., last]
                if is_operator(last)
                    && is_operator(token)
                    && (last == token || !matches!(token, Token::Plus | Token::Minus)) =>
            {
                no("two operators are adjacent: put a space between them")
            }
            [.., Token::Word(word), Token::Whitespace(_)]
                if self.dialect == Dialect::Mysql
                    && *token == Token::LParen
                    && is_function_of_mysql(word) =>
            {
                no(format!(
                    "in MySQL `{0} (` may be a user-defined function: write `{0}(`",
                    word.value
                ))
            }
            _ => Ok(()),
        }
    }

    /// Returns the canonical text of a statement.
    pub(super) fn write(&self, statement: &Statement, sent: &str) -> Result<String, Refusal> {
        let text = statement.to_string();
        let located = self.split(&text)?;
        let tokens = Vec::from_iter(located.into_iter().map(|located| located.token));
        for (at, token) in tokens.iter().enumerate() {
            let joins = matches!(tokens.get(at + 1), Some(next) if joins(token, next));
            if joins || !self.has_one_meaning(token) {
                return no(format!(
                    "the SQL statement has no form that each server reads alike, at {}: write it \
                        in plainer SQL",
                    cut(&token.to_string(), 40)
                ));
            }
        }
        // A text in canonical form has been parsed already.
        if text != sent && self.parse(tokens)? != *statement {
            return no("the SQL statement cannot be printed without a change: write it in \
                plainer SQL");
        }
        Ok(text)
    }

    /// Splits a text into tokens. Quoted texts keep their escapes.
    fn split(&self, text: &str) -> Result<Vec<TokenWithSpan>, Refusal> {
        Tokenizer::new(self.grammar(), text)
            .with_unescape(false)
            .tokenize_with_location()
            .or_else(|error| unparsed(&error.to_string()))
    }

    /// Converts a token to the only form of it that is sent.
    fn plain(&self, sent: TokenWithSpan) -> Result<Token, Refusal> {
        let TokenWithSpan { token, span } = sent;
        Ok(match token {
            // Printed as a string of bytes, which is no number in some databases.
            Token::HexStringLiteral(digits)
                if span.end.column - span.start.column != digits.len() as u64 + 3 =>
            {
                return no("a number is written in hexadecimal: write it in decimal");
            }
            Token::DollarQuotedString(text) => string(&text.value),
            Token::EscapedStringLiteral(text) => string(&text),
            Token::DoubleQuotedString(text) if self.dialect == Dialect::Mysql => {
                if text.contains('"') {
                    return no("a string in double quotes holds a quote: use single quotes");
                }
                string(&text)
            }
            token => token,
        })
    }

    /// Returns whether a printed token has one meaning in the database, whatever its settings.
    fn has_one_meaning(&self, token: &Token) -> bool {
        let postgres = self.dialect == Dialect::Postgres;
        let sqlite = self.dialect == Dialect::Sqlite;
        match token {
            Token::Word(word) => is_name(word),
            Token::Number(digits, long) => !long && is_number(digits),
            Token::SingleQuotedString(text) => sqlite || quotes_are_plain(text),
            Token::NationalStringLiteral(text) => !sqlite && quotes_are_plain(text),
            Token::HexStringLiteral(text) => text.bytes().all(|b| b.is_ascii_hexdigit()),
            Token::SingleQuotedByteStringLiteral(text) => {
                !sqlite && text.bytes().all(|b| matches!(b, b'0' | b'1'))
            }
            Token::Placeholder(name) => {
                let digits = name.get(1..).unwrap_or("");
                digits.bytes().all(|b| b.is_ascii_digit()) && postgres == name.starts_with('$')
            }
            Token::Whitespace(space) => *space == Whitespace::Space,
            Token::LParen | Token::RParen | Token::Comma | Token::Period => true,
            Token::LBracket | Token::RBracket | Token::DoubleColon => postgres,
            Token::Colon => self.dialect != Dialect::Mysql,
            other => is_operator(other),
        }
    }

    fn grammar(&self) -> &'static dyn dialect::Dialect {
        match self.dialect {
            Dialect::Postgres => &PostgreSqlDialect {},
            Dialect::Mysql => &MySqlDialect {},
            Dialect::Sqlite => &SQLiteDialect {},
        }
    }

    fn parse(&self, tokens: Vec<Token>) -> Result<Statement, Refusal> {
        let dialect = Metered::new(self.grammar(), tokens.len(), self.effort);
        let mut parser =
            Parser::new(&dialect).with_recursion_limit(PARSER_DEPTH).with_tokens(tokens);
        // Not `parse_statements`, which stops at END and ignores the rest.
        let parsed = parser.parse_statement();
        if dialect.is_spent() {
            return no(TOO_LONG);
        }
        let statement = match parsed {
            Ok(statement) => statement,
            Err(ParserError::RecursionLimitExceeded) => {
                return no("the SQL statement is nested too deeply: reduce the nesting");
            }
            Err(ParserError::TokenizerError(words) | ParserError::ParserError(words)) => {
                return unparsed(&words);
            }
        };
        match parser.peek_token().token {
            Token::EOF => Ok(statement),
            rest => no(format!(
                "the SQL statement cannot be parsed from {} on: write it in plainer SQL",
                cut(&rest.to_string(), 40)
            )),
        }
    }
}

/// Returns the token of a string, whose quotes are doubled.
fn string(text: &str) -> Token {
    Token::SingleQuotedString(text.replace('\'', "''"))
}

fn is_string(token: &Token) -> bool {
    matches!(token, Token::SingleQuotedString(_))
}

fn unparsed<T>(words: &str) -> Result<T, Refusal> {
    no(format!("the SQL statement cannot be parsed ({}): write it in plainer SQL", short(words)))
}

/// Returns whether two adjacent tokens could be read as one.
fn joins(token: &Token, next: &Token) -> bool {
    is_operator(token) && is_operator(next) || is_solid(token) && is_solid(next)
}

fn is_operator(token: &Token) -> bool {
    !is_solid(token) && token.to_string().bytes().all(|b| SIGNS.contains(&b))
}

/// Returns whether a token is a word, a number or a literal.
fn is_solid(token: &Token) -> bool {
    matches!(
        token,
        Token::Word(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::NationalStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::SingleQuotedByteStringLiteral(_)
            | Token::Placeholder(_)
    )
}

/// Returns whether MySQL has a function of this name. It has a clause VALUES, too.
fn is_function_of_mysql(word: &Word) -> bool {
    let name = word.value.to_ascii_lowercase();
    let is_name = word.quote_style.is_none() && name != "values";
    is_name && functions::of(Dialect::Mysql).any(|known| known == name)
}

fn is_name(word: &Word) -> bool {
    let name = word.value.as_str();
    let Some(quote) = word.quote_style else {
        return name.len() <= MAX_NAME
            && !name.starts_with(|c: char| c.is_ascii_digit() || c == '$')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$'));
    };
    let close = if quote == '[' { ']' } else { quote };
    (1..=MAX_NAME).contains(&name.len()) && !name.contains(|c: char| c == close || c.is_control())
}

/// Returns whether a number has a fraction and an exponent at most.
fn is_number(text: &str) -> bool {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let mut digits = [whole, fraction, exponent].into_iter();
    !exponent.is_empty() && digits.all(|part| part.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns whether no quote follows an odd number of backslashes. Whether a backslash escapes a
/// quote depends on the settings of a server.
fn quotes_are_plain(text: &str) -> bool {
    let mut is_escaped = false;
    for c in text.chars() {
        if c == '\'' && is_escaped {
            return false;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    !is_escaped
}

// A bound on the depth of a statement's tree, from its tokens. The parser bounds the depth of
// parentheses, but not of chains of operators, which nest to the left.

/// Maximum number of tokens in an item of a list, on a path to the innermost parentheses.
const MAX_DEPTH: usize = 1000;
/// Limit of the open parentheses and brackets.
const MAX_OPEN: usize = 48;

/// The tokens counted so far.
#[derive(Default)]
pub(super) struct Nesting {
    open: Vec<Level>,
    current: Level,
    /// Chains of UNION nest too, and their items have commas.
    sets: usize,
}

/// The inside of a pair of parentheses.
#[derive(Clone, Copy, Default)]
struct Level {
    /// The tokens of the current item, outside of parentheses.
    tokens: usize,
    /// The depth of the deepest parentheses in the current item.
    inner: usize,
    /// The depth of the deepest earlier item.
    deepest: usize,
}

impl Level {
    fn depth(self) -> usize {
        self.deepest.max(self.tokens + self.inner)
    }
}

impl Nesting {
    /// Counts the next token. Fails once the tree could be too deep.
    pub(super) fn count(&mut self, token: &Token) -> Result<(), Refusal> {
        self.current.tokens += 1;
        match token {
            Token::Comma => {
                let deepest = self.current.depth();
                self.current = Level { deepest, ..Level::default() };
            }
            Token::LParen | Token::LBracket => self.open.push(std::mem::take(&mut self.current)),
            Token::RParen | Token::RBracket => {
                if let Some(outer) = self.open.pop() {
                    let inner = outer.inner.max(self.current.depth());
                    self.current = Level { inner, ..outer };
                }
            }
            Token::Word(word) => {
                let sets = [Keyword::UNION, Keyword::EXCEPT, Keyword::INTERSECT];
                self.sets += usize::from(sets.contains(&word.keyword));
            }
            _ => {}
        }
        if self.open.len() > MAX_OPEN || self.current.depth() + self.sets > MAX_DEPTH {
            return no(
                "the SQL statement is nested too deeply: use fewer parentheses, and IN (…) in \
                    place of long chains of OR",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
