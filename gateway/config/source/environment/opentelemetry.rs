//! The `OTEL_…` variables of the OpenTelemetry specification for the export of traces and logs, as
//! the weakest layer: any configured value overrides them, and they are ignored if a collector is
//! configured. <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>

use std::collections::BTreeMap;

use lockgate_text::percent;

use super::find_set;
use crate::problem::{Problems, ValuePlace};
use crate::source::node::Node;

type Environment = BTreeMap<String, String>;

/// An exported signal, by its name in variables, with its key in `telemetry`.
struct Signal {
    name: &'static str,
    key: &'static str,
}

const TRACES: Signal = Signal { name: "traces", key: "otlp" };
const LOGS: Signal = Signal { name: "logs", key: "otlp_logs" };

impl Signal {
    /// Returns the signal's own variable, or else the common one, with its value.
    fn find<'a>(&self, env: &'a Environment, setting: &str) -> Option<(String, &'a str)> {
        let own = format!("{}_{setting}", self.name.to_ascii_uppercase());
        [own.as_str(), setting].into_iter().find_map(|setting| {
            let name = format!("OTEL_EXPORTER_OTLP_{setting}");
            let value = find_set(env, &name)?;
            Some((name, value.as_str()))
        })
    }

    /// Returns the variable of the endpoint with its value, unless the signal is switched off.
    fn find_endpoint<'a>(&self, env: &'a Environment) -> Option<(String, &'a str)> {
        let exporter = format!("OTEL_{}_EXPORTER", self.name.to_ascii_uppercase());
        self.find(env, "ENDPOINT").filter(|_| !says(env, &exporter, "none"))
    }
}

pub fn read(env: &Environment, problems: &mut Problems) -> Node {
    let mut root = Node::map(ValuePlace::Nowhere);
    if says(env, "OTEL_SDK_DISABLED", "true") {
        return root;
    }
    let traces = put_endpoint(env, &TRACES, &mut root, problems);
    let mut logs = false;
    // There is a single set of headers, and one collector's headers must not be sent to another.
    if traces && TRACES.find(env, "HEADERS") != LOGS.find(env, "HEADERS") {
        refuse_logs(env, problems);
    } else {
        logs = put_endpoint(env, &LOGS, &mut root, problems);
    }
    if traces || logs {
        let signal = if traces { TRACES } else { LOGS };
        let (variable, list) = signal.find(env, "HEADERS").unwrap_or_default();
        for (name, value) in read_pairs(list) {
            put(&mut root, &["telemetry", "headers", &name], &value, &variable);
        }
    }
    put_resource(env, &mut root);
    put_sampler(env, &mut root, problems);
    root
}

fn says(env: &Environment, name: &str, value: &str) -> bool {
    find_set(env, name).is_some_and(|set| set.eq_ignore_ascii_case(value))
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
    let Some((name, address)) = signal.find_endpoint(env) else { return false };
    let protocol = signal.find(env, "PROTOCOL");
    if let Some((variable, _)) = protocol.filter(|(_, protocol)| *protocol != "http/protobuf") {
        let what = format!("is not supported, so no {} are sent", signal.name);
        let key = format!("telemetry.{}", signal.key);
        let hint = format!("set an address for http/protobuf in `{key}`");
        problems.warning(ValuePlace::Variable(variable), key, what, hint);
        return false;
    }
    let path = ["telemetry", signal.key];
    if name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
        let whole = format!("{}/v1/{}", address.trim_end_matches('/'), signal.name);
        put(root, &path, &whole, &name);
    } else {
        put(root, &path, address, &name);
    }
    true
}

/// Warns that logs are not exported, because their headers differ from those of traces.
fn refuse_logs(env: &Environment, problems: &mut Problems) {
    let Some((name, _)) = LOGS.find_endpoint(env) else { return };
    let what = "differ from the headers of traces, so no logs are sent";
    let hint = "write the same headers for both in OTEL_EXPORTER_OTLP_HEADERS";
    problems.warning(ValuePlace::Variable(name), "telemetry.otlp_logs", what, hint);
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
        put(root, &service_name, name, NAME);
    }
}

/// Reads the sampler. For traces begun by a client, the client's decision always applies.
fn put_sampler(env: &Environment, root: &mut Node, problems: &mut Problems) {
    const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
    const ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";
    let Some(sampler) = find_set(env, SAMPLER) else { return };
    let key = "telemetry.samples_per_thousand";
    let share = match sampler.strip_prefix("parentbased_").unwrap_or(sampler) {
        "always_on" => 1.0,
        "always_off" => 0.0,
        "traceidratio" => {
            let share = find_set(env, ARGUMENT).map_or(Ok(1.0), |argument| argument.parse::<f64>());
            let Some(share) = share.ok().filter(|share| (0.0..=1.0).contains(share)) else {
                let place = ValuePlace::Variable(ARGUMENT.to_owned());
                let hint = "such as 0.1 for every tenth trace";
                return problems.error(place, key, "must be from 0 to 1", hint);
            };
            share
        }
        _ => {
            let place = ValuePlace::Variable(SAMPLER.to_owned());
            let hint = "such as parentbased_traceidratio";
            return problems.warning(place, key, "is not a supported sampler", hint);
        }
    };
    // Rounds up, so that a small share does not become zero.
    let thousandth = (share * 1000.0).ceil().to_string();
    put(root, &["telemetry", "samples_per_thousand"], &thousandth, SAMPLER);
}

/// Parses `key=value,key2=value2`, percent-encoded; other parts are ignored.
fn read_pairs(list: &str) -> Vec<(String, String)> {
    let pairs = list.split(',').filter_map(|pair| pair.split_once('='));
    let named = pairs.filter(|(name, _)| !name.trim().is_empty());
    named.map(|(name, value)| (name.trim().to_owned(), decode(value.trim()))).collect()
}

fn decode(value: &str) -> String {
    percent::decode(value.as_bytes())
        .map_or_else(|| value.to_owned(), |text| String::from_utf8_lossy(&text).into_owned())
}
