//! URI templates (RFC 6570, levels 1 to 3) and which values a URI has for their variables. Matching is by one regular
//! expression without backtracking, so that no URI takes long.

use std::collections::BTreeMap;

use regex::Regex;

/// Longest template, URI and value.
const TEMPLATE_BYTES: usize = 1024;
const URI_BYTES: usize = 4096;
const VALUE_BYTES: usize = 1024;
/// Most variables.
const VARIABLES: usize = 20;

/// Values by variable.
pub(super) type Values = BTreeMap<String, String>;

#[derive(Debug)]
pub(super) struct UriTemplate {
    pattern: Regex,
    /// Variables in order; for each capture group of the pattern what it holds.
    groups: Vec<Group>,
}

#[derive(Debug)]
enum Group {
    /// One value.
    One(String),
    /// `name=value` pairs of these names, in any order, each once or not at all.
    Pairs(Vec<String>),
}

/// What may stand in a value: unreserved characters and escapes; without the dot for labels; or reserved ones as well.
const UNRESERVED: &str = "(?:[A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})";
const UNDOTTED: &str = "(?:[A-Za-z0-9_~-]|%[0-9A-Fa-f]{2})";
const ANY: &str = "(?:[A-Za-z0-9._~:/?#\\[\\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})";
const IN_QUERY: &str = "(?:[A-Za-z0-9._~=&-]|%[0-9A-Fa-f]{2})";

impl UriTemplate {
    pub(super) fn parse(template: &str) -> Result<Self, String> {
        if template.len() > TEMPLATE_BYTES {
            return Err(format!("is longer than {TEMPLATE_BYTES} bytes"));
        }
        let mut made = Making { pattern: String::from("^(?:"), groups: Vec::new(), names: Vec::new() };
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            made.literal(before)?;
            let (inside, after) = after.split_once('}').ok_or("a { is not closed")?;
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

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.groups
            .iter()
            .flat_map(|group| match group {
                Group::One(name) => std::slice::from_ref(name),
                Group::Pairs(names) => names.as_slice(),
            })
            .map(String::as_str)
    }

    /// The values that make this URI of the template, decoded; `None` when nothing does.
    pub(super) fn values(&self, uri: &str) -> Option<Values> {
        if uri.len() > URI_BYTES {
            return None;
        }
        let captures = self.pattern.captures(uri)?;
        let mut values = Values::new();
        for (at, group) in self.groups.iter().enumerate() {
            let Some(found) = captures.get(at + 1) else { continue };
            match group {
                Group::One(name) => {
                    values.insert(name.clone(), decoded(found.as_str())?);
                }
                Group::Pairs(names) => {
                    for pair in found.as_str().split('&').filter(|pair| !pair.is_empty()) {
                        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                        let known = names.iter().find(|known| *known == name)?;
                        if values.insert(known.clone(), decoded(value)?).is_some() {
                            return None;
                        }
                    }
                }
            }
        }
        Some(values)
    }
}

/// A template on its way to a pattern.
struct Making {
    pattern: String,
    groups: Vec<Group>,
    names: Vec<String>,
}

impl Making {
    fn literal(&mut self, text: &str) -> Result<(), String> {
        if let Some(c) = text.chars().find(|c| c.is_control() || " \"'<>\\^`{|}".contains(*c)) {
            return Err(format!("has {c:?}, which no URI has"));
        }
        self.pattern.push_str(&regex::escape(text));
        Ok(())
    }

    fn expression(&mut self, inside: &str) -> Result<(), String> {
        let operator = inside.chars().next().filter(|c| "+#./;?&".contains(*c));
        let list = &inside[operator.map_or(0, char::len_utf8)..];
        let mut names = Vec::new();
        for name in list.split(',') {
            let plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if !plain {
                return Err("has an expression that is not of level 1 to 3: names are of letters, digits and _".into());
            }
            if self.names.iter().any(|known| known == name) {
                return Err("has a variable twice".into());
            }
            self.names.push(name.to_owned());
            names.push(name.to_owned());
        }
        if self.names.len() > VARIABLES {
            return Err(format!("has more than {VARIABLES} variables"));
        }
        let (first, between, value) = match operator {
            None => ("", ",", UNRESERVED),
            Some('+') => ("", ",", ANY),
            Some('#') => ("#", ",", ANY),
            Some('.') => (".", ".", UNDOTTED),
            Some('/') => ("/", "/", UNRESERVED),
            Some(';') => {
                self.parameters(names);
                return Ok(());
            }
            Some(mark) => {
                self.query(mark, names);
                return Ok(());
            }
        };
        for (at, name) in names.into_iter().enumerate() {
            let sign = regex::escape(if at == 0 { first } else { between });
            self.pattern.push_str(&format!("{sign}({value}+)"));
            self.groups.push(Group::One(name));
        }
        Ok(())
    }

    /// `;a=1;b=2`, each of which may be missing.
    fn parameters(&mut self, names: Vec<String>) {
        for name in names {
            self.pattern.push_str(&format!("(?:;{name}(?:=({UNRESERVED}*))?)?"));
            self.groups.push(Group::One(name));
        }
    }

    /// `?a=1&b=2` or `&a=1&b=2`.
    fn query(&mut self, mark: char, names: Vec<String>) {
        let mark = regex::escape(&mark.to_string());
        self.pattern.push_str(&format!("(?:{mark}({IN_QUERY}*))?"));
        self.groups.push(Group::Pairs(names));
    }
}

/// A value without its escapes: text without control characters.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
        }
    }
    let value = String::from_utf8(bytes).ok()?;
    (value.len() <= VALUE_BYTES && !value.chars().any(char::is_control)).then_some(value)
}

#[cfg(test)]
mod tests;
