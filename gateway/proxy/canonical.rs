//! One way of writing what JSON says, which digests of requests are made of. Numbers stay as they
//! were written, because readers differ in how exact they take them.

use lockgate_protocol::scan::{self, Keys, ScanError, Scanner};
use lockgate_protocol::write;

/// JSON whose members are in order and whose texts are written in one way.
///
/// # Errors
/// Two members of an object have the same name, or there are too many.
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
            let mut items = Vec::new();
            scanner.array(&mut |inner| {
                items.push(inner.value()?);
                Ok(())
            })?;
            out.push(b'[');
            for item in items {
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

#[cfg(test)]
mod tests;
