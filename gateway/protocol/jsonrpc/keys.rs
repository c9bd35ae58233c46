//! Keys that differ only in case from the keys that the gateway reads.

use crate::scan::{Fault, Keys, Member, ScanError};

/// Members that the gateway reads, by length. A key that differs only in case is rejected even
/// alone, because some servers would read it and the gateway would not.
const fn known(length: usize) -> &'static [&'static str] {
    match length {
        2 => &["id"],
        3 => &["uri", "ref"],
        4 => &["name", "task"],
        5 => &["_meta", "error", "level"],
        6 => &["method", "params", "result", "cursor", "taskId"],
        7 => &["jsonrpc", "context"],
        8 => &["argument"],
        9 => &["arguments", "requestId"],
        12 => &["requestState"],
        13 => &["notifications"],
        14 => &["inputResponses"],
        15 => &["protocolVersion"],
        _ => &[],
    }
}

const _: () = {
    let mut length = 0;
    while length < 64 {
        let names = known(length);
        let mut at = 0;
        while at < names.len() {
            assert!(names[at].len() == length, "a name stands among those of another length");
            at += 1;
        }
        length += 1;
    }
};

/// Rejects keys that differ only in case from a known key.
pub(super) fn undisguised(text: &[u8], member: Member, keys: Keys) -> Result<(), ScanError> {
    if keys != Keys::Strict {
        return Ok(());
    }
    let name = member.name_bytes(text);
    match known(name.len()).iter().find(|known| name.eq_ignore_ascii_case(known.as_bytes())) {
        Some(known) if *name != *known.as_bytes() => {
            Err(ScanError { what: Fault::CaseVariant, at: member.key.start })
        }
        _ => Ok(()),
    }
}
