//! `_meta`: the keys that are scoped to a hop, and the `_meta` of the next hop. Page:
//! basic/index.mdx.

use crate::key::Key;
use crate::scan::{self, Member, Members};
use crate::write::{self, Object};

pub const PROTOCOL_VERSION: &str = Key::MetaProtocolVersion.as_str();
pub const CLIENT_CAPABILITIES: &str = Key::MetaClientCapabilities.as_str();
pub const CLIENT_INFO: &str = Key::MetaClientInfo.as_str();
pub const LOG_LEVEL: &str = Key::MetaLogLevel.as_str();
pub const SERVER_INFO: &str = Key::MetaServerInfo.as_str();
pub const SUBSCRIPTION_ID: &str = Key::MetaSubscriptionId.as_str();
pub const PROGRESS_TOKEN: &str = Key::ProgressToken.as_str();
pub const TRACEPARENT: &str = Key::Traceparent.as_str();
pub const TRACESTATE: &str = Key::Tracestate.as_str();
/// The gateway's own key: servers with items missing from a list, and the reasons.
pub const DEGRADED: &str = "lockgate/degraded";

/// The task of a message (2025-11-25).
pub const RELATED_TASK: &str = Key::MetaRelatedTask.as_str();

/// Returns whether a member is scoped to a hop and must not be copied.
///
/// Trace keys count, because the gateway writes its own span. So does `baggage`, which may contain
/// data that must not be forwarded.
fn is_hop_scoped(text: &[u8], member: &Member) -> bool {
    match member.known {
        Key::MetaRelatedTask
        | Key::MetaProtocolVersion
        | Key::MetaClientCapabilities
        | Key::MetaClientInfo
        | Key::MetaLogLevel
        | Key::MetaServerInfo
        | Key::MetaSubscriptionId
        | Key::ProgressToken
        | Key::Traceparent
        | Key::Tracestate
        | Key::Baggage => true,
        Key::Other => member.name_bytes(text).starts_with(b"lockgate/"),
        _ => false,
    }
}

/// Copies the end-to-end members.
pub fn copy_end_to_end(object: &mut Object<'_>, text: &[u8], members: &[Member]) {
    for member in members {
        if !is_hop_scoped(text, member) {
            object.copy(member.key.of(text), member.value.of(text));
        }
    }
}

/// Returns whether any member is end-to-end.
pub fn has_end_to_end(text: &[u8], members: &[Member]) -> bool {
    members.iter().any(|member| !is_hop_scoped(text, member))
}

/// Scans the JSON text of a `_meta` object.
///
/// # Errors
/// Any flaw of the text, or keys that parsers disagree on.
pub fn members(raw: &[u8], max_depth: usize) -> Result<Members, scan::ScanError> {
    let mut scanner = scan::Scanner::new(raw, max_depth)?;
    let (_, members) = scanner.members(scan::Keys::Strict)?;
    Ok(members)
}

/// The description of a modern request's sender, written into `_meta`.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'a> {
    pub revision: &'a str,
    /// JSON text of a `ClientCapabilities` object.
    pub capabilities: &'a [u8],
    /// JSON text of an `Implementation` object.
    pub info: &'a [u8],
}

/// Writes the reserved members of every modern request.
pub fn write_sender(object: &mut Object<'_>, sender: &Sender<'_>) {
    object.string(PROTOCOL_VERSION, sender.revision);
    object.raw(CLIENT_CAPABILITIES, sender.capabilities);
    object.raw(CLIENT_INFO, sender.info);
}

/// Writes the gateway's own number as `progressToken`.
pub fn write_progress_token(object: &mut Object<'_>, token: u64) {
    write::number(object.key(PROGRESS_TOKEN), token);
}
