//! Questions that servers ask clients (elicitation, sampling, roots), as text: who may be asked
//! what, and how a question reads.

use std::borrow::Cow;

use serde_json::Value;

use crate::capabilities;
use crate::method::Method;
use crate::revision::Revision;
use crate::write::{self, Object};

/// Whether a client with these capabilities may be asked this.
#[must_use]
pub fn may_ask(declared: &[u8], method: Method, params: &[u8], revision: Revision) -> bool {
    match method {
        Method::Sample => capabilities::declares(declared, &["sampling"]),
        Method::Roots => capabilities::declares(declared, &["roots"]),
        Method::Elicit if revision < Revision::V2025_06_18 => false,
        Method::Elicit if is_url(params) => {
            revision >= Revision::V2025_11_25
                && capabilities::declares(declared, &["elicitation", "url"])
        }
        Method::Elicit => takes_forms(declared),
        _ => false,
    }
}

/// Whether an elicitation sends the user to a URL.
fn is_url(params: &[u8]) -> bool {
    let Ok(params) = serde_json::from_slice::<Value>(params) else { return false };
    params.get("mode").and_then(Value::as_str) == Some("url")
}

/// `elicitation: {}` means forms.
fn takes_forms(declared: &[u8]) -> bool {
    capabilities::declares(declared, &["elicitation"])
        && (capabilities::declares(declared, &["elicitation", "form"])
            || !capabilities::declares(declared, &["elicitation", "url"]))
}

/// A request of ours to a legacy client.
#[must_use]
pub fn write_request(id: u64, method: Method, params: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(params.len() + 80);
    let mut object = Object::open(&mut out);
    object.string("jsonrpc", "2.0");
    write::number(object.key("id"), id);
    object.string("method", method.as_str());
    object.raw("params", params);
    object.close();
    out
}

/// An elicitation whose message names the server that asks; other questions as they are.
#[must_use]
pub fn label<'a>(label: Option<&str>, method: Method, params: &'a [u8]) -> Cow<'a, [u8]> {
    let Some(label) = label.filter(|_| method == Method::Elicit) else {
        return Cow::Borrowed(params);
    };
    let Ok(Value::Object(mut all)) = serde_json::from_slice(params) else {
        return Cow::Borrowed(params);
    };
    if let Some(Value::String(message)) = all.get_mut("message") {
        message.insert_str(0, &format!("[{label}] "));
    }
    Cow::Owned(Value::Object(all).to_string().into_bytes())
}
