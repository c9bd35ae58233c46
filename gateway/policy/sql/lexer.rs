//! The state of the lexer: its position in a statement, and the tokens so far. The text is
//! interpreted by `lex`, `quoted` and `operators`.

use sqlparser::tokenizer::Token;

use super::spec::Dialect;
use crate::Refusal;

pub(super) struct Lexer<'a> {
    pub(super) dialect: Dialect,
    pub(super) text: &'a str,
    pub(super) at: usize,
    pub(super) tokens: Vec<Token>,
    pub(super) end: usize,
    /// Tokens since the last comma, for each open parenthesis.
    pub(super) chains: Vec<usize>,
    pub(super) chained: usize,
    pub(super) ended: bool,
    /// The number of open square brackets.
    pub(super) brackets: usize,
}

/// Returns whether a token is this word, unquoted.
pub(super) fn is_word(token: &Token, word: &str) -> bool {
    let Token::Word(found) = token else { return false };
    found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word)
}

pub(super) fn is_one_of(token: &Token, words: &[&str]) -> bool {
    words.iter().any(|word| is_word(token, word))
}

pub(super) fn no<T>(words: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal(words.into()))
}

impl Lexer<'_> {
    pub(super) fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    pub(super) fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or("")
    }

    /// Returns the last token that is not a space.
    pub(super) fn before(&self) -> Option<&Token> {
        self.tokens.iter().rfind(|token| !matches!(token, Token::Whitespace(_)))
    }

    pub(super) fn placeholder(&mut self, length: usize) -> Result<Token, Refusal> {
        if matches!(self.before(), Some(Token::Period)) {
            return no("a parameter is used in place of a name: write the name itself");
        }
        let token = Token::Placeholder(self.text[self.at..self.at + length].to_owned());
        self.at += length;
        if let Some(b) = self.peek(0)
            && (b.is_ascii_alphanumeric()
                || matches!(b, b'_' | b'$' | b'(' | b'\'' | b'"' | 0x80..))
        {
            return no("a parameter is not separated from the next word: put a space between them");
        }
        Ok(token)
    }
}
