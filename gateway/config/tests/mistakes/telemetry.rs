//! Mistakes in logs and traces.

use super::{Case, hold};

const CASES: &[Case] = &[
    (
        "lockgate.yaml",
        "listen: 3001\nlog: { level: 'info,lockgate=bogus' }\n",
        &[
            "lockgate.yaml:1:9: listen: must be text, not a number — write ADDRESS:PORT, such as 127.0.0.1:3001",
            "lockgate.yaml:2:15: log.level: is not a log filter (it is `info,lockgate=bogus`) — such as info,lockgate_proxy=debug",
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
        "log: { level: inof }\ntelemetry:\n  otlp_logs: 'http://c.example/v1/logs'\n  headers: { X-Team: a }\n",
        &[
            "lockgate.yaml:1:15: log.level: must be `off`, `error`, `warn`, `info`, `debug` or `trace` (it is `inof`) — did you mean `info`?",
            "warning: lockgate.yaml:4:3: telemetry.headers: cross the network unencrypted — use https:// for telemetry.otlp_logs",
        ],
    ),
    (
        "lockgate.yaml",
        "telemetry:\n  otlp: 'https://c.example/v1/traces'\n  otlp_logs: 'grpc://c.example:4317'\n",
        &[
            "lockgate.yaml:3:14: telemetry.otlp_logs: must be an http:// or https:// address without user and password — such as http://127.0.0.1:4318/v1/logs",
        ],
    ),
    (
        "lockgate.yaml",
        "audit:\n  syslog: { address: 'udp://logs:514', facility: kern }\n  webhook: { url: 'ftp://x', secret: whsec_short }\n",
        &[
            "lockgate.yaml:2:3: audit.syslog: requires `audit.file`: undelivered records are kept there — such as file: audit.jsonl",
            "lockgate.yaml:2:22: audit.syslog.address: must be tls:// or tcp:// with a host and a port alone — such as tls://logs.example.com:6514",
            "lockgate.yaml:2:50: audit.syslog.facility: must be `audit`, `auth`, `authpriv`, `local0`, `local1`, `local2`, `local3`, `local4`, `local5`, `local6` or `local7` (it is `kern`) — write one of these",
            "lockgate.yaml:3:3: audit.webhook: requires `audit.file`: undelivered records are kept there — such as file: audit.jsonl",
            "lockgate.yaml:3:19: audit.webhook.url: must be an http:// or https:// address without user and password — such as https://siem.example.com/lockgate",
            "lockgate.yaml:3:38: audit.webhook.secret: must be `whsec_` and 24 to 64 bytes in base64 — generate one with `echo whsec_$(openssl rand -base64 32)`",
        ],
    ),
    (
        "lockgate.yaml",
        "audit: { file: a.jsonl, syslog: { address: 'tcp://logs' }, webhook: { url: 'http://siem/in' } }\n",
        &[
            "lockgate.yaml:1:60: audit.webhook.secret: is required: messages are signed with it — generate one with `echo whsec_$(openssl rand -base64 32)`",
            "warning: lockgate.yaml:1:44: audit.syslog.address: records cross the network unencrypted — use tls://",
            "warning: lockgate.yaml:1:76: audit.webhook.url: records cross the network unencrypted — use https://",
        ],
    ),
    (
        "lockgate.yaml",
        "audit:\n  file: a.jsonl\n  syslog: { address: 'tls://logs', client_cert: c.pem }\n  webhook: { url: 'https://siem/in', secret: '${W:-whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}', client_key: k.pem }\n",
        &[
            "lockgate.yaml:3:3: audit.syslog.client_key: is required: `client_cert` and `client_key` go together — set it to a PEM file",
            "lockgate.yaml:4:3: audit.webhook.client_cert: is required: `client_cert` and `client_key` go together — set it to a PEM file",
        ],
    ),
    (
        "lockgate.yaml",
        "audit:\n  file: a.jsonl\n  syslog: { address: 'tcp://127.0.0.1', client_cert: c.pem, client_key: k.pem }\n",
        &[
            "lockgate.yaml:3:54: audit.syslog.client_cert: is not used without TLS — use tls:// or https://, or remove it",
            "lockgate.yaml:3:54: audit.syslog.client_cert: cannot use FOLDER/c.pem: No such file or directory (os error 2) — use PEM files: a certificate with its chain, and its key",
        ],
    ),
    (
        "lockgate.yaml",
        "log: { level: inof }\ntelemetry: { otlp: 'https://c.example/v1/traces', headers: { X-Api-Key: k, X-Team: a, X-Key: '${A:-k}' } }\n",
        &[
            "lockgate.yaml:1:15: log.level: must be `off`, `error`, `warn`, `info`, `debug` or `trace` (it is `inof`) — did you mean `info`?",
            "warning: lockgate.yaml:2:73: telemetry.headers.X-Api-Key: is written in plain text — use a reference: ${VAR} or file:PATH",
        ],
    ),
    (
        "lockgate.yaml",
        "audit:\n  file: a.jsonl\n  webhook:\n    url: https://siem.example\n    secret: '${W:-whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}'\n    headers:\n      'Not A Name': Zzz\n      Webhook-Signature: Zzz\n      host: Zzz\n      X-Line: \"Zzz\\nZzz\"\n      X-Word: 'Zzz\u{e9}'\n      DD-API-KEY: Zzz\n      X-Team: '1'\n      x-team: '2'\n",
        &[
            "lockgate.yaml:7:21: audit.webhook.headers.Not A Name: is not a header name — use letters, digits and -",
            "lockgate.yaml:8:26: audit.webhook.headers.Webhook-Signature: the gateway sets this header itself — remove it",
            "lockgate.yaml:9:13: audit.webhook.headers.host: the gateway sets this header itself — remove it",
            "lockgate.yaml:10:15: audit.webhook.headers.X-Line: must be ASCII on one line — remove line breaks and other control characters",
            "lockgate.yaml:11:15: audit.webhook.headers.X-Word: must be ASCII on one line — remove line breaks and other control characters",
            "lockgate.yaml:14:15: audit.webhook.headers.x-team: is set twice, in different case — keep one of them",
            "warning: lockgate.yaml:12:19: audit.webhook.headers.DD-API-KEY: is written in plain text — use a reference: ${VAR} or file:PATH",
        ],
    ),
    (
        "lockgate.yaml",
        "telemetry:\n  otlp: https://c.example/v1/traces\n  headers: { Content-Length: '3', X-A: a, x-a: b }\n",
        &[
            "lockgate.yaml:3:30: telemetry.headers.Content-Length: the gateway sets this header itself — remove it",
            "lockgate.yaml:3:48: telemetry.headers.x-a: is set twice, in different case — keep one of them",
        ],
    ),
];

#[test]
fn every_mistake_in_logs_and_traces_is_reported_with_a_hint() {
    hold(CASES);
}
