//! Test cases for policies: a caller, a request and the expected decision. Cases are decided as in
//! the gateway, but without running one.

use std::sync::Arc;

use lockgate_text::json;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::file;
use crate::policy::{DenyReason, Question};
use crate::rule::DEFAULT;
use crate::{Annotations, Certificate, Class, Policy, Subject, Target, TargetKind};

/// A file of cases.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Cases {
    /// Where this file's schema is, for editors. Not read.
    #[serde(default, rename = "$schema")]
    pub schema: Option<String>,
    /// The policy files, folders or patterns that are tested, relative to this file. Default: the
    /// file of the same name in the folder above, or all files there.
    #[serde(default)]
    pub policies: Vec<String>,
    /// The cases; `[]` for none.
    pub cases: Vec<Case>,
}

/// One case. The request is exactly one of `call`, `prompt`, `resource`, `completion` and
/// `template`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The purpose of the case.
    pub name: String,
    /// The caller. Default: the user of this machine.
    #[serde(default, rename = "as")]
    pub subject: Caller,
    /// The endpoint. Default `/mcp`.
    #[serde(default)]
    pub at: Option<String>,
    /// A tool that is called, as `server/tool`.
    #[serde(default)]
    pub call: Option<String>,
    /// A prompt, as `server/prompt`.
    #[serde(default)]
    pub prompt: Option<String>,
    /// A resource, as `server/uri` or as its URI is at the endpoint.
    #[serde(default)]
    pub resource: Option<String>,
    /// A prompt with an argument to complete, as `server/prompt`.
    #[serde(default)]
    pub completion: Option<String>,
    /// A resource template with a variable to complete, as `server/uri` or as its URI is at the
    /// endpoint.
    #[serde(default)]
    pub template: Option<String>,
    /// The arguments.
    #[serde(default)]
    pub arguments: Option<Value>,
    /// The arguments as text, for JSON that no writer produces.
    #[serde(default)]
    pub text: Option<String>,
    /// The category. Default: that of the built-in server of this name.
    #[serde(default)]
    pub category: Option<String>,
    /// The annotations of the tool. Default: those in the configuration and the lock file.
    #[serde(default)]
    pub annotations: Option<Annotations>,
    pub expect: Expect,
    /// The policy that should decide; `default` when none does.
    #[serde(default)]
    pub rule: Option<String>,
    /// Text that the refusal should contain.
    #[serde(default)]
    pub says: Option<String>,
    /// The arguments that the server should receive.
    #[serde(default, deserialize_with = "file::present")]
    pub forwards: Option<Value>,
}

lockgate_text::words! {
    /// The expected decision.
    #[derive(Deserialize)]
    #[cfg_attr(test, derive(JsonSchema))]
    #[serde(rename_all = "lowercase")]
    pub enum Expect {
        /// The call is made.
        Allow = "allow",
        /// The call is made once a person has approved it.
        Ask = "ask",
        /// The item is visible, but this call is denied.
        Deny = "deny",
        /// The item is not listed, and requests are answered as if it did not exist.
        Hidden = "hidden",
    }
}

/// The result of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub decision: Expect,
    /// The policy that decided.
    pub rule: String,
    /// A message for the caller, or for the log if a policy failed.
    pub words: Option<String>,
    /// The arguments that the server receives, if a policy changed them.
    pub forwards: Option<Value>,
}

/// The requested item, as resolved by the gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub server: String,
    /// The name or URI at the server.
    pub own: String,
    /// The name or URI at `/mcp`.
    pub exposed: String,
    /// The category of a built-in server.
    pub category: Option<String>,
    /// The annotations that the server declares for the tool, if known.
    pub annotations: Option<Annotations>,
}

impl Asked {
    /// Returns the item as policies see it. `organisation` owns its server.
    pub fn target<'a>(&'a self, kind: TargetKind, organisation: Option<&'a str>) -> Target<'a> {
        Target {
            kind,
            server: &self.server,
            organisation,
            exposed: &self.exposed,
            own: &self.own,
            category: self.category.as_deref(),
            annotations: self.annotations.unwrap_or_default(),
        }
    }
}

/// Returns the kind and the name of the only item that is named, each as the member of its kind.
pub fn find_asked(named: [&Option<String>; TargetKind::ALL.len()]) -> Option<(TargetKind, &str)> {
    let given = TargetKind::ALL.into_iter().zip(named);
    let given = given.filter_map(|(kind, name)| Some((kind, name.as_deref()?)));
    match Vec::from_iter(given)[..] {
        [one] => Some(one),
        _ => None,
    }
}

impl Case {
    /// Returns the kind and the name of the requested item.
    ///
    /// # Errors
    /// The case does not name exactly one item.
    pub fn asked(&self) -> Result<(TargetKind, &str), String> {
        let Self { call, prompt, resource, completion, template, .. } = self;
        find_asked([call, prompt, resource, completion, template]).ok_or_else(|| {
            "a case must have exactly one of call, prompt, resource, completion and template".into()
        })
    }

    /// Decides the case. `find` resolves an item by kind, name and endpoint.
    ///
    /// # Errors
    /// The case does not name exactly one item, or `find` fails.
    pub fn decide(
        &self,
        policy: &Policy,
        find: impl FnOnce(TargetKind, &str, &str) -> Result<Asked, String>,
    ) -> Result<Outcome, String> {
        let (kind, name) = self.asked()?;
        if self.arguments.as_ref().is_some_and(|arguments| !arguments.is_object()) {
            return Err("`arguments` must be an object, as in a call".to_owned());
        }
        let endpoint = self.at.as_deref().unwrap_or("/mcp");
        let mut asked = find(kind, name, endpoint)?;
        asked.category = self.category.clone().or(asked.category);
        asked.annotations = self.annotations.or(asked.annotations);
        let target = asked.target(kind, None);
        let subject = self.subject.subject();
        let question = Question { subject: &subject, endpoint, target: &target };
        let text = self.text.clone().or_else(|| self.arguments.as_ref().map(Value::to_string));
        Ok(policy.answer(&question, text.as_deref().map(str::as_bytes)))
    }

    /// Returns the differences between the expected and the actual result, one line each.
    pub fn differences(&self, outcome: &Outcome) -> Vec<String> {
        let mut all = Vec::new();
        if outcome.decision != self.expect {
            let words = outcome.words.as_ref().map(|words| format!(": {words}"));
            let expected = self.expect.as_str();
            let got = outcome.decision.as_str();
            all.push(format!("expected {expected}, got {got}{}", words.unwrap_or_default()));
        }
        if let Some(wanted) = &self.rule
            && *wanted != outcome.rule
        {
            all.push(format!("expected a decision of policy {wanted}, got {}", outcome.rule));
        }
        if let Some(says) = &self.says
            && !matches!(&outcome.words, Some(words) if words.contains(says))
        {
            let words = outcome.words.as_deref().unwrap_or("");
            all.push(format!("expected a message with {says:?}, got {words:?}"));
        }
        if let Some(wanted) = &self.forwards {
            let sent = outcome.forwards.as_ref().or(self.arguments.as_ref());
            if sent != Some(wanted) {
                let sent = sent.unwrap_or(&Value::Null);
                all.push(format!("expected to forward {wanted}, got {sent}"));
            }
        }
        all
    }
}

impl Policy {
    /// Returns the target of the decision. For a completion of a hidden prompt or template that is
    /// the prompt or template itself, even if a policy allows the completion.
    pub(crate) fn deciding<'a>(&self, class: &Class, question: &Question<'a>) -> Target<'a> {
        let Some(kind) = question.target.kind.completed() else { return *question.target };
        let completed = Target { kind, ..*question.target };
        let verdict = self.verdict(class, &Question { target: &completed, ..*question });
        if verdict.is_visible() { *question.target } else { completed }
    }

    /// Decides a call, without counting it against rates.
    pub fn answer(&self, question: &Question<'_>, arguments: Option<&[u8]>) -> Outcome {
        let class = self.class(question.subject, question.endpoint);
        let target = self.deciding(&class, question);
        let question = &Question { target: &target, ..*question };
        let verdict = self.verdict(&class, question);
        match self.evaluate(&verdict, question, arguments) {
            Ok(passed) => {
                let forwards =
                    passed.arguments.as_ref().and_then(|text| json::from_slice(text).ok());
                let Some(first) = passed.approvals.first() else {
                    let rule = passed.rule.to_string();
                    return Outcome { decision: Expect::Allow, rule, words: None, forwards };
                };
                let needs = passed.approvals.iter().map(|approval| approval.needs());
                let words = Some(Vec::from_iter(needs).join("; "));
                Outcome { decision: Expect::Ask, rule: first.rule.to_string(), words, forwards }
            }
            Err(denied) => {
                let decision = if verdict.is_visible() { Expect::Deny } else { Expect::Hidden };
                let words = match denied.reason {
                    DenyReason::Hidden if *denied.rule == *DEFAULT => {
                        Some("no policy allows it".into())
                    }
                    DenyReason::Hidden | DenyReason::Unapproved => None,
                    DenyReason::Arguments(refusal) => Some(refusal.0),
                    DenyReason::Failure(words) => Some(words),
                    DenyReason::Unjudged(words, argument) => Some(format!("{words} ({argument})")),
                };
                Outcome { decision, rule: denied.rule.to_string(), words, forwards: None }
            }
        }
    }
}

/// Returns the JSON Schema (draft 2020-12) of case files, for editors. The file is generated by the
/// tests.
pub fn schema() -> Value {
    json::from_str(include_str!("../../policies/cases.schema.json")).unwrap_or_default()
}

/// The caller of a case.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Caller {
    /// Default `local`.
    pub issuer: String,
    /// Default `user`.
    pub subject: String,
    pub organisation: Option<String>,
    #[serde(deserialize_with = "words")]
    #[cfg_attr(test, schemars(with = "Vec<String>", extend("default" = [])))]
    pub roles: Vec<Arc<str>>,
    #[serde(deserialize_with = "words")]
    #[cfg_attr(test, schemars(with = "Vec<String>", extend("default" = [])))]
    pub scopes: Vec<Arc<str>>,
    pub agent: Option<String>,
    /// The names of the client certificate, with their kind: `dns:ci.example.com`.
    pub certificates: Vec<Box<str>>,
}

impl Default for Caller {
    fn default() -> Self {
        Self {
            issuer: "local".into(),
            subject: "user".into(),
            organisation: None,
            roles: Vec::new(),
            scopes: Vec::new(),
            agent: None,
            certificates: Vec::new(),
        }
    }
}

impl Caller {
    /// Parses `issuer|subject`, or the name of a key, followed by words such as `role=analyst
    /// organisation=acme`. Single or double quotes enclose blanks: `"certificate:My CA|cn:alice"
    /// organisation='Acme Ltd'`.
    ///
    /// # Errors
    /// Returns the invalid word.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut caller = Self::default();
        for word in &quoted_words(text)? {
            match (word.split_once('='), word.split_once('|')) {
                (Some(("role", value)), _) => caller.roles.push(value.into()),
                (Some(("scope", value)), _) => caller.scopes.push(value.into()),
                (Some(("organisation", value)), _) => caller.organisation = Some(value.into()),
                (Some(("agent", value)), _) => caller.agent = Some(value.into()),
                (Some(("certificate", value)), _) => caller.certificates.push(value.into()),
                (_, Some((issuer, subject))) => {
                    caller.issuer = issuer.into();
                    caller.subject = subject.into();
                }
                (None, None) if !word.is_empty() && !word.contains(':') => {
                    caller.issuer = "key".into();
                    caller.subject = word.as_str().into();
                }
                _ => {
                    return Err(format!(
                        "`{word}` is neither issuer|subject, the name of a key, nor role=, scope=, \
                            organisation=, agent= or certificate="
                    ));
                }
            }
        }
        Ok(caller)
    }

    /// Returns the caller as policies see it.
    pub fn subject(&self) -> Subject<'_> {
        Subject {
            key: 0,
            issuer: &self.issuer,
            subject: &self.subject,
            organisation: self.organisation.as_deref(),
            roles: &self.roles,
            scopes: &self.scopes,
            agent: self.agent.as_deref(),
            certificate: match self.certificates.as_slice() {
                [] => None,
                names => Some(Certificate { names, fingerprint: "" }),
            },
        }
    }
}

/// Splits a text into words; quotes enclose blanks, and quotes of the other kind.
fn quoted_words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word = None::<String>;
    let mut open = None;
    for c in text.chars() {
        match (open, c) {
            (Some(quote), c) if c == quote => open = None,
            (None, '"' | '\'') => {
                open = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match open {
        Some(quote) => Err(format!("a {quote} is not closed")),
        None => Ok(words),
    }
}

fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Arc<str>>, D::Error> {
    let words = Vec::<String>::deserialize(deserializer)?;
    Ok(words.into_iter().map(Into::into).collect())
}
