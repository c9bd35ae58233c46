//! Whether a URI is one that a template expands to (RFC 6570, all levels), in time proportional to
//! the URI for each variable, and within the steps that whoever asks may spend. In doubt it says
//! no: of a template that it cannot read, to pairs in another order, to `/` for `{x}`, and to
//! reserved characters in names of pairs. It says yes to what clients write for a value: escapes
//! that are not needed, and `!*'()`, which `encodeURIComponent` leaves. Values of one variable may
//! differ.

use lockgate_protocol::uri::MAX_URI;
use lockgate_protocol::uri::template::{Expression, Modifier, Variable};
use lockgate_text::percent;

/// Longest template that describes anything.
const TEMPLATE_BYTES: usize = 2048;
/// Most variables.
const VARIABLES: usize = 32;

/// Steps for each byte of the URI that one variable costs, and each piece of text.
const STEPS_OF_VARIABLE: usize = 8;
const STEPS_OF_TEXT: usize = 2;
/// Bytes at the beginning that are looked at in one step.
const BYTES_OF_STEP: usize = 8;

/// What looking for the template of URIs may still cost: about how many places in a URI are looked
/// at. So that nobody keeps a thread busy with long URIs and many templates. Once they are used up,
/// nothing is described any more.
pub(crate) struct Steps(usize);

impl Steps {
    /// Those of one request, some hundredths of a second.
    const OF_REQUEST: usize = 8_000_000;

    pub(crate) fn of_request() -> Self {
        Self(Self::OF_REQUEST)
    }

    /// False when there are not that many left.
    fn take(&mut self, steps: usize) -> bool {
        self.0 = self.0.saturating_sub(steps);
        self.0 > 0
    }
}

/// Whether the template expands to the URI.
pub(super) fn describes(template: &str, uri: &str, steps: &mut Steps) -> bool {
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
    // How it begins and ends is cheap to look at, and tells most templates apart.
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
        if variables > VARIABLES || !steps.take(cost) {
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

/// Bytes at the beginning of two texts that are the same.
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

/// Whether the character of a template's text can only stand for itself.
fn stays(c: char) -> bool {
    c == '%' || matches!(u8::try_from(c), Ok(byte) if is_legal(byte, true))
}

/// For every place in a URI, and the end of it, whether a part of the template may end there.
type Places = Vec<bool>;

#[derive(Clone, Copy)]
struct Uri<'a>(&'a [u8]);

impl Uri<'_> {
    fn nowhere(self) -> Places {
        vec![false; self.0.len() + 1]
    }

    /// The places, each moved by the way that begins there.
    fn moved(self, from: &[bool], way: impl Fn(usize) -> Option<usize>) -> Places {
        let mut to = self.nowhere();
        for (at, &here) in from.iter().enumerate() {
            if here && let Some(end) = way(at) {
                to[end] = true;
            }
        }
        to
    }

    /// What it may cost to look for a text of the template.
    fn cost(self, from: &[bool], text: &str) -> usize {
        STEPS_OF_TEXT * from.len() + text.len() * from.iter().filter(|&&here| here).count()
    }

    /// Text of the template.
    fn literal(self, from: &[bool], text: &str) -> Places {
        if text.chars().all(stays) {
            return self.moved(from, |at| self.end_of(at, text.as_bytes()));
        }
        self.moved(from, |at| self.text(at, text))
    }

    /// The end of a text of the template here.
    fn text(self, mut at: usize, text: &str) -> Option<usize> {
        for c in text.chars() {
            let mut buffer = [0; 4];
            let raw = c.encode_utf8(&mut buffer).as_bytes();
            at = match self.is(at, raw) {
                true => at + raw.len(),
                false if stays(c) => return None,
                false => self.character(at, Some(c))?,
            };
        }
        Some(at)
    }

    fn is(self, at: usize, text: &[u8]) -> bool {
        self.0.get(at..at + text.len()) == Some(text)
    }

    /// The end of just these bytes here.
    fn end_of(self, at: usize, text: &[u8]) -> Option<usize> {
        if self.is(at, text) { Some(at + text.len()) } else { None }
    }

    /// The end of an escaped character here; of this one, if one is named.
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

    /// The end of one character of a value.
    fn one(self, at: usize, reserved: bool) -> Option<usize> {
        if is_legal(*self.0.get(at)?, reserved) {
            return Some(at + 1);
        }
        if let Some(end) = self.character(at, None) {
            return Some(end);
        }
        // Where reserved characters stay, so do escapes in the value, whatever they stand for.
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

    /// `name=value`; where an empty value has no `=`, the name alone.
    fn named(self, from: &[bool], variable: &Variable<'_>, between: u8, equals: bool) -> Places {
        let (comma, most) = match variable.modifier {
            Modifier::None => (b',', usize::MAX),
            Modifier::Prefix(most) => (0, most),
            // Of a map, whose names are its own, or of a list.
            Modifier::Explode => return self.pairs(from, between, equals),
        };
        let name = variable.name.as_bytes();
        let name = self.moved(from, |at| self.end_of(at, name));
        let value = self.moved(&name, |at| self.end_of(at, b"="));
        let mut ends = self.value(&value, false, comma, most);
        if !equals {
            // No value runs over a `=`, so these are the empty ones.
            for (end, empty) in ends.iter_mut().zip(&value) {
                *end &= !empty;
            }
            ends = union(ends, &name);
        }
        ends
    }

    /// Characters of a value, at most so many, and this sign between its items.
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

    /// `name=value` and again, with this sign between; whether a name without a value has its `=`
    /// too.
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

/// Whether a value may have this as it is.
fn is_legal(byte: u8, reserved: bool) -> bool {
    byte.is_ascii_alphanumeric()
        || b"-._~!*'()".contains(&byte)
        || reserved && b":/?#[]@$&+,;=".contains(&byte)
}

#[cfg(test)]
mod tests;
