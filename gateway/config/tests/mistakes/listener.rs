//! Mistakes in the listener: addresses, hosts, origins, TLS.

use super::{Case, hold};

const CASES: &[Case] = &[
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
            "lockgate.yaml:1:9: listen: the port must be from 1024 to 65535 (it is `127.0.0.1:80`) — use a higher port, or set `http.privileged_ports: true`",
            "lockgate.yaml:2:18: admin.listen: without `auth.key` only a loopback address may be bound (it is `0.0.0.0:9901`) — set `auth.key: \"${LOCKGATE_KEY}\"` or another credential of `auth`, or bind 127.0.0.1",
        ],
    ),
    (
        "lockgate.yaml",
        "listen: ':3001'\nadmin: { listen: 'localhost:0' }\n",
        &[
            "lockgate.yaml:1:9: listen: must be ADDRESS:PORT (it is `:3001`) — such as 127.0.0.1:3001, [::1]:3001, or 0.0.0.0:3001 for every interface",
            "lockgate.yaml:2:18: admin.listen: the port must be from 1024 to 65535 (it is `localhost:0`) — port 0 (any free port) is only accepted on the command line",
        ],
    ),
    (
        "lockgate.yaml",
        "listen: 127.0.0.1:3001\nadmin: { listen: 'localhost:3001' }\n",
        &[
            "lockgate.yaml:2:18: admin.listen: is the address of `listen` — use another port, or remove it to share the address",
        ],
    ),
    (
        "lockgate.yaml",
        "http:\n  hosts: ['http://x', '*.x']\n  origins: ['x', 'https://x/y']\n  tls: { cert: no.pem }\n  sse: maybe\n",
        &[
            "lockgate.yaml:2:11: http.hosts.0: is not a host name (it is `http://x`) — use a name such as mcp.example.com, or a single * for any",
            "lockgate.yaml:2:23: http.hosts.1: is not a host name (it is `*.x`) — use a name such as mcp.example.com, or a single * for any",
            "lockgate.yaml:3:13: http.origins.0: is not an origin (it is `x`) — write scheme://host or scheme://host:port without a path",
            "lockgate.yaml:3:18: http.origins.1: is not an origin (it is `https://x/y`) — write scheme://host or scheme://host:port without a path",
            "lockgate.yaml:4:3: http.tls.key: is required: TLS needs both `cert` and `key` — set it to a PEM file",
            "lockgate.yaml:4:16: http.tls.cert: there is no such file (it is `FOLDER/no.pem`) — paths are relative to the file that contains them",
            "lockgate.yaml:5:8: http.sse: must be true or false (it is `maybe`) — write true or false",
        ],
    ),
];

#[test]
fn every_mistake_in_the_listener_is_reported_with_a_hint() {
    hold(CASES);
}
