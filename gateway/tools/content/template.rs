//! Matching of URIs against URI templates (RFC 6570, all levels). Each template is a regular
//! expression without backtracking, so that no URI takes long. An exploded variable is one string:
//! its items with the separator that they have in the URI, or with commas where the URI repeats its
//! name.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};

use lockgate_protocol::uri::template::{self, Expression, ExpressionError, Modifier, Operator};
use lockgate_text::percent;
use regex::Regex;

/// Maximum sizes of a template, a URI and a value.
const TEMPLATE_BYTES: usize = 1024;
const URI_BYTES: usize = 4096;
const VALUE_BYTES: usize = 1024;
/// Maximum number of variables.
const MAX_VARIABLES: usize = 20;

/// Values by variable.
pub(super) type Values = BTreeMap<String, String>;

#[derive(Debug)]
pub(super) struct UriTemplate {
    pattern: Regex,
    /// The contents of each capture group, in order.
    groups: Vec<Group>,
}

#[derive(Debug)]
enum Group {
    One(Variable),
    /// `name=value` pairs with this separator, in any order. Only exploded variables may be
    /// repeated.
    Pairs(char, Vec<Variable>),
}

#[derive(Debug)]
struct Variable {
    name: String,
    /// `x:3`: at most this many characters.
    most: Option<usize>,
    /// `x*`
    exploded: bool,
}

/// Character classes of values: unreserved; unreserved without the dot, for labels; reserved, too;
/// and the classes of parameters and queries.
const UNRESERVED: &str = "A-Za-z0-9._~-";
const UNDOTTED: &str = "A-Za-z0-9_~-";
const ANY: &str = "A-Za-z0-9._~:/?#\\[\\]@!$&'()*+,;=-";
const IN_PARAMETERS: &str = "A-Za-z0-9._~;=-";
const IN_QUERY: &str = "A-Za-z0-9._~=&-";

const NO_NAME: &str = "has an invalid expression: names have letters, digits and _";

fn no_length() -> String {
    format!("has a length that is not 1 to {VALUE_BYTES}")
}

impl UriTemplate {
    pub(super) fn parse(template: &str) -> Result<Self, String> {
        if template.len() > TEMPLATE_BYTES {
            return Err(format!("is longer than {TEMPLATE_BYTES} bytes"));
        }
        let mut made =
            Making { pattern: String::from("^(?:"), groups: Vec::new(), names: Vec::new() };
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            made.literal(before)?;
            let Some((inside, after)) = after.split_once('}') else {
                return Err("a { is not closed".into());
            };
            made.expression(inside)?;
            rest = after;
        }
        made.literal(rest)?;
        if made.names.is_empty() {
            return Err("has no variable; list it among the resources".into());
        }
        made.pattern.push_str(")$");
        let pattern = Regex::new(&made.pattern).map_err(|_| "is too large")?;
        Ok(Self { pattern, groups: made.groups })
    }

    pub(super) fn names(&self) -> HashSet<&str> {
        let mut names = HashSet::new();
        for group in &self.groups {
            let variables = match group {
                Group::One(variable) => std::slice::from_ref(variable),
                Group::Pairs(_, variables) => variables.as_slice(),
            };
            names.extend(variables.iter().map(|variable| variable.name.as_str()));
        }
        names
    }

    /// Returns the decoded values for which the template expands to this URI, if any.
    pub(super) fn values(&self, uri: &str) -> Option<Values> {
        if uri.len() > URI_BYTES {
            return None;
        }
        let captures = self.pattern.captures(uri)?;
        let mut values = Values::new();
        for (at, group) in self.groups.iter().enumerate() {
            let Some(found) = captures.get(at + 1) else { continue };
            match group {
                Group::One(variable) => {
                    values.insert(variable.name.clone(), decoded(found.as_str())?);
                }
                Group::Pairs(between, variables) => {
                    for pair in found.as_str().split(*between) {
                        if pair.is_empty() {
                            continue;
                        }
                        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                        let variable = variables.iter().find(|known| known.name == name)?;
                        variable.put(decoded(value)?, &mut values)?;
                    }
                }
            }
        }
        Some(values)
    }
}

impl Variable {
    /// Converts a template's variable, if it is within the limits.
    fn new(variable: &template::Variable<'_>) -> Result<Self, String> {
        let name = variable.name;
        if name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            return Err(NO_NAME.into());
        }
        let (most, exploded) = match variable.modifier {
            Modifier::None => (None, false),
            Modifier::Prefix(most) if most > VALUE_BYTES => return Err(no_length()),
            Modifier::Prefix(most) => (Some(most), false),
            Modifier::Explode => (None, true),
        };
        Ok(Self { name: name.to_owned(), most, exploded })
    }

    /// Returns the capture group of its value: characters of this class, and this separator between
    /// items.
    fn group(&self, class: &str, between: &str) -> String {
        let one = character(class);
        match self.most {
            Some(most) => format!("({one}{{1,{most}}})"),
            None if self.exploded => format!("({one}+(?:{between}{one}+)*)"),
            None => format!("({one}+)"),
        }
    }

    /// Adds a value of a `name=value` pair. Returns `None` if the variable cannot have it.
    fn put(&self, value: String, values: &mut Values) -> Option<()> {
        if let Some(most) = self.most
            && value.chars().count() > most
        {
            return None;
        }
        match values.entry(self.name.clone()) {
            Entry::Vacant(place) => {
                place.insert(value);
            }
            Entry::Occupied(mut place) if self.exploded => {
                place.get_mut().push(',');
                place.get_mut().push_str(&value);
            }
            Entry::Occupied(_) => return None,
        }
        Some(())
    }
}

/// Returns the pattern of a character of this class, plain or percent-encoded.
fn character(class: &str) -> String {
    format!("(?:[{class}]|%[0-7][0-9A-Fa-f]|%[C-Fc-f][0-9A-Fa-f](?:%[89ABab][0-9A-Fa-f]){{1,3}})")
}

/// A pattern under construction.
struct Making {
    pattern: String,
    groups: Vec<Group>,
    names: Vec<String>,
}

impl Making {
    fn literal(&mut self, text: &str) -> Result<(), String> {
        if let Some(c) = text.chars().find(|c| c.is_control() || " \"'<>\\^`{|}".contains(*c)) {
            return Err(format!("has {c:?}, which is invalid in a URI"));
        }
        self.pattern.push_str(&regex::escape(text));
        Ok(())
    }

    fn expression(&mut self, inside: &str) -> Result<(), String> {
        let expression = Expression::parse(inside).map_err(|error| match error {
            ExpressionError::Name => NO_NAME.to_owned(),
            ExpressionError::Prefix => no_length(),
        })?;
        let mut variables = Vec::new();
        for variable in &expression.variables {
            let variable = Variable::new(variable)?;
            if self.names.contains(&variable.name) {
                return Err("has a variable twice".into());
            }
            self.names.push(variable.name.clone());
            variables.push(variable);
        }
        if self.names.len() > MAX_VARIABLES {
            return Err(format!("has more than {MAX_VARIABLES} variables"));
        }
        let operator = expression.operator;
        let class = match operator {
            Operator::Simple | Operator::Path => UNRESERVED,
            Operator::Reserved | Operator::Fragment => ANY,
            Operator::Label => UNDOTTED,
            Operator::Parameters => IN_PARAMETERS,
            Operator::Query | Operator::Continuation => IN_QUERY,
        };
        if operator.is_named() {
            self.pairs(operator, class, variables);
        } else {
            self.values(operator, class, variables);
        }
        Ok(())
    }

    /// Adds the pattern of values without names. Operators with a prefix are optional as a whole;
    /// the others require a value.
    fn values(&mut self, operator: Operator, class: &str, variables: Vec<Variable>) {
        let first = operator.first();
        let between = regex::escape(operator.between().encode_utf8(&mut [0; 4]));
        let vanishes = !first.is_empty();
        self.pattern.push_str(if vanishes { "(?:" } else { "" });
        for (at, variable) in variables.into_iter().enumerate() {
            if at == 0 {
                self.pattern.push_str(&regex::escape(first));
            } else {
                self.pattern.push_str(&between);
            }
            self.pattern.push_str(&variable.group(class, &between));
            self.groups.push(Group::One(variable));
        }
        self.pattern.push_str(if vanishes { ")?" } else { "" });
    }

    /// Adds the pattern of `;a=1;b=2`, `?a=1&b=2` or `&a=1&b=2`, or of an empty text.
    fn pairs(&mut self, operator: Operator, class: &str, variables: Vec<Variable>) {
        let mark = regex::escape(operator.first());
        self.pattern.push_str(&format!("(?:{mark}({}*))?", character(class)));
        self.groups.push(Group::Pairs(operator.between(), variables));
    }
}

/// Percent-decodes a value. Rejects control characters.
fn decoded(text: &str) -> Option<String> {
    let value = String::from_utf8(percent::decode_strictly(text)?).ok()?;
    if value.len() > VALUE_BYTES || value.contains(char::is_control) {
        return None;
    }
    Some(value)
}

#[cfg(test)]
mod tests;
