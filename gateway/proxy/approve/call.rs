//! A call as it is submitted for approval: the digest that the executed call is compared with, and
//! its description for approvers.

use std::sync::Arc;

use lockgate_policy::{ApprovalRule, Refusal};
use lockgate_protocol::key::Key;
use serde_json::{Value, json};

use super::shown::{show_arguments, show_text};
use crate::approvals::waiting::join_names;
use crate::authorize::Permitted;
use crate::canonical::write_canonical;
use crate::context::RequestContext;

/// Limit on the request in bytes: approvers have to read it, and many calls may wait at once.
pub(crate) const MAX_REQUEST: usize = 64 * 1024;

pub(crate) struct ApprovedCall {
    /// Digest of principal, endpoint, server, tool and its definition, the arguments as sent to the
    /// server, and the current policies.
    pub(crate) digest: [u8; 32],
    arguments: Vec<u8>,
}

impl ApprovedCall {
    /// Creates the call with its digest.
    ///
    /// # Errors
    /// The call is too large to be shown, or its arguments have no canonical form.
    pub(crate) fn new(context: &RequestContext, permitted: &Permitted) -> Result<Self, Refusal> {
        if context.request.text.len() > MAX_REQUEST {
            let words = format!("it is larger than {} KiB", MAX_REQUEST / 1024);
            return Err(Refusal(words));
        }
        let mut arguments = context.request.param(Key::Arguments);
        for (name, written) in permitted.replaced() {
            if *name == Key::Arguments {
                arguments = written.as_deref();
            }
        }
        let arguments = arguments.unwrap_or(b"{}").to_vec();
        let mut canonical = Vec::with_capacity(arguments.len());
        if write_canonical(&arguments, &mut canonical).is_err() {
            return Err(Refusal("its arguments have too many members".into()));
        }
        let name = context.request.param_str(Key::Name);
        let definition = match context.view.tool(name.as_deref().unwrap_or("")) {
            Some(seen) => &seen.entry.item.text,
            None => b"".as_slice(),
        };
        let mut hasher = blake3::Hasher::new();
        let [realm, subject, endpoint] = context.bind();
        let name = permitted.server().qualified_name();
        let target = permitted.target().as_bytes();
        // A server or policies that were replaced under the same name make it a different call.
        let server = permitted.server().instance().to_bytes();
        let policies = context.snapshot.policy.fingerprint();
        let mut parts =
            vec![realm, subject, endpoint, name.as_bytes(), target, definition, &canonical];
        parts.extend([server.as_slice(), policies.as_slice()]);
        parts.extend(permitted.approvals().iter().map(|rule| rule.rule.as_bytes()));
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        Ok(Self { digest: *hasher.finalize().as_bytes(), arguments })
    }

    pub(crate) fn digest_text(&self) -> String {
        blake3::Hash::from_bytes(self.digest).to_hex().to_string()
    }

    pub(crate) fn show(&self, context: &RequestContext, permitted: &Permitted) -> Value {
        let principal = &context.principal;
        let tool = permitted.listed().unwrap_or("");
        let mut needs = Vec::with_capacity(permitted.approvals().len());
        for rule in permitted.approvals() {
            needs.push(rule.needs());
        }
        json!({
            "caller": format!("{}|{}", principal.issuer, principal.subject),
            "caller_name": principal.key_name.as_deref(),
            "organisation": principal.named_organisation(),
            "agent": principal.agent.as_deref(),
            "endpoint": context.endpoint.path(),
            "server": permitted.server().slug(),
            "tool": show_text(tool),
            "arguments": show_arguments(&self.arguments, permitted.response()),
            "needs": needs,
            "digest": self.digest_text(),
        })
    }

    /// Returns the parameters of the elicitation that asks the caller.
    pub(crate) fn question(
        &self,
        context: &RequestContext,
        permitted: &Permitted,
        rules: &[Arc<ApprovalRule>],
    ) -> Value {
        let shown = self.show(context, permitted);
        let message = format!(
            "Approve this call?\nCaller: {}\nTool: {} (server {})\nArguments: {}\nPolicy: {}",
            text_of(&shown, "caller"),
            text_of(&shown, "tool"),
            text_of(&shown, "server"),
            text_of(&shown, "arguments"),
            join_names(rules),
        );
        json!({
            "mode": "form",
            "message": message,
            "requestedSchema": {
                "type": "object",
                "properties": {"decision": {
                    "type": "string",
                    "title": "Decision",
                    "description": "`approve` runs this call once, exactly as shown",
                    "enum": ["approve", "deny"],
                }},
                "required": ["decision"],
            },
        })
    }
}

fn text_of<'a>(shown: &'a Value, name: &str) -> &'a str {
    shown[name].as_str().unwrap_or("")
}
