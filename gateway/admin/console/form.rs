//! Forms: their fields, and the checks on each before it changes anything. The form comes from a
//! page of this origin, has the visitor's token, and was not sent before.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::ORIGIN;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use blake3::Hasher;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

use super::render::PageError;
use super::sessions::{Sessions, Visitor, evict_oldest, hash_parts};
use crate::api::problem::Problem;
use crate::api::table::is_of_other_origin;
use crate::fault::{Fault, sentence};
use crate::read_media_type;

/// Form or query fields as text by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(crate) fn parse(text: &[u8]) -> Self {
        Self(form_urlencoded::parse(text).into_owned().collect())
    }

    /// Returns the first value of this name, trimmed; empty if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.get_exact(name).trim()
    }

    /// Returns the first value of this name, trimmed; `other` if there is none.
    pub(crate) fn get_or<'a>(&'a self, name: &str, other: &'a str) -> &'a str {
        if self.has(name) { self.get(name) } else { other }
    }

    /// Returns the first value of this name, untrimmed; empty if there is none.
    pub(crate) fn get_exact(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or("")
    }

    /// Sets the only value of this name.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.0.retain(|(key, _)| key != name);
        self.0.push((name.to_owned(), value.to_owned()));
    }

    /// Returns the memory that the fields occupy, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let texts: usize = self.0.iter().map(|(name, value)| name.len() + value.len()).sum();
        texts + self.0.len() * size_of::<(String, String)>()
    }

    /// Adds the fields of these names that are not empty to a body of the API.
    pub(crate) fn write(&self, body: &mut Value, names: &[&str]) {
        for name in names.iter().filter(|name| !self.get(name).is_empty()) {
            body[*name] = self.get(name).into();
        }
    }

    /// Adds a field that is not empty, untrimmed.
    pub(crate) fn write_exact(&self, body: &mut Value, name: &str) {
        if !self.get_exact(name).is_empty() {
            body[name] = self.get_exact(name).into();
        }
    }

    /// Returns all values of this name, untrimmed.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the names and values of all fields, untrimmed.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a field of these names is not empty.
    pub(crate) fn has_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| !self.get(name).is_empty())
    }

    /// Returns whether there is a field of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }
}

/// Maximum size of a form, in bytes.
const MAX_FORM: usize = 1 << 20;
/// Maximum number of fields of a form. Each takes more memory than its text.
const MAX_FIELDS: usize = 2048;

const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The state of the checks.
pub(crate) struct FormState {
    pub(crate) sent_forms: SentForms,
    pub(crate) sessions: Arc<Sessions>,
}

/// Rejects forms that no page of the console sent, and stores the fields of accepted forms in the
/// request.
pub(crate) async fn check_form(
    State(state): State<Arc<FormState>>,
    request: Request,
    next: Next,
) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        let is_known = request.extensions().get::<Visitor>().is_some();
        if is_known && is_hidden_use(request.headers()) {
            let detail = "A page of another site requested this in the background. Open the \
                address in a new window.";
            let title = "The request was refused";
            return PageError::new(StatusCode::FORBIDDEN, title, detail).into_response();
        }
        return next.run(request).await;
    }
    let (mut request, key) = match read_form(&state, request).await {
        Ok(read) => read,
        Err(error) => return error.into_response(),
    };
    let visitor = request.extensions().get::<Visitor>();
    let organisation = visitor.map_or("", |visitor| visitor.principal.organisation());
    if !state.sent_forms.remember(key, organisation) {
        return refuse_again(request.uri().path()).into_response();
    }
    let pending = Arc::new(PendingForm::new(Arc::clone(&state), key));
    request.extensions_mut().insert(Arc::clone(&pending));
    let response = next.run(request).await;
    pending.note_effect();
    // Nothing was changed: the page shows the form again, and may be reloaded.
    if !response.status().is_redirection() && response.status() != StatusCode::CREATED {
        state.sent_forms.forget(&key);
    }
    response
}

/// Returns the error for a form that was sent before.
fn refuse_again(path: &str) -> PageError {
    let detail = if path.ends_with("/keys/new") {
        "Nothing was done twice. Open the keys from the menu. A new key is shown only once: if you \
         did not copy it, revoke it and create another."
    } else {
        "Nothing was done twice. Open the page from the menu to see the result."
    };
    PageError::new(StatusCode::CONFLICT, "The form was already sent", detail)
}

/// Returns whether a page of this origin sent the request, according to the browser. Requests
/// without `Origin` and `Sec-Fetch-Site` are rejected.
pub(crate) fn is_of_own_page(uri: &Uri, headers: &HeaderMap) -> bool {
    let says = headers.contains_key(ORIGIN) || headers.contains_key(SEC_FETCH_SITE);
    let is_typed = matches!(headers.get(SEC_FETCH_SITE), Some(site) if site == "none");
    says && !is_typed && !is_of_other_origin(uri, headers)
}

/// Returns whether `Sec-Fetch-Site` names another site. Browsers that predate this header are
/// accepted.
pub(crate) fn is_of_other_site(headers: &HeaderMap) -> bool {
    let site = headers.get(SEC_FETCH_SITE);
    matches!(site, Some(site) if site != "same-origin" && site != "none")
}

/// Returns whether a page of another origin sent the request in the background. Such requests would
/// use the visitor's permits for streams and searches. Navigation is allowed.
fn is_hidden_use(headers: &HeaderMap) -> bool {
    let mode = headers.get(SEC_FETCH_MODE);
    is_of_other_site(headers) && matches!(mode, Some(mode) if mode != "navigate")
}

/// Returns whether the body is a form.
pub(crate) fn is_form(headers: &HeaderMap) -> bool {
    read_media_type(headers) == Some("application/x-www-form-urlencoded")
}

/// Returns whether a form has more fields than allowed, before memory is allocated for them.
fn has_too_many_fields(text: &[u8]) -> bool {
    text.iter().filter(|byte| **byte == b'&').count() >= MAX_FIELDS
}

async fn read_form(state: &FormState, request: Request) -> Result<(Request, FormKey), PageError> {
    let (mut parts, body) = request.into_parts();
    if !is_of_own_page(&parts.uri, &parts.headers) {
        let detail = "Another site or a program sent this form. Nothing was changed.";
        return Err(PageError::new(StatusCode::FORBIDDEN, "The form was refused", detail));
    }
    let Some(visitor) = parts.extensions.get::<Visitor>() else {
        return Err(PageError::signed_out());
    };
    if !is_form(&parts.headers) {
        let detail = "The console accepts forms only. Programs use the API.";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(PageError::new(status, "The form was refused", detail));
    }
    let read = to_bytes(body, MAX_FORM).await.ok();
    let Some(text) = read.filter(|text| !has_too_many_fields(text)) else {
        let detail = "A form may have at most 1 MiB and 2048 fields. Nothing was changed.";
        return Err(PageError::new(StatusCode::PAYLOAD_TOO_LARGE, "The form is too large", detail));
    };
    let fields = Fields::parse(&text);
    if !state.sessions.is_form_token(visitor, fields.get("token")) {
        let detail = "The form belongs to an earlier session. Go back, reload the page and send it \
            again. Nothing was changed.";
        return Err(PageError::new(StatusCode::FORBIDDEN, "The form has expired", detail));
    }
    parts.extensions.insert(fields);
    let key = SentForms::key_of(&parts.uri.to_string(), &text);
    Ok((Request::from_parts(parts, Body::empty()), key))
}

// Keys of submitted forms, so that a second click, a reload or a replay changes nothing again.

/// Maximum number of keys. Above it, the organisation with the largest share loses its oldest.
const MAX_FORMS: usize = 4096;
/// Time after a client left without an answer in which its form counts as a second click.
const SECOND_CLICK: Duration = Duration::from_secs(2);

/// The latest submitted forms, the oldest first.
#[derive(Default)]
pub(crate) struct SentForms(Mutex<VecDeque<SentForm>>);

/// A hash of the address and the body of a form. Each page puts a unique number into its forms, so
/// forms of different pages have different keys.
pub(crate) type FormKey = [u8; 32];

struct SentForm {
    key: FormKey,
    organisation: String,
    /// The time at which its client left without an answer.
    left: Option<Instant>,
}

impl SentForms {
    pub(crate) fn key_of(address: &str, body: &[u8]) -> FormKey {
        *hash_parts(Hasher::new(), &[address.as_bytes(), body]).as_bytes()
    }

    /// Stores the key of a form that a member of an organisation sent. Returns `false` if the form
    /// was sent before.
    pub(crate) fn remember(&self, key: FormKey, organisation: &str) -> bool {
        let mut forms = self.0.lock();
        if let Some(sent) = forms.iter_mut().find(|sent| sent.key == key) {
            return sent.left.take_if(|left| left.elapsed() >= SECOND_CLICK).is_some();
        }
        forms.push_back(SentForm { key, organisation: organisation.to_owned(), left: None });
        if forms.len() > MAX_FORMS {
            evict_oldest(&mut forms, |sent| (&sent.organisation, 1));
        }
        true
    }

    /// Removes the key of a form that changed nothing, so that it can be sent again.
    pub(crate) fn forget(&self, key: &FormKey) {
        self.0.lock().retain(|sent| sent.key != *key);
    }
}

/// A form in progress, in the extensions of its request. If its client leaves before it has an
/// effect, the form can be sent again, but not by the second click that made the client leave.
pub(crate) struct PendingForm {
    state: Arc<FormState>,
    key: FormKey,
    has_effect: AtomicBool,
}

impl PendingForm {
    fn new(state: Arc<FormState>, key: FormKey) -> Self {
        Self { state, key, has_effect: AtomicBool::new(false) }
    }

    /// Notes that the form was answered, or that its effect no longer depends on its client.
    pub(crate) fn note_effect(&self) {
        self.has_effect.store(true, Ordering::Relaxed);
    }
}

impl Drop for PendingForm {
    fn drop(&mut self) {
        if self.has_effect.load(Ordering::Relaxed) {
            return;
        }
        let mut forms = self.state.sent_forms.0.lock();
        if let Some(sent) = forms.iter_mut().find(|sent| sent.key == self.key) {
            sent.left = Some(Instant::now());
        }
    }
}

/// The fields of a form: the name of each, as in the API, and its label.
pub(crate) type Labels = [(&'static str, &'static str)];

/// The API's names for choices of the forms of integrations, and for the prefix of their tools.
const CHOICES: [(&str, &str); 6] = [
    ("`none`", "“None”"),
    ("`user`", "“Each member’s own account”"),
    ("`api_key`", "“Key in a header”"),
    ("`bearer_token`", "“Bearer token”"),
    ("`user_headers`", "“Each member’s own key”"),
    ("the slug `", "the prefix `"),
];

const OUTDATED: &str = "It was changed elsewhere while you were editing. Your text is still here: \
    save again to replace that change.";

/// The mistake in a form; none if `words` is empty.
#[derive(Clone, Default)]
pub(crate) struct FormError {
    /// Empty for the form as a whole.
    field: &'static str,
    pub(crate) words: String,
    /// Others have changed the item since the form was opened.
    pub(crate) is_outdated: bool,
    /// The failure, if the server failed.
    pub(crate) fault: Option<Box<Fault>>,
}

impl FormError {
    pub(crate) fn new(field: &'static str, words: impl Into<String>) -> Self {
        Self { field, words: words.into(), ..Self::default() }
    }

    /// Returns the mistake that an error of the API is about. Other errors take the place of the
    /// page.
    pub(crate) fn read(problem: Problem, labels: &Labels) -> Result<Self, PageError> {
        match problem.status() {
            StatusCode::PRECONDITION_FAILED => {
                Ok(Self { is_outdated: true, ..Self::new("", OUTDATED) })
            }
            _ if problem.is_of_form() => Ok(Self::of(&problem, labels)),
            _ => Err(problem.into()),
        }
    }

    /// Returns an error of the API at its field of the form, with labels in place of the API's
    /// names.
    pub(crate) fn of(problem: &Problem, labels: &Labels) -> Self {
        let pointer = problem.pointer();
        let pointer = pointer.strip_prefix("/items").unwrap_or(pointer);
        let named = match problem.member("stage").and_then(Value::as_str) {
            _ if !pointer.is_empty() => pointer.split('/').nth(1),
            None => problem.detail().split('`').nth(1),
            Some("auth") => Some("credentials"),
            Some(_) => Some("serverUrl"),
        };
        let field = labels.iter().find(|(name, _)| Some(*name) == named);
        let fault = problem.member("fault");
        let mut fault = fault.and_then(|fault| Box::<Fault>::deserialize(fault).ok());
        let words = match &fault {
            Some(fault) => fault.summary.clone(),
            None => sentence(&write_labels(problem.detail(), labels)),
        };
        if let Some(fault) = &mut fault {
            // A server that is not stored is not connected to.
            for later in
                [" Lockgate retries automatically.", " Lockgate then connects automatically."]
            {
                fault.fix = fault.fix.replace(later, "");
            }
        }
        Self { field: field.map_or("", |(name, _)| name), words, is_outdated: false, fault }
    }

    /// Returns the status of a page with the form.
    pub(crate) fn status(&self) -> StatusCode {
        if self.words.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY }
    }

    /// Returns the error of a field.
    pub(crate) fn at(&self, field: &str) -> &str {
        if self.field == field { &self.words } else { "" }
    }

    /// Returns an error that belongs to no field. A server's failure is shown above the form.
    pub(crate) fn elsewhere(&self) -> &str {
        if self.fault.is_some() { "" } else { self.at("") }
    }
}

/// Replaces the API's names of fields and choices by the labels of the form.
fn write_labels(words: &str, labels: &Labels) -> String {
    let mut words = words.to_owned();
    for (name, label) in labels {
        words = words.replace(&format!("`{name}`"), &format!("“{label}”"));
    }
    if labels.iter().any(|(name, _)| ["slug", "authMethod"].contains(name)) {
        for (name, label) in CHOICES {
            words = words.replace(name, label);
        }
    }
    words
}

#[cfg(test)]
mod tests;
