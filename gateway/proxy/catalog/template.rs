//! Resources of a view, and the templates (RFC 6570, all levels) that match unlisted ones in time
//! proportional to the URI for each variable, within a budget. Errs towards no match: for templates
//! that cannot be parsed, pairs in another order, `/` for `{x}`, and reserved names of pairs.
//! Accepts the encodings that clients use: unneeded escapes, and `!*'()`, which
//! `encodeURIComponent` leaves unescaped. Values of a repeated variable may differ.

use std::borrow::Cow;
use std::sync::Arc;

use lockgate_policy::TargetKind;
use lockgate_protocol::uri::template::{Expression, Modifier, Variable};
use lockgate_protocol::uri::{self, Form, MAX_URI};
use lockgate_text::percent;
use lockgate_upstream::{ListKind, ResourceUpdate};

use crate::catalog::entry::{FoundResource, category, index, unlisted_target};
use crate::catalog::view::View;

/// Longest template that matches anything.
const TEMPLATE_BYTES: usize = 2048;
const MAX_VARIABLES: usize = 32;

/// Steps for each byte of the URI, per variable and per literal.
const STEPS_OF_VARIABLE: usize = 8;
const STEPS_OF_TEXT: usize = 2;
/// Bytes of a common prefix that are compared per step.
const BYTES_OF_STEP: usize = 8;

/// Remaining budget for matching URIs against templates, roughly in positions of a URI that are
/// visited. It keeps long URIs and many templates from occupying a thread. Once it is used up,
/// nothing matches.
pub(crate) struct Steps(usize);

impl Steps {
    /// Budget of a request, some hundredths of a second.
    const OF_REQUEST: usize = 8_000_000;

    pub(crate) fn of_request() -> Self {
        Self(Self::OF_REQUEST)
    }

    /// Deducts steps; returns `false` once the budget is used up.
    fn take(&mut self, steps: usize) -> bool {
        self.0 = self.0.saturating_sub(steps);
        self.0 > 0
    }
}

fn describes(template: &str, uri: &str, steps: &mut Steps) -> bool {
    if template.len() > TEMPLATE_BYTES || uri.len() > MAX_URI {
        return false;
    }
    let whole = Uri(uri.as_bytes());
    if !steps.take(1 + bytes_alike(template, uri) / BYTES_OF_STEP) {
        return false;
    }
    let Some(open) = template.find('{') else {
        return !template.contains('}') && whole.text(0, template) == Some(uri.len());
    };
    // Comparing the literal ends is cheap and rules out most templates.
    let (first, mut rest) = template.split_at(open);
    let last = template.rsplit(|c| !stays(c)).next().unwrap_or("");
    let Some(begin) = whole.text(0, first) else { return false };
    if !uri.ends_with(last) {
        return false;
    }
    let uri = Uri(&uri.as_bytes()[begin..]);
    let mut variables = 0;
    let mut places = uri.nowhere();
    places[0] = true;
    while let Some((literal, after)) = rest.split_once('{') {
        let Some((inside, after)) = after.split_once('}') else { return false };
        let Ok(expression) = Expression::parse(inside) else { return false };
        variables += expression.variables.len();
        let cost = uri.cost(&places, literal)
            + STEPS_OF_VARIABLE * places.len() * expression.variables.len();
        if variables > MAX_VARIABLES || !steps.take(cost) {
            return false;
        }
        places = uri.literal(&places, literal);
        if !places.contains(&true) {
            return false;
        }
        (places, rest) = (uri.expression(&places, &expression), after);
    }
    !rest.contains('}')
        && steps.take(uri.cost(&places, rest))
        && uri.literal(&places, rest).last() == Some(&true)
}

fn bytes_alike(one: &str, other: &str) -> usize {
    let mut alike = 0;
    for (a, b) in one.bytes().zip(other.bytes()) {
        if a != b {
            break;
        }
        alike += 1;
    }
    alike
}

/// Returns whether a literal character is never percent-encoded in an expansion.
fn stays(c: char) -> bool {
    c == '%' || matches!(u8::try_from(c), Ok(byte) if is_legal(byte, true))
}

/// For each position in a URI, including its end, whether a prefix of the template can end there.
type Places = Vec<bool>;

#[derive(Clone, Copy)]
struct Uri<'a>(&'a [u8]);

impl Uri<'_> {
    fn nowhere(self) -> Places {
        vec![false; self.0.len() + 1]
    }

    /// Applies `way` to each set position.
    fn moved(self, from: &[bool], way: impl Fn(usize) -> Option<usize>) -> Places {
        let mut to = self.nowhere();
        for (at, &here) in from.iter().enumerate() {
            if here && let Some(end) = way(at) {
                to[end] = true;
            }
        }
        to
    }

    /// Estimates the steps to match a literal.
    fn cost(self, from: &[bool], text: &str) -> usize {
        STEPS_OF_TEXT * from.len() + text.len() * from.iter().filter(|&&here| here).count()
    }

    fn literal(self, from: &[bool], text: &str) -> Places {
        if text.chars().all(stays) {
            return self.moved(from, |at| self.end_of(at, text.as_bytes()));
        }
        self.moved(from, |at| self.text(at, text))
    }

    /// Returns the end of a literal that begins at `at`.
    fn text(self, mut at: usize, text: &str) -> Option<usize> {
        for c in text.chars() {
            let mut buffer = [0; 4];
            let raw = c.encode_utf8(&mut buffer).as_bytes();
            at = if self.is(at, raw) {
                at + raw.len()
            } else if stays(c) {
                return None;
            } else {
                self.character(at, Some(c))?
            };
        }
        Some(at)
    }

    fn is(self, at: usize, text: &[u8]) -> bool {
        self.0.get(at..at + text.len()) == Some(text)
    }

    /// Returns the end of exactly these bytes at `at`.
    fn end_of(self, at: usize, text: &[u8]) -> Option<usize> {
        if self.is(at, text) { Some(at + text.len()) } else { None }
    }

    /// Returns the end of an escaped character at `at`; `None` for `wanted` accepts any.
    fn character(self, at: usize, wanted: Option<char>) -> Option<usize> {
        let first = percent::byte(self.0, at)?;
        let length = match first {
            0..0x80 => 1,
            0xC0..0xE0 => 2,
            0xE0..0xF0 => 3,
            _ => 4,
        };
        let mut bytes = [0; 4];
        for (n, byte) in bytes.iter_mut().take(length).enumerate() {
            *byte = percent::byte(self.0, at + 3 * n)?;
        }
        let text = std::str::from_utf8(bytes.get(..length)?).ok()?;
        let found = text.chars().next()?;
        match wanted {
            Some(wanted) if wanted != found => None,
            _ => Some(at + 3 * length),
        }
    }

    /// Returns the end of a value's character at `at`.
    fn one(self, at: usize, reserved: bool) -> Option<usize> {
        if is_legal(*self.0.get(at)?, reserved) {
            return Some(at + 1);
        }
        if let Some(end) = self.character(at, None) {
            return Some(end);
        }
        // Expansion of reserved characters keeps escapes of the value, even invalid UTF-8.
        if reserved && percent::byte(self.0, at).is_some() { Some(at + 3) } else { None }
    }

    fn expression(self, undefined: &[bool], expression: &Expression<'_>) -> Places {
        let mut defined = self.nowhere();
        let operator = expression.operator;
        let first = operator.first().as_bytes();
        let between = operator.between() as u8;
        for variable in &expression.variables {
            let begins = self.moved(undefined, |at| self.end_of(at, first));
            let goes_on = self.moved(&defined, |at| self.end_of(at, &[between]));
            let from = union(begins, &goes_on);
            let ends = if operator.is_named() {
                self.named(&from, variable, between, operator.keeps_equals())
            } else {
                self.unnamed(&from, variable, between, operator.allows_reserved())
            };
            defined = union(defined, &ends);
        }
        union(defined, undefined)
    }

    fn unnamed(
        self,
        from: &[bool],
        variable: &Variable<'_>,
        between: u8,
        reserved: bool,
    ) -> Places {
        match variable.modifier {
            Modifier::None => self.value(from, reserved, b',', usize::MAX),
            Modifier::Prefix(most) => self.value(from, reserved, 0, most),
            Modifier::Explode if reserved => self.value(from, true, b',', usize::MAX),
            Modifier::Explode => {
                let items = self.value(from, false, between, usize::MAX);
                union(items, &self.pairs(from, between, true))
            }
        }
    }

    /// Matches `name=value`; unless `equals`, an empty value leaves the name alone.
    fn named(self, from: &[bool], variable: &Variable<'_>, between: u8, equals: bool) -> Places {
        let (comma, most) = match variable.modifier {
            Modifier::None => (b',', usize::MAX),
            Modifier::Prefix(most) => (0, most),
            // The names are those of a map, or the variable's for a list.
            Modifier::Explode => return self.pairs(from, between, equals),
        };
        let name = variable.name.as_bytes();
        let name = self.moved(from, |at| self.end_of(at, name));
        let value = self.moved(&name, |at| self.end_of(at, b"="));
        let mut ends = self.value(&value, false, comma, most);
        if !equals {
            // Values cannot contain `=`, so these are the empty values.
            for (end, empty) in ends.iter_mut().zip(&value) {
                *end &= !empty;
            }
            ends = union(ends, &name);
        }
        ends
    }

    /// Matches values of at most `most` characters, with `between` separating items.
    fn value(self, from: &[bool], reserved: bool, between: u8, most: usize) -> Places {
        let mut least = vec![usize::MAX; from.len()];
        for (used, &here) in least.iter_mut().zip(from) {
            if here {
                *used = 0;
            }
        }
        for at in 0..self.0.len() {
            let used = least[at];
            if used >= most {
                continue;
            }
            let next = if between != 0 && self.0[at] == between {
                Some(at + 1)
            } else {
                self.one(at, reserved)
            };
            if let Some(next) = next {
                least[next] = least[next].min(used + 1);
            }
        }
        least.into_iter().map(|used| used <= most && used != usize::MAX).collect()
    }

    /// Matches `name=value` pairs separated by `between`. With `equals`, a name without a value
    /// keeps its `=`.
    fn pairs(self, begins: &[bool], between: u8, equals: bool) -> Places {
        let mut begins = begins.to_vec();
        let mut names = self.nowhere();
        let mut values = self.nowhere();
        for at in 0..self.0.len() {
            let byte = self.0[at];
            if byte == b'=' && names[at] {
                values[at + 1] = true;
            }
            if byte == between && (values[at] || names[at] && !equals) {
                begins[at + 1] = true;
            }
            if let Some(next) = self.one(at, false) {
                names[next] |= begins[at] || names[at];
                values[next] |= values[at];
            }
        }
        if equals { values } else { union(values, &names) }
    }
}

fn union(mut one: Places, other: &[bool]) -> Places {
    for (one, other) in one.iter_mut().zip(other) {
        *one |= other;
    }
    one
}

/// Returns whether a value may contain the byte unescaped.
fn is_legal(byte: u8, reserved: bool) -> bool {
    byte.is_ascii_alphanumeric()
        || b"-._~!*'()".contains(&byte)
        || reserved && b":/?#[]@$&+,;=".contains(&byte)
}

// Resources of a view, listed or not.

impl View {
    /// Finds the server and its own URI behind a client's URI, listed or not.
    pub fn resource(&self, uri: &str, kind: TargetKind) -> Option<FoundResource> {
        self.resource_within(uri, kind, &mut Steps::of_request())
    }

    /// Like [`Self::resource`], with a budget for many URIs.
    pub(crate) fn resource_within(
        &self,
        uri: &str,
        kind: TargetKind,
        steps: &mut Steps,
    ) -> Option<FoundResource> {
        let (slug, own) = if self.namespaced {
            match uri::own(uri) {
                Some((slug, own)) => {
                    (self.servers.get_key_value(slug)?.0.clone(), own.into_owned())
                }
                None => (self.web.get(uri)?.clone(), uri.to_owned()),
            }
        } else {
            (self.servers.keys().next()?.clone(), uri.to_owned())
        };
        uri::validate(&own, MAX_URI).ok()?;
        // Servers accept many spellings, but policies are checked against a single spelling.
        let is_known = match uri::form(&own) {
            Form::Canonical => true,
            Form::Expanded => self.describes_within(uri, steps),
            Form::Other => self.lists(uri),
        };
        if !is_known {
            return None;
        }
        let server = self.servers.get(&slug)?;
        if self.quarantined_skills.iter().any(|skill| skill.covers(&**server, &own)) {
            return None;
        }
        let exposed = uri::expose(&slug, &own).into_owned();
        if let Some(compose) = &self.compose
            && !compose.resources.fit(&[&exposed, &own, &format!("{slug}/{own}")])
        {
            return None;
        }
        let category = category(&**server);
        let target = unlisted_target(kind, &**server, (&exposed, &own), category.as_deref());
        let verdict = self.rights.judge(&self.policy, &target);
        if !verdict.is_visible() {
            return None;
        }
        Some(FoundResource { server: Arc::clone(server), own, exposed, category, verdict })
    }

    /// Returns the URI of an updated resource, which is `shown` if that is known, unless the caller
    /// may not read the resource.
    pub fn find_updated<'a>(
        &self,
        update: &'a ResourceUpdate,
        shown: Option<&'a str>,
    ) -> Option<Cow<'a, str>> {
        let shown = match shown {
            Some(shown) => shown.into(),
            None if self.namespaced => uri::expose(&update.server.slug, &update.uri),
            None => (&*update.uri).into(),
        };
        self.resource(&shown, TargetKind::Resource).map(|_| shown)
    }

    /// Returns whether a resource or a template with this URI is listed.
    pub(crate) fn lists(&self, uri: &str) -> bool {
        for kind in [ListKind::Resources, ListKind::Templates] {
            for entry in &self.items[index(kind)] {
                if **self.shown(entry) == *uri {
                    return true;
                }
            }
        }
        false
    }

    /// Returns whether a resource with this URI is listed, or a listed template expands to the URI.
    pub fn describes(&self, uri: &str) -> bool {
        self.describes_within(uri, &mut Steps::of_request())
    }

    /// Like [`Self::describes`], with a budget for many URIs. Returns `false` once it is used up.
    pub(crate) fn describes_within(&self, uri: &str, steps: &mut Steps) -> bool {
        let mut templates = self.items[index(ListKind::Templates)].iter();
        self.lists(uri) || templates.any(|entry| describes(self.shown(entry), uri, steps))
    }
}

#[cfg(test)]
mod tests;
