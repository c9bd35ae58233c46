//! Names of members that the gateway reads. A key is compared with them once, when it is scanned;
//! after that, members are found by [`Key`].

use std::fmt;

/// Longest name plus one.
const LENGTHS: usize = 64;
/// Most names of the same length, plus one.
const BUCKET: usize = 8;

macro_rules! keys {
    ($($variant:ident $name:literal $guarded:literal;)*) => {
        /// A member's name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Key {
            /// Any other name.
            Other,
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        const ALL: &[(Key, &str, bool)] = &[$((Key::$variant, $name, $guarded),)*];

        impl Key {
            /// Returns the name; empty for [`Key::Other`].
            pub const fn as_str(self) -> &'static str {
                match self { Self::Other => "", $(Self::$variant => $name,)* }
            }
        }
    };
}

// `true`: a key of an envelope or of `params` that differs from the name only in case is rejected,
// because some servers would read it and the gateway would not.
keys! {
    Id "id" true;
    Uri "uri" true;
    Ref "ref" true;
    Name "name" true;
    Task "task" true;
    Meta "_meta" true;
    Error "error" true;
    Level "level" true;
    Method "method" true;
    Params "params" true;
    Result "result" true;
    Cursor "cursor" true;
    TaskId "taskId" true;
    JsonRpc "jsonrpc" true;
    Context "context" true;
    Argument "argument" true;
    Arguments "arguments" true;
    RequestId "requestId" true;
    RequestState "requestState" true;
    Notifications "notifications" true;
    InputResponses "inputResponses" true;
    ProtocolVersion "protocolVersion" true;
    Data "data" false;
    Code "code" false;
    Message "message" false;
    Logger "logger" false;
    Progress "progress" false;
    TaskIds "taskIds" false;
    ClientInfo "clientInfo" false;
    Capabilities "capabilities" false;
    ElicitationId "elicitationId" false;
    ProgressToken "progressToken" false;
    Content "content" false;
    Contents "contents" false;
    Messages "messages" false;
    StructuredContent "structuredContent" false;
    IsError "isError" false;
    ResultType "resultType" false;
    InputRequests "inputRequests" false;
    TtlMs "ttlMs" false;
    CacheScope "cacheScope" false;
    NextCursor "nextCursor" false;
    Completion "completion" false;
    Skill "skill" false;
    Resources "resources" false;
    MetaProtocolVersion "io.modelcontextprotocol/protocolVersion" false;
    MetaClientCapabilities "io.modelcontextprotocol/clientCapabilities" false;
    MetaClientInfo "io.modelcontextprotocol/clientInfo" false;
    MetaLogLevel "io.modelcontextprotocol/logLevel" false;
    MetaServerInfo "io.modelcontextprotocol/serverInfo" false;
    MetaSubscriptionId "io.modelcontextprotocol/subscriptionId" false;
    MetaRelatedTask "io.modelcontextprotocol/related-task" false;
    Traceparent "traceparent" false;
    Tracestate "tracestate" false;
    Baggage "baggage" false;
    Status "status" false;
    PollInterval "pollInterval" false;
    PollIntervalMs "pollIntervalMs" false;
}

/// The positions in `ALL` of the names of each length, plus one; 0 ends a list.
static BY_LENGTH: [[u8; BUCKET]; LENGTHS] = {
    let mut buckets = [[0; BUCKET]; LENGTHS];
    let mut at = 0;
    while at < ALL.len() {
        let bucket = &mut buckets[ALL[at].1.len()];
        let mut free = 0;
        while bucket[free] != 0 {
            free += 1;
        }
        assert!(free + 1 < BUCKET, "too many names of this length");
        at += 1;
        bucket[free] = at as u8;
    }
    buckets
};

impl Key {
    /// Returns the key with this name.
    pub fn of(name: &[u8]) -> Self {
        for (key, known, _) in of_length(name.len()) {
            // Most names differ in the first byte, and comparing all bytes is a call.
            if known.as_bytes().first() == name.first() && known.as_bytes() == name {
                return *key;
            }
        }
        Self::Other
    }

    /// Returns the bit of the key in a set.
    pub(crate) const fn bit(self) -> u64 {
        1 << (self as u8)
    }
}

/// Reports whether a name that is none of the keys differs only in case from one that is guarded.
#[cold]
pub(crate) fn is_disguised(name: &[u8]) -> bool {
    of_length(name.len()).any(|(_, known, guarded)| {
        *guarded && known.as_bytes() != name && known.as_bytes().eq_ignore_ascii_case(name)
    })
}

#[inline]
fn of_length(length: usize) -> impl Iterator<Item = &'static (Key, &'static str, bool)> {
    let bucket = BY_LENGTH.get(length).map_or(&[][..], |bucket| &bucket[..]);
    bucket.iter().map_while(|&at| ALL.get(usize::from(at).wrapping_sub(1)))
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

const _: () = assert!(ALL.len() < 64, "a set of keys has 64 bits");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        for (key, name, _) in ALL {
            assert_eq!((Key::of(name.as_bytes()), key.as_str()), (*key, *name));
            assert_eq!(Key::of(name.to_ascii_uppercase().as_bytes()), Key::Other);
        }
        for other in ["", "i", "nam", "names", &"x".repeat(99)] {
            assert_eq!(Key::of(other.as_bytes()), Key::Other);
        }
    }
}
