//! Mistakes in credentials: keys, issuers, scopes, and anonymous callers.

use super::{Case, hold};

const CASES: &[Case] = &[
    (
        "lockgate.yaml",
        "auth: { key: short }\nsecret: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
        &[
            "lockgate.yaml:1:14: auth.key: must have 16 to 4096 characters — generate one with `openssl rand -hex 32`",
            "lockgate.yaml:2:9: secret: can be guessed — generate one with `openssl rand -hex 32`",
        ],
    ),
    (
        "lockgate.yaml",
        "auth: { key: change-me-to-something-long-1234 }\n",
        &[
            "lockgate.yaml:1:14: auth.key: can be guessed — generate one with `openssl rand -hex 32`",
        ],
    ),
    (
        "lockgate.yaml",
        "auth: { key: Zm9vYmFyYmF6cXV4eHl6enk }\n",
        &[
            "warning: lockgate.yaml:1:14: auth.key: is written in plain text — use a reference: ${VAR} or file:PATH",
        ],
    ),
    (
        "lockgate.yaml",
        "auth:\n  anonymous: never\n  issuers: { a: { issuer: http://a.example, algorithms: [HS256], audiences: [''] }, b: {} }\n  scopes: { required: ['a b'], tools: { '[': [x] } }\nhttp: { public_url: nowhere }\n",
        &[
            "lockgate.yaml:3:27: auth.issuers.a.issuer: must be https: plain HTTP lets an attacker on the network forge credentials (it is `http://a.example`) — set it to the `iss` of its tokens, such as https://login.example.com",
            "lockgate.yaml:3:58: auth.issuers.a.algorithms.0: must be `RS256`, `RS384`, `RS512`, `PS256`, `PS384`, `PS512`, `ES256`, `ES384` or `EdDSA` (it is `HS256`) — symmetric algorithms and `none` are never accepted",
            "lockgate.yaml:3:78: auth.issuers.a.audiences.0: is empty, so a token without an audience would be accepted everywhere (it is ``) — use the value that the issuer puts into `aud`",
            "lockgate.yaml:3:85: auth.issuers.b.issuer: is required — set it to the `iss` of its tokens, such as https://login.example.com",
            "lockgate.yaml:4:24: auth.scopes.required.0: is not a scope (it is `a b`) — a scope is ASCII without blanks and quotes",
            "lockgate.yaml:4:41: auth.scopes.tools.[: is not a pattern — use *, ?, [a-z] and {a,b}",
            "lockgate.yaml:5:21: http.public_url: must be an http:// or https:// address (it is `nowhere`) — such as https://mcp.example.com; it is part of the audience of tokens",
        ],
    ),
    (
        "lockgate.yaml",
        "auth: { anonymous: never }\n",
        &[
            "lockgate.yaml:1:20: auth.anonymous: every caller is rejected: no authentication method is configured — set `auth.key`, `auth.keys_file`, `auth.issuers` or `http.tls.client_ca`",
        ],
    ),
    (
        "lockgate.yaml",
        "auth: { anonymous: everywhere, keys_file: none.yaml }\n",
        &[
            "warning: lockgate.yaml:1:20: auth.anonymous: callers need no credential — remove it, unless every client that can reach the gateway may use it",
            "warning: lockgate.yaml:1:43: auth.keys_file: there is no such file yet (it is `FOLDER/none.yaml`) — create the first key with `lockgate keys create NAME`",
        ],
    ),
    (
        "lockgate.yaml",
        "http: { public_url: 'https://mcp.example.com' }\n",
        &[
            "warning: lockgate.yaml:1:21: http.public_url: callers behind a proxy on this machine appear local, and local callers need no credential — set `auth.key`, `auth.keys_file`, `auth.issuers` or `http.tls.client_ca`",
        ],
    ),
    (
        "lockgate.yaml",
        "http: { public_url: 'https://mcp.example.com' }\nauth: { anonymous: loopback }\n",
        &[
            "warning: lockgate.yaml:1:21: http.public_url: callers behind a proxy on this machine appear local, and local callers need no credential — set `auth.anonymous: never`",
        ],
    ),
    (
        "lockgate.yaml",
        "http: { public_url: 'https://mcp.example.com' }\nauth: { keys_file: none.yaml }\n",
        &[
            "warning: lockgate.yaml:2:20: auth.keys_file: there is no such file yet (it is `FOLDER/none.yaml`) — create the first key with `lockgate keys create NAME`",
        ],
    ),
    (
        "lockgate.yaml",
        "http: { public_url: 'https://mcp.example.com' }\nauth: { anonymous: never, keys_file: none.yaml }\n",
        &[
            "warning: lockgate.yaml:2:38: auth.keys_file: there is no such file yet (it is `FOLDER/none.yaml`) — create the first key with `lockgate keys create NAME`",
        ],
    ),
    ("lockgate.yaml", "http: { public_url: 'http://127.0.0.1:3001' }\n", &[]),
];

#[test]
fn every_mistake_in_credentials_is_reported_with_a_hint() {
    hold(CASES);
}
