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

/// Refuses keys that only differ in case from one that we read.
pub(super) fn undisguised(text: &[u8], member: Member, keys: Keys) -> Result<(), Flaw> {
    if keys != Keys::Strict {
        return Ok(());
    }
    let name = member.name(text);
    if !KNOWN.contains(&&*name) && KNOWN.iter().any(|known| name.eq_ignore_ascii_case(known)) {
        return Err(Flaw { what: Fault::CaseVariant, at: member.key.range().start });
    }
    Ok(())
}
