//! The format of policy files. The doc comments become the descriptions in the JSON Schema that
//! editors show. Unknown keys are errors.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value};

use crate::{command, path, response, sql, url};

/// Policies of Lockgate.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Where this file's schema is, for editors. Not read.
    #[serde(default, rename = "$schema")]
    pub schema: Option<String>,
    /// The policies. Their order means nothing: whatever a policy denies is denied, and what no
    /// policy allows is too. `[]` where there is none: a file without this key has lost its
    /// policies.
    pub policies: Vec<Policy>,
}

/// One policy.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// A name of its own, for logs and answers: letters, digits, `.`, `_` and `-`, at most 64.
    pub name: String,
    /// `allow`: what fits may be seen and used. `deny`: what fits may not, whatever other policies
    /// say; with `arguments` or `rate` it denies only calls that do not keep to these. `ask`: of
    /// the tools that fit, each call that other policies allow waits until a person has approved
    /// it; with `arguments` only calls that do not keep to these.
    pub effect: Effect,
    /// Who approves what an `ask` policy is about; the caller without it.
    #[serde(default)]
    pub approval: Option<Approval>,
    /// For people. Not read.
    #[serde(default)]
    pub description: Option<String>,
    /// Changes nothing, and logs what it would have denied.
    #[serde(default)]
    pub dry_run: bool,
    /// Whom it is about; everybody without it.
    #[serde(default)]
    pub who: Who,
    /// What it is about; everything without it.
    #[serde(default)]
    pub what: What,
    /// A condition in CEL over `subject`, `target`, `endpoint` and `arguments`. If it cannot be
    /// evaluated, what the policy is about is denied.
    #[serde(default)]
    pub when: Option<String>,
    /// What the arguments of a call must be, by JSON Pointer (`/sql`, `/files/*/path`, or `""` for
    /// all of them). An `allow` policy allows only calls that keep to it, a `deny` policy denies
    /// those that do not, an `ask` policy asks about those that do not.
    #[serde(default)]
    pub arguments: BTreeMap<String, Argument>,
    /// What becomes of arguments that `arguments` does not name, at the top level: members of an
    /// argument are open unless a `schema` closes them. Default: `refuse` in an `allow` policy with
    /// named arguments, otherwise `allow`.
    #[serde(default)]
    pub other_arguments: Option<Others>,
    /// How often, and how many at a time. It limits whatever the policy is about, with either
    /// effect.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// What may come back: how much, without which secrets, links to where. It limits whatever the
    /// policy is about, with either effect.
    #[serde(default)]
    pub response: Option<response::Spec>,
}

/// What a policy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    Allow,
    Ask,
    Deny,
}

/// Who approves a call, and for how long they may think.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Approval {
    /// Others who may approve it; never who makes the call. Without it the caller is asked.
    pub by: Option<Who>,
    /// How many different people have to approve it, 1–10; more than one only with `by`. Default
    /// 1.
    pub approvals: Option<u32>,
    /// Seconds in which it has to be approved, 1–3600; at most `limits.approval_timeout`, which is
    /// the default.
    pub expires: Option<u32>,
}

/// Whom a policy is about. Everything that is given must fit; of a list, one pattern has to.
/// Patterns have `*`, `?`, `[…]` and `{a,b}`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Who {
    /// Callers, as `issuer|subject`: `key|3f6c0e9a17d2b458`, `local|user`,
    /// `https://login.example.com|*`.
    pub principals: Option<Vec<String>>,
    pub roles: Option<Vec<String>>,
    pub organisations: Option<Vec<String>>,
    pub scopes: Option<Vec<String>>,
    /// The software that acts for the caller, as its credential names it.
    pub agents: Option<Vec<String>>,
    /// Names of the client certificate, with their kind: `dns:*.ci.example.com`, `uri:spiffe://…`,
    /// `sha256:…`.
    pub certificates: Option<Vec<String>>,
    /// `true`: callers without a credential alone. `false`: all others.
    pub anonymous: Option<bool>,
}

impl Who {
    /// Returns whether no key is set.
    pub(crate) fn is_anybody(&self) -> bool {
        let Self { principals, roles, organisations, scopes, agents, certificates, anonymous } =
            self;
        let lists = [principals, roles, organisations, scopes, agents, certificates];
        anonymous.is_none() && lists.into_iter().all(Option::is_none)
    }
}

/// What a policy is about. `words`, `not_words`, `servers`, `not_servers`, `categories`,
/// `endpoints` and `annotations` must all fit where they are given. Of `tools`, `prompts`,
/// `resources` and `completion` the list for the kind of thing must fit; a kind whose list is not
/// given is not meant, unless none of the four is. Names are written as exposed (`db__query`) or
/// with their server (`db/query`).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct What {
    pub tools: Option<Vec<String>>,
    /// Words of which the name of a tool has one, however it is spelled: `delete` fits
    /// `delete_file`, `fileDelete` and `DELETE-ALL`, not `undelete`. Several in a row: `force
    /// push`. `^add` begins the name, `push$` ends it, `workflow*` may go on, `{create,update}
    /// {tag,release}` are alternatives.
    pub words: Option<Vec<String>>,
    /// Words that the name of a tool has not.
    pub not_words: Option<Vec<String>>,
    pub prompts: Option<Vec<String>>,
    /// URIs of resources and of templates.
    pub resources: Option<Vec<String>>,
    /// Prompts and resources for whose arguments values may be asked. Without it, those that may be
    /// used.
    pub completion: Option<Vec<String>>,
    /// Names of servers.
    pub servers: Option<Vec<String>>,
    /// All servers but these.
    pub not_servers: Option<Vec<String>>,
    /// Categories of built-in tools: `content`, `database`, `example`, `file`, `shell`, `system`,
    /// `web`.
    pub categories: Option<Vec<String>>,
    /// Paths of endpoints: `/mcp`, `/servers/*/mcp`.
    pub endpoints: Option<Vec<String>>,
    /// What the server says of a tool. A claim: trust it as far as its server.
    pub annotations: Option<Hints>,
    /// MCP methods, such as `tools/list`, `*/list` or `server/discover`; only for a `deny` policy
    /// that has nothing but a `rate`.
    pub methods: Option<Vec<String>>,
}

impl What {
    /// Returns whether no key narrows the policy.
    pub(crate) fn is_everything(&self) -> bool {
        let Self { tools, words, not_words, prompts, resources, completion, .. } = self;
        let Self { servers, not_servers, categories, endpoints, methods, annotations, .. } = self;
        let names = [tools, words, not_words, prompts, resources, completion];
        let places = [servers, not_servers, categories, endpoints, methods];
        names.into_iter().all(Option::is_none)
            && places.into_iter().all(Option::is_none)
            && annotations.is_none()
    }
}

/// Annotations of a tool. Without a word of the server a tool is taken to change and to destroy
/// things, to do so anew each time, and to reach the outside.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Hints {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

/// Arguments that no rule names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Others {
    Refuse,
    Allow,
}

/// What one argument must be. Everything that is given must hold, of the value after `set`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Argument {
    /// It may be absent. Alone it says that the argument may be there, with any value.
    pub optional: bool,
    /// It must be there, with any value.
    pub require: bool,
    /// It must not be there.
    pub forbid: bool,
    /// SQL, parsed: kinds of statements, tables, functions, row limits.
    pub sql: Option<sql::Spec>,
    /// A path, resolved without looking at a disk: inside of roots.
    pub path: Option<path::Spec>,
    /// A command line, split into an argument vector: programs and their arguments.
    pub command: Option<command::Spec>,
    /// A URL, parsed: scheme, host, port, path.
    pub url: Option<url::Spec>,
    /// A JSON Schema (2020-12) that it must fit, without references to other documents.
    pub schema: Option<Value>,
    /// Plain bounds of the value.
    pub value: Option<Bounds>,
    /// What the server gets instead of, or for want of, what was sent.
    pub set: Option<Set>,
}

/// Plain bounds of a value. Numbers are compared by value, whole ones exactly: one that is sent
/// with a fraction or an exponent and could stand for several of them is refused. Text is compared
/// exactly.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Bounds {
    /// It must be this.
    #[serde(deserialize_with = "present")]
    pub equals: Option<Value>,
    /// It must be one of these.
    pub one_of: Option<Vec<Value>>,
    /// It must be none of these.
    pub none_of: Option<Vec<Value>>,
    /// A regular expression that the whole text must match.
    pub pattern: Option<String>,
    /// Fewest characters of text, or items of a list.
    pub min_length: Option<u64>,
    /// Most characters of text, or items of a list.
    pub max_length: Option<u64>,
    /// Least number.
    pub min: Option<Number>,
    /// Greatest number.
    pub max: Option<Number>,
}

/// A value that policy puts in; exactly one of the two.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Set {
    /// Always this, whatever was sent.
    #[serde(deserialize_with = "present")]
    pub to: Option<Value>,
    /// This, when the argument is absent.
    #[serde(deserialize_with = "present")]
    pub default: Option<Value>,
}

/// How often, and how many at a time. At most one of the four `per_…` keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rate {
    pub per_second: Option<u32>,
    pub per_minute: Option<u32>,
    pub per_hour: Option<u32>,
    pub per_day: Option<u32>,
    /// How many may come at once after a pause. Default: as many as per period.
    pub burst: Option<u32>,
    /// How many may run at the same time.
    pub concurrency: Option<u32>,
    /// What shares one allowance: each combination of these has its own. Default `[principal]`;
    /// `[]` is one for all. Callers of one issuer without an organisation share one by
    /// `organisation`, those without an agent one by `agent`.
    pub by: Option<Vec<Key>>,
    /// What holds while gateways share their rates and the store that they share them in is away.
    /// Default `local`.
    pub when_away: Option<WhenAway>,
}

/// What holds while the store of shared rates is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WhenAway {
    /// Each gateway counts for itself: one allowance at each.
    #[default]
    Local,
    /// Everything passes.
    Allow,
    /// Nothing passes.
    Deny,
}

/// By what requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Key {
    Principal,
    Organisation,
    Agent,
    Tool,
    Server,
}

impl Key {
    /// Returns the key as written in a policy file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Principal => "principal",
            Self::Organisation => "organisation",
            Self::Agent => "agent",
            Self::Tool => "tool",
            Self::Server => "server",
        }
    }
}

/// Deserializes `null` as a value, not as the absence of a value.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Ok(Some(Value::deserialize(deserializer)?))
}

/// Returns the JSON Schema (draft 2020-12) of policy files, for editors.
#[must_use]
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(File).to_value();
    tidy(&mut schema);
    if let Some(object) = schema.as_object_mut() {
        object.insert("title".into(), "Lockgate policies".into());
    }
    schema
}

/// Removes `default: null`, which carries no information.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if object.get("default") == Some(&Value::Null) {
                object.remove("default");
            }
            for value in object.values_mut() {
                tidy(value);
            }
        }
        Value::Array(items) => {
            for item in items {
                tidy(item);
            }
        }
        _ => {}
    }
}
