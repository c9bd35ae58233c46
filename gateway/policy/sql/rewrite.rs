//! Rewrites syntax that the parser does not support to equivalent syntax that it does. The
//! rewritten tokens are only checked: the text is forwarded as sent. Words that only the database
//! reserves are rewritten where they have no other meaning.

use sqlparser::tokenizer::{Token, Whitespace};

use super::lexer::{is_one_of, is_word};
use super::names::is_type;
use super::reserved::is_reserved;
use super::spec::Dialect;

/// PostgreSQL functions with their own grammar for arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    /// `xmlforest(a AS b)`, `xmlattributes(a AS b)`.
    Labelled,
    /// `xmlserialize(CONTENT a AS text)`, checked as a cast in its parentheses.
    Serialize,
    /// `xmlroot(a, VERSION '1.0', STANDALONE YES)`.
    Root,
    /// `xmlexists('//a' PASSING a)`.
    Exists,
    Other,
}

/// Words before a value.
const BEFORE_VALUES: [&str; 17] = [
    "all", "and", "between", "by", "distinct", "else", "having", "ilike", "in", "like", "not",
    "on", "or", "select", "then", "when", "where",
];

struct Rewriter<'a> {
    tokens: &'a [Token],
    at: usize,
    done: Vec<Token>,
    calls: Vec<Call>,
}

/// Rewrites the tokens of a statement for the parser.
pub(super) fn rewrite(tokens: Vec<Token>, dialect: Dialect) -> Vec<Token> {
    let step = match dialect {
        Dialect::Postgres => Rewriter::postgres,
        Dialect::Sqlite => Rewriter::sqlite,
        Dialect::Mysql => return tokens,
    };
    let mut rewriter = Rewriter {
        tokens: &tokens,
        at: 0,
        done: Vec::with_capacity(tokens.len() + 8),
        calls: Vec::new(),
    };
    while let Some(token) = tokens.get(rewriter.at) {
        if !step(&mut rewriter, token) {
            rewriter.done.push(token.clone());
            rewriter.at += 1;
        }
    }
    rewriter.done
}

impl Rewriter<'_> {
    /// Rewrites the current token; returns false if it stays as it is.
    fn postgres(&mut self, token: &Token) -> bool {
        match token {
            Token::LParen => self.open(),
            Token::RParen => self.close(),
            _ if is_word(token, "table") => self.table(),
            _ if is_word(token, "only") => self.only(),
            _ if is_word(token, "for") => self.read_only(),
            _ if is_word(token, "as") => self.label(),
            _ if is_word(token, "document") => self.document(),
            _ if is_word(token, "passing") => self.passing(),
            _ if is_word(token, "version") || is_word(token, "standalone") => self.root(token),
            _ if is_word(token, "fetch") => self.fetch(),
            Token::Word(_) => self.typed_text(token),
            _ => false,
        }
    }

    fn sqlite(&mut self, token: &Token) -> bool {
        match token {
            // `&` has the same precedence, and its operands are checked alike.
            Token::ShiftLeft | Token::ShiftRight => {
                self.put([Token::Ampersand]);
                return self.go_past(1);
            }
            _ if is_word(token, "is") => return self.compares(),
            _ => {}
        }
        if is_word(token, "materialized") {
            return self.is_before(1, "as") && self.follows(&["", "("]) && self.go_past(1);
        }
        if is_word(token, "not") {
            if self.is_before(1, "as") && self.follows(&["", "materialized", "("]) {
                return self.go_past(2);
            }
            return self.after_a_name() && self.follows(&["", "indexed"]) && self.go_past(2);
        }
        is_word(token, "indexed")
            && self.after_a_name()
            && self.follows(&["", "by"])
            && self.is_name_ahead(2)
            && self.go_past(3)
    }

    /// Rewrites `TABLE t` to `SELECT * FROM t`, where a query may begin.
    fn table(&mut self) -> bool {
        let begins = match self.before(1) {
            None | Some(Token::LParen | Token::RParen) => true,
            Some(before) if is_one_of(before, &["explain", "verbose"]) => true,
            Some(before) if is_one_of(before, &["all", "distinct"]) => {
                matches!(self.before(2), Some(before) if is_set_operator(before))
            }
            Some(before) => is_set_operator(before),
        };
        if !begins || !self.is_name_ahead(1) {
            return false;
        }
        self.put([word("SELECT"), Token::Mul, word("FROM")]);
        self.go_past(1)
    }

    /// Rewrites `ONLY t` and `ONLY (t)`, which exclude the rows of inheriting tables, to `t`.
    fn only(&mut self) -> bool {
        let names_table = match self.before(1) {
            Some(Token::Comma) => true,
            Some(before) => is_one_of(before, &["from", "join", "using", "update"]),
            None => false,
        };
        if !names_table {
            return false;
        }
        if self.ahead(1) != Some(&Token::LParen) {
            return self.is_name_ahead(1) && self.go_past(1);
        }
        let mut name = Vec::new();
        let mut ahead = 2;
        while let Some(part @ (Token::Word(_) | Token::Period)) = self.ahead(ahead) {
            name.push(part.clone());
            ahead += 1;
        }
        if name.is_empty() || self.ahead(ahead) != Some(&Token::RParen) {
            return false;
        }
        self.put(name);
        self.go_past(ahead + 1)
    }

    /// Removes `FOR READ ONLY`, which locks nothing.
    fn read_only(&mut self) -> bool {
        let ends = match self.ahead(3) {
            None | Some(Token::RParen) => true,
            Some(after) => is_one_of(after, &["limit", "offset", "fetch"]),
        };
        ends && self.follows(&["", "read", "only"]) && self.go_past(3)
    }

    /// Records an opening parenthesis, and rewrites the beginning of the call's arguments.
    fn open(&mut self) -> bool {
        let name = match self.before(1) {
            Some(Token::Word(word)) if word.quote_style.is_none() => {
                word.value.to_ascii_lowercase()
            }
            _ => String::new(),
        };
        let call = match name.as_str() {
            "xmlforest" | "xmlattributes" => Call::Labelled,
            "xmlroot" => Call::Root,
            "xmlexists" => Call::Exists,
            "xmlserialize"
                if self.follows(&["(", "content"]) || self.follows(&["(", "document"]) =>
            {
                Call::Serialize
            }
            _ => Call::Other,
        };
        self.calls.push(call);
        if call == Call::Serialize {
            self.put([Token::LParen, word("CAST"), Token::LParen]);
            return self.go_past(2);
        }
        let named = matches!(name.as_str(), "xmlelement" | "xmlpi") && self.follows(&["(", "name"]);
        if named && let Some(Token::Word(label)) = self.ahead(2) {
            let label = label.value.clone();
            self.put([Token::LParen, Token::SingleQuotedString(label)]);
            return self.go_past(3);
        }
        false
    }

    fn close(&mut self) -> bool {
        if self.calls.pop() == Some(Call::Serialize) {
            self.put([Token::RParen]);
        }
        false
    }

    /// Removes the label of an argument: the name of an element or attribute.
    fn label(&mut self) -> bool {
        let ends = matches!(self.ahead(2), Some(Token::Comma | Token::RParen));
        let is_label = ends && self.is_name_ahead(1);
        is_label && self.calls.last() == Some(&Call::Labelled) && self.go_past(2)
    }

    /// Rewrites `a IS DOCUMENT` to `a IS NULL`: both test a value.
    fn document(&mut self) -> bool {
        let back = if self.is_before(1, "not") { 2 } else { 1 };
        if !self.is_before(back, "is") {
            return false;
        }
        self.put([word("NULL")]);
        self.go_past(1)
    }

    /// Removes the parentheses around the number of `FETCH FIRST (5) ROWS ONLY`.
    fn fetch(&mut self) -> bool {
        let number = match (self.ahead(2), self.ahead(3), self.ahead(4)) {
            (Some(Token::LParen), Some(number @ Token::Number(..)), Some(Token::RParen)) => {
                number.clone()
            }
            _ => return false,
        };
        if !(self.follows(&["", "first"]) || self.follows(&["", "next"])) {
            return false;
        }
        self.put([word("FETCH"), word("FIRST"), number]);
        self.go_past(5)
    }

    /// Rewrites `inet '10.0.0.1'` to a cast, where a value may begin.
    fn typed_text(&mut self, token: &Token) -> bool {
        let Token::Word(name) = token else { return false };
        let Some(text @ Token::SingleQuotedString(_)) = self.ahead(1) else { return false };
        let begins = match self.before(1) {
            None
            | Some(
                Token::RParen | Token::RBracket | Token::Period | Token::SingleQuotedString(_),
            ) => false,
            Some(Token::Word(before)) => {
                before.quote_style.is_none()
                    && BEFORE_VALUES.contains(&before.value.to_ascii_lowercase().as_str())
            }
            Some(_) => true,
        };
        if !begins || name.quote_style.is_some() || !is_type(&name.value) {
            return false;
        }
        let text = text.clone();
        self.put([word("CAST"), Token::LParen, text, word("AS"), token.clone(), Token::RParen]);
        self.go_past(2)
    }

    /// Rewrites `a IS 'b'` of SQLite to `=`, which differs only for NULL.
    fn compares(&mut self) -> bool {
        const OTHERS: [&str; 6] = ["null", "true", "false", "distinct", "json", "not"];
        let not = self.follows(&["", "not"]);
        let words = if not { 2 } else { 1 };
        let Some(operand) = self.ahead(words) else { return false };
        if is_one_of(operand, &OTHERS) {
            return false;
        }
        self.put([if not { Token::Neq } else { Token::Eq }]);
        self.go_past(words)
    }

    fn passing(&mut self) -> bool {
        if self.calls.last() != Some(&Call::Exists) {
            return false;
        }
        self.put([Token::Comma]);
        let by = self.follows(&["", "by", "ref"]) || self.follows(&["", "by", "value"]);
        self.go_past(if by { 3 } else { 1 })
    }

    fn root(&mut self, token: &Token) -> bool {
        if self.calls.last() != Some(&Call::Root) || self.before(1) != Some(&Token::Comma) {
            return false;
        }
        let skipped = if self.follows(&["", "no", "value"]) {
            3
        } else if is_word(token, "version") {
            return self.go_past(1);
        } else if self.follows(&["", "yes"]) || self.follows(&["", "no"]) {
            2
        } else {
            return false;
        };
        self.put([word("NULL")]);
        self.go_past(skipped)
    }

    /// Returns the last token written, or one further back, ignoring spaces; `back` counts from 1.
    fn before(&self, back: usize) -> Option<&Token> {
        self.done.iter().rev().filter(|token| !is_space(token)).nth(back - 1)
    }

    /// Returns the token at a distance, ignoring spaces; the current token is at 0.
    fn ahead(&self, count: usize) -> Option<&Token> {
        self.tokens[self.at..].iter().filter(|token| !is_space(token)).nth(count)
    }

    /// Returns whether these words and parentheses follow; `""` matches any token.
    fn follows(&self, words: &[&str]) -> bool {
        for (count, wanted) in words.iter().enumerate() {
            let stands = match (self.ahead(count), *wanted) {
                (Some(_), "") | (Some(Token::LParen), "(") => true,
                (Some(token), wanted) => is_word(token, wanted),
                (None, _) => false,
            };
            if !stands {
                return false;
            }
        }
        true
    }

    /// Returns whether this word was written last, or further back.
    fn is_before(&self, back: usize, word: &str) -> bool {
        matches!(self.before(back), Some(before) if is_word(before, word))
    }

    fn is_name_ahead(&self, count: usize) -> bool {
        matches!(self.ahead(count), Some(Token::Word(_)))
    }

    /// Returns whether the name of a table, or its alias, was written last.
    fn after_a_name(&self) -> bool {
        match self.before(1) {
            Some(Token::Word(word)) => {
                word.quote_style.is_some() || !is_reserved(Dialect::Sqlite, &word.value)
            }
            _ => false,
        }
    }

    /// Skips tokens, not counting spaces. Always returns true.
    fn go_past(&mut self, count: usize) -> bool {
        let mut left = count;
        while left > 0
            && let Some(token) = self.tokens.get(self.at)
        {
            left -= usize::from(!is_space(token));
            self.at += 1;
        }
        true
    }

    fn put(&mut self, tokens: impl IntoIterator<Item = Token>) {
        for token in tokens {
            if matches!(token, Token::Word(_)) && matches!(self.done.last(), Some(Token::Word(_))) {
                self.done.push(Token::Whitespace(Whitespace::Space));
            }
            self.done.push(token);
        }
        self.done.push(Token::Whitespace(Whitespace::Space));
    }
}

fn word(text: &str) -> Token {
    Token::make_word(text, None)
}

fn is_space(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_))
}

fn is_set_operator(token: &Token) -> bool {
    is_one_of(token, &["union", "intersect", "except"])
}
