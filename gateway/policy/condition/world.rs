//! The variables of a condition, built from a request, and the samples for trying a condition when
//! it is loaded.

use std::collections::HashMap;
use std::sync::Arc;

use cel::Value;

use crate::target::{Annotations, Certificate, Subject, Target, TargetKind};

#[derive(Clone, Copy)]
pub(crate) struct World<'a> {
    pub(crate) subject: &'a Subject<'a>,
    pub(crate) endpoint: &'a str,
    /// The target, once known.
    pub(crate) target: Option<&'a Target<'a>>,
    /// The arguments, once known.
    pub(crate) arguments: Option<&'a serde_json::Value>,
}

pub(super) fn subject(subject: &Subject<'_>) -> Value {
    let certificates: Vec<_> = subject.certificates().into_iter().map(Value::from).collect();
    map([
        ("issuer", subject.issuer.into()),
        ("id", subject.subject.into()),
        ("principal", subject.principal().into()),
        // Absent values are empty, so that comparing with them is false and not an error.
        ("organisation", subject.organisation.unwrap_or("").into()),
        ("roles", list(subject.roles)),
        ("scopes", list(subject.scopes)),
        ("agent", subject.agent.unwrap_or("").into()),
        ("certificates", certificates.into()),
        ("anonymous", Value::Bool(subject.is_anonymous())),
    ])
}

pub(super) fn target(target: &Target<'_>) -> Value {
    let Annotations { read_only, destructive, idempotent, open_world } = target.annotations;
    let annotations = map([
        ("read_only", Value::Bool(read_only)),
        ("destructive", Value::Bool(destructive)),
        ("idempotent", Value::Bool(idempotent)),
        ("open_world", Value::Bool(open_world)),
    ]);
    map([
        ("kind", target.kind.as_str().into()),
        ("server", target.server.into()),
        ("name", target.own.into()),
        ("exposed", target.exposed.into()),
        ("category", target.category.unwrap_or("").into()),
        ("annotations", annotations),
    ])
}

fn list(all: &[Arc<str>]) -> Value {
    let values: Vec<_> = all.iter().map(|one| Value::from(&**one)).collect();
    values.into()
}

fn map<const N: usize>(members: [(&str, Value); N]) -> Value {
    HashMap::from(members).into()
}

/// Converts the arguments; returns `None` if they have more than `bound` values.
pub(super) fn arguments(value: &serde_json::Value, bound: usize) -> Option<Value> {
    let mut left = bound;
    convert(value, &mut left)
}

fn convert(value: &serde_json::Value, left: &mut usize) -> Option<Value> {
    *left = left.checked_sub(1)?;
    Some(match value {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(value) => Value::Bool(*value),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Value::Int(whole),
            (None, number) => Value::Float(number?),
        },
        serde_json::Value::String(text) => text.as_str().into(),
        serde_json::Value::Array(items) => {
            let values = items.iter().map(|item| convert(item, left));
            values.collect::<Option<Vec<_>>>()?.into()
        }
        serde_json::Value::Object(members) => {
            let mut values = HashMap::new();
            for (key, value) in members {
                values.insert(key.as_str(), convert(value, left)?);
            }
            values.into()
        }
    })
}

/// Calls `each` with sample callers and targets. The arguments are empty, because their shape is
/// unknown.
pub(super) fn samples(mut each: impl FnMut(World<'_>) -> Result<(), String>) -> Result<(), String> {
    let words: [Arc<str>; 1] = ["word".into()];
    let tool = Target {
        kind: TargetKind::Tool,
        server: "server",
        organisation: None,
        exposed: "server__tool",
        own: "tool",
        category: None,
        annotations: Annotations::default(),
    };
    let nobody = Subject { issuer: "anonymous", subject: "anonymous", ..Subject::default() };
    let somebody = Subject {
        issuer: "https://issuer.example",
        subject: "somebody",
        organisation: Some("organisation"),
        agent: Some("agent"),
        roles: &words,
        scopes: &words,
        certificate: Some(Certificate { names: &[], fingerprint: "00" }),
        ..Subject::default()
    };
    let resource = Target {
        kind: TargetKind::Resource,
        exposed: "server+file:///a",
        own: "file:///a",
        ..tool
    };
    let builtin = Target { category: Some("file"), ..tool };
    let none = serde_json::json!({});
    for (subject, target) in [(nobody, tool), (somebody, builtin), (somebody, resource)] {
        each(World {
            subject: &subject,
            endpoint: "/mcp",
            target: Some(&target),
            arguments: Some(&none),
        })?;
    }
    Ok(())
}
