//! A bound on the depth of a statement's tree, from its tokens. The parser bounds the depth of
//! parentheses, but not of chains of operators, which nest to the left.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use crate::Refusal;
use crate::refusal::no;

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
