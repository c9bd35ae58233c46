//! `limits`: limits of the request path.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::leaf::{Seconds, Size, Whole};

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Nesting of a message, 8–128.
    pub depth: Whole<8, 128, 64>,
    /// Concurrent legacy sessions, 1–1000000.
    pub sessions: Whole<1, 1_000_000, 10_000>,
    /// Concurrent legacy sessions of one caller, 1–1000000. Default: half of `sessions`.
    pub sessions_per_principal: Option<Whole<1, 1_000_000, 0>>,
    /// Time without a request after which a legacy session ends, 10–86400 s.
    pub session_idle: Seconds<10, 86_400, 1800>,
    /// Concurrent calls of all servers together, 1–100000. Half of them is divided evenly among the
    /// servers, at least one each; the rest is first come, first served.
    pub concurrent_requests: Whole<1, 100_000, 100>,
    /// Waiting calls of all servers together, 0–100000, divided in the same way; one more is
    /// answered with 503.
    pub queued_requests: Whole<0, 100_000, 1000>,
    /// Requests that wait for evaluation on a separate thread, because they are large or slow to
    /// evaluate, 0–10000; one more is answered with 503. Half of the processors are used for this.
    pub queued_judgements: Whole<0, 10_000, 256>,
    /// Limit of the gateway's resident memory in bytes, 96MiB–1024GiB; not including the servers
    /// that it starts. Default: three quarters of the cgroup's limit; without one 512MiB, or half
    /// of the machine's memory if that is less.
    pub memory: Option<Size<0x600_0000, 0x100_0000_0000, 0>>,
    /// Bytes of messages, over all connections: request bodies, responses until their clients have
    /// read them, and messages kept for clients that resume a stream, 1MiB–16GiB; at least
    /// `http.body_bytes`, and at most the remainder of `memory` if that is set. Default: half of
    /// `memory` less 64MiB. A larger message is rejected.
    pub bytes_in_flight: Option<Size<0x10_0000, 0x4_0000_0000, 0>>,
    /// Items of one page of a list, 1–10000.
    pub page_items: Whole<1, 10_000, 1000>,
    /// How long the first list waits for servers that are still starting, 1–300 s.
    pub discovery_deadline: Seconds<1, 300, 5>,
    /// Concurrent event streams per caller, 1–10000.
    pub streams_per_principal: Whole<1, 10_000, 64>,
    /// Resources that one session may subscribe to, 1–10000.
    pub subscriptions: Whole<1, 10_000, 256>,
    /// Messages kept for a client that reads slowly or resumes later, per stream, 1–10000; 4 MiB of
    /// them at most, and always the newest. The oldest are dropped first.
    pub stream_buffer: Whole<1, 10_000, 256>,
    /// Rounds of questions to a client within one call, 1–100.
    pub question_rounds: Whole<1, 100, 10>,
    /// How long a client may take to answer one question, 1–300 s.
    pub question_timeout: Seconds<1, 300, 120>,
    /// Concurrent calls of modern clients to legacy servers that wait for answers to the servers'
    /// questions, 1–100000.
    pub parked_calls: Whole<1, 100_000, 1_024>,
    /// The same for one caller, 1–100000.
    pub parked_calls_per_principal: Whole<1, 100_000, 256>,
    /// Bytes of a client's answers to the questions of one round, 1KiB–64MiB; longer ones are
    /// rejected.
    pub answer_bytes: Size<0x400, 0x400_0000, 0x10_0000>,
    /// Calls that wait for approval by others than their callers, and as many questions to callers,
    /// 1–100000; one more is rejected.
    pub approvals: Whole<1, 100_000, 1000>,
    /// The same for one caller, 1–1000; one more call is rejected, and one more question replaces
    /// the oldest.
    pub approvals_per_principal: Whole<1, 1000, 16>,
    /// How long a call may wait for its approval, 1–3600 s; `expires` of a policy may be less.
    pub approval_timeout: Seconds<1, 3600, 300>,
}
