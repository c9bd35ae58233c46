//! From the claims of a verified token to an identity: where each thing is, is configured. What
//! does not have the expected form is left out, except the subject, without which there is no
//! identity. Lists and texts are bounded.

use serde_json::{Map, Value};

use crate::config::Claims;
use crate::identity::Identity;
use crate::scope::{MAX_SCOPES, Needs, is_scope};

/// Longest subject, organisation, role or agent.
const MAX_TEXT: usize = 512;
/// Roles that one token may grant; further ones are not looked at.
const MAX_ROLES: usize = 256;

/// The identity that a token's claims give, or `None` when they name no usable subject.
pub(crate) fn identity(
    claims: &Map<String, Value>,
    issuer: &str,
    places: &Claims,
    needs: &Needs,
) -> Option<Identity> {
    let organisation = places.organisation.as_deref();
    let organisation = organisation.and_then(|place| find_text(claims, place));
    let identity = Identity::new(issuer, find_text(claims, &places.subject)?);
    let mut identity = identity.in_organisation(organisation);
    let agent = places.agent.iter().find_map(|place| find_text(claims, place));
    identity.agent = agent.map(Into::into);
    let roles = places.roles.as_deref().and_then(|place| find(claims, place));
    let roles = roles.map(|roles| items(roles, false)).unwrap_or_default();
    identity.roles = roles.into_iter().map(Into::into).collect();
    let granted = places.scopes.iter().find_map(|place| find(claims, place));
    let granted = granted.map(|scopes| items(scopes, true)).unwrap_or_default();
    identity.scopes = needs.expand(granted.into_iter().filter(|scope| is_scope(scope)));
    Some(identity)
}

fn find_text<'a>(claims: &'a Map<String, Value>, place: &str) -> Option<&'a str> {
    find(claims, place)?.as_str().filter(|text| is_usable(text))
}

pub(crate) fn find<'a>(claims: &'a Map<String, Value>, place: &str) -> Option<&'a Value> {
    let Some(path) = place.strip_prefix('/') else { return claims.get(place) };
    let (first, rest) =
        path.split_once('/').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let value = claims.get(&first.replace("~1", "/").replace("~0", "~"))?;
    rest.map_or(Some(value), |rest| value.pointer(&format!("/{rest}")))
}

/// A list of text, or one text, which holds several words when it is one of scopes.
fn items(value: &Value, words: bool) -> Vec<&str> {
    let (most, all): (usize, Vec<&str>) = match value {
        Value::String(text) if words => {
            (MAX_SCOPES, text.split_ascii_whitespace().take(MAX_SCOPES).collect())
        }
        Value::String(text) => (1, vec![text]),
        Value::Array(items) => {
            (MAX_ROLES, items.iter().take(MAX_ROLES).filter_map(Value::as_str).collect())
        }
        _ => return Vec::new(),
    };
    all.into_iter().filter(|text| is_usable(text)).take(most).collect()
}

fn is_usable(text: &str) -> bool {
    (1..=MAX_TEXT).contains(&text.len()) && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests;
