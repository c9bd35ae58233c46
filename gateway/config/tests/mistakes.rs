//! What is said of each mistake: the exact words, and all mistakes at once.

use super::Given;

/// File, text, every message.
type Case = (&'static str, &'static str, &'static [&'static str]);

const CASES: &[Case] = &[
    (
        "lockgate.yaml",
        "name: a\nname2: &a [x]\nb: {{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{ a: 1",
        &[
            "lockgate.yaml:3:36: not valid YAML: recursion limit exceeded — the mistake is here or just before",
        ],
    ),
    (
        "lockgate.yaml",
        "listen: 3001\nlog: { level: 'info,lockgate=bogus' }\n",
        &[
            "lockgate.yaml:1:9: listen: must be text, not a number — write ADDRESS:PORT, such as 127.0.0.1:3001",
            "lockgate.yaml:2:15: log.level: is no log filter (it is `info,lockgate=bogus`) — such as info,lockgate_proxy=debug",
        ],
    ),
    (
        "lockgate.yaml",
        "auth: { key: short }\nsecret: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
        &[
            "lockgate.yaml:1:14: auth.key: must have 16 to 4096 characters — make one with `openssl rand -hex 32`",
            "lockgate.yaml:2:9: secret: can be guessed — make one with `openssl rand -hex 32`",
        ],
    ),
    (
        "lockgate.yaml",
        "auth: { key: change-me-to-something-long-1234 }\n",
        &["lockgate.yaml:1:14: auth.key: can be guessed — make one with `openssl rand -hex 32`"],
    ),
    (
        "lockgate.yaml",
        "auth: { key: Zm9vYmFyYmF6cXV4eHl6enk }\n",
        &[
            "warning: lockgate.yaml:1:14: auth.key: is written into the file itself — refer to it: ${VAR} or file:PATH",
        ],
    ),
    (
        "lockgate.yaml",
        "servers:\n  a: { command: sh, type: stdio, transport: stdio }\n  b: { command: sh, disabled: true }\n",
        &[
            "lockgate.yaml:2:3: servers.a: `transport` is given twice — `type` and `transport` are the same key",
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
        "servers:\n  c:\npolicy: { tools: { deny: } }\n",
        &[
            "lockgate.yaml:2:3: servers.c: has no value — give it a value, or take it out; `{}` and `[]` are empty on purpose",
            "lockgate.yaml:3:20: policy.tools.deny: has no value — give it a value, or take it out; `{}` and `[]` are empty on purpose",
        ],
    ),
    (
        "lockgate.yaml",
        "sevrers: {}\nlog: { levle: info }\n",
        &[
            "lockgate.yaml:1:1: sevrers: there is no such key — did you mean `servers`?",
            "lockgate.yaml:2:8: log.levle: there is no such key — did you mean `level`?",
        ],
    ),
    (
        "lockgate.toml",
        "name = 'a'\n[servers.a]\nurl = 'https://a.example/mcp'\ntimout = 5\n",
        &["lockgate.toml:4:1: servers.a.timout: there is no such key — did you mean `timeout`?"],
    ),
    (
        "lockgate.json",
        "{\n  \"servers\": {\n    \"a\": { \"comand\": \"sh\" }\n  }\n}",
        &["lockgate.json:3:12: servers.a.comand: there is no such key — did you mean `command`?"],
    ),
    (
        "lockgate.yaml",
        "name: Lock Gate\n",
        &[
            "lockgate.yaml:1:7: name: must be 1 to 64 of a-z, 0-9 and - (it is `Lock Gate`) — the text for people goes into `title`",
        ],
    ),
    (
        "lockgate.yaml",
        "name: 12\nservers:\n  a:\n    command: sh\n    args: [-c, 5]\n    env: { A: true }\n",
        &[
            "lockgate.yaml:1:7: name: must be text, not a number — put it in quotes",
            "lockgate.yaml:5:16: servers.a.args.1: must be text, not a number — put it in quotes",
            "lockgate.yaml:6:15: servers.a.env.A: must be text, not true or false — put it in quotes",
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
            "lockgate.yaml:2:3: servers.a: needs `command` or `url` — a program to start, or an address to call",
            "lockgate.yaml:3:3: servers.b: has both `command` and `url` — keep one: a program to start, or an address to call",
            "lockgate.yaml:4:3: servers.C: the name of a server must be 1 to 64 of a-z, 0-9 and - — rename it; tools are exposed as NAME__TOOL",
            "lockgate.yaml:4:13: servers.C.url: must be an http:// or https:// address — such as https://mcp.example.com/mcp",
            "lockgate.yaml:5:13: servers.d.url: must not hold a user or password — send it in `headers`: { Authorization: \"Bearer ${TOKEN}\" }",
            "lockgate.yaml:5:34: servers.d.args: only goes with `command` — take it out",
        ],
    ),
    (
        "lockgate.yaml",
        "servers:\n  a: { url: 'https://a/mcp', headers: { Host: x, Mcp-Session-Id: y, 'a b': z } }\n  system: { url: 'https://b/mcp' }\n  c: { command: sh, headers: { A: b }, transport: sse }\n  d: { url: 'https://d/sse', transport: sse, era: modern }\n",
        &[
            "lockgate.yaml:2:47: servers.a.headers.host: the gateway sets this header itself — take it out",
            "lockgate.yaml:2:66: servers.a.headers.mcp-session-id: the gateway sets this header itself — take it out",
            "lockgate.yaml:2:76: servers.a.headers.a b: is no name of a header — use letters, digits and -",
            "lockgate.yaml:3:3: servers.system: a built-in server has this name — rename it, or set `builtin.system: false`",
            "lockgate.yaml:4:21: servers.c.headers: only goes with `url` — take it out",
            "lockgate.yaml:4:51: servers.c.transport: a `command` speaks over stdio — write `url`, or take it out",
            "lockgate.yaml:5:51: servers.d.era: HTTP+SSE exists in the legacy era alone — use `transport: http`, or leave out `era`",
        ],
    ),
    (
        "lockgate.yaml",
        "servers:\n  a: { url: 'nowhere', headers: { 'a b': x, Host: y }, transport: sse, era: modern, env: { '': x } }\n  b: { command: '', url: 'ftp://x', headers: { mcp-x: y }, env: { '=': x } }\n  c: { headers: { te: x } }\n  d: { command: ' ', env: { '=': x }, headers: { te: x } }\n",
        &[
            "lockgate.yaml:2:13: servers.a.url: must be an http:// or https:// address — such as https://mcp.example.com/mcp",
            "lockgate.yaml:2:42: servers.a.headers.a b: is no name of a header — use letters, digits and -",
            "lockgate.yaml:2:51: servers.a.headers.host: the gateway sets this header itself — take it out",
            "lockgate.yaml:2:77: servers.a.era: HTTP+SSE exists in the legacy era alone — use `transport: http`, or leave out `era`",
            "lockgate.yaml:2:85: servers.a.env: only goes with `command` — take it out",
            "lockgate.yaml:3:3: servers.b: has both `command` and `url` — keep one: a program to start, or an address to call",
            "lockgate.yaml:3:17: servers.b.command: must not be empty — name a program",
            "lockgate.yaml:3:26: servers.b.url: must be an http:// or https:// address — such as https://mcp.example.com/mcp",
            "lockgate.yaml:3:55: servers.b.headers.mcp-x: the gateway sets this header itself — take it out",
            "lockgate.yaml:3:72: servers.b.env.=: is no name of a variable — it must not be empty or contain =",
            "lockgate.yaml:4:3: servers.c: needs `command` or `url` — a program to start, or an address to call",
            "lockgate.yaml:4:23: servers.c.headers.te: the gateway sets this header itself — take it out",
            "lockgate.yaml:5:17: servers.d.command: must not be empty — name a program",
            "lockgate.yaml:5:34: servers.d.env.=: is no name of a variable — it must not be empty or contain =",
            "lockgate.yaml:5:39: servers.d.headers: only goes with `url` — take it out",
        ],
    ),
    (
        "lockgate.yaml",
        "listen: 0.0.0.0:3001\n",
        &[
            "lockgate.yaml:1:9: listen: without `auth.key` only a loopback address may be bound (it is `0.0.0.0:3001`) — set `auth.key: \"${LOCKGATE_KEY}\"` or another credential of `auth`, or bind 127.0.0.1",
        ],
    ),
    (
        "lockgate.yaml",
        "listen: 127.0.0.1:80\nadmin: { listen: '0.0.0.0:9901' }\n",
        &[
            "lockgate.yaml:1:9: listen: the port must be from 1024 to 65535 (it is `127.0.0.1:80`) — use a higher one, or set `http.privileged_ports: true`",
            "lockgate.yaml:2:18: admin.listen: without `auth.key` only a loopback address may be bound (it is `0.0.0.0:9901`) — set `auth.key: \"${LOCKGATE_KEY}\"` or another credential of `auth`, or bind 127.0.0.1",
        ],
    ),
    (
        "lockgate.yaml",
        "listen: ':3001'\nadmin: { listen: 'localhost:0' }\n",
        &[
            "lockgate.yaml:1:9: listen: must be ADDRESS:PORT (it is `:3001`) — such as 127.0.0.1:3001, [::1]:3001, or 0.0.0.0:3001 for every interface",
            "lockgate.yaml:2:18: admin.listen: the port must be from 1024 to 65535 (it is `localhost:0`) — port 0 (any free port) is accepted on the command line alone",
        ],
    ),
    (
        "lockgate.yaml",
        "listen: 127.0.0.1:3001\nadmin: { listen: 'localhost:3001' }\n",
        &[
            "lockgate.yaml:2:18: admin.listen: is the address of `listen` — use another port, or leave it out to share that one",
        ],
    ),
    (
        "lockgate.yaml",
        "profile: production\nbuiltin: { example: true }\n",
        &[
            "lockgate.yaml:1:10: auth.key: must be given in production — write `auth: { key: \"${LOCKGATE_KEY}\" }` and set that variable, or set `auth.keys_file`, `auth.issuers` or `http.tls.client_ca`",
            "lockgate.yaml:1:10: policy.tools.allow: must be given in production — list the tools that may be used, such as allow: [\"time__*\"]; or name policy.files",
            "lockgate.yaml:2:21: builtin.example: the example server is not for production — take it out, or use `profile: development`",
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
            "lockgate.yaml:1:28: policy.tools.allow.0: is no pattern: unclosed character class; missing ']' (it is `a[`) — use *, ?, [a-z] and {a,b}",
            "lockgate.yaml:1:60: policy.calls_per_minute: must be from 1 to 1000000 (it is `0`) — leave it out for none",
        ],
    ),
    (
        "lockgate.yaml",
        "http:\n  hosts: ['http://x', '*.x']\n  origins: ['x', 'https://x/y']\n  tls: { cert: no.pem }\n  sse: maybe\n",
        &[
            "lockgate.yaml:2:11: http.hosts.0: is no host name (it is `http://x`) — write a name such as mcp.example.com, or * alone for any",
            "lockgate.yaml:2:23: http.hosts.1: is no host name (it is `*.x`) — write a name such as mcp.example.com, or * alone for any",
            "lockgate.yaml:3:13: http.origins.0: is no origin (it is `x`) — write scheme://host or scheme://host:port without a path",
            "lockgate.yaml:3:18: http.origins.1: is no origin (it is `https://x/y`) — write scheme://host or scheme://host:port without a path",
            "lockgate.yaml:4:3: http.tls.key: must be given: TLS needs both `cert` and `key` — name a PEM file",
            "lockgate.yaml:4:16: http.tls.cert: there is no such file (it is `FOLDER/no.pem`) — a relative path starts at the file that names it",
            "lockgate.yaml:5:8: http.sse: must be true or false (it is `maybe`) — write true or false",
        ],
    ),
    (
        "lockgate.yaml",
        "log: { level: inof, format: xml }\ntelemetry: { otlp: 'localhost:4318' }\n",
        &[
            "lockgate.yaml:1:15: log.level: must be `off`, `error`, `warn`, `info`, `debug` or `trace` (it is `inof`) — did you mean `info`?",
            "lockgate.yaml:1:29: log.format: must be `text` or `json` (it is `xml`) — write one of these",
            "lockgate.yaml:2:20: telemetry.otlp: must be an http:// or https:// address without user and password — such as http://127.0.0.1:4318/v1/traces",
        ],
    ),
    (
        "lockgate.yaml",
        "log: debug\nservers: [a]\nhttp: { hosts: { a: b } }\n",
        &[
            "lockgate.yaml:1:6: log: must be a section (keys and values), not text — put its keys below it",
            "lockgate.yaml:2:1: servers: must be a section (keys and values), not a list — put its keys below it",
            "lockgate.yaml:3:9: http.hosts: must be a list, not a section — write [a, b]",
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
            "lockgate.yaml:3:20: egress.ca_file: there is no such file (it is `FOLDER/ca.pem`) — a relative path starts at the file that names it",
        ],
    ),
    (
        "lockgate.yaml",
        "a: 1\na: 2\n",
        &[
            "lockgate.yaml:2:1: not valid YAML: duplicate mapping key: a — the mistake is here or just before",
        ],
    ),
    (
        "lockgate.yaml",
        "name: [\n",
        &[
            "lockgate.yaml:1:7: not valid YAML: unclosed bracket '[' — the mistake is here or just before",
        ],
    ),
    ("lockgate.yaml", "- a\n", &["lockgate.yaml: must hold keys and values, not a list"]),
    (
        "lockgate.yaml",
        "name: a\n---\nname: b\n",
        &[
            "lockgate.yaml:3:1: not valid YAML: multiple YAML documents detected — the mistake is here or just before",
        ],
    ),
    (
        "lockgate.json",
        "{\n  \"name\": \"a\",\n  \"name\": \"b\"\n}",
        &["lockgate.json:3:3: the key `name` is there twice — keep one of them"],
    ),
    (
        "lockgate.json",
        "{\n  \"name\": \n}",
        &["lockgate.json:3:1: not valid JSON: expected value — the mistake is here or just before"],
    ),
    (
        "lockgate.toml",
        "name = \n",
        &[
            "lockgate.toml:1:8: not valid TOML: string values must be quoted, expected literal string — the mistake is here or just before",
        ],
    ),
    (
        "lockgate.toml",
        "name = 'a'\nname = 'b'\n",
        &["lockgate.toml:2:1: not valid TOML: duplicate key — the mistake is here or just before"],
    ),
    (
        "lockgate.yaml",
        "mcpServers: { a: { command: sh } }\nport: 3000\n",
        &[
            "lockgate.yaml:1:1: mcpServers: there is no such key — entries of a client's file go below `servers`; or name that file in `import` or with --mcp-servers",
            "lockgate.yaml:2:1: port: there is no such key — write `listen: HOST:PORT`",
        ],
    ),
    (
        "lockgate.yaml",
        "auth: { key: '${NOT_SET}' }\nsecret: file:missing\nname: '${'\n",
        &[
            "lockgate.yaml:1:14: auth.key: the environment variable NOT_SET is not set — set it, or give a default: ${NOT_SET:-…}",
            "lockgate.yaml:2:9: secret: the file missing cannot be used: there is no such file — name a file that holds the value and nothing else",
            "lockgate.yaml:3:7: name: a `${` is not closed — write ${NAME}, or $${ for the two characters",
        ],
    ),
    (
        "lockgate.yaml",
        "import: [other.json]\n",
        &[
            "lockgate.yaml:1:10: import: there is no file other.json — the path is relative to the file that names it",
        ],
    ),
    (
        "lockgate.yaml",
        "servers:\n  a: { command: no-such-program, cwd: nowhere }\n  b: { command: 'npx -y x' }\n",
        &[
            "warning: lockgate.yaml:2:17: servers.a.command: no such program is found — install it, or write its whole path",
            "warning: lockgate.yaml:2:39: servers.a.cwd: there is no such folder — a relative path starts at the file that names it",
            "warning: lockgate.yaml:3:17: servers.b.command: no such program is found — arguments go into `args`",
        ],
    ),
    (
        "lockgate.yaml",
        "auth:\n  anonymous: never\n  issuers: { a: { issuer: http://a.example, algorithms: [HS256], audiences: [''] }, b: {} }\n  scopes: { required: ['a b'], tools: { '[': [x] } }\nhttp: { public_url: nowhere }\n",
        &[
            "lockgate.yaml:3:27: auth.issuers.a.issuer: must be https: anybody on the way could let themselves in (it is `http://a.example`) — it is the `iss` of its tokens, such as https://login.example.com",
            "lockgate.yaml:3:58: auth.issuers.a.algorithms.0: must be `RS256`, `RS384`, `RS512`, `PS256`, `PS384`, `PS512`, `ES256`, `ES384` or `EdDSA` (it is `HS256`) — symmetric algorithms and `none` are never taken",
            "lockgate.yaml:3:78: auth.issuers.a.audiences.0: is empty, and a token for nobody would be taken everywhere (it is ``) — write what the issuer puts into `aud`",
            "lockgate.yaml:3:85: auth.issuers.b.issuer: must be given — it is the `iss` of its tokens",
            "lockgate.yaml:4:24: auth.scopes.required.0: is no scope (it is `a b`) — a scope is ASCII without blanks and quotes",
            "lockgate.yaml:4:41: auth.scopes.tools.[: is no pattern — use *, ?, [a-z] and {a,b}",
            "lockgate.yaml:5:21: http.public_url: must be an http:// or https:// address (it is `nowhere`) — such as https://mcp.example.com; endpoints are named by it in tokens",
        ],
    ),
    (
        "lockgate.yaml",
        "approvals: { webhook: { url: 'ftp://x', secret: whsec_short } }\nhttp: { public_url: 'http://127.0.0.1:3001' }\n",
        &[
            "lockgate.yaml:1:30: approvals.webhook.url: must be an http:// or https:// address without user and password — such as https://hooks.example.com/approvals",
            "lockgate.yaml:1:49: approvals.webhook.secret: must be `whsec_` and 24 to 64 bytes in base64 — make one with `echo whsec_$(openssl rand -base64 32)`",
        ],
    ),
    (
        "lockgate.yaml",
        "auth: { anonymous: never }\n",
        &[
            "lockgate.yaml:1:20: auth.anonymous: nobody can call: there is no way to show who one is — set `auth.key`, `auth.keys_file`, `auth.issuers` or `http.tls.client_ca`",
        ],
    ),
    (
        "lockgate.yaml",
        "auth: { anonymous: everywhere, keys_file: none.yaml }\n",
        &[
            "warning: lockgate.yaml:1:20: auth.anonymous: callers need no credential — take it out, unless everybody who reaches the gateway may use it",
            "warning: lockgate.yaml:1:43: auth.keys_file: there is no such file yet (it is `FOLDER/none.yaml`) — make the first key with `lockgate keys create NAME`",
        ],
    ),
    (
        "lockgate.yaml",
        "http: { public_url: 'https://mcp.example.com' }\n",
        &[
            "warning: lockgate.yaml:1:21: http.public_url: callers that a proxy on this machine passes on look local, and local ones need no credential — set `auth.key`, `auth.keys_file`, `auth.issuers` or `http.tls.client_ca`",
        ],
    ),
    (
        "lockgate.yaml",
        "http: { public_url: 'https://mcp.example.com' }\nauth: { anonymous: loopback }\n",
        &[
            "warning: lockgate.yaml:1:21: http.public_url: callers that a proxy on this machine passes on look local, and local ones need no credential — set `auth.anonymous: never`",
        ],
    ),
    (
        "lockgate.yaml",
        "http: { public_url: 'https://mcp.example.com' }\nauth: { keys_file: none.yaml }\n",
        &[
            "warning: lockgate.yaml:2:20: auth.keys_file: there is no such file yet (it is `FOLDER/none.yaml`) — make the first key with `lockgate keys create NAME`",
        ],
    ),
    (
        "lockgate.yaml",
        "http: { public_url: 'https://mcp.example.com' }\nauth: { anonymous: never, keys_file: none.yaml }\n",
        &[
            "warning: lockgate.yaml:2:38: auth.keys_file: there is no such file yet (it is `FOLDER/none.yaml`) — make the first key with `lockgate keys create NAME`",
        ],
    ),
    ("lockgate.yaml", "http: { public_url: 'http://127.0.0.1:3001' }\n", &[]),
];

#[test]
fn every_mistake_is_reported_at_once_with_its_place_key_and_a_hint() {
    let mut wrong = Vec::new();
    for (name, text, expected) in CASES {
        let given = Given::files(&[(name, text)]);
        let folder = given.path().display().to_string();
        let messages: Vec<String> =
            given.messages().iter().map(|m| m.replace(&folder, "FOLDER")).collect();
        if messages != *expected {
            wrong.push(format!("{name}: {text:?}\n  {}", messages.join("\n  ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The beginning of a key as older programs encrypt them.
const ENCRYPTED: &str = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n\
    -----END EC PRIVATE KEY-----\n";

/// Certificates, keys and authorities that no listener could be started with.
#[test]
fn what_is_no_pem_is_told_with_its_file() {
    let (cert, key) = super::certificate();
    let (_, other) = super::certificate();
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let config = "http: { tls: { cert: c.pem, key: k.pem, client_ca: a.pem } }\negress: { ca_file: e.pem }\n";
    for (file, text, words) in [
        ("c.pem", "this is no PEM", "c.pem: it holds no certificate"),
        ("c.pem", garbage, "c.pem and "),
        ("c.pem", "-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n", "c.pem: "),
        ("k.pem", "nor is this", "k.pem: it holds no private key, or one behind a password"),
        ("k.pem", ENCRYPTED, "k.pem: it holds no private key, or one behind a password"),
        ("k.pem", &other, "do not go together"),
        ("a.pem", "nor this", "a.pem holds no authorities of clients"),
        ("a.pem", garbage, "a.pem holds a certificate that cannot be an authority"),
        ("e.pem", "", "egress.ca_file: cannot be used: no certificate in this file"),
        ("e.pem", garbage, "egress.ca_file: cannot be used: "),
    ] {
        let mut files = vec![
            ("lockgate.yaml", config),
            ("c.pem", &cert),
            ("k.pem", &key),
            ("a.pem", &cert),
            ("e.pem", &cert),
        ];
        assert_eq!(Given::files(&files).messages(), Vec::<String>::new());
        for known in &mut files {
            if known.0 == file {
                known.1 = text;
            }
        }
        let told = Given::files(&files).messages().join("\n");
        assert!(told.contains(words), "{file}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}
