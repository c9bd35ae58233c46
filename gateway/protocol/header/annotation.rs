//! Finds the `x-mcp-header` annotations in the JSON text of an input schema, in one pass and
//! without a tree.
//!
//! Rejects nothing but text that is not JSON: reports the annotations, and whether calls can have a
//! value there.

use std::borrow::Cow;

use crate::scan::{self, ScanError, Scanner, Span};

/// Maximum nesting of a schema.
pub const MAX_DEPTH: usize = 64;
/// Maximum annotations of a tool.
pub const MAX_HEADERS: usize = 64;

pub(super) const MEMBER: &str = "x-mcp-header";

/// How a schema is reached from the root.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Root,
    /// Through `properties` only, so that calls have a value at its path.
    Property,
    Elsewhere,
}

pub(super) struct FoundAnnotation {
    pub path: Vec<String>,
    pub name: Span,
    pub kinds: Vec<Span>,
    pub reachable: bool,
}

/// A pass over a schema that collects annotations, and the ranges to cut to remove them. Properties
/// that happen to be called `x-mcp-header`, and plain data such as defaults and examples, are not
/// annotations.
#[derive(Default)]
pub(super) struct Walk<'t> {
    text: &'t [u8],
    path: Vec<String>,
    pub found: Vec<FoundAnnotation>,
    /// Ascending and disjoint.
    pub cuts: Vec<Span>,
    pub too_deep: bool,
    keep_shallow: bool,
}

impl<'t> Walk<'t> {
    /// Walks a whole text. `keep_shallow` cuts no annotations of top-level properties.
    ///
    /// # Errors
    /// The text is not JSON.
    pub fn of(text: &'t [u8], keep_shallow: bool) -> Result<Self, ScanError> {
        let mut walk = Self { text, keep_shallow, ..Self::default() };
        let mut scanner = Scanner::new(text, scan::MAX_DEPTH)?;
        walk.schema(&mut scanner, 0, Reach::Root)?;
        scanner.end()?;
        Ok(walk)
    }

    fn schema(
        &mut self,
        s: &mut Scanner<'_>,
        depth: usize,
        reach: Reach,
    ) -> Result<Span, ScanError> {
        match s.peek() {
            Some(b'{' | b'[') if depth > MAX_DEPTH => {
                self.too_deep = true;
                s.value()
            }
            Some(b'{') => self.object(s, depth, reach),
            Some(b'[') => s.array(&mut |s| self.schema(s, depth + 1, Reach::Elsewhere).map(drop)),
            _ => s.value(),
        }
    }

    fn object(
        &mut self,
        s: &mut Scanner<'_>,
        depth: usize,
        reach: Reach,
    ) -> Result<Span, ScanError> {
        let mut names = Vec::new();
        let mut kinds = Vec::new();
        let keep = self.keep_shallow && reach == Reach::Property && self.path.len() == 1;
        let mut kept_before = false;
        let mut end = None;
        let span = s.each_member(&mut |s, key| {
            let name = key_text(self.text, key);
            // Leading annotations are cut up to the next member, others from the one before.
            if let (false, Some(_), Some(cut)) = (kept_before, end, self.cuts.last_mut()) {
                cut.end = key.start;
            }
            let value = match &*name {
                MEMBER | "type" | "const" | "default" | "enum" | "example" | "examples" => {
                    s.value()?
                }
                "properties" if reach != Reach::Elsewhere => {
                    self.named(s, depth + 1, Reach::Property)?
                }
                "properties" | "patternProperties" | "$defs" | "definitions"
                | "dependentSchemas" | "dependentRequired" | "dependencies" => {
                    self.named(s, depth + 1, Reach::Elsewhere)?
                }
                _ => self.schema(s, depth + 1, Reach::Elsewhere)?,
            };
            if name == MEMBER {
                names.push(value);
                if !keep {
                    let start = end.filter(|_| kept_before).unwrap_or(key.start);
                    self.cuts.push(Span { start, end: value.end });
                }
            } else if name == "type" {
                kinds.push(value);
            }
            kept_before |= keep || name != MEMBER;
            end = Some(value.end);
            Ok(())
        })?;
        for name in names {
            if self.found.len() <= MAX_HEADERS {
                let reachable = reach == Reach::Property;
                let path = self.path.clone();
                let kinds = kinds.clone();
                self.found.push(FoundAnnotation { path, name, kinds, reachable });
            }
        }
        Ok(span)
    }

    /// Walks an object that maps names to schemas.
    fn named(
        &mut self,
        s: &mut Scanner<'_>,
        depth: usize,
        reach: Reach,
    ) -> Result<Span, ScanError> {
        if s.peek() != Some(b'{') {
            return self.schema(s, depth, Reach::Elsewhere);
        }
        s.each_member(&mut |s, key| {
            self.path.push(key_text(self.text, key).into_owned());
            self.schema(s, depth + 1, reach)?;
            self.path.pop();
            Ok(())
        })
    }
}

/// Returns a key without its quotes. One with lone surrogates is not text and matches no name.
pub(super) fn key_text(text: &[u8], key: Span) -> Cow<'_, str> {
    let quoted = key.of(text);
    scan::as_str(quoted).unwrap_or_else(|| String::from_utf8_lossy(quoted))
}
