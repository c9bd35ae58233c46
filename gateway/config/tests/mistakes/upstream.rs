//! Mistakes in servers: addresses, timeouts, headers and programs.

use super::{Case, hold};

const CASES: &[Case] = &[
    (
        "lockgate.yaml",
        "servers:\n  a: { command: sh, type: stdio, transport: stdio }\n  b: { command: sh, disabled: true }\n",
        &[
            "lockgate.yaml:2:3: servers.a: `transport` is set twice — `type` and `transport` are the same key",
            "lockgate.yaml:3:21: servers.b.disabled: there is no such key — write `enabled: false`",
        ],
    ),
    (
        "lockgate.yaml",
        "servers: { a: { url: 'http://a.example/mcp', headers: { Authorization: 'Bearer x' } } }\n",
        &[
            "warning: lockgate.yaml:1:22: servers.a.url: credentials cross the network unencrypted — use https://",
        ],
    ),
    (
        "lockgate.yaml",
        "servers:\n  a:\n    command: sh\n    timeout: 0\n    era: modren\n    tool_timeouts: { x: 301 }\n    limits:\n      line_bytes: 12 parsecs\n",
        &[
            "lockgate.yaml:4:14: servers.a.timeout: must be from 1 s to 300 s (it is `0`) — the default is 60 s",
            "lockgate.yaml:5:10: servers.a.era: must be `auto`, `modern` or `legacy` (it is `modren`) — did you mean `modern`?",
            "lockgate.yaml:6:25: servers.a.tool_timeouts.x: must be from 1 s to 300 s (it is `301`) — the default is 60 s",
            "lockgate.yaml:8:19: servers.a.limits.line_bytes: must be a size in bytes (it is `12 parsecs`) — write 65536, 64KiB or 16MB",
        ],
    ),
    (
        "lockgate.yaml",
        "servers:\n  a: {}\n  b: { command: sh, url: 'http://b' }\n  C: { url: 'ftp://c' }\n  d: { url: 'https://u:p@d/mcp', args: [x] }\n",
        &[
            "lockgate.yaml:2:3: servers.a: requires `command` or `url` — a program to start, or an address to call",
            "lockgate.yaml:3:3: servers.b: has both `command` and `url` — keep one: a program to start, or an address to call",
            "lockgate.yaml:4:3: servers.C: the name of a server must be 1 to 64 of a-z, 0-9 and - — rename it; tools are exposed as NAME__TOOL",
            "lockgate.yaml:4:13: servers.C.url: must be an http:// or https:// address — such as https://mcp.example.com/mcp",
            "lockgate.yaml:5:13: servers.d.url: must not contain a user or password — send it in `headers`: { Authorization: \"Bearer ${TOKEN}\" }",
            "lockgate.yaml:5:34: servers.d.args: is only valid with `command` — remove it",
        ],
    ),
    (
        "lockgate.yaml",
        "servers:\n  a: { url: 'https://a/mcp', headers: { Host: x, Mcp-Session-Id: y, 'a b': z } }\n  system: { url: 'https://b/mcp' }\n  c: { command: sh, headers: { A: b }, transport: sse }\n  d: { url: 'https://d/sse', transport: sse, era: modern }\n",
        &[
            "lockgate.yaml:2:47: servers.a.headers.host: the gateway sets this header itself — remove it",
            "lockgate.yaml:2:66: servers.a.headers.mcp-session-id: the gateway sets this header itself — remove it",
            "lockgate.yaml:2:76: servers.a.headers.a b: is not a header name — use letters, digits and -",
            "lockgate.yaml:3:3: servers.system: a built-in server has this name — rename it, or set `builtin.system: false`",
            "lockgate.yaml:4:21: servers.c.headers: is only valid with `url` — remove it",
            "lockgate.yaml:4:51: servers.c.transport: a `command` uses stdio — set `url`, or remove it",
            "lockgate.yaml:5:51: servers.d.era: HTTP+SSE exists only in the legacy era — use `transport: http`, or remove `era`",
        ],
    ),
    (
        "lockgate.yaml",
        "servers:\n  a: { url: 'nowhere', headers: { 'a b': x, Host: y }, transport: sse, era: modern, env: { '': x } }\n  b: { command: '', url: 'ftp://x', headers: { mcp-x: y }, env: { '=': x } }\n  c: { headers: { te: x } }\n  d: { command: ' ', env: { '=': x }, headers: { te: x } }\n",
        &[
            "lockgate.yaml:2:13: servers.a.url: must be an http:// or https:// address — such as https://mcp.example.com/mcp",
            "lockgate.yaml:2:42: servers.a.headers.a b: is not a header name — use letters, digits and -",
            "lockgate.yaml:2:51: servers.a.headers.host: the gateway sets this header itself — remove it",
            "lockgate.yaml:2:77: servers.a.era: HTTP+SSE exists only in the legacy era — use `transport: http`, or remove `era`",
            "lockgate.yaml:2:85: servers.a.env: is only valid with `command` — remove it",
            "lockgate.yaml:3:3: servers.b: has both `command` and `url` — keep one: a program to start, or an address to call",
            "lockgate.yaml:3:17: servers.b.command: must not be empty — set a program",
            "lockgate.yaml:3:26: servers.b.url: must be an http:// or https:// address — such as https://mcp.example.com/mcp",
            "lockgate.yaml:3:55: servers.b.headers.mcp-x: the gateway sets this header itself — remove it",
            "lockgate.yaml:3:72: servers.b.env.=: is not a variable name — it must not be empty or contain =",
            "lockgate.yaml:4:3: servers.c: requires `command` or `url` — a program to start, or an address to call",
            "lockgate.yaml:4:23: servers.c.headers.te: the gateway sets this header itself — remove it",
            "lockgate.yaml:5:17: servers.d.command: must not be empty — set a program",
            "lockgate.yaml:5:34: servers.d.env.=: is not a variable name — it must not be empty or contain =",
            "lockgate.yaml:5:39: servers.d.headers: is only valid with `url` — remove it",
        ],
    ),
    (
        "lockgate.yaml",
        "servers:\n  a: { command: no-such-program, cwd: nowhere }\n  b: { command: 'npx -y x' }\n",
        &[
            "warning: lockgate.yaml:2:17: servers.a.command: program not found — install it, or use its full path",
            "warning: lockgate.yaml:2:39: servers.a.cwd: there is no such folder — paths are relative to the file that contains them",
            "warning: lockgate.yaml:3:17: servers.b.command: program not found — put arguments into `args`",
        ],
    ),
];

#[test]
fn every_mistake_in_servers_is_reported_with_a_hint() {
    hold(CASES);
}
