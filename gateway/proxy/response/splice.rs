//! Parts of responses: `_meta` and cache hints, also of streamed responses, and the assembly of
//! large responses without copying their largest part.

use bytes::Bytes;
use lockgate_protocol::meta;
use lockgate_protocol::scan::{self, Member};
use lockgate_protocol::write::Object;
use lockgate_upstream::Answer;

use crate::transport::Text;

/// The end of a response and its result.
const END: Bytes = Bytes::from_static(b"}}");

/// Completes a large response after `head`, an open object. The largest part is not copied: a
/// contiguous run of unchanged members, or else the largest member.
pub(super) fn splice(
    mut head: Vec<u8>,
    text: &Bytes,
    answer: &Answer,
    kept: &[&Member],
    mut changed: Vec<(&[u8], Vec<u8>)>,
) -> Text {
    let is_run = is_run(answer.members(), kept);
    let stays: usize = kept.iter().map(|member| member.value.of(text).len()).sum();
    // If the largest changed member exceeds all unchanged members, it is the part that is not
    // copied.
    let middle = take_larger(&mut changed, stays);
    let mut object = Object::resume(&mut head);
    for (key, value) in &changed {
        object.copy(key, value);
    }
    if let Some((key, value)) = middle {
        for member in kept {
            object.copy(member.key.of(text), member.value.of(text));
        }
        object.leave(key);
        return Text::Spliced(Box::new([head.into(), value.into(), END]));
    }
    let Some(&largest) = kept.iter().max_by_key(|member| member.value.of(text).len()) else {
        object.close();
        head.push(b'}');
        return Text::Whole(head.into());
    };
    if is_run
        && let Some(first) = kept.first()
        && let Some(last) = kept.last()
    {
        let start = first.key.range().start.saturating_sub(1);
        let run = text.slice(start..last.value.range().end);
        if !head.ends_with(b"{") {
            head.push(b',');
        }
        return Text::Shared(Box::new([head.into(), run, END]));
    }
    for member in kept {
        if *member != largest {
            object.copy(member.key.of(text), member.value.of(text));
        }
    }
    object.leave(largest.key.of(text));
    Text::Shared(Box::new([head.into(), text.slice(largest.value.range()), END]))
}

/// Removes and returns the largest changed member, if it exceeds `than` bytes.
fn take_larger<'a>(
    changed: &mut Vec<(&'a [u8], Vec<u8>)>,
    than: usize,
) -> Option<(&'a [u8], Vec<u8>)> {
    let sizes = changed.iter().map(|(_, value)| value.len());
    let (at, largest) = sizes.enumerate().max_by_key(|(_, size)| *size)?;
    if largest > than { Some(changed.swap_remove(at)) } else { None }
}

/// Returns whether the kept members are contiguous.
fn is_run(all: &[Member], kept: &[&Member]) -> bool {
    let Some(first) = kept.first() else { return false };
    let from = all.iter().position(|m| m == *first).unwrap_or(0);
    let Some(run) = all.get(from..from + kept.len()) else { return false };
    run.iter().eq(kept.iter().copied())
}

/// Writes how long a result may be cached: as long as its server says.
pub(crate) fn write_cache_hints(object: &mut Object<'_>, ttl: Option<&[u8]>) {
    let ttl = ttl.filter(|ttl| ttl.iter().all(u8::is_ascii_digit)).unwrap_or(b"0");
    object.raw("ttlMs", ttl);
    object.raw("cacheScope", b"\"private\"");
}

/// Writes the server's end-to-end `_meta`, our server info and the related task, if any.
pub(crate) fn write_meta(
    object: &mut Object<'_>,
    own: Option<&[u8]>,
    info: Option<&[u8]>,
    task: Option<&str>,
) {
    let raw = own.unwrap_or(b"{}");
    let members = own.and_then(|_| meta::members(raw, scan::MAX_DEPTH).ok()).unwrap_or_default();
    if info.is_none() && task.is_none() && !meta::has_end_to_end(raw, &members) {
        return;
    }
    let mut inner = Object::open(object.key("_meta"));
    if let Some(task) = task {
        inner.raw(meta::RELATED_TASK, task.as_bytes());
    }
    if let Some(info) = info {
        inner.raw(meta::SERVER_INFO, info);
    }
    meta::copy_end_to_end(&mut inner, raw, &members);
    inner.close();
}
