//! W3C Trace Context (level 1, with the random flag of level 2). Invalid values are rejected, never
//! repaired. `baggage` is not read and hence not forwarded.

use std::sync::Arc;

use lockgate_text::hex;

/// `tracestate` beyond this is dropped; the specification requires forwarding at least 512.
const MAX_STATE: usize = 512;
const MAX_MEMBERS: usize = 32;

const SAMPLED_FLAG: u8 = 1;
const RANDOM_FLAG: u8 = 2;

/// A position in a distributed trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace: u128,
    span: u64,
    flags: u8,
    state: Option<Arc<str>>,
}

impl TraceContext {
    /// Parses `traceparent` and, if present and valid, `tracestate`. An invalid `tracestate` alone
    /// is dropped.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let bytes = traceparent.as_bytes();
        let version = u8::try_from(unhex(bytes.get(..2)?)?).ok()?;
        // Version 0 ends here; later ones may continue after a dash. 255 is not a version.
        match (version, bytes.get(55)) {
            (0xff, _) | (0, Some(_)) => return None,
            (_, Some(next)) if *next != b'-' => return None,
            _ => {}
        }
        if [2, 35, 52].iter().any(|at| bytes.get(*at) != Some(&b'-')) {
            return None;
        }
        let trace = unhex(bytes.get(3..35)?)?;
        let span = u64::try_from(unhex(bytes.get(36..52)?)?).ok()?;
        let flags = u8::try_from(unhex(bytes.get(53..55)?)?).ok()? & (SAMPLED_FLAG | RANDOM_FLAG);
        if trace == 0 || span == 0 {
            return None;
        }
        let state = tracestate.filter(|text| valid_state(text)).map(Arc::from);
        Some(Self { trace, span, flags, state })
    }

    /// Creates the first context of a new trace.
    pub fn root(sampled: bool) -> Self {
        let flags = RANDOM_FLAG | if sampled { SAMPLED_FLAG } else { 0 };
        Self { trace: fastrand::u128(1..), span: fastrand::u64(1..), flags, state: None }
    }

    /// Returns the context of a dependent operation: same trace, flags and state, new span.
    pub fn child(&self) -> Self {
        Self { span: fastrand::u64(1..), ..self.clone() }
    }

    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED_FLAG != 0
    }

    pub fn trace_id(&self) -> u128 {
        self.trace
    }

    pub fn span_id(&self) -> u64 {
        self.span
    }

    pub(crate) fn flags(&self) -> u8 {
        self.flags
    }

    /// Returns the `traceparent` value to forward, without allocating.
    pub fn traceparent(&self) -> TraceParent {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        hex::write(&self.trace.to_be_bytes(), &mut text[3..35]);
        hex::write(&self.span.to_be_bytes(), &mut text[36..52]);
        hex::write(&[self.flags], &mut text[53..55]);
        TraceParent(text)
    }

    /// Returns the `tracestate` value to forward, exactly as received.
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

/// A `traceparent` value in place: 55 ASCII characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent([u8; 55]);

impl TraceParent {
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("")
    }
}

/// Parses at most 32 lower-case hexadecimal digits, as the specification requires.
fn unhex(digits: &[u8]) -> Option<u128> {
    if !digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    u128::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Checks that members are `key=value`, separated by commas with optional blanks. Empty members are
/// allowed, repeated keys are not.
fn valid_state(text: &str) -> bool {
    if text.len() > MAX_STATE {
        return false;
    }
    let mut keys: Vec<&str> = Vec::new();
    let members = text.split(',').map(|member| member.trim_matches([' ', '\t']));
    for member in members.filter(|member| !member.is_empty()) {
        let Some((key, value)) = member.split_once('=') else { return false };
        let is_valid = valid_key(key) && valid_value(value) && !keys.contains(&key);
        if !is_valid || keys.len() == MAX_MEMBERS {
            return false;
        }
        keys.push(key);
    }
    !keys.is_empty()
}

/// Checks a vendor key (`a-z` first), or a tenant (a digit may be first) at a system.
fn valid_key(key: &str) -> bool {
    match key.split_once('@') {
        None => valid_key_part(key, 256, false),
        Some((tenant, system)) => {
            valid_key_part(tenant, 241, true) && valid_key_part(system, 14, false)
        }
    }
}

fn valid_key_part(part: &str, longest: usize, digit_first: bool) -> bool {
    let mut bytes = part.bytes();
    let Some(first) = bytes.next() else { return false };
    (first.is_ascii_lowercase() || digit_first && first.is_ascii_digit())
        && part.len() <= longest
        && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-*/".contains(&b))
}

/// Checks for printable ASCII except `,` and `=`. Blanks at the end were trimmed.
fn valid_value(value: &str) -> bool {
    (1..=256).contains(&value.len())
        && value.bytes().all(|b| matches!(b, b' '..=b'~') && b != b',' && b != b'=')
}

#[cfg(test)]
mod tests;
