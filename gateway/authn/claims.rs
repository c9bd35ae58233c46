//! Maps the claims of a verified token to an identity, according to the configuration. Claims of an
//! unexpected form are ignored, except the subject, which is required, and an invalid organisation
//! name, which is rejected. Lists and texts are bounded.

use lockgate_text::organisation::find_mistake;
use serde_json::Value;

use crate::config::Claims;
use crate::identity::{Identity, share};
use crate::scope::{MAX_SCOPES, Needs, is_scope};

/// Maximum length of a text, in bytes.
const MAX_TEXT: usize = 512;
/// Maximum number of roles from a token; the rest are ignored.
const MAX_ROLES: usize = 256;

/// Returns the identity in a token's claims, or `None` without a usable subject. Also returns
/// `None` for an invalid organisation name: its holder must not become a member of the default
/// organisation.
pub(crate) fn identity(
    claims: &Value,
    issuer: &str,
    places: &Claims,
    needs: &Needs,
) -> Option<Identity> {
    let named = places.organisation.as_ref().and_then(|place| find(claims, place));
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
        identity.scopes = needs.scopes.expand(&granted);
    }
    Some(identity)
}

pub(crate) fn find_text<'a>(claims: &'a Value, place: &str) -> Option<&'a str> {
    let text = find(claims, place)?.as_str()?;
    if is_usable(text) { Some(text) } else { None }
}

pub(crate) fn find<'a>(claims: &'a Value, place: &str) -> Option<&'a Value> {
    if place.starts_with('/') { claims.pointer(place) } else { claims.get(place) }
}

/// Returns a text member of an object.
pub(crate) fn text<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.get(name)?.as_str()
}

/// Returns the texts of a list, or a single text, which is split into words for scopes.
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
