//! A canonical form of JSON for digests of requests. Numbers are copied verbatim, because parsers
//! differ in precision.

use lockgate_protocol::scan::{self, Keys, ScanError, Scanner, Span};
use lockgate_protocol::write;

/// Writes JSON with sorted members and uniform string escapes.
///
/// # Errors
/// An object has duplicate or too many members.
pub(crate) fn write_canonical(raw: &[u8], out: &mut Vec<u8>) -> Result<(), ScanError> {
    let mut scanner = Scanner::new(raw, scan::MAX_DEPTH)?;
    match scanner.peek() {
        Some(b'{') => {
            let (_, mut members) = scanner.members(Keys::Distinct)?;
            members.sort_by(|a, b| a.name(raw).cmp(&b.name(raw)));
            out.push(b'{');
            for member in &members {
                write::string(out, &member.name(raw));
                out.push(b':');
                write_canonical(member.value.of(raw), out)?;
                out.push(b',');
            }
            out.push(b'}');
        }
        Some(b'[') => {
            out.push(b'[');
            for item in read_items(&mut scanner)? {
                write_canonical(item.of(raw), out)?;
                out.push(b',');
            }
            out.push(b']');
        }
        _ => {
            let scalar = scanner.value()?.of(raw);
            match scan::as_str(scalar) {
                Some(text) => write::string(out, &text),
                None => out.extend_from_slice(scalar),
            }
        }
    }
    Ok(())
}

/// Returns the positions of an array's items.
///
/// # Errors
/// The text is not a valid array.
pub(crate) fn read_items(scanner: &mut Scanner<'_>) -> Result<Vec<Span>, ScanError> {
    let mut items = Vec::new();
    scanner.array(&mut |inner| {
        items.push(inner.value()?);
        Ok(())
    })?;
    Ok(items)
}

#[cfg(test)]
mod tests;
