//! Compiles policies. All mistakes are reported, each with its key.

use std::collections::HashMap;
use std::sync::Arc;

use globset::Glob;

use crate::approval::{self, ApprovalRule};
use crate::arguments::Arguments;
use crate::class::Who;
use crate::condition::Condition;
use crate::config::{self, Config};
use crate::file::{self, Effect};
use crate::names;
use crate::pattern::{self, MAX_PATTERNS};
use crate::rate::{self, Limit};
use crate::refusal::{self, Mistake};
use crate::response::Response;
use crate::rule::{DEFAULT, Rule, What};
use crate::target::decoded;
use crate::words::{self, MAX_WORDS, Word};

/// Maximum number of policies in all files together.
pub const MAX_POLICIES: usize = 10_000;
const MAX_NAME: usize = 64;

/// A mistake in a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The indices of the document and of the policy in it; `None` for the lists of the
    /// configuration file.
    pub at: Option<(usize, usize)>,
    /// The key below the policy; for a list the whole key, such as `policy.tools.allow`.
    pub path: Vec<String>,
    pub what: String,
    pub hint: String,
}

/// Compiles all policies of a configuration, sorted by name.
pub(crate) fn rules(config: &Config) -> Result<Vec<Rule>, Vec<PolicyError>> {
    let mut rules = Vec::new();
    let mut mistakes = Vec::new();
    let mut names: HashMap<String, String> = HashMap::new();
    for policy in config::policies(&config.lists, config.documents.is_empty()) {
        match rule(&policy, policy.name.clone()) {
            Ok(rule) => rules.push(rule),
            Err(found) => {
                let found = found.into_iter();
                mistakes.extend(found.map(|mistake| mistake_of_list(&policy.name, mistake)));
            }
        }
    }
    for (document, file) in config.documents.iter().enumerate() {
        for (at, entry) in file.policies.iter().enumerate() {
            let place = format!("{}:{}", file.name, entry.line);
            let mut found = Vec::new();
            match rule(&entry.policy, place.clone()) {
                Ok(rule) => rules.push(rule),
                Err(mistakes) => found = mistakes,
            }
            let hint = "leave the key out to match everything; docs/policy.md describes how names \
                are written";
            push_below(&[], names::check(&entry.policy), hint, &mut found);
            if is_reserved(&entry.policy.name) {
                let what = "is reserved: `default`, `pins` and all names that begin with `policy.`";
                found.push(mistake(&["name"], what, "give it another name"));
            }
            if let Some(other) = names.insert(entry.policy.name.clone(), place) {
                let what = format!("is the name of another policy, at {other}");
                found.push(mistake(&["name"], what, "rename one of them"));
            }
            let at = Some((document, at));
            mistakes.extend(found.into_iter().map(|mistake| PolicyError { at, ..mistake }));
        }
    }
    if rules.len() > MAX_POLICIES {
        let what = format!("there are more than {MAX_POLICIES} policies");
        mistakes.push(mistake(&["policy", "files"], what, "merge some of them"));
    }
    rules.sort_by(|a, b| a.name.cmp(&b.name));
    if mistakes.is_empty() { Ok(rules) } else { Err(mistakes) }
}

/// Converts a mistake in the policy of a list to the key of the list.
fn mistake_of_list(name: &str, mistake: PolicyError) -> PolicyError {
    let keys = name.split('.').map(str::to_owned);
    let path = Vec::from_iter(keys.chain(mistake.path.last().cloned()));
    PolicyError { at: None, path, ..mistake }
}

/// Returns whether a name stands for the default, the lock file or a list of the configuration.
fn is_reserved(name: &str) -> bool {
    name == DEFAULT || name == "pins" || name.starts_with("policy.")
}

pub(crate) fn mistake(
    keys: &[&str],
    what: impl Into<String>,
    hint: impl Into<String>,
) -> PolicyError {
    let (path, what) = refusal::mistake(keys, what);
    PolicyError { at: None, path, what, hint: hint.into() }
}

fn rule(policy: &file::Policy, place: String) -> Result<Rule, Vec<PolicyError>> {
    let mut mistakes = Vec::new();
    if !is_name(&policy.name) {
        let what = format!("must be 1 to {MAX_NAME} letters, digits, `.`, `_` and `-`");
        mistakes.push(mistake(&["name"], what, "free text belongs in `description`"));
    }
    let who = who(&["who"], &policy.who, &mut mistakes);
    let mut what = what(&policy.what, &mut mistakes);
    if policy.effect == Effect::Ask
        && what.tools.is_none()
        && let Ok(every) = pattern::compile("*")
    {
        // Only tools are called, so the policy concerns no other kind.
        what.tools = Some(vec![every]);
    }
    if policy.effect == Effect::Deny {
        for list in [&mut what.resources, &mut what.completion].into_iter().flatten() {
            let decoded: Vec<Glob> = list.iter().filter_map(decoded_pattern).collect();
            list.extend(decoded);
        }
    }
    let when = policy.when.as_deref().map(Condition::compile).transpose();
    let when = when.map_err(|what| vec![refusal::mistake(&[], what)]);
    let hint = "docs/policy.md lists the syntax of conditions";
    let when = kept("when", when, hint, &mut mistakes).flatten();
    let arguments = Arguments::compile(&policy.arguments, policy.other_arguments, policy.effect);
    let hint = "docs/policy.md has an example of each rule";
    let arguments = kept("arguments", arguments, hint, &mut mistakes).flatten();
    rates(policy, when.as_ref(), &mut mistakes);
    let response = policy.response.as_ref().map(Response::compile).transpose();
    let hint = "such as response: { secrets: true, max_bytes: 65536 }";
    let response = kept("response", response, hint, &mut mistakes).flatten();
    let by = approvers(policy, &mut mistakes);
    let is_ask = policy.effect == Effect::Ask;
    let approval = is_ask.then(|| Arc::new(ApprovalRule::new(policy, by)));
    let rate = policy.rate.as_ref();
    let rate = rate.map(|rate| Limit::new(&policy.name, rate, what.methods.as_deref()));
    let rule = Rule {
        name: policy.name.as_str().into(),
        place,
        effect: policy.effect,
        dry_run: policy.dry_run,
        who,
        what,
        when,
        arguments,
        rate,
        response,
        approval,
    };
    methods(policy, &rule, &mut mistakes);
    bounds_of_everything(policy, &mut mistakes);
    if mistakes.is_empty() { Ok(rule) } else { Err(mistakes) }
}

fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

/// Returns a compiled part of a policy, or adds its mistakes.
fn kept<T>(
    part: &str,
    compiled: Result<T, Vec<Mistake>>,
    hint: &str,
    mistakes: &mut Vec<PolicyError>,
) -> Option<T> {
    compiled.map_err(|found| push_below(&[part], found, hint, mistakes)).ok()
}

/// Adds mistakes in a part of a policy, prefixing their keys with that of the part.
fn push_below(part: &[&str], found: Vec<Mistake>, hint: &str, mistakes: &mut Vec<PolicyError>) {
    for (keys, what) in found {
        let mistake = mistake(part, what, hint);
        mistakes.push(PolicyError { path: [mistake.path, keys].concat(), ..mistake });
    }
}

fn approvers(policy: &file::Policy, mistakes: &mut Vec<PolicyError>) -> Option<Who> {
    let hint = "such as approval: { by: { roles: [approver] }, approvals: 2, expires: 300 }";
    push_below(&["approval"], approval::check(policy), hint, mistakes);
    let mut given = policy.what.lists().into_iter().filter(|(_, list)| list.is_some());
    let other = given.find(|(key, _)| matches!(*key, "prompts" | "resources" | "completion"));
    if let (Effect::Ask, Some((key, _))) = (policy.effect, other) {
        let what = "is not allowed in an `ask` policy, which is only for tool calls";
        mistakes.push(mistake(&["what", key], what, "leave it out, or use a `deny` policy"));
    }
    let spec = policy.approval.as_ref()?.by.as_ref()?;
    Some(who(&["approval", "by"], spec, mistakes))
}

/// Checks the rate, and the keys that cannot be combined with it.
fn rates(policy: &file::Policy, when: Option<&Condition>, mistakes: &mut Vec<PolicyError>) {
    let Some(rate) = &policy.rate else { return };
    let hint = "such as rate: { per_minute: 60, by: [principal] }";
    push_below(&["rate"], rate::check(rate), hint, mistakes);
    if policy.dry_run {
        let what = "cannot be combined with a `rate`: each refusal depends on earlier refusals";
        let hint = "remove `dry_run` and set a `rate` that is never reached, or remove the `rate`";
        mistakes.push(mistake(&["dry_run"], what, hint));
    }
    if matches!(when, Some(when) if when.needs_arguments()) {
        let what = "cannot use `arguments` together with a `rate`: requests are counted before \
            arguments are read";
        mistakes.push(mistake(&["when"], what, "split it into two policies"));
    }
}

/// Checks that a policy about methods only limits them.
fn methods(policy: &file::Policy, rule: &Rule, mistakes: &mut Vec<PolicyError>) {
    if rule.what.methods.is_none() {
        return;
    }
    let mut given = policy.what.lists().into_iter().filter(|(_, list)| list.is_some());
    let narrower = given.any(|(key, _)| !matches!(key, "methods" | "endpoints"))
        || policy.what.annotations.is_some();
    if rule.effect != Effect::Deny || rule.rate.is_none() || rule.arguments.is_some() || narrower {
        let what = "is only for a `deny` policy with a `rate` and no other key in `what` than \
            `endpoints`";
        let hint = "leave it out, or split the policy into two";
        mistakes.push(mistake(&["what", "methods"], what, hint));
    }
    if matches!(&rule.when, Some(when) if when.needs_target()) {
        let words = "cannot use `target` together with `what.methods`: a list has no target";
        mistakes.push(mistake(&["when"], words, "leave out one of the two"));
    }
}

/// Refuses an `allow` policy with only a bound: its author means the bound, and not that everything
/// is allowed.
fn bounds_of_everything(policy: &file::Policy, mistakes: &mut Vec<PolicyError>) {
    let key = match (&policy.rate, &policy.response) {
        (Some(_), _) => "rate",
        (None, Some(_)) => "response",
        (None, None) => return,
    };
    let is_open = policy.what.is_everything() && policy.when.is_none();
    if policy.effect == Effect::Allow && is_open {
        let what =
            format!("without `what`, this `allow` policy allows everything within its `{key}`");
        let hint = format!(
            "write `effect: deny` for a `{key}` alone, which allows nothing; or name the allowed \
                items, such as `what: {{ servers: [\"*\"] }}` for everything"
        );
        mistakes.push(mistake(&["effect"], what, hint));
    }
}

fn who(part: &[&str], spec: &file::Who, mistakes: &mut Vec<PolicyError>) -> Who {
    let lists = spec.lists();
    let lists = lists.map(|(key, list)| (key, globs(&[part, &[key]].concat(), list, mistakes)));
    Who { lists, anonymous: spec.anonymous }
}

fn what(spec: &file::What, mistakes: &mut Vec<PolicyError>) -> What {
    let what = What {
        words: word_list("words", spec.words.as_deref(), mistakes),
        not_words: word_list("not_words", spec.not_words.as_deref(), mistakes),
        tools: globs(&["what", "tools"], &spec.tools, mistakes),
        prompts: globs(&["what", "prompts"], &spec.prompts, mistakes),
        resources: globs(&["what", "resources"], &spec.resources, mistakes),
        completion: globs(&["what", "completion"], &spec.completion, mistakes),
        servers: globs(&["what", "servers"], &spec.servers, mistakes),
        not_servers: globs(&["what", "not_servers"], &spec.not_servers, mistakes),
        categories: globs(&["what", "categories"], &spec.categories, mistakes),
        endpoints: globs(&["what", "endpoints"], &spec.endpoints, mistakes),
        annotations: spec.annotations,
        methods: globs(&["what", "methods"], &spec.methods, mistakes),
    };
    if let Some(methods) = &what.methods {
        methods_there_are(methods, mistakes);
    }
    what
}

fn methods_there_are(methods: &[Glob], mistakes: &mut Vec<PolicyError>) {
    for (at, method) in methods.iter().enumerate() {
        if rate::methods(std::slice::from_ref(method)).is_empty() {
            let path = ["what", "methods", &at.to_string()];
            let hint = format!("the methods are {}", rate::METHODS.join(", "));
            mistakes.push(mistake(&path, "matches no method", hint));
        }
    }
}

fn word_list(
    key: &str,
    list: Option<&[String]>,
    mistakes: &mut Vec<PolicyError>,
) -> Option<Vec<Word>> {
    let hint = "such as delete, force push, ^add, push$, workflow* or \"{create,update} tag\"; \
        other patterns belong in `tools`";
    let mut all = Vec::new();
    for (at, item) in list?.iter().enumerate() {
        match words::parse(item) {
            Ok(words) => all.extend(words),
            Err(what) => mistakes.push(mistake(&["what", key, &at.to_string()], what, hint)),
        }
    }
    if all.len() > MAX_WORDS {
        let what = format!("expands to more than {MAX_WORDS} words");
        mistakes.push(mistake(&["what", key], what, "use fewer alternatives"));
    }
    Some(all)
}

/// Returns the pattern without escapes, which is matched against decoded URIs; `None` if it has
/// none.
fn decoded_pattern(glob: &Glob) -> Option<Glob> {
    let mut text = glob.glob().to_owned();
    for (escape, plain) in [("2A", "*"), ("3F", "?"), ("5B", "["), ("7B", "{"), ("5C", "\\")] {
        for escape in [escape.to_owned(), escape.to_ascii_lowercase()] {
            text = text.replace(&format!("%{escape}"), &format!("[{plain}]"));
        }
    }
    let text = decoded(&text);
    if *text == *glob.glob() { None } else { pattern::compile(&text).ok() }
}

fn globs(
    path: &[&str],
    list: &Option<Vec<String>>,
    mistakes: &mut Vec<PolicyError>,
) -> Option<Vec<Glob>> {
    let list = list.as_deref()?;
    if list.len() > MAX_PATTERNS {
        let what = format!("must have at most {MAX_PATTERNS} items");
        mistakes.push(mistake(path, what, "use wider patterns"));
        return Some(Vec::new());
    }
    let mut globs = Vec::with_capacity(list.len());
    for (at, text) in list.iter().enumerate() {
        match pattern::compile(text) {
            Ok(glob) => globs.push(glob),
            Err(what) => {
                let at = at.to_string();
                let path = [path, &[&at]].concat();
                mistakes.push(mistake(&path, what, "use *, ?, [a-z] and {a,b}"));
            }
        }
    }
    Some(globs)
}
