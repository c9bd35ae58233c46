//! Finds the `x-mcp-header` annotations in the JSON text of an input schema, in one pass and
//! without a tree.
//!
//! Rejects nothing: reports the annotations, and whether calls can have a value there.

use std::borrow::Cow;
use std::ops::Range;

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
    pub name: Range<usize>,
    pub kinds: Vec<Range<usize>>,
    pub reachable: bool,
}

/// A pass over a schema that collects annotations, and the ranges to cut to remove them. Properties
/// that happen to be called `x-mcp-header`, and plain data such as defaults and examples, are not
/// annotations.
pub(super) struct Walk<'t> {
    reader: Reader<'t>,
    path: Vec<String>,
    pub found: Vec<FoundAnnotation>,
    /// Ascending and disjoint.
    pub cuts: Vec<Range<usize>>,
    pub too_deep: bool,
    /// Keeps annotations of top-level properties.
    keep_shallow: bool,
}

impl<'t> Walk<'t> {
    pub fn new(text: &'t str) -> Self {
        Self {
            reader: Reader::new(text),
            path: Vec::new(),
            found: Vec::new(),
            cuts: Vec::new(),
            too_deep: false,
            keep_shallow: false,
        }
    }

    pub fn keeping_shallow(mut self) -> Self {
        self.keep_shallow = true;
        self
    }

    pub fn schema(&mut self, depth: usize, reach: Reach) {
        match self.reader.peek() {
            Some(b'{' | b'[') if depth > MAX_DEPTH => {
                self.too_deep = true;
                self.reader.skip();
            }
            Some(b'{') => self.object(depth, reach),
            Some(b'[') => {
                self.reader.open();
                while self.reader.element() {
                    self.schema(depth + 1, Reach::Elsewhere);
                }
            }
            _ => {
                self.reader.skip();
            }
        }
    }

    fn object(&mut self, depth: usize, reach: Reach) {
        let mut names = Vec::new();
        let mut kinds = Vec::new();
        let mut kept_before = false;
        let keep = self.keep_shallow && reach == Reach::Property && self.path.len() == 1;
        self.reader.open();
        let mut end = self.reader.at;
        while let Some(member) = self.reader.member() {
            match &*member.key {
                MEMBER => {
                    names.push(self.reader.span());
                    let value_end = self.reader.at;
                    if !keep {
                        let cut = if kept_before {
                            end..value_end
                        } else {
                            member.start..self.reader.after_comma()
                        };
                        self.cuts.push(cut);
                    }
                }
                "type" => kinds.push(self.reader.span()),
                "properties" if reach != Reach::Elsewhere => self.named(depth + 1, Reach::Property),
                "properties" | "patternProperties" | "$defs" | "definitions"
                | "dependentSchemas" | "dependentRequired" | "dependencies" => {
                    self.named(depth + 1, Reach::Elsewhere)
                }
                "const" | "default" | "enum" | "example" | "examples" => {
                    self.reader.skip();
                }
                _ => self.schema(depth + 1, Reach::Elsewhere),
            }
            kept_before |= keep || member.key != MEMBER;
            end = self.reader.at;
        }
        for name in names {
            if self.found.len() <= MAX_HEADERS {
                let reachable = reach == Reach::Property;
                self.found.push(FoundAnnotation {
                    path: self.path.clone(),
                    name,
                    kinds: kinds.clone(),
                    reachable,
                });
            }
        }
    }

    /// Walks an object that maps names to schemas.
    fn named(&mut self, depth: usize, reach: Reach) {
        if self.reader.peek() != Some(b'{') {
            return self.schema(depth, Reach::Elsewhere);
        }
        self.reader.open();
        while let Some(member) = self.reader.member() {
            self.path.push(member.key.into_owned());
            self.schema(depth + 1, reach);
            self.path.pop();
        }
    }
}

/// A reader of text that was checked to be JSON. On other text it stops early with useless results.
pub(super) struct Reader<'t> {
    text: &'t str,
    at: usize,
}

pub(super) struct Member<'t> {
    pub key: Cow<'t, str>,
    start: usize,
}

impl<'t> Reader<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the next byte that is not white space, without consuming it.
    pub fn peek(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..)?;
        let spaces = rest.iter().position(|b| !matches!(b, b' ' | b'\n' | b'\r' | b'\t'))?;
        self.at += spaces;
        rest.get(spaces).copied()
    }

    pub fn open(&mut self) {
        self.peek();
        self.at += 1;
    }

    /// Returns the next member, with the reader at its value; `None` at the end of the object.
    pub fn member(&mut self) -> Option<Member<'t>> {
        if !self.element() {
            return None;
        }
        self.peek()?;
        let start = self.at;
        self.string();
        let raw = self.text.get(start..self.at)?;
        let key = match raw.get(1..raw.len().checked_sub(1)?) {
            Some(key) if !key.contains('\\') => Cow::Borrowed(key),
            _ => match lockgate_text::json::from_str(raw) {
                Ok(key) => Cow::Owned(key),
                // A key with lone surrogates is not text and matches no name.
                Err(_) => Cow::Borrowed(raw),
            },
        };
        self.peek()?;
        self.at += 1;
        Some(Member { key, start })
    }

    /// Returns whether another element or member follows.
    fn element(&mut self) -> bool {
        match self.peek() {
            Some(b',') => self.at += 1,
            Some(b'}' | b']') => {
                self.at += 1;
                return false;
            }
            Some(_) => {}
            None => return false,
        }
        true
    }

    /// Returns the start of the following member, after a comma if there is one.
    fn after_comma(&self) -> usize {
        let mut ahead = Reader { text: self.text, at: self.at };
        if ahead.peek() != Some(b',') {
            return self.at;
        }
        ahead.at += 1;
        ahead.peek();
        ahead.at
    }

    fn string(&mut self) {
        self.at += 1;
        while let Some(rest) = self.text.as_bytes().get(self.at..)
            && let Some(stop) = memchr::memchr2(b'"', b'\\', rest)
        {
            let quote = rest.get(stop) == Some(&b'"');
            self.at += stop + if quote { 1 } else { 2 };
            if quote {
                return;
            }
        }
    }

    /// Consumes a value and returns its text.
    pub fn skip(&mut self) -> &'t str {
        let text = self.text;
        text.get(self.span()).unwrap_or("")
    }

    /// Consumes a value without recursion and returns its range.
    fn span(&mut self) -> Range<usize> {
        let mut depth = 0usize;
        self.peek();
        let start = self.at;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => self.string(),
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                b',' | b':' => {}
                _ => {
                    let rest = self.text.as_bytes().get(self.at..).unwrap_or(&[]);
                    self.at += rest.iter().position(ends_scalar).unwrap_or(rest.len());
                }
            }
            self.at += usize::from(matches!(byte, b'{' | b'[' | b'}' | b']' | b',' | b':'));
            if depth == 0 {
                break;
            }
        }
        start..self.at
    }
}

/// Returns whether a byte ends a number, `true`, `false` or `null`.
fn ends_scalar(byte: &u8) -> bool {
    matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t')
}
