//! API keys without their secrets: the list, a new key, which is shown once, and revocation.

use std::time::{Duration, SystemTime};

use lockgate_text::date;

use super::*;
use crate::api::agents::show_agent;
use crate::api::keys::{self, ApiKey, MadeKey};

/// The fields of a new key.
const LABELS: [(&str, &str); 6] = [
    ("name", "Name"),
    ("roles", "Roles"),
    ("scopes", "Scopes"),
    ("expiresAt", "Expires"),
    ("agent", "Agent"),
    ("organizationId", "Organisation"),
];
const DAY: Duration = Duration::from_secs(86_400);
/// The lifetime that the form suggests for a new key.
const DEFAULT_LIFE: Duration = Duration::from_secs(90 * 86_400);

#[derive(Template)]
#[template(path = "keys.html")]
struct KeysPage<'a> {
    visit: &'a Visit,
    keys: Vec<ApiKey>,
    total: usize,
}

#[derive(Template)]
#[template(path = "key_new.html")]
struct NewKeyPage<'a> {
    visit: &'a Visit,
    /// The suggested expiry, 90 days from now, and the earliest allowed day.
    expires: String,
    today: String,
}

#[derive(Template)]
#[template(path = "key_made.html")]
struct MadeKeyPage<'a> {
    visit: &'a Visit,
    made: MadeKey,
    /// The key itself.
    secret: String,
    snippets: Vec<Snippet>,
    /// The agent that the key was created for.
    agent: Option<Agent>,
}

#[derive(Template)]
#[template(path = "key_revoke.html")]
struct RevokePage<'a> {
    visit: &'a Visit,
    key: ApiKey,
}

impl ApiKey {
    /// Returns whether the key expires before a time, both as RFC 3339 in UTC.
    pub(crate) fn ends_before(&self, time: &str) -> bool {
        matches!(self.expires_at.as_deref(), Some(ends) if ends < time)
    }

    pub(crate) fn severity(&self) -> Severity {
        match self.state {
            "active" => Severity::Good,
            "expired" => Severity::Bad,
            _ => Severity::Off,
        }
    }

    fn fits(&self, search: &str) -> bool {
        self.name.to_lowercase().contains(&search.to_lowercase()) || self.id.starts_with(search)
    }
}

/// Lists the keys, filtered by name or prefix of the id, the active keys first.
pub(crate) async fn list_keys(visit: Visit) -> PageResult {
    let search = visit.query.get("q");
    let mut keys = keys::list_visible(&visit.by()?);
    let total = keys.len();
    keys.retain(|key| key.fits(search));
    keys.sort_by_key(|key| key.state != "active");
    visit.show(&KeysPage { visit: &visit, keys, total })
}

pub(crate) async fn show_form(visit: Visit) -> PageResult {
    let now = SystemTime::now();
    let expires = day_of(now + DEFAULT_LIFE);
    let today = day_of(now + DAY);
    visit.show(&NewKeyPage { visit: &visit, expires, today })
}

fn day_of(time: SystemTime) -> String {
    let mut day = date::of_time(time);
    day.truncate("2027-01-31".len());
    day
}

/// Creates a key and shows it once.
pub(crate) async fn create_key(mut visit: Visit) -> PageResult {
    let organisation = match visit.form.get("organizationId") {
        "" => visit.me.organization_id.as_str(),
        other => other,
    };
    let mut others = keys::list_visible(&visit.by()?);
    others.retain(|key| key.state == "active" && key.organization_id == organisation);
    if others.iter().any(|key| key.name == visit.form.get("name")) {
        let words = "An active key has this name. Choose another, so that records tell them apart.";
        visit.mistake = FormError::new("name", words);
        return show_form(visit).await;
    }
    // Before the key, because an error must not hide its secret.
    let agent = match visit.query.get("for") {
        "" => None,
        id => Some(show_agent(visit.by()?, Path(id.to_owned())).await?.value),
    };
    let made = match body(write_body(&visit.form)) {
        Ok(new) => keys::create_key(visit.by()?, new).await,
        Err(problem) => Err(problem),
    };
    match made {
        Ok((_, Json(made))) => show_made(&visit, agent, made),
        // A refused permission is shown at its field.
        Err(problem) if problem.is_of_form() || !problem.pointer().is_empty() => {
            // The last field is for operators only.
            let shown = if visit.is_operator() { LABELS.len() } else { LABELS.len() - 1 };
            visit.mistake = FormError::of(&problem, &LABELS[..shown]);
            let mut response = show_form(visit).await?;
            if let Some(refusal) = problem.refusal() {
                response.extensions_mut().insert(refusal);
            }
            Ok(response)
        }
        Err(problem) => Err(problem.into()),
    }
}

/// Shows a key once, with the client configuration for its agent, or for the gateway.
fn show_made(visit: &Visit, agent: Option<Agent>, mut made: MadeKey) -> PageResult {
    let secret = made.key.take().unwrap_or_default();
    let (name, endpoint) = match &agent {
        Some(agent) => (agent.name.as_str(), &agent.endpoint),
        None => ("lockgate", &visit.me.endpoint),
    };
    let snippets = visit.make_snippets(name, endpoint, Some(&secret));
    // Unlike a page that shows a form again, this one is remembered as sent.
    render(StatusCode::CREATED, &MadeKeyPage { visit, made, secret, snippets, agent })
}

fn write_body(typed: &Fields) -> Value {
    let mut body = json!({"name": typed.get("name")});
    typed.write(&mut body, &["organizationId", "agent", "expiresAt"]);
    for field in ["roles", "scopes"] {
        let mut words: Vec<&str> = Vec::new();
        for word in typed.all(field).flat_map(str::split_whitespace) {
            if !words.contains(&word) {
                words.push(word);
            }
        }
        body[field] = words.into();
    }
    body
}

/// Asks for confirmation before a key is revoked.
pub(crate) async fn show_revocation(visit: Visit, Path(id): Path<String>) -> PageResult {
    let mut known = keys::list_visible(&visit.by()?).into_iter();
    let Some(key) = known.find(|key| key.id == id) else {
        return Err(PageError::not_found("There is no key of this id that you may see."));
    };
    visit.show(&RevokePage { visit: &visit, key })
}

pub(crate) async fn revoke_key(visit: Visit, Path(id): Path<String>) -> PageResult {
    keys::revoke_key(visit.by()?, Path(id)).await?;
    let text = "The key was revoked. Requests and sessions that use it are refused.";
    visit.done(PagePath::new(&["keys"]), text)
}
