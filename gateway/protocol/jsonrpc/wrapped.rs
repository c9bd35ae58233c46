//! Calls that are the arguments of another call: `{"name", "arguments"}` in `params.arguments`.

use super::Request;
use super::message::RequestParts;
use crate::scan::{self, Keys, Member, Scanner, Span};

const NAMELESS: &str = "`arguments` must have the `name` of a tool";

impl Request {
    /// Turns the request into the call that its arguments contain: `name` and `arguments` of
    /// `params` are replaced, everything else stays. Copies nothing.
    ///
    /// # Errors
    /// The mistake, if the arguments are not such a call. The request is unchanged.
    pub fn unwrap_call(&mut self) -> Result<(), String> {
        let outer = scan::find(&self.params, &self.text, "arguments").ok_or(NAMELESS)?;
        let raw = outer.of(&self.text);
        let mut scanner = Scanner::new(raw, scan::MAX_DEPTH).map_err(|flaw| flaw.to_string())?;
        let scanned = scanner.members(Keys::Strict);
        let (_, members) = scanned.map_err(|flaw| format!("`arguments`: {flaw}"))?;
        let mut name = None;
        let mut arguments = None;
        for member in &members {
            let value = within(outer, member.value);
            match &*member.name(raw) {
                "name" => name = Some(value),
                "arguments" => arguments = Some(value),
                other => return Err(format!("unknown member {other:.64?} of `arguments`")),
            }
        }
        let name = name.ok_or(NAMELESS)?;
        if scan::as_str(name.of(&self.text)).is_none() {
            return Err(NAMELESS.into());
        }
        let RequestParts { text, params, .. } = &mut *self.0;
        params.retain(|member| arguments.is_some() || !member.is(text, "arguments"));
        for member in params {
            replace(member, text, "name", Some(name));
            replace(member, text, "arguments", arguments);
        }
        Ok(())
    }
}

/// Returns the position in the whole text of a span within the value at `outer`.
fn within(outer: Span, inner: Span) -> Span {
    Span { start: outer.start + inner.start, end: outer.start + inner.end }
}

fn replace(member: &mut Member, text: &[u8], name: &str, value: Option<Span>) {
    if let Some(value) = value
        && member.is(text, name)
    {
        member.value = value;
    }
}

#[cfg(test)]
mod tests;
