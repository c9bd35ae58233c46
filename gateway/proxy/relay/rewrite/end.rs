//! Parts of a streamed response that depend on its later parts: our members of the result, and the
//! URI of a content block.

use lockgate_protocol::meta;
use lockgate_protocol::scan;
use lockgate_protocol::uri;
use lockgate_protocol::write::{self, Object};

use super::plan::Shape;

/// Buffered members of the result that are written at its end.
#[derive(Default)]
pub(super) struct HeldMembers {
    pub(super) meta: Option<Vec<u8>>,
    pub(super) ttl: Option<Vec<u8>>,
    pub(super) is_error: bool,
}

impl HeldMembers {
    /// Writes the members at the end of the result.
    pub(super) fn write_tail(&self, shape: &Shape, is_empty: bool, out: &mut Vec<u8>) {
        let raw = self.meta.as_deref().unwrap_or(b"{}");
        let members = meta::members(raw, scan::MAX_DEPTH).unwrap_or_default();
        let mut tail = Vec::with_capacity(256);
        let mut object = Object::open(&mut tail);
        if shape.modern && shape.has_ttl {
            let ttl = match &self.ttl {
                Some(ttl) if ttl.iter().all(u8::is_ascii_digit) => ttl,
                _ => b"0".as_slice(),
            };
            object.raw("ttlMs", ttl);
            object.raw("cacheScope", b"\"private\"");
        }
        if shape.modern || meta::has_end_to_end(raw, &members) {
            let mut inner = Object::open(object.key("_meta"));
            if shape.modern {
                inner.raw(meta::SERVER_INFO, &shape.info);
            }
            meta::copy_end_to_end(&mut inner, raw, &members);
            inner.close();
        }
        object.close();
        let tail = tail.get(1..).unwrap_or(b"");
        if !is_empty && tail != b"}" {
            out.push(b',');
        }
        out.extend_from_slice(tail);
    }
}

/// Writes the URI of a block, namespaced if the block's kind requires that.
pub(super) fn write_uri(
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
