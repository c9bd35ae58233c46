//! The `OTEL_…` variables of the OpenTelemetry specification for the export of traces and logs, as
//! the weakest layer: any configured value overrides them, and they are ignored if a collector is
//! configured. <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>

use std::collections::BTreeMap;

use lockgate_text::percent;

use super::{find_first, find_set};
use crate::problem::{Problem, Problems, ValuePlace};
use crate::source::node::Node;

type Environment = BTreeMap<String, String>;

/// The variables of an exported signal.
struct Signal {
    name: &'static str,
    /// The key in `telemetry`.
    key: &'static str,
    path: &'static str,
    exporter: &'static str,
    endpoint: &'static str,
    protocol: &'static str,
    headers: &'static str,
}

const TRACES: Signal = Signal {
    name: "traces",
    key: "otlp",
    path: "/v1/traces",
    exporter: "OTEL_TRACES_EXPORTER",
    endpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    protocol: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    headers: "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
};
const LOGS: Signal = Signal {
    name: "logs",
    key: "otlp_logs",
    path: "/v1/logs",
    exporter: "OTEL_LOGS_EXPORTER",
    endpoint: "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
    protocol: "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL",
    headers: "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
};

pub fn read(env: &Environment, problems: &mut Problems) -> Node {
    let mut root = Node::map(ValuePlace::Nowhere);
    if says(env, "OTEL_SDK_DISABLED", "true") {
        return root;
    }
    let traces = put_endpoint(env, &TRACES, &mut root, problems);
    let mut logs = false;
    // There is a single set of headers, and one collector's headers must not be sent to another.
    if traces && find_headers(env, &TRACES) != find_headers(env, &LOGS) {
        refuse_logs(env, problems);
    } else {
        logs = put_endpoint(env, &LOGS, &mut root, problems);
    }
    if traces {
        put_headers(env, &TRACES, &mut root);
    } else if logs {
        put_headers(env, &LOGS, &mut root);
    }
    put_resource(env, &mut root);
    put_sampler(env, &mut root, problems);
    root
}

fn says(env: &Environment, name: &str, value: &str) -> bool {
    matches!(find_set(env, name), Some(set) if set.eq_ignore_ascii_case(value))
}

fn put(root: &mut Node, path: &[&str], value: &str, variable: &str) {
    root.put(path, Node::text(value, ValuePlace::Variable(variable.to_owned())));
}

/// Puts the endpoint: the signal's own variable is the whole address, the common variable its base.
fn put_endpoint(
    env: &Environment,
    signal: &Signal,
    root: &mut Node,
    problems: &mut Problems,
) -> bool {
    let names = [signal.endpoint, "OTEL_EXPORTER_OTLP_ENDPOINT"];
    let Some((name, address)) = find_first(env, names) else { return false };
    if says(env, signal.exporter, "none") {
        return false;
    }
    let protocols = [signal.protocol, "OTEL_EXPORTER_OTLP_PROTOCOL"];
    if let Some((variable, protocol)) = find_first(env, protocols)
        && protocol != "http/protobuf"
    {
        let place = ValuePlace::Variable(variable.to_owned());
        let what = format!("is not supported, so no {} are sent", signal.name);
        let key = format!("telemetry.{}", signal.key);
        let hint = format!("set an address for http/protobuf in `{key}`");
        problems.push(Problem::warning(place, key, what).hint(hint));
        return false;
    }
    if name == signal.endpoint {
        put(root, &["telemetry", signal.key], address, name);
    } else {
        let whole = [address.trim_end_matches('/'), signal.path].concat();
        put(root, &["telemetry", signal.key], &whole, name);
    }
    true
}

fn find_headers<'a>(env: &'a Environment, signal: &Signal) -> Option<(&'static str, &'a str)> {
    find_first(env, [signal.headers, "OTEL_EXPORTER_OTLP_HEADERS"])
}

fn put_headers(env: &Environment, signal: &Signal, root: &mut Node) {
    let Some((variable, list)) = find_headers(env, signal) else { return };
    for (name, value) in read_pairs(list) {
        put(root, &["telemetry", "headers", &name], &value, variable);
    }
}

/// Warns that logs are not exported, because their headers differ from those of traces.
fn refuse_logs(env: &Environment, problems: &mut Problems) {
    let names = [LOGS.endpoint, "OTEL_EXPORTER_OTLP_ENDPOINT"];
    let Some((name, _)) = find_first(env, names) else { return };
    if says(env, LOGS.exporter, "none") {
        return;
    }
    let what = "differ from the headers of traces, so no logs are sent";
    let place = ValuePlace::Variable(name.to_owned());
    let problem = Problem::warning(place, "telemetry.otlp_logs", what);
    problems.push(problem.hint("write the same headers for both in OTEL_EXPORTER_OTLP_HEADERS"));
}

fn put_resource(env: &Environment, root: &mut Node) {
    const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
    const NAME: &str = "OTEL_SERVICE_NAME";
    let service_name = ["telemetry", "service_name"];
    if let Some(list) = find_set(env, ATTRIBUTES) {
        for (name, value) in read_pairs(list) {
            match name.as_str() {
                "service.name" => put(root, &service_name, &value, ATTRIBUTES),
                name => put(root, &["telemetry", "resource", name], &value, ATTRIBUTES),
            }
        }
    }
    if let Some(name) = find_set(env, NAME) {
        root.remove(&service_name);
        put(root, &service_name, name, NAME);
    }
}

/// Reads the sampler. For traces begun by a client, the client's decision always applies.
fn put_sampler(env: &Environment, root: &mut Node, problems: &mut Problems) {
    const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
    const ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";
    let Some(sampler) = find_set(env, SAMPLER) else { return };
    let place = ValuePlace::Variable(SAMPLER.to_owned());
    let key = "telemetry.samples_per_thousand";
    let share = match sampler.strip_prefix("parentbased_").unwrap_or(sampler) {
        "always_on" => 1.0,
        "always_off" => 0.0,
        "traceidratio" => {
            let share = match find_set(env, ARGUMENT) {
                Some(argument) => argument.parse::<f64>(),
                None => Ok(1.0),
            };
            match share {
                Ok(share) if (0.0..=1.0).contains(&share) => share,
                _ => {
                    let place = ValuePlace::Variable(ARGUMENT.to_owned());
                    let problem = Problem::error(place, key, "must be from 0 to 1");
                    return problems.push(problem.hint("such as 0.1 for every tenth trace"));
                }
            }
        }
        _ => {
            let problem = Problem::warning(place, key, "is not a supported sampler");
            return problems.push(problem.hint("such as parentbased_traceidratio"));
        }
    };
    // Rounds up, so that a small share does not become zero.
    let thousandth = (share * 1000.0).ceil().to_string();
    put(root, &["telemetry", "samples_per_thousand"], &thousandth, SAMPLER);
}

/// Parses `key=value,key2=value2`, percent-encoded; other parts are ignored.
fn read_pairs(list: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for pair in list.split(',') {
        if let Some((name, value)) = pair.split_once('=')
            && !name.trim().is_empty()
        {
            let value = value.trim();
            let value = match percent::decode(value.as_bytes()) {
                Some(decoded) => String::from_utf8_lossy(&decoded).into_owned(),
                None => value.to_owned(),
            };
            pairs.push((name.trim().to_owned(), value));
        }
    }
    pairs
}
