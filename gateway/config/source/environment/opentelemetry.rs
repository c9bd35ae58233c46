//! The `OTEL_…` variables of the OpenTelemetry specification that say where traces go and how, as
//! the weakest layer: everything that is configured wins over them, and where a collector is
//! configured they are not read.
//! <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>

use std::collections::BTreeMap;

use lockgate_text::percent;

use super::find_set;
use crate::problem::{Place, Problem, Problems};
use crate::source::node::Node;

type Environment = BTreeMap<String, String>;

/// The layer of these variables.
pub fn read(env: &Environment, problems: &mut Problems) -> Node {
    let mut root = Node::map(Place::Nowhere);
    if says(env, "OTEL_SDK_DISABLED", "true") || says(env, "OTEL_TRACES_EXPORTER", "none") {
        return root;
    }
    put_endpoint(env, &mut root, problems);
    put_headers(env, &mut root);
    put_resource(env, &mut root);
    put_sampler(env, &mut root, problems);
    root
}

fn says(env: &Environment, name: &str, value: &str) -> bool {
    matches!(find_set(env, name), Some(set) if set.eq_ignore_ascii_case(value))
}

fn put(root: &mut Node, path: &[&str], value: &str, variable: &str) {
    root.put(path, Node::text(value, Place::Variable(variable.to_owned())));
}

/// The first of them that is set.
fn first<'a>(env: &'a Environment, names: [&'static str; 2]) -> Option<(&'static str, &'a str)> {
    for name in names {
        if let Some(value) = find_set(env, name) {
            return Some((name, value.as_str()));
        }
    }
    None
}

/// The variable for traces is the whole address, the one for all signals is what it begins with.
fn put_endpoint(env: &Environment, root: &mut Node, problems: &mut Problems) {
    let names = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
    let Some((name, address)) = first(env, names) else { return };
    let protocols = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
    if let Some((variable, protocol)) = first(env, protocols)
        && protocol != "http/protobuf"
    {
        let place = Place::Variable(variable.to_owned());
        let what = "is not spoken here, so that no traces are sent";
        let problem = Problem::warning(place, "telemetry.otlp", what);
        problems.push(problem.hint("name an address for http/protobuf in `telemetry.otlp`"));
        return;
    }
    if name == names[0] {
        put(root, &["telemetry", "otlp"], address, name);
    } else {
        let whole = [address.trim_end_matches('/'), "/v1/traces"].concat();
        put(root, &["telemetry", "otlp"], &whole, name);
    }
}

fn put_headers(env: &Environment, root: &mut Node) {
    let names = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
    let Some((variable, list)) = first(env, names) else { return };
    for (name, value) in read_pairs(list) {
        put(root, &["telemetry", "headers", &name], &value, variable);
    }
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

/// Whether a trace that a client began is recorded is always for the client to say.
fn put_sampler(env: &Environment, root: &mut Node, problems: &mut Problems) {
    const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
    const ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";
    let Some(sampler) = find_set(env, SAMPLER) else { return };
    let place = Place::Variable(SAMPLER.to_owned());
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
                    let place = Place::Variable(ARGUMENT.to_owned());
                    let problem = Problem::error(place, key, "must be from 0 to 1");
                    return problems.push(problem.hint("such as 0.1 for every tenth trace"));
                }
            }
        }
        _ => {
            let problem = Problem::warning(place, key, "is no sampler that there is here");
            return problems.push(problem.hint("such as parentbased_traceidratio"));
        }
    };
    // The rarest that can be written, rather than none.
    let thousandth = (share * 1000.0).ceil().to_string();
    put(root, &["telemetry", "samples_per_thousand"], &thousandth, SAMPLER);
}

/// `key=value,key2=value2`, percent-encoded; what is no pair is left out.
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
