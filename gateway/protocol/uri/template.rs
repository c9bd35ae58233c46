//! The grammar of URI templates (RFC 6570, all levels): what an expression says. It matches no URI:
//! who describes resources and who serves them ask different things of one.

/// Longest prefix that a template can ask for.
pub const MAX_PREFIX: usize = 9999;

/// `{…}`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression<'a> {
    pub operator: Operator,
    /// One at least.
    pub variables: Vec<Variable<'a>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable<'a> {
    pub name: &'a str,
    pub modifier: Modifier,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modifier {
    None,
    /// `x:3`: at most this many characters, 1 to [`MAX_PREFIX`].
    Prefix(usize),
    /// `x*`
    Explode,
}

/// What kind of expression it is, by RFC 6570 section 3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `{x}`
    Simple,
    /// `{+x}`
    Reserved,
    /// `{#x}`
    Fragment,
    /// `{.x}`
    Label,
    /// `{/x}`
    Path,
    /// `{;x}`
    Parameters,
    /// `{?x}`
    Query,
    /// `{&x}`
    Continuation,
}

/// Why an expression cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressionError {
    /// A variable has no name, or one with other signs than letters, digits, `_`, `.`, `%` and `-`.
    Name,
    /// A prefix is no number from 1 to [`MAX_PREFIX`].
    Prefix,
}

impl<'a> Expression<'a> {
    /// What stands between the braces.
    ///
    /// # Errors
    /// The first variable that cannot be read.
    pub fn parse(inside: &'a str) -> Result<Self, ExpressionError> {
        let (operator, list) = Operator::split(inside);
        let mut variables = Vec::new();
        for text in list.split(',') {
            variables.push(Variable::parse(text)?);
        }
        Ok(Self { operator, variables })
    }
}

impl<'a> Variable<'a> {
    fn parse(text: &'a str) -> Result<Self, ExpressionError> {
        let (name, modifier) = if let Some(name) = text.strip_suffix('*') {
            (name, Modifier::Explode)
        } else if let Some((name, most)) = text.split_once(':') {
            let most = most.parse().map_err(|_| ExpressionError::Prefix)?;
            if !(1..=MAX_PREFIX).contains(&most) {
                return Err(ExpressionError::Prefix);
            }
            (name, Modifier::Prefix(most))
        } else {
            (text, Modifier::None)
        };
        if name.is_empty() || !name.bytes().all(is_name_byte) {
            return Err(ExpressionError::Name);
        }
        Ok(Self { name, modifier })
    }
}

/// The hyphen is not in the standard, but in names that servers give.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.%-".contains(&byte)
}

impl Operator {
    /// The operator of an expression, and its variables.
    fn split(inside: &str) -> (Self, &str) {
        let operator = match inside.bytes().next() {
            Some(b'+') => Self::Reserved,
            Some(b'#') => Self::Fragment,
            Some(b'.') => Self::Label,
            Some(b'/') => Self::Path,
            Some(b';') => Self::Parameters,
            Some(b'?') => Self::Query,
            Some(b'&') => Self::Continuation,
            _ => return (Self::Simple, inside),
        };
        (operator, &inside[1..])
    }

    /// What comes before the first value, if anything does.
    #[must_use]
    pub fn first(self) -> &'static str {
        match self {
            Self::Simple | Self::Reserved => "",
            Self::Fragment => "#",
            Self::Label => ".",
            Self::Path => "/",
            Self::Parameters => ";",
            Self::Query => "?",
            Self::Continuation => "&",
        }
    }

    /// What stands between values.
    #[must_use]
    pub fn between(self) -> char {
        match self {
            Self::Simple | Self::Reserved | Self::Fragment => ',',
            Self::Label => '.',
            Self::Path => '/',
            Self::Parameters => ';',
            Self::Query | Self::Continuation => '&',
        }
    }

    /// Values may have reserved characters.
    #[must_use]
    pub fn allows_reserved(self) -> bool {
        matches!(self, Self::Reserved | Self::Fragment)
    }

    /// Values have their variable's name before them.
    #[must_use]
    pub fn is_named(self) -> bool {
        matches!(self, Self::Parameters | Self::Query | Self::Continuation)
    }

    /// Values that are empty have a `=` after their name too.
    #[must_use]
    pub fn keeps_equals(self) -> bool {
        matches!(self, Self::Query | Self::Continuation)
    }
}

#[cfg(test)]
mod tests;
