//! Mistakes in keys and types: unknown keys, keys without a value, text in place of a number.

use super::super::TestConfig;
use super::{Case, hold};

const CASES: &[Case] = &[
    (
        "lockgate.yaml",
        "servers:\n  c:\npolicy: { tools: { deny: } }\n",
        &[
            "lockgate.yaml:2:3: servers.c: has no value — set a value, or remove it; use `{}` or `[]` for an empty value",
            "lockgate.yaml:3:20: policy.tools.deny: has no value — set a value, or remove it; use `{}` or `[]` for an empty value",
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
        "name: 12\nservers:\n  a:\n    command: sh\n    args: [-c, 5]\n    env: { A: true }\n",
        &[
            "lockgate.yaml:1:7: name: must be text, not a number — put it in quotes",
            "lockgate.yaml:5:16: servers.a.args.1: must be text, not a number — put it in quotes",
            "lockgate.yaml:6:15: servers.a.env.A: must be text, not true or false — put it in quotes",
        ],
    ),
    (
        "lockgate.yaml",
        "log: debug\nservers: [a]\nhttp: { hosts: { a: b } }\n",
        &[
            "lockgate.yaml:1:6: log: must be a section (keys and values), not text — put its keys under it",
            "lockgate.yaml:2:1: servers: must be a section (keys and values), not a list — put its keys under it",
            "lockgate.yaml:3:9: http.hosts: must be a list, not a section — write [a, b]",
        ],
    ),
    (
        "lockgate.yaml",
        "policy: { tools: { allow: [1, 'a[', 2, 'b['] } }\nhttp: { hosts: ['${NOT_SET}', 3, 'http://x'] }\n",
        &[
            "lockgate.yaml:1:28: policy.tools.allow.0: must be text, not a number — put it in quotes",
            "lockgate.yaml:1:31: policy.tools.allow.1: is not a valid pattern: unclosed character class; missing ']' (it is `a[`) — use *, ?, [a-z] and {a,b}",
            "lockgate.yaml:1:37: policy.tools.allow.2: must be text, not a number — put it in quotes",
            "lockgate.yaml:1:40: policy.tools.allow.3: is not a valid pattern: unclosed character class; missing ']' (it is `b[`) — use *, ?, [a-z] and {a,b}",
            "lockgate.yaml:2:17: http.hosts.0: the environment variable NOT_SET is not set — set it, or add a default: ${NOT_SET:-…}",
            "lockgate.yaml:2:31: http.hosts.1: must be text, not a number — put it in quotes",
            "lockgate.yaml:2:34: http.hosts.2: is not a host name (it is `http://x`) — use a name such as mcp.example.com, or a single * for any",
        ],
    ),
    (
        "lockgate.yaml",
        "mcpServers: { a: { command: sh } }\nport: 3000\n",
        &[
            "lockgate.yaml:1:1: mcpServers: there is no such key — put the entries of a client's file under `servers`, or list that file in `import` or with --mcp-servers",
            "lockgate.yaml:2:1: port: there is no such key — write `listen: HOST:PORT`",
        ],
    ),
];

#[test]
fn every_mistake_in_keys_and_shapes_is_reported_with_a_hint() {
    hold(CASES);
}

/// The items of a list in a variable have no places, even if the file has such a list.
#[test]
fn mistakes_in_a_list_of_a_variable_are_reported_at_the_variable() {
    let given = TestConfig::yaml("http: { hosts: [a, b] }\n").env("LOCKGATE_HTTP__HOSTS", "a,//");
    let messages = given.messages();
    let expected = "environment LOCKGATE_HTTP__HOSTS: http.hosts: is not a host name";
    assert!(messages.len() == 1 && messages[0].starts_with(expected), "{messages:?}");
}
