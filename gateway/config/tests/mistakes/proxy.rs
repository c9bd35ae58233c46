//! Mistakes in the program as a whole and in the request path: names, profile, policy, limits,
//! egress, approvals.

use super::{Case, hold};

const CASES: &[Case] = &[
    (
        "lockgate.yaml",
        "name: Lock Gate\n",
        &[
            "lockgate.yaml:1:7: name: must be 1 to 64 of a-z, 0-9 and - (it is `Lock Gate`) — set the display name in `title`",
        ],
    ),
    (
        "lockgate.yaml",
        "profile: production\nbuiltin: { example: true }\n",
        &[
            "lockgate.yaml:1:10: auth.key: is required in production — set `auth: { key: \"${LOCKGATE_KEY}\" }` and that variable, or `auth.keys_file`, `auth.issuers` or `http.tls.client_ca`",
            "lockgate.yaml:1:10: policy.tools.allow: is required in production — list the allowed tools, such as allow: [\"time__*\"]; or set policy.files",
            "lockgate.yaml:2:21: builtin.example: the example server is not for production — remove it, or use `profile: development`",
        ],
    ),
    (
        "lockgate.yaml",
        "profile: prod\n",
        &[
            "lockgate.yaml:1:10: profile: must be `development` or `production` (it is `prod`) — did you mean `production`?",
        ],
    ),
    (
        "lockgate.yaml",
        "policy: { tools: { allow: ['a[', '*'] }, calls_per_minute: 0 }\n",
        &[
            "lockgate.yaml:1:28: policy.tools.allow.0: is not a valid pattern: unclosed character class; missing ']' (it is `a[`) — use *, ?, [a-z] and {a,b}",
            "lockgate.yaml:1:60: policy.calls_per_minute: must be from 1 to 1000000 (it is `0`) — remove it for the default",
        ],
    ),
    (
        "lockgate.yaml",
        "names: { separator: ':', max_length: 16 }\nlimits: { depth: 1000, bytes_in_flight: 1MiB }\negress: { ca_file: ca.pem }\n",
        &[
            "lockgate.yaml:1:21: names.separator: must be `__`, `_`, `-`, `.` or `/` (it is `:`) — write one of these",
            "lockgate.yaml:1:38: names.max_length: must be from 32 to 128 (it is `16`) — the default is 64",
            "lockgate.yaml:2:18: limits.depth: must be from 8 to 128 (it is `1000`) — the default is 64",
            "lockgate.yaml:2:41: limits.bytes_in_flight: must not be less than `http.body_bytes` — raise it, or lower `http.body_bytes`",
            "lockgate.yaml:3:20: egress.ca_file: there is no such file (it is `FOLDER/ca.pem`) — paths are relative to the file that contains them",
        ],
    ),
    (
        "lockgate.yaml",
        "approvals: { webhook: { url: 'ftp://x', secret: whsec_short } }\nhttp: { public_url: 'http://127.0.0.1:3001' }\n",
        &[
            "lockgate.yaml:1:30: approvals.webhook.url: must be an http:// or https:// address without user and password — such as https://hooks.example.com/approvals",
            "lockgate.yaml:1:49: approvals.webhook.secret: must be `whsec_` and 24 to 64 bytes in base64 — generate one with `echo whsec_$(openssl rand -base64 32)`",
        ],
    ),
    (
        "lockgate.yaml",
        "tool_search: { embeddings: { url: 'ftp://x', timeout: 31, headers: { Content-Type: a, X-Key: b } } }\n",
        &[
            "lockgate.yaml:1:16: tool_search.embeddings.model: is required — set it to the name of a model of this server",
            "lockgate.yaml:1:35: tool_search.embeddings.url: must be an http:// or https:// address without user and password — such as http://127.0.0.1:11434/v1/embeddings",
            "lockgate.yaml:1:55: tool_search.embeddings.timeout: must be from 1 s to 30 s (it is `31`) — the default is 2 s",
            "lockgate.yaml:1:84: tool_search.embeddings.headers.Content-Type: the gateway sets this header itself — remove it",
            "warning: lockgate.yaml:1:94: tool_search.embeddings.headers.X-Key: is written in plain text — use a reference: ${VAR} or file:PATH",
        ],
    ),
    (
        "lockgate.yaml",
        "tool_search: { embeddings: { url: 'http://vectors/v1', model: m, key: k } }\n",
        &[
            "lockgate.yaml:1:66: tool_search.embeddings.key: there is no such key — the keys here are `url`, `model`, `headers`, `timeout`",
            "warning: lockgate.yaml:1:35: tool_search.embeddings.url: descriptions of tools and queries cross the network unencrypted — use https://",
        ],
    ),
];

#[test]
fn every_mistake_in_the_request_path_is_reported_with_a_hint() {
    hold(CASES);
}
