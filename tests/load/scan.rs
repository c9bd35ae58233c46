//! A scanner that finds the members of a JSON-RPC request that an echo needs as byte spans, without
//! building a tree. It assumes valid JSON.

use memchr::memchr2;

/// The members of a request that the echo server reads; spans of raw JSON, strings without quotes.
#[derive(Default, Debug, PartialEq)]
pub struct Envelope<'a> {
    /// The id exactly as written (`7`, `"a"`); absent in a notification.
    pub id: Option<&'a [u8]>,
    pub method: &'a [u8],
    pub params: Params<'a>,
}

#[derive(Default, Debug, PartialEq)]
pub struct Params<'a> {
    pub name: Option<&'a [u8]>,
    /// `params.arguments.text`
    pub text: Option<&'a [u8]>,
    /// `params.protocolVersion`, requested by a legacy `initialize`
    pub asked: Option<&'a [u8]>,
    /// `params._meta["io.modelcontextprotocol/protocolVersion"]`
    pub revision: Option<&'a [u8]>,
    /// Whether `params._meta` declares client capabilities
    pub capabilities: bool,
}

/// Scans a request or notification; returns `None` for bytes that are not a JSON object.
pub fn envelope(bytes: &[u8]) -> Option<Envelope<'_>> {
    let mut found = Envelope::default();
    let mut cursor = Cursor { bytes, at: 0 };
    cursor.object(|key, cursor| {
        match key {
            b"id" => found.id = Some(cursor.value()?),
            b"method" => found.method = cursor.string()?,
            b"params" => params(cursor, &mut found.params)?,
            _ => drop(cursor.value()?),
        }
        Some(())
    })?;
    Some(found)
}

fn params<'a>(cursor: &mut Cursor<'a>, found: &mut Params<'a>) -> Option<()> {
    cursor.object(|key, cursor| {
        match key {
            b"name" => found.name = Some(cursor.string()?),
            b"protocolVersion" => found.asked = Some(cursor.string()?),
            b"arguments" => cursor.object(|key, cursor| {
                match key {
                    b"text" => found.text = Some(cursor.string()?),
                    _ => drop(cursor.value()?),
                }
                Some(())
            })?,
            b"_meta" => meta(cursor, found)?,
            _ => drop(cursor.value()?),
        }
        Some(())
    })
}

fn meta<'a>(cursor: &mut Cursor<'a>, found: &mut Params<'a>) -> Option<()> {
    cursor.object(|key, cursor| {
        match key {
            b"io.modelcontextprotocol/protocolVersion" => found.revision = Some(cursor.string()?),
            b"io.modelcontextprotocol/clientCapabilities" => {
                found.capabilities = cursor.value()?.starts_with(b"{");
            }
            _ => drop(cursor.value()?),
        }
        Some(())
    })
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Returns the next byte that is not white space, without consuming it.
    fn peek(&mut self) -> Option<u8> {
        while matches!(self.bytes.get(self.at)?, b' ' | b'\t' | b'\r' | b'\n') {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn eat(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    /// Visits the members of an object; the visitor consumes each value.
    fn object(&mut self, mut visit: impl FnMut(&'a [u8], &mut Self) -> Option<()>) -> Option<()> {
        self.eat(b'{')?;
        if self.peek()? == b'}' {
            return self.eat(b'}');
        }
        loop {
            let key = self.string()?;
            self.eat(b':')?;
            visit(key, self)?;
            match self.peek()? {
                b',' => self.at += 1,
                _ => return self.eat(b'}'),
            }
        }
    }

    /// Consumes a string; returns its raw contents.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.eat(b'"')?;
        let start = self.at;
        loop {
            self.at += memchr2(b'"', b'\\', self.bytes.get(self.at..)?)?;
            if self.bytes.get(self.at) == Some(&b'"') {
                self.at += 1;
                return self.bytes.get(start..self.at - 1);
            }
            self.at += 2;
        }
    }

    /// Consumes a value of any kind; returns its raw bytes. Nesting is counted, not recursed into.
    fn value(&mut self) -> Option<&'a [u8]> {
        self.peek()?;
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => drop(self.string()?),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' => self.at += 1,
                _ => self.scalar(),
            }
            if depth == 0 {
                return self.bytes.get(start..self.at);
            }
        }
    }

    fn scalar(&mut self) {
        while !matches!(
            self.bytes.get(self.at),
            None | Some(b',' | b'}' | b']' | b':' | b'"' | b' ' | b'\t' | b'\r' | b'\n')
        ) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests;
