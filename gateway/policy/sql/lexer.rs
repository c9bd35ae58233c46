//! Where the lexer stands in a statement, and what it has found so far. What stands there is for
//! `lex`, `quoted` and `operators`.

use sqlparser::tokenizer::Token;

use super::spec::Dialect;
use crate::Refusal;

/// A text on its way to tokens, and how far it has come.
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
    /// Square brackets that are open.
    pub(super) brackets: usize,
}

/// Whether a token is this word, not in quotes.
pub(super) fn is_word(token: &Token, word: &str) -> bool {
    let Token::Word(found) = token else { return false };
    found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word)
}

/// Whether a token is one of these words, not in quotes.
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

    /// The last token that is no space.
    pub(super) fn before(&self) -> Option<&Token> {
        self.tokens.iter().rfind(|token| !matches!(token, Token::Whitespace(_)))
    }

    pub(super) fn placeholder(&mut self, length: usize) -> Result<Token, Refusal> {
        if matches!(self.before(), Some(Token::Period)) {
            return no("a parameter stands where a name must stand: write the name itself");
        }
        let token = Token::Placeholder(self.text[self.at..self.at + length].to_owned());
        self.at += length;
        if let Some(b) = self.peek(0)
            && (b.is_ascii_alphanumeric()
                || matches!(b, b'_' | b'$' | b'(' | b'\'' | b'"' | 0x80..))
        {
            return no("a parameter runs into what follows it: put a space between them");
        }
        Ok(token)
    }
}
