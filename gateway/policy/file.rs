//! The format of policy files. The doc comments become the descriptions in the JSON Schema that
//! editors show. Unknown keys are errors.

use std::collections::BTreeMap;

use lockgate_text::json;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value};

use crate::{command, path, response, sql, url};

/// Policies of Lockgate.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Where this file's schema is, for editors. Not read.
    #[serde(default, rename = "$schema")]
    pub schema: Option<String>,
    /// The policies, in any order: a `deny` policy takes precedence, and a request that no policy
    /// allows is denied. `[]` for none: a missing key is an error, because it usually means lost
    /// policies.
    pub policies: Vec<Policy>,
}

/// One policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Unique name, for logs and responses: letters, digits, `.`, `_` and `-`, at most 64.
    pub name: String,
    /// `allow`: matching items are visible and may be used. `deny`: matching items are not,
    /// regardless of other policies; with `arguments` or `rate`, only calls that violate these are
    /// denied. `ask`: a call of a matching tool that other policies allow waits until a person
    /// approves it; with `arguments`, only calls that violate these wait.
    pub effect: Effect,
    /// The approvers of an `ask` policy. Default: the caller.
    #[serde(default)]
    pub approval: Option<Approval>,
    /// For people. Not read.
    #[serde(default)]
    pub description: Option<String>,
    /// Denies nothing, and logs the calls that it would have denied.
    #[serde(default)]
    pub dry_run: bool,
    /// The callers that the policy applies to. Default: all.
    #[serde(default)]
    pub who: Who,
    /// The items that the policy applies to. Default: all.
    #[serde(default)]
    pub what: What,
    /// A condition in CEL over `subject`, `target`, `endpoint` and `arguments`. If it cannot be
    /// evaluated, the requests that the policy applies to are denied.
    #[serde(default)]
    pub when: Option<String>,
    /// Rules for the arguments of a call, by JSON Pointer (`/sql`, `/files/*/path`, or `""` for all
    /// of them). An `allow` policy allows only calls that satisfy them; a `deny` policy denies the
    /// others, and an `ask` policy requires approval for the others.
    #[serde(default)]
    pub arguments: BTreeMap<String, Argument>,
    /// Handling of top-level arguments that `arguments` does not name. Members of an argument are
    /// allowed unless a `schema` restricts them. Default: `refuse` in an `allow` policy with named
    /// arguments, otherwise `allow`.
    #[serde(default)]
    pub other_arguments: Option<Others>,
    /// Limits of the frequency and concurrency of the requests that the policy applies to,
    /// regardless of `effect`.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// Limits of the size, secrets and links of the results that the policy applies to, regardless
    /// of `effect`.
    #[serde(default)]
    pub response: Option<response::Spec>,
}

impl Policy {
    /// Returns a policy that denies everything to everyone.
    pub fn deny(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

lockgate_text::words! {
    /// The effect of a policy.
    #[derive(Default, Deserialize)]
    #[cfg_attr(test, derive(JsonSchema))]
    #[serde(rename_all = "lowercase")]
    pub enum Effect {
        Allow = "allow",
        Ask = "ask",
        #[default]
        Deny = "deny",
    }
}

/// The approvers of a call, and their time limit.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Approval {
    /// The approvers; a caller cannot approve its own call. Default: the caller is asked.
    pub by: Option<Who>,
    /// Number of different people that must approve the call, 1–10; more than one requires `by`.
    /// Default 1.
    pub approvals: Option<u32>,
    /// Time limit of the approval in seconds, 1–3600; at most `limits.approval_timeout`, which is
    /// the default.
    pub expires: Option<u32>,
}

/// The callers that a policy applies to. All given keys must match; of a list, one pattern is
/// enough. Patterns have `*`, `?`, `[…]` and `{a,b}`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
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
    /// `true`: only callers without a credential. `false`: all others.
    pub anonymous: Option<bool>,
}

impl Who {
    /// Returns the lists of patterns, with their keys.
    pub(crate) fn lists(&self) -> [List<'_>; 6] {
        [
            ("principals", &self.principals),
            ("roles", &self.roles),
            ("organisations", &self.organisations),
            ("scopes", &self.scopes),
            ("agents", &self.agents),
            ("certificates", &self.certificates),
        ]
    }

    /// Returns whether no key is set.
    pub(crate) fn is_anybody(&self) -> bool {
        self.anonymous.is_none() && self.lists().iter().all(|(_, list)| list.is_none())
    }
}

/// The key of a list, and its patterns.
type List<'a> = (&'static str, &'a Option<Vec<String>>);

/// The items that a policy applies to. `words`, `not_words`, `servers`, `not_servers`,
/// `categories`, `endpoints` and `annotations` must all match if given. Of `tools`, `prompts`,
/// `resources` and `completion`, the list for the kind of item must match; kinds without a list are
/// excluded, unless none of the four is given. Names are written as exposed (`db__query`) or with
/// their server (`db/query`).
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct What {
    pub tools: Option<Vec<String>>,
    /// Words, one of which must be in the name of a tool, in any spelling: `delete` matches
    /// `delete_file`, `fileDelete` and `DELETE-ALL`, not `undelete`. Several in a row: `force
    /// push`. `^add` begins the name, `push$` ends it, `workflow*` is a prefix, `{create,update}
    /// {tag,release}` are alternatives.
    pub words: Option<Vec<String>>,
    /// Words that must not be in the name of a tool.
    pub not_words: Option<Vec<String>>,
    pub prompts: Option<Vec<String>>,
    /// URIs of resources and of templates.
    pub resources: Option<Vec<String>>,
    /// Prompts and resources with arguments that may be completed. Default: those that may be used.
    pub completion: Option<Vec<String>>,
    /// Names of servers.
    pub servers: Option<Vec<String>>,
    /// All servers except these.
    pub not_servers: Option<Vec<String>>,
    /// Categories of built-in tools: `content`, `database`, `example`, `file`, `shell`, `system`,
    /// `web`.
    pub categories: Option<Vec<String>>,
    /// Paths of endpoints: `/mcp`, `/servers/*/mcp`.
    pub endpoints: Option<Vec<String>>,
    /// The annotations that the server declares for a tool. Trust them only as far as the server.
    pub annotations: Option<Hints>,
    /// MCP methods, such as `tools/list`, `*/list` or `server/discover`; only for a `deny` policy
    /// with just a `rate`.
    pub methods: Option<Vec<String>>,
}

impl What {
    /// Returns the lists of patterns and words, with their keys.
    pub(crate) fn lists(&self) -> [List<'_>; 11] {
        [
            ("tools", &self.tools),
            ("words", &self.words),
            ("not_words", &self.not_words),
            ("prompts", &self.prompts),
            ("resources", &self.resources),
            ("completion", &self.completion),
            ("servers", &self.servers),
            ("not_servers", &self.not_servers),
            ("categories", &self.categories),
            ("endpoints", &self.endpoints),
            ("methods", &self.methods),
        ]
    }

    /// Returns whether no key narrows the policy.
    pub(crate) fn is_everything(&self) -> bool {
        self.annotations.is_none() && self.lists().iter().all(|(_, list)| list.is_none())
    }
}

/// Annotations of a tool. Without annotations, a tool counts as not read-only, destructive, not
/// idempotent and open-world.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Hints {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

/// Arguments that no rule names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Others {
    Refuse,
    Allow,
}

/// The rules for one argument. All of them must hold for the value after `set`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Argument {
    /// The argument may be absent. Without other keys, it may have any value.
    pub optional: bool,
    /// The argument must be present, with any value.
    pub require: bool,
    /// The argument must be absent.
    pub forbid: bool,
    /// SQL, parsed: kinds of statements, tables, functions, row limits.
    pub sql: Option<sql::Spec>,
    /// A path inside of roots, resolved without reading the file system.
    pub path: Option<path::Spec>,
    /// A command line, split into an argument vector: programs and their arguments.
    pub command: Option<command::Spec>,
    /// A URL, parsed: scheme, host, port, path.
    pub url: Option<url::Spec>,
    /// A JSON Schema (2020-12) that the value must match, without references to other documents.
    pub schema: Option<Value>,
    /// Simple bounds of the value.
    pub value: Option<Bounds>,
    /// The value that the server receives instead of the sent or missing one.
    pub set: Option<Set>,
}

/// Simple bounds of a value. Numbers are compared by value, integers exactly: a number with a
/// fraction or an exponent that could be several integers is refused. Text is compared exactly.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Bounds {
    /// The only allowed value.
    #[serde(deserialize_with = "present")]
    pub equals: Option<Value>,
    /// The allowed values.
    pub one_of: Option<Vec<Value>>,
    /// The forbidden values.
    pub none_of: Option<Vec<Value>>,
    /// A regular expression that the whole text must match.
    pub pattern: Option<String>,
    /// Minimum characters of text, or items of a list.
    pub min_length: Option<u64>,
    /// Maximum characters of text, or items of a list.
    pub max_length: Option<u64>,
    /// Minimum of a number.
    pub min: Option<Number>,
    /// Maximum of a number.
    pub max: Option<Number>,
}

/// A value set by the policy; exactly one of the two keys.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Set {
    /// Replaces any sent value.
    #[serde(deserialize_with = "present")]
    pub to: Option<Value>,
    /// Used if the argument is absent.
    #[serde(deserialize_with = "present")]
    pub default: Option<Value>,
}

/// Limits of frequency and concurrency. At most one of the four `per_…` keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Rate {
    pub per_second: Option<u32>,
    pub per_minute: Option<u32>,
    pub per_hour: Option<u32>,
    pub per_day: Option<u32>,
    /// Maximum number of requests at once after a pause. Default: the number per period.
    pub burst: Option<u32>,
    /// Maximum number of concurrent requests.
    pub concurrency: Option<u32>,
    /// The keys of an allowance: each combination of their values has its own. Default
    /// `[principal]`; `[]` is a single allowance. By `organisation`, callers of one issuer without
    /// an organisation share an allowance; by `agent`, those without an agent.
    pub by: Option<Vec<Key>>,
    /// Behaviour if gateways share their rates and the shared store is unavailable. Default
    /// `local`.
    pub when_away: Option<WhenAway>,
}

/// Behaviour while the store of shared rates is unavailable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum WhenAway {
    /// Each gateway counts alone, with its own allowance.
    #[default]
    Local,
    /// Everything passes.
    Allow,
    /// Nothing passes.
    Deny,
}

lockgate_text::words! {
    /// A key by which requests are counted.
    #[derive(PartialOrd, Ord, Hash, Deserialize)]
    #[cfg_attr(test, derive(JsonSchema))]
    #[serde(rename_all = "lowercase")]
    pub enum Key {
        Principal = "principal",
        Organisation = "organisation",
        Agent = "agent",
        Tool = "tool",
        Server = "server",
    }
}

/// Deserializes `null` as a value, not as the absence of a value.
pub(crate) fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    Ok(Some(Value::deserialize(deserializer)?))
}

/// Returns the JSON Schema (draft 2020-12) of policy files, for editors. The file is generated by
/// the tests.
pub fn schema() -> Value {
    json::from_str(include_str!("../../policies/schema.json")).unwrap_or_default()
}

#[cfg(test)]
mod tests;
