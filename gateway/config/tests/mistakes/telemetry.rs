//! Mistakes in logs and traces.

use super::{Case, hold};

const CASES: &[Case] = &[
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
        "log: { level: inof, format: xml }\ntelemetry: { otlp: 'localhost:4318' }\n",
        &[
            "lockgate.yaml:1:15: log.level: must be `off`, `error`, `warn`, `info`, `debug` or `trace` (it is `inof`) — did you mean `info`?",
            "lockgate.yaml:1:29: log.format: must be `text` or `json` (it is `xml`) — write one of these",
            "lockgate.yaml:2:20: telemetry.otlp: must be an http:// or https:// address without user and password — such as http://127.0.0.1:4318/v1/traces",
        ],
    ),
];

#[test]
fn every_mistake_in_logs_and_traces_is_reported_with_a_hint() {
    hold(CASES);
}
