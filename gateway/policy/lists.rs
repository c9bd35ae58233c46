//! The lists of the configuration file as policies, so that one engine decides on both.

use crate::config::{Allow, Lists};
use crate::file::{Effect, Key, Policy, Rate, What, Who};

/// Returns the policies for the lists. `alone` indicates that there are no policy files, so that a
/// missing `allow` list allows everything.
pub(crate) fn policies(lists: &Lists, alone: bool) -> Vec<Policy> {
    let mut all = Vec::new();
    if let Some(servers) = &lists.servers.allow {
        all.push(deny(
            "policy.servers.allow",
            What { not_servers: Some(servers.clone()), ..What::default() },
        ));
    }
    if !lists.servers.deny.is_empty() {
        all.push(deny(
            "policy.servers.deny",
            What { servers: Some(lists.servers.deny.clone()), ..What::default() },
        ));
    }
    let names = ["policy.tools.allow", "policy.tools.deny"];
    kind(&mut all, &lists.tools, alone, names, |list| What {
        tools: Some(list),
        ..What::default()
    });
    let names = ["policy.prompts.allow", "policy.prompts.deny"];
    kind(&mut all, &lists.prompts, alone, names, |list| What {
        prompts: Some(list),
        ..What::default()
    });
    let names = ["policy.resources.allow", "policy.resources.deny"];
    kind(&mut all, &lists.resources, alone, names, |list| What {
        resources: Some(list),
        ..What::default()
    });
    let rates = [
        ("policy.calls_per_minute", "tools/call", lists.calls_per_minute),
        ("policy.completions_per_minute", "completion/complete", lists.completions_per_minute),
    ];
    for (name, method, per_minute) in rates {
        let Some(per_minute) = per_minute else { continue };
        let what = What { methods: Some(vec![method.into()]), ..What::default() };
        let rate = Rate {
            per_minute: Some(per_minute),
            by: Some(vec![Key::Principal]),
            ..Rate::default()
        };
        all.push(Policy { rate: Some(rate), ..deny(name, what) });
    }
    all
}

fn kind(
    all: &mut Vec<Policy>,
    list: &Allow,
    alone: bool,
    names: [&str; 2],
    what: impl Fn(Vec<String>) -> What,
) {
    let allow = match &list.allow {
        Some(allow) => Some(allow.clone()),
        None if alone => Some(vec!["*".to_owned()]),
        None => None,
    };
    if let Some(allow) = allow {
        all.push(Policy { effect: Effect::Allow, ..deny(names[0], what(allow)) });
    }
    if !list.deny.is_empty() {
        all.push(deny(names[1], what(list.deny.clone())));
    }
}

fn deny(name: &str, what: What) -> Policy {
    Policy {
        name: name.into(),
        effect: Effect::Deny,
        description: None,
        dry_run: false,
        who: Who::default(),
        what,
        when: None,
        arguments: Default::default(),
        other_arguments: None,
        rate: None,
        response: None,
        approval: None,
    }
}
