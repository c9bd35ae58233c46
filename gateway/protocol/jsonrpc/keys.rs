//! Keys that only look like ones that the gateway reads.

use crate::scan::{Fault, Flaw, Keys, Member};

/// Members that the gateway reads. A key that is one of them but for its case would be read by some servers and not by
/// us, so it is refused even when it stands alone.
const KNOWN: [&str; 22] = [
    "jsonrpc",
    "id",
    "method",
    "params",
    "result",
    "error",
    "_meta",
    "name",
    "uri",
    "arguments",
    "cursor",
    "ref",
    "argument",
    "context",
    "level",
    "notifications",
    "taskId",
    "task",
    "requestState",
    "inputResponses",
    "requestId",
    "protocolVersion",
];

/// Bytes of the longest of them.
const LONGEST: usize = {
    let (mut longest, mut at) = (0, 0);
    while at < KNOWN.len() {
        if KNOWN[at].len() > longest {
            longest = KNOWN[at].len();
        }
        at += 1;
    }
    longest
};

/// Refuses keys that only differ in case from one that we read.
pub(super) fn undisguised(text: &[u8], member: Member, keys: Keys) -> Result<(), Flaw> {
    if keys != Keys::Strict {
        return Ok(());
    }
    let name = member.name_bytes(text);
    // Most keys are just what they look like, or too long for any that we know.
    if name.len() > LONGEST {
        return Ok(());
    }
    match KNOWN.iter().find(|known| name.eq_ignore_ascii_case(known.as_bytes())) {
        Some(known) if *name != *known.as_bytes() => {
            Err(Flaw { what: Fault::CaseVariant, at: member.key.range().start })
        }
        _ => Ok(()),
    }
}
