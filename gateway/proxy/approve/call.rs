//! The very call that a person is asked about: its digest, which what runs is held against, and how
//! it is shown.

use std::sync::{Arc, OnceLock};

use lockgate_policy::response::{Response, Spec};
use lockgate_policy::{ApprovalRule, Refusal};
use lockgate_protocol::scan::{self, Flaw, Keys, Scanner};
use lockgate_protocol::write;
use lockgate_text::unseen::is_unseen;
use serde_json::{Value, json};

use crate::authorize::Permitted;
use crate::context::RequestContext;
use crate::response::scrub::texts::texts;

/// Longest request that can be asked about: what a person approves has to be looked at, and many
/// may wait.
pub(crate) const MAX_REQUEST: usize = 64 * 1024;
/// Longest text among the arguments that is shown whole, in characters.
const MAX_STRING: usize = 1000;
/// Most bytes of arguments that are shown.
const MAX_SHOWN: usize = 16 * 1024;

/// See the module.
pub(crate) struct ApprovedCall {
    /// Of principal, endpoint, server, tool, its definition, the arguments as the server gets them,
    /// and the policies as they are now.
    pub(crate) digest: [u8; 32],
    arguments: Vec<u8>,
}

impl ApprovedCall {
    /// # Errors
    /// It cannot be shown to anybody; why.
    pub(crate) fn new(context: &RequestContext, permitted: &Permitted) -> Result<Self, Refusal> {
        if context.request.text.len() > MAX_REQUEST {
            let words = format!("it has more than {} KiB", MAX_REQUEST / 1024);
            return Err(Refusal(words));
        }
        let own = permitted.replaced().iter().rev().find(|(name, _)| *name == "arguments");
        let arguments = match own {
            Some((_, written)) => written.as_deref(),
            None => context.request.param("arguments"),
        };
        let arguments = arguments.unwrap_or(b"{}").to_vec();
        let mut canonical = Vec::with_capacity(arguments.len());
        if write_canonical(&arguments, &mut canonical).is_err() {
            return Err(Refusal("its arguments have too many members to be looked at".into()));
        }
        let name = context.request.param_str("name").unwrap_or_default();
        let seen = context.view.tool(&name);
        let definition = seen.map_or(b"".as_slice(), |seen| &seen.entry.item.text);
        let mut hasher = blake3::Hasher::new();
        let [issuer, subject, endpoint] = context.bind();
        let slug = permitted.server().slug().as_bytes();
        let target = permitted.target().as_bytes();
        // Another server under the same name, or other policies under theirs, is another call.
        let server = Arc::as_ptr(permitted.server()).addr().to_le_bytes();
        let policies = context.snapshot.policy.fingerprint();
        let mut parts = vec![issuer, subject, endpoint, slug, target, definition, &canonical];
        parts.extend([server.as_slice(), policies.as_slice()]);
        parts.extend(permitted.approvals().iter().map(|rule| rule.rule.as_bytes()));
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        Ok(Self { digest: *hasher.finalize().as_bytes(), arguments })
    }

    /// The digest as people compare it.
    pub(crate) fn digest_text(&self) -> String {
        blake3::Hash::from_bytes(self.digest).to_hex().to_string()
    }

    /// What an approver is shown of it.
    pub(crate) fn show(&self, context: &RequestContext, permitted: &Permitted) -> Value {
        let principal = &context.principal;
        let tool = permitted.listed().unwrap_or_default();
        let needs: Vec<String> = permitted.approvals().iter().map(|rule| rule.needs()).collect();
        json!({
            "caller": format!("{}|{}", principal.issuer, principal.subject),
            "organisation": principal.organisation.as_deref(),
            "agent": principal.agent.as_deref(),
            "endpoint": context.endpoint.path(),
            "server": permitted.server().slug(),
            "tool": shown_text(tool),
            "arguments": self.show_arguments(permitted),
            "needs": needs,
            "digest": self.digest_text(),
        })
    }

    /// The arguments as a person sees them: without secrets and what the policies take out of
    /// answers, long texts cut, and nothing that cannot be seen.
    fn show_arguments(&self, permitted: &Permitted) -> String {
        let mut rules = Vec::from_iter(secrets());
        if let Some(rule) = permitted.response() {
            rules.push(rule);
        }
        let clean = match Response::all(rules) {
            Some(rule) => texts(&rule, "", &self.arguments),
            None => None,
        };
        let text = clean.as_deref().unwrap_or(&self.arguments);
        let Ok(mut value) = serde_json::from_slice::<Value>(text) else { return String::new() };
        cut_strings(&mut value);
        let mut shown = shown_text(&value.to_string());
        if shown.len() > MAX_SHOWN {
            let all = shown.len();
            shown.truncate(shown.floor_char_boundary(MAX_SHOWN));
            shown.push_str(&format!("… (cut: {all} bytes in all)"));
        }
        shown
    }

    /// The question to the caller, as parameters of an elicitation.
    pub(crate) fn question(
        &self,
        context: &RequestContext,
        permitted: &Permitted,
        rules: &[&ApprovalRule],
    ) -> Value {
        let shown = self.show(context, permitted);
        let names: Vec<&str> = rules.iter().map(|rule| &*rule.rule).collect();
        let message = format!(
            "Approve this call?\nCaller: {}\nTool: {} (server {})\nArguments: {}\nPolicy: {}",
            text_of(&shown, "caller"),
            text_of(&shown, "tool"),
            text_of(&shown, "server"),
            text_of(&shown, "arguments"),
            names.join(", "),
        );
        json!({
            "mode": "form",
            "message": message,
            "requestedSchema": {
                "type": "object",
                "properties": {"decision": {
                    "type": "string",
                    "title": "Decision",
                    "description": "`approve` makes this call once, as it is shown",
                    "enum": ["approve", "deny"],
                }},
                "required": ["decision"],
            },
        })
    }
}

fn text_of<'a>(shown: &'a Value, name: &str) -> &'a str {
    shown.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// What looks like a secret is shown to nobody, whatever policies say.
fn secrets() -> Option<&'static Response> {
    static SECRETS: OnceLock<Option<Response>> = OnceLock::new();
    let compiled =
        SECRETS.get_or_init(|| Response::compile(&Spec { secrets: true, ..Spec::default() }).ok());
    compiled.as_ref()
}

fn cut_strings(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(MAX_STRING) {
                let rest = text.chars().count() - MAX_STRING;
                text.truncate(end);
                text.push_str(&format!("… ({rest} more characters)"));
            }
        }
        Value::Array(all) => all.iter_mut().for_each(cut_strings),
        Value::Object(all) => all.values_mut().for_each(cut_strings),
        _ => {}
    }
}

/// A text with escapes for what cannot be seen.
fn shown_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match is_unseen(c) {
            true => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            false => out.push(c),
        }
    }
    out
}

/// JSON whose members are in order and whose texts are written in one way. Numbers stay as they
/// were written, because readers differ in how exact they take them.
fn write_canonical(raw: &[u8], out: &mut Vec<u8>) -> Result<(), Flaw> {
    let mut scanner = Scanner::new(raw, scan::MAX_DEPTH)?;
    match scanner.peek() {
        Some(b'{') => {
            let (_, mut members) = scanner.members(Keys::Distinct)?;
            members.sort_by(|a, b| a.name(raw).cmp(&b.name(raw)));
            out.push(b'{');
            for member in &members {
                write::string(out, &member.name(raw));
                out.push(b':');
                write_canonical(member.value.of(raw), out)?;
                out.push(b',');
            }
            out.push(b'}');
        }
        Some(b'[') => {
            let mut items = Vec::new();
            scanner.array(&mut |inner| {
                items.push(inner.value()?);
                Ok(())
            })?;
            out.push(b'[');
            for item in items {
                write_canonical(item.of(raw), out)?;
                out.push(b',');
            }
            out.push(b']');
        }
        _ => {
            let scalar = scanner.value()?.of(raw);
            match scan::as_str(scalar) {
                Some(text) => write::string(out, &text),
                None => out.extend_from_slice(scalar),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
