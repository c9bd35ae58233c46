//! The grammar of URI templates (RFC 6570, all levels). Expressions are parsed, but not matched
//! with URIs, for which callers have different rules.

/// Maximum prefix length that a template can request.
pub const MAX_PREFIX: usize = 9999;

/// `{…}`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression<'a> {
    pub operator: Operator,
    /// At least one.
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

/// The operator of an expression, as in RFC 6570 section 3.2.
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

/// The reason why an expression cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressionError {
    /// A variable's name is empty or has characters other than letters, digits, `_`, `.`, `%`, `-`.
    Name,
    /// A prefix is not a number from 1 to [`MAX_PREFIX`].
    Prefix,
}

impl<'a> Expression<'a> {
    /// Parses the text between the braces.
    ///
    /// # Errors
    /// The first variable that cannot be parsed.
    pub fn parse(inside: &'a str) -> Result<Self, ExpressionError> {
        let (operator, list) = Operator::split(inside);
        let variables: Result<_, _> = list.split(',').map(Variable::parse).collect();
        Ok(Self { operator, variables: variables? })
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

/// Accepts the hyphen too, which is not in the standard but in servers' names.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.%-".contains(&byte)
}

impl Operator {
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

    /// Returns the text before the first value.
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

    /// Returns the separator between values.
    pub fn between(self) -> char {
        match self {
            Self::Simple | Self::Reserved | Self::Fragment => ',',
            Self::Label => '.',
            Self::Path => '/',
            Self::Parameters => ';',
            Self::Query | Self::Continuation => '&',
        }
    }

    /// Returns whether values may have reserved characters.
    pub fn allows_reserved(self) -> bool {
        matches!(self, Self::Reserved | Self::Fragment)
    }

    /// Returns whether values are preceded by their variable's name.
    pub fn is_named(self) -> bool {
        matches!(self, Self::Parameters | Self::Query | Self::Continuation)
    }

    /// Returns whether empty values have a `=` after their name.
    pub fn keeps_equals(self) -> bool {
        matches!(self, Self::Query | Self::Continuation)
    }
}

#[cfg(test)]
mod tests;
