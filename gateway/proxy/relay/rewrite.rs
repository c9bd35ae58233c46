//! Rewrites a server's response for the client while it arrives: our id, our `_meta`,
//! namespaced URIs. This is the streaming counterpart of `response`; it rejects responses if the
//! rewriting of a part depends on a later part.

use std::mem::take;
use std::sync::Arc;

use bytes::Bytes;
use lockgate_protocol::scan::{self, Fault, MAX_MEMBERS, Visit, unescape};
use lockgate_protocol::uri;
use lockgate_protocol::write::{self, Object};

use crate::response::splice::{write_cache_hints, write_meta};

/// Maximum length of keys in objects that are inspected.
const MAX_KEY: usize = 1024;
/// Maximum length of values that are buffered until complete.
const MAX_HELD: usize = 64 << 10;
/// Maximum nesting of content blocks with URIs, as in `protocol::list`.
const MAX_BLOCKS: usize = 3;

/// Parameters of the client's response.
#[derive(Clone)]
pub(super) struct Shape {
    /// The client's request id as JSON text.
    pub(super) client_id: Bytes,
    pub(super) server_id: u64,
    /// Set if the result has a `ttlMs`.
    pub(super) has_ttl: bool,
    /// The server's slug, if URIs are namespaced.
    pub(super) slug: Option<String>,
    /// Our server info, if the result has it, a type and cache hints.
    pub(super) info: Option<Arc<[u8]>>,
}

/// The reason why a response cannot be streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RewriteError {
    #[error("{0}")]
    Fault(#[from] Fault),
    #[error("it is not a result")]
    NotResult,
    #[error("it has the id of another request")]
    OtherId,
    #[error("`jsonrpc` must be \"2.0\"")]
    Version,
    #[error("it is another kind of result")]
    OtherKind,
}

/// The streaming rewriter. Its output is taken with [`Rewriter::take_output`].
pub(super) struct Rewriter {
    shape: Shape,
    out: Vec<u8>,
    /// The inspected objects and arrays that are open, outermost first.
    frames: Vec<Frame>,
    /// The open value that is only copied, buffered or dropped.
    opaque: Option<Opaque>,
    /// The latest key, including its quotes.
    key: Vec<u8>,
    envelope: Envelope,
    result: HeldMembers,
}

#[derive(Default)]
struct Envelope {
    has_version: bool,
    has_id: bool,
    has_result: bool,
}

struct Frame {
    place: RewritePlace,
    /// Set until the first member or item is written.
    is_empty: bool,
    names: Vec<Vec<u8>>,
    /// The plan for the value of the latest key, or for all items.
    plan: Plan,
}

enum RewritePlace {
    Envelope,
    Result,
    Blocks,
    Block { level: usize, kind: Option<Vec<u8>>, uri: Option<Vec<u8>> },
}

/// A value that is not inspected.
struct Opaque {
    plan: Plan,
    kept: Vec<u8>,
    depth: usize,
}

impl Rewriter {
    pub(super) fn new(shape: Shape) -> Self {
        Self {
            shape,
            out: Vec::new(),
            frames: Vec::new(),
            opaque: None,
            key: Vec::new(),
            envelope: Envelope::default(),
            result: HeldMembers::default(),
        }
    }

    pub(super) fn take_output(&mut self) -> Bytes {
        take(&mut self.out).into()
    }

    /// Returns whether the position is inside a member of the result that is copied as it arrives.
    pub(super) fn is_within_content(&self) -> bool {
        match (self.frames.len(), &self.opaque) {
            (0 | 1, _) | (2, None) => false,
            (2, Some(opaque)) => matches!(opaque.plan, Plan::Copy | Plan::Structured),
            _ => true,
        }
    }

    pub(super) fn is_error(&self) -> bool {
        self.result.is_error
    }

    /// Returns the plan for the next value of the innermost inspected object or array.
    fn plan(&self) -> Plan {
        self.frames.last().map_or(Plan::Copy, |frame| frame.plan)
    }

    /// Writes the comma and key before a copied value.
    fn write_key(&mut self) {
        let Some(frame) = self.frames.last_mut() else { return };
        if !frame.is_empty {
            self.out.push(b',');
        }
        frame.is_empty = false;
        if !matches!(frame.place, RewritePlace::Blocks) {
            self.out.extend_from_slice(&self.key);
            self.out.push(b':');
        }
    }

    fn enter(&mut self, place: RewritePlace, plan: Plan) {
        self.key.clear();
        self.frames.push(Frame { place, is_empty: true, names: Vec::new(), plan });
    }

    fn begin_opaque(&mut self, plan: Plan) {
        if matches!(plan, Plan::Copy | Plan::Structured | Plan::Blocks { .. }) {
            self.write_key();
        }
        self.opaque = Some(Opaque { plan, kept: Vec::new(), depth: 0 });
    }

    /// Writes a part of the opaque value according to its plan.
    fn put(&mut self, bytes: &[u8]) -> Result<(), RewriteError> {
        let Some(opaque) = &mut self.opaque else { return Ok(()) };
        match opaque.plan {
            Plan::Drop => {}
            Plan::Keep(_) if opaque.kept.len() + bytes.len() > MAX_HELD => {
                return Err(Fault::Length.into());
            }
            Plan::Keep(_) => opaque.kept.extend_from_slice(bytes),
            _ => self.out.extend_from_slice(bytes),
        }
        Ok(())
    }

    fn finish_opaque(&mut self) -> Result<(), RewriteError> {
        let Some(Opaque { plan: Plan::Keep(kept), kept: value, .. }) = self.opaque.take() else {
            return Ok(());
        };
        match kept {
            Kept::Version if scan::as_str(&value).as_deref() == Some("2.0") => {
                self.envelope.has_version = true;
            }
            Kept::Version => return Err(RewriteError::Version),
            Kept::Id if value == self.shape.server_id.to_string().as_bytes() => {
                self.envelope.has_id = true
            }
            Kept::Id => return Err(RewriteError::OtherId),
            Kept::ResultType if value == b"\"complete\"" => {}
            Kept::ResultType => return Err(RewriteError::OtherKind),
            Kept::Meta => self.result.meta = Some(value),
            Kept::Ttl => self.result.ttl = Some(value),
            Kept::IsError => {
                self.result.is_error = value == b"true";
                self.write_key();
                self.out.extend_from_slice(&value);
            }
            Kept::BlockType | Kept::BlockUri => self.finish_block_member(kept, value)?,
        }
        Ok(())
    }

    fn finish_block_member(&mut self, which: Kept, value: Vec<u8>) -> Result<(), RewriteError> {
        if which == Kept::BlockType {
            self.write_key();
            self.out.extend_from_slice(&value);
        }
        let Some(Frame { place: RewritePlace::Block { kind, uri, .. }, .. }) =
            self.frames.last_mut()
        else {
            return Ok(());
        };
        let slot = if which == Kept::BlockType { kind } else { uri };
        match slot.replace(value) {
            Some(_) => Err(Fault::Duplicate.into()),
            None => Ok(()),
        }
    }

    /// Writes the members that precede the server's members in our envelope.
    fn write_head(&mut self) {
        write::result_head(&mut self.out, &self.shape.client_id);
        let mut object = Object::open(&mut self.out);
        if self.shape.info.is_some() {
            object.raw("resultType", b"\"complete\"");
        }
    }

    /// Sets the plan for the key just completed.
    fn plan_member(&mut self) -> Result<(), RewriteError> {
        let quoted = self.key.get(1..self.key.len().saturating_sub(1));
        let name = unescape(quoted.unwrap_or(b"")).into_owned();
        let namespaced = self.shape.slug.is_some();
        let is_described = self.shape.info.is_some();
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        frame.plan = match &frame.place {
            RewritePlace::Envelope => plan_of_envelope(&name)?,
            RewritePlace::Result => plan_of_result(&name, namespaced, is_described)?,
            RewritePlace::Block { level, .. } => plan_of_block(&name, *level),
            RewritePlace::Blocks => Plan::Copy,
        };
        if !matches!(frame.place, RewritePlace::Block { .. }) {
            if frame.names.len() >= MAX_MEMBERS {
                return Err(Fault::Members.into());
            }
            if frame.names.iter().any(|known| known == name.as_bytes()) {
                return Err(Fault::Duplicate.into());
            }
            frame.names.push(name.into_bytes());
        }
        Ok(())
    }

    /// Begins an object or array outside of opaque values.
    fn open(&mut self, byte: u8) -> Result<(), RewriteError> {
        let array = byte == b'[';
        if self.open_frame(array)? {
            return Ok(());
        }
        self.begin_opaque(match self.plan() {
            Plan::Structured if array => Plan::Drop,
            plan => plan,
        });
        self.mark(byte)
    }

    /// Opens a frame if the object or array is inspected; returns whether it is.
    fn open_frame(&mut self, array: bool) -> Result<bool, RewriteError> {
        if self.frames.is_empty() {
            if array {
                return Err(Fault::NotObject.into());
            }
            self.enter(RewritePlace::Envelope, Plan::Drop);
            return Ok(true);
        }
        match (self.plan(), array) {
            (Plan::Result, false) => {
                self.write_head();
                self.envelope.has_result = true;
                self.enter(RewritePlace::Result, Plan::Drop);
                if let Some(frame) = self.frames.last_mut() {
                    frame.is_empty = self.out.ends_with(b"{");
                }
            }
            (Plan::Result, true) => return Err(RewriteError::NotResult),
            (Plan::Blocks { level }, true) => {
                self.write_key();
                self.out.push(b'[');
                self.enter(RewritePlace::Blocks, Plan::Blocks { level });
            }
            (Plan::Blocks { level }, false) if level <= MAX_BLOCKS => {
                self.write_key();
                self.out.push(b'{');
                self.enter(RewritePlace::Block { level, kind: None, uri: None }, Plan::Drop);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn close_frame(&mut self) -> Result<(), RewriteError> {
        let Some(Frame { place, is_empty, .. }) = self.frames.pop() else { return Ok(()) };
        match place {
            RewritePlace::Envelope => {
                self.out.push(b'}');
                return self.envelope.check();
            }
            RewritePlace::Result => self.result.write_tail(&self.shape, is_empty, &mut self.out),
            RewritePlace::Blocks => self.out.push(b']'),
            RewritePlace::Block { kind, uri, .. } => {
                if let Some(uri) = uri {
                    write_uri(
                        self.shape.slug.as_deref(),
                        is_empty,
                        kind.as_deref(),
                        &uri,
                        &mut self.out,
                    );
                }
                self.out.push(b'}');
            }
        }
        Ok(())
    }
}

impl Envelope {
    fn check(&self) -> Result<(), RewriteError> {
        match (self.has_version, self.has_id, self.has_result) {
            (true, true, true) => Ok(()),
            (false, ..) => Err(RewriteError::Version),
            (_, false, _) => Err(RewriteError::OtherId),
            (.., false) => Err(RewriteError::NotResult),
        }
    }
}

impl Visit for Rewriter {
    type Error = RewriteError;

    fn mark(&mut self, byte: u8) -> Result<(), RewriteError> {
        let Some(opaque) = &mut self.opaque else {
            return match byte {
                b'{' | b'[' => self.open(byte),
                b'}' | b']' => self.close_frame(),
                // Commas and colons are written with the members.
                _ => {
                    if byte == b',' {
                        self.key.clear();
                    }
                    Ok(())
                }
            };
        };
        match byte {
            b'{' | b'[' => opaque.depth += 1,
            b'}' | b']' => opaque.depth -= 1,
            _ => {}
        }
        let is_over = opaque.depth == 0;
        self.put(&[byte])?;
        if is_over { self.finish_opaque() } else { Ok(()) }
    }

    fn part(&mut self, key: bool, bytes: &[u8]) -> Result<(), RewriteError> {
        if self.opaque.is_none() && key {
            if self.key.len() + bytes.len() > MAX_KEY {
                return Err(Fault::Length.into());
            }
            self.key.extend_from_slice(bytes);
            return Ok(());
        }
        if self.opaque.is_none() {
            let plan = match self.plan() {
                Plan::Result => return Err(RewriteError::NotResult),
                Plan::Structured => Plan::Drop,
                plan => plan,
            };
            self.begin_opaque(plan);
        }
        self.put(bytes)
    }

    fn end(&mut self, key: bool) -> Result<(), RewriteError> {
        match &self.opaque {
            None => self.plan_member(),
            Some(opaque) if !key && opaque.depth == 0 => self.finish_opaque(),
            Some(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;

/// Buffered members of the result that are written at its end.
#[derive(Default)]
struct HeldMembers {
    meta: Option<Vec<u8>>,
    ttl: Option<Vec<u8>>,
    is_error: bool,
}

impl HeldMembers {
    /// Writes the members at the end of the result.
    fn write_tail(&self, shape: &Shape, is_empty: bool, out: &mut Vec<u8>) {
        let mut tail = Vec::with_capacity(256);
        let mut object = Object::open(&mut tail);
        if shape.info.is_some() && shape.has_ttl {
            write_cache_hints(&mut object, self.ttl.as_deref());
        }
        write_meta(&mut object, self.meta.as_deref(), shape.info.as_deref(), None);
        object.close();
        let tail = tail.get(1..).unwrap_or(b"");
        if !is_empty && tail != b"}" {
            out.push(b',');
        }
        out.extend_from_slice(tail);
    }
}

/// Writes the URI of a block, namespaced if the block's kind requires that.
fn write_uri(
    slug: Option<&str>,
    is_empty: bool,
    kind: Option<&[u8]>,
    uri: &[u8],
    out: &mut Vec<u8>,
) {
    if !is_empty {
        out.push(b',');
    }
    out.extend_from_slice(b"\"uri\":");
    let has_own_uri = matches!(kind, None | Some(b"\"resource_link\""));
    match (slug, scan::as_str(uri)) {
        (Some(slug), Some(own)) if has_own_uri => write::string(out, &uri::expose(slug, &own)),
        _ => out.extend_from_slice(uri),
    }
}

// The plan for each member of a streamed response. Members of other kinds of results are rejected.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Copy,
    Drop,
    Keep(Kept),
    Result,
    /// Content blocks, which may contain URIs.
    Blocks {
        level: usize,
    },
    /// Structured content: legacy clients accept objects only.
    Structured,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    Version,
    Id,
    ResultType,
    Meta,
    Ttl,
    IsError,
    BlockType,
    BlockUri,
}

fn plan_of_envelope(name: &str) -> Result<Plan, RewriteError> {
    match name {
        "jsonrpc" => Ok(Plan::Keep(Kept::Version)),
        "id" => Ok(Plan::Keep(Kept::Id)),
        "result" => Ok(Plan::Result),
        "error" | "method" => Err(RewriteError::NotResult),
        _ => Ok(Plan::Drop),
    }
}

fn plan_of_result(name: &str, namespaced: bool, is_described: bool) -> Result<Plan, RewriteError> {
    match name {
        "resultType" => Ok(Plan::Keep(Kept::ResultType)),
        "_meta" => Ok(Plan::Keep(Kept::Meta)),
        "ttlMs" => Ok(Plan::Keep(Kept::Ttl)),
        "cacheScope" => Ok(Plan::Drop),
        "isError" => Ok(Plan::Keep(Kept::IsError)),
        "content" | "contents" | "messages" if namespaced => Ok(Plan::Blocks { level: 0 }),
        "structuredContent" if !is_described => Ok(Plan::Structured),
        "inputRequests" | "requestState" | "taskId" => Err(RewriteError::OtherKind),
        _ => Ok(Plan::Copy),
    }
}

fn plan_of_block(name: &str, level: usize) -> Plan {
    match name {
        "type" => Plan::Keep(Kept::BlockType),
        "uri" => Plan::Keep(Kept::BlockUri),
        "resource" | "content" => Plan::Blocks { level: level + 1 },
        _ => Plan::Copy,
    }
}
