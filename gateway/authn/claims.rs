//! From the claims of a verified token to an identity: where each thing is, is configured. What
//! does not have the expected form is left out, except the subject, without which there is no
//! identity. Lists and texts are bounded.

use lockgate_text::organisation::find_mistake;
use serde_json::{Map, Value};

use crate::config::Claims;
use crate::identity::{Identity, share};
use crate::scope::{MAX_SCOPES, Needs, is_scope};

/// Longest subject, role or agent.
const MAX_TEXT: usize = 512;
/// Roles that one token may grant; further ones are not looked at.
const MAX_ROLES: usize = 256;

/// The identity that a token's claims give, or `None` when they name no usable subject, or an
/// organisation by what is no name: its holder is not to be taken for a member of another one.
pub(crate) fn identity(
    claims: &Map<String, Value>,
    issuer: &str,
    places: &Claims,
    needs: &Needs,
) -> Option<Identity> {
    let named = match &places.organisation {
        Some(place) => find(claims, place),
        None => None,
    };
    let organisation = match named {
        Some(Value::String(name)) if find_mistake(name).is_some() => return None,
        Some(Value::String(name)) => Some(name.as_str()),
        _ => None,
    };
    let identity = Identity::new(issuer, find_text(claims, &places.subject)?);
    let mut identity = identity.in_organisation(organisation);
    let agent = places.agent.iter().find_map(|place| find_text(claims, place));
    identity.agent = agent.map(Into::into);
    if let Some(place) = &places.roles
        && let Some(roles) = find(claims, place)
    {
        identity.roles = share(&items(roles, false));
    }
    if let Some(scopes) = places.scopes.iter().find_map(|place| find(claims, place)) {
        let mut granted = items(scopes, true);
        granted.retain(|scope| is_scope(scope));
        identity.scopes = needs.expand(granted);
    }
    Some(identity)
}

pub(crate) fn find_text<'a>(claims: &'a Map<String, Value>, place: &str) -> Option<&'a str> {
    let text = find(claims, place)?.as_str()?;
    if is_usable(text) { Some(text) } else { None }
}

pub(crate) fn find<'a>(claims: &'a Map<String, Value>, place: &str) -> Option<&'a Value> {
    let Some(path) = place.strip_prefix('/') else { return claims.get(place) };
    let Some((first, rest)) = path.split_once('/') else { return claims.get(&unescaped(path)) };
    claims.get(&unescaped(first))?.pointer(&format!("/{rest}"))
}

/// A step of a JSON pointer (RFC 6901, section 4) as the name that it means.
fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// A list of text, or one text, which holds several words when it is one of scopes.
fn items(value: &Value, words: bool) -> Vec<&str> {
    let mut all: Vec<&str> = match value {
        Value::String(text) if words => text.split_ascii_whitespace().take(MAX_SCOPES).collect(),
        Value::String(text) => vec![text],
        Value::Array(items) => {
            let texts = items.iter().take(MAX_ROLES).filter_map(Value::as_str);
            texts.collect()
        }
        _ => Vec::new(),
    };
    all.retain(|text| is_usable(text));
    all
}

fn is_usable(text: &str) -> bool {
    (1..=MAX_TEXT).contains(&text.len()) && !text.contains(char::is_control)
}

#[cfg(test)]
mod tests;
