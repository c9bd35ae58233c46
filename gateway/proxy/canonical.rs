//! JSON with uniform string escapes on one line: the canonical form for digests of requests, and
//! the form shown to approvers. Numbers are copied verbatim, because parsers differ in precision.

use std::borrow::Cow;

use lockgate_protocol::scan::{self, Keys, ScanError, Scanner};
use lockgate_protocol::write::{self, Object};

/// Shortens a string that is not a name.
pub(crate) type Shorten = fn(&str) -> Cow<'_, str>;

/// Writes JSON in the canonical form, with sorted members, or else in order with short strings.
///
/// # Errors
/// An object has duplicate or too many members.
pub(crate) fn write_json(
    raw: &[u8],
    shorten: Option<Shorten>,
    out: &mut Vec<u8>,
) -> Result<(), ScanError> {
    let mut scanner = Scanner::new(raw, scan::MAX_DEPTH)?;
    match scanner.peek() {
        Some(b'{') => {
            let (_, mut members) = scanner.members(Keys::Distinct)?;
            if shorten.is_none() {
                members.sort_by(|a, b| a.name(raw).cmp(&b.name(raw)));
            }
            let mut object = Object::open(out);
            for member in &members {
                write_json(member.value.of(raw), shorten, object.key(&member.name(raw)))?;
            }
            object.close();
        }
        Some(b'[') => write::items(out, raw, &mut |out, item| write_json(item, shorten, out))?,
        _ => {
            let scalar = scanner.value()?.of(raw);
            match (scan::as_str(scalar), shorten) {
                (Some(text), Some(shorten)) => write::string(out, &shorten(&text)),
                (Some(text), None) => write::string(out, &text),
                (None, _) => out.extend_from_slice(scalar),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
