//! From what is written to what decides. Every mistake is found, each with the key it is about.

use std::collections::HashMap;
use std::sync::Arc;

use globset::Glob;

use crate::approval::{self, ApprovalRule};
use crate::arguments::Arguments;
use crate::condition::Condition;
use crate::config::Config;
use crate::file::{self, Effect};
use crate::lists;
use crate::names;
use crate::pattern::{self, MAX_PATTERNS};
use crate::rate;
use crate::response::Response;
use crate::rule::{DEFAULT, Rule, What};
use crate::who::Who;
use crate::words::{self, MAX_WORDS, Word};

/// Most policies of all files together.
pub const MAX_POLICIES: usize = 10_000;
const MAX_NAME: usize = 64;

/// Something wrong with a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Which document of the configuration, and which policy in it; `None` for the lists of the
    /// configuration file.
    pub at: Option<(usize, usize)>,
    /// The key, below the policy; for a list it is the whole key, such as `policy.tools.allow`.
    pub path: Vec<String>,
    pub what: String,
    pub hint: String,
}

/// Every policy of a configuration, in the order of their names.
pub(crate) fn rules(config: &Config) -> Result<Vec<Rule>, Vec<Mistake>> {
    let mut rules = Vec::new();
    let mut mistakes = Vec::new();
    let mut names: HashMap<String, String> = HashMap::new();
    for policy in lists::policies(&config.lists, config.documents.is_empty()) {
        match rule(&policy, policy.name.clone()) {
            Ok(rule) => rules.push(rule),
            Err(found) => {
                for mistake in found {
                    let mut path: Vec<String> = policy.name.split('.').map(str::to_owned).collect();
                    path.extend(mistake.path.last().cloned());
                    mistakes.push(Mistake { at: None, path, ..mistake });
                }
            }
        }
    }
    for (document, file) in config.documents.iter().enumerate() {
        for (at, entry) in file.policies.iter().enumerate() {
            let place = format!("{}:{}", file.name, entry.line);
            let mut found = match rule(&entry.policy, place.clone()) {
                Ok(rule) => {
                    rules.push(rule);
                    Vec::new()
                }
                Err(found) => found,
            };
            found.extend(names::check(&entry.policy).into_iter().map(|(path, what)| {
                let hint = "leave the key out where anything fits; docs/policy.md says how names \
                    are written"
                    .into();
                Mistake { at: None, path, what, hint }
            }));
            if is_reserved(&entry.policy.name) {
                let what = "stands for something else in records and answers: `default`, `pins` \
                    and all that begins with `policy.`";
                found.push(mistake(&["name"], what, "give it another name"));
            }
            if let Some(other) = names.insert(entry.policy.name.clone(), place) {
                found.push(mistake(
                    &["name"],
                    format!("is the name of another policy, at {other}"),
                    "rename one of them",
                ));
            }
            mistakes.extend(
                found.into_iter().map(|found| Mistake { at: Some((document, at)), ..found }),
            );
        }
    }
    if rules.len() > MAX_POLICIES {
        let what = format!("there are more than {MAX_POLICIES} policies");
        mistakes.push(Mistake {
            path: vec!["policy".into(), "files".into()],
            ..mistake(&[], what, "join some of them")
        });
    }
    rules.sort_by(|a, b| a.name.cmp(&b.name));
    if mistakes.is_empty() { Ok(rules) } else { Err(mistakes) }
}

/// Names of what decides besides policies: silence, the lock file, the lists of the configuration.
fn is_reserved(name: &str) -> bool {
    name == DEFAULT || name == "pins" || name.starts_with("policy.")
}

fn mistake(path: &[&str], what: impl Into<String>, hint: impl Into<String>) -> Mistake {
    let path = path.iter().map(|&key| key.to_owned()).collect();
    Mistake { at: None, path, what: what.into(), hint: hint.into() }
}

fn rule(policy: &file::Policy, place: String) -> Result<Rule, Vec<Mistake>> {
    let mut mistakes = Vec::new();
    let named = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if policy.name.is_empty() || policy.name.len() > MAX_NAME || !policy.name.chars().all(named) {
        let what = format!("must be 1 to {MAX_NAME} letters, digits, `.`, `_` and `-`");
        mistakes.push(mistake(&["name"], what, "text for people goes into `description`"));
    }
    let who = who(&policy.who, &mut mistakes);
    let mut what = what(&policy.what, &mut mistakes);
    if policy.effect == Effect::Ask && what.tools.is_none() {
        // Tools alone are called: it says nothing of other kinds.
        what.tools = pattern::compile("*").ok().map(|every| vec![every]);
    }
    let when = policy.when.as_deref().map(Condition::compile).transpose().unwrap_or_else(|words| {
        mistakes.push(mistake(&["when"], words, "docs/policy.md lists what conditions may use"));
        None
    });
    let arguments = Arguments::compile(&policy.arguments, policy.other_arguments, policy.effect);
    let arguments = arguments.unwrap_or_else(|found| {
        for (path, what) in found {
            let path = [vec!["arguments".to_owned()], path].concat();
            let hint = "docs/policy.md has an example of each rule".to_owned();
            mistakes.push(Mistake { at: None, path, what, hint });
        }
        None
    });
    rates(policy, when.as_ref(), &mut mistakes);
    let response =
        policy.response.as_ref().map(Response::compile).transpose().unwrap_or_else(|found| {
            for (path, what) in found {
                let path = [vec!["response".to_owned()], path].concat();
                let hint = "such as response: { secrets: true, max_bytes: 65536 }".to_owned();
                mistakes.push(Mistake { at: None, path, what, hint });
            }
            None
        });
    let by = approvers(policy, &mut mistakes);
    let approval = (policy.effect == Effect::Ask).then(|| Arc::new(ApprovalRule::new(policy, by)));
    let rule = Rule {
        name: policy.name.as_str().into(),
        place,
        effect: policy.effect,
        dry_run: policy.dry_run,
        who,
        what,
        when,
        arguments,
        rate: policy.rate.clone(),
        response,
        approval,
    };
    methods(&rule, &mut mistakes);
    if mistakes.is_empty() { Ok(rule) } else { Err(mistakes) }
}

/// Who may approve what the policy asks about.
fn approvers(policy: &file::Policy, mistakes: &mut Vec<Mistake>) -> Option<Who> {
    for (path, what) in approval::check(policy) {
        let hint = "such as approval: { by: { roles: [approver] }, approvals: 2, expires: 300 }";
        mistakes.push(mistake(&path, what, hint));
    }
    if let Some(key) = approval::check_kinds(policy) {
        let what = "cannot be in an `ask` policy, which is about calls of tools";
        mistakes.push(mistake(&["what", key], what, "leave it out, or deny what it names"));
    }
    let spec = policy.approval.as_ref()?.by.as_ref()?;
    let mut found = Vec::new();
    let who = who(spec, &mut found);
    for mut inner in found {
        inner.path.splice(..1, ["approval".to_owned(), "by".to_owned()]);
        mistakes.push(inner);
    }
    Some(who)
}

/// What a rate may be, and what may not stand beside it.
fn rates(policy: &file::Policy, when: Option<&Condition>, mistakes: &mut Vec<Mistake>) {
    let Some(rate) = &policy.rate else { return };
    let found = rate::check(rate).into_iter();
    mistakes.extend(found.map(|(key, what)| {
        mistake(&["rate", key], what, "such as rate: { per_minute: 60, by: [principal] }")
    }));
    if policy.dry_run {
        let what = "cannot have a `rate` beside it: what would be refused depends on what was \
            refused before";
        let hint = "take `dry_run` out and give the `rate` numbers that are never reached, or \
            leave the `rate` out";
        mistakes.push(mistake(&["dry_run"], what, hint));
    }
    if when.is_some_and(Condition::needs_arguments) {
        let what = "cannot be about `arguments` beside a `rate`: requests are counted before \
            arguments are read";
        mistakes.push(mistake(&["when"], what, "make two policies of it"));
    }
}

/// A policy about methods limits them and nothing else.
fn methods(rule: &Rule, mistakes: &mut Vec<Mistake>) {
    if rule.what.methods.is_none() {
        return;
    }
    let what = &rule.what;
    let narrower = what.names_kinds()
        || what.has_words()
        || what.servers.is_some()
        || what.not_servers.is_some()
        || what.categories.is_some()
        || what.annotations.is_some();
    if rule.effect != Effect::Deny || rule.rate.is_none() || rule.arguments.is_some() || narrower {
        let what = "is only for a `deny` policy that has a `rate` and names nothing else in `what` \
            but `endpoints`";
        mistakes.push(mistake(
            &["what", "methods"],
            what,
            "leave it out, or make two policies of it",
        ));
    }
    if rule.when.as_ref().is_some_and(Condition::needs_target) {
        let words = "cannot be about `target` beside `what.methods`: a list has none";
        mistakes.push(mistake(&["when"], words, "leave out one of the two"));
    }
}

fn who(spec: &file::Who, mistakes: &mut Vec<Mistake>) -> Who {
    let mut list =
        |key: &str, list: &Option<Vec<String>>| globs(&["who", key], list.as_deref(), mistakes);
    Who {
        principals: list("principals", &spec.principals),
        roles: list("roles", &spec.roles),
        organisations: list("organisations", &spec.organisations),
        scopes: list("scopes", &spec.scopes),
        agents: list("agents", &spec.agents),
        certificates: list("certificates", &spec.certificates),
        anonymous: spec.anonymous,
    }
}

fn what(spec: &file::What, mistakes: &mut Vec<Mistake>) -> What {
    let words = word_list("words", spec.words.as_deref(), mistakes);
    let not_words = word_list("not_words", spec.not_words.as_deref(), mistakes);
    let mut list =
        |key: &str, list: &Option<Vec<String>>| globs(&["what", key], list.as_deref(), mistakes);
    let what = What {
        words,
        not_words,
        tools: list("tools", &spec.tools),
        prompts: list("prompts", &spec.prompts),
        resources: list("resources", &spec.resources),
        completion: list("completion", &spec.completion),
        servers: list("servers", &spec.servers),
        not_servers: list("not_servers", &spec.not_servers),
        categories: list("categories", &spec.categories),
        endpoints: list("endpoints", &spec.endpoints),
        annotations: spec.annotations,
        methods: list("methods", &spec.methods),
    };
    for (at, method) in what.methods.iter().flatten().enumerate() {
        if rate::methods(&[method.glob().to_owned()]) == 0 {
            let hint = format!("there are {}", rate::METHODS.join(", "));
            mistakes.push(mistake(&["what", "methods", &at.to_string()], "fits no method", hint));
        }
    }
    what
}

fn word_list(key: &str, list: Option<&[String]>, mistakes: &mut Vec<Mistake>) -> Option<Vec<Word>> {
    let hint = "such as delete, force push, ^add, push$, workflow* or \"{create,update} tag\"; \
        other patterns belong into `tools`";
    let mut all = Vec::new();
    for (at, item) in list?.iter().enumerate() {
        match words::parse(item) {
            Ok(words) => all.extend(words),
            Err(what) => mistakes.push(mistake(&["what", key, &at.to_string()], what, hint)),
        }
    }
    if all.len() > MAX_WORDS {
        let what = format!("stands for more than {MAX_WORDS} words");
        mistakes.push(mistake(&["what", key], what, "use fewer alternatives"));
    }
    Some(all)
}

fn globs(path: &[&str], list: Option<&[String]>, mistakes: &mut Vec<Mistake>) -> Option<Vec<Glob>> {
    let list = list?;
    if list.len() > MAX_PATTERNS {
        mistakes.push(mistake(
            path,
            format!("must have at most {MAX_PATTERNS} items"),
            "use wider patterns",
        ));
        return Some(Vec::new());
    }
    let mut globs = Vec::with_capacity(list.len());
    for (at, text) in list.iter().enumerate() {
        match pattern::compile(text) {
            Ok(glob) => globs.push(glob),
            Err(words) => {
                let at = at.to_string();
                let path: Vec<&str> = path.iter().copied().chain([at.as_str()]).collect();
                mistakes.push(mistake(&path, words, "use *, ?, [a-z] and {a,b}"));
            }
        }
    }
    Some(globs)
}
