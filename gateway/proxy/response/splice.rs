//! How a large answer is put together: the largest part of it is passed on without a copy.

use bytes::Bytes;
use lockgate_protocol::scan::Member;
use lockgate_protocol::write::Object;
use lockgate_upstream::Answer;

use crate::transport::Text;

/// Ends a large answer behind `head`, an open object. The largest part of it is passed on without a
/// copy: a run of members that stay as they are, or else the largest member.
pub(super) fn splice(
    mut head: Vec<u8>,
    text: &Bytes,
    answer: &Answer,
    kept: &[&Member],
    mut changed: Vec<(&[u8], Vec<u8>)>,
) -> Text {
    let is_run = is_run(answer.members(), kept);
    let mut stays = 0;
    for member in kept {
        stays += member.value.of(text).len();
    }
    // A changed member is the middle where it is larger than what stays.
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
        return Text::Spliced([head.into(), value.into(), Bytes::from_static(b"}}")]);
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
        return Text::Shared([head.into(), run, Bytes::from_static(b"}}")]);
    }
    for member in kept {
        if *member != largest {
            object.copy(member.key.of(text), member.value.of(text));
        }
    }
    object.leave(largest.key.of(text));
    Text::Shared([head.into(), text.slice(largest.value.range()), Bytes::from_static(b"}}")])
}

/// Takes out the largest of the changed members, if it has more bytes than this.
fn take_larger<'a>(
    changed: &mut Vec<(&'a [u8], Vec<u8>)>,
    than: usize,
) -> Option<(&'a [u8], Vec<u8>)> {
    let mut largest = None;
    let mut most = than;
    for (at, (_, value)) in changed.iter().enumerate() {
        if value.len() > than && value.len() >= most {
            most = value.len();
            largest = Some(at);
        }
    }
    Some(changed.swap_remove(largest?))
}

/// Whether the kept members stand side by side.
fn is_run(all: &[Member], kept: &[&Member]) -> bool {
    let Some(first) = kept.first() else { return false };
    let from = all.iter().position(|m| m == *first).unwrap_or(0);
    let Some(run) = all.get(from..from + kept.len()) else { return false };
    run.iter().eq(kept.iter().copied())
}
