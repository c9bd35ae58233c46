//! A request of a page, and the frame of the page: the visitor, the fields of its form, the
//! navigation, the result of the last form, and the content security policy. Pages load nothing
//! from other origins, run only scripts of the console, and cannot be framed.

use std::sync::Arc;

use askama::Template;
use axum::extract::{FromRequestParts, OriginalUri, Request, State};
use axum::http::header::{
    CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lockgate_authn::{KEY, LOCAL, Role};
use lockgate_text::hex;
use serde::de::DeserializeOwned;

use super::assets::{ADDRESSES, Addresses};
use super::diagnosis::Severity;
use super::form::{Fields, FormError, Labels, PendingForm};
use super::redirect::{ListPart, PagePath, redirect};
use super::render::{PageError, PageResult, render};
use super::results::{CallForm, CallOutcome, Kept, KeptCall, Notice, Results};
use super::sessions::{Sessions, Visitor, mask};
use super::snippets::{Snippet, find_address, make_snippets};
use crate::api::access::{By, Caller, LeastRole, unknown_caller};
use crate::api::call::CallMessages;
use crate::api::me::{Me, MeQuery, show_me};
use crate::api::page::{Query, query};
use crate::api::problem::Problem;
use crate::api::state::ApiState;

/// A section: the group, the address, the label and the minimum role.
type Section = (&'static str, &'static str, &'static str, Role);

const SECTIONS: [Section; 15] = [
    ("", "/console", "Overview", Role::User),
    ("Catalog", "/console/servers", "Servers", Role::User),
    ("Catalog", "/console/tools", "Tools", Role::User),
    ("Catalog", "/console/agents", "Agents", Role::User),
    ("Catalog", "/console/connections", "Connections", Role::User),
    ("Control", "/console/access", "Access", Role::Operator),
    ("Control", "/console/approvals", "Approvals", Role::User),
    ("Control", "/console/pins", "Changes", Role::Admin),
    ("Records", ACTIVITY, "Activity", Role::Admin),
    ("Records", "/console/usage", "Usage", Role::Admin),
    ("Records", "/console/audit", "Audit", Role::Admin),
    ("Settings", "/console/keys", "Keys", Role::Admin),
    ("Settings", "/console/sessions", "Sessions", Role::Admin),
    ("Settings", "/console/organisations", "Organisations", Role::Operator),
    ("Settings", "/console/settings", "Settings", Role::Operator),
];
const ACTIVITY: &str = "/console/activity";
/// Pages of servers at other addresses.
const OF_SERVERS: [&str; 4] =
    ["/console/integrations/", "/console/catalogue/", "/console/resources/", "/console/prompts/"];

/// Maximum number of running calls of a visitor.
pub(crate) const MAX_RUNNING: usize = 16;

/// The query parameter with the name of the last form's result.
const SAID: &str = "said";
/// Fields of an address that do not belong to the filters of a list.
const POSITIONS: [&str; 3] = ["after", "page", SAID];

pub(crate) struct ConsoleState {
    pub(crate) results: Arc<Results>,
    pub(crate) api: Arc<ApiState>,
    pub(crate) sessions: Arc<Sessions>,
}

/// A request of a page, stored in its extensions.
#[derive(Clone)]
pub(crate) struct Visit {
    pub(crate) console: Arc<ConsoleState>,
    pub(crate) headers: HeaderMap,
    /// The fields of the query.
    pub(crate) query: Fields,
    /// The fields of the body, which `form` has checked.
    pub(crate) form: Fields,
    /// The mistake in the body, or the reason that a sign-in failed.
    pub(crate) mistake: FormError,
    pending: Option<Arc<PendingForm>>,
    /// The result of the last form, if the address names it.
    pub(crate) notice: Option<Notice>,
    /// The visitor as returned by the API, before the page was rendered.
    pub(crate) me: Arc<Me>,
    /// Unique to this response; carried by scripts and by elements that htmx processes.
    pub(crate) nonce: String,
    /// The key under which results of this visitor are stored.
    owner: String,
    /// The masked token of the visitor's forms.
    pub(crate) token: String,
    /// `None` if the visitor is not signed in.
    pub(crate) who: Option<Arc<Caller>>,
    /// The visitor has a session and can sign out.
    pub(crate) has_session: bool,
    /// The address of the page, with its query.
    pub(crate) address: String,
    pub(crate) assets: &'static Addresses,
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    visit: &'a Visit,
    error: &'a PageError,
}

impl Caller {
    /// Returns the name of a visitor.
    pub(crate) fn name(&self) -> String {
        match (&*self.principal.issuer, &self.principal.key_name) {
            (LOCAL, _) => "this machine".to_owned(),
            (KEY, Some(name)) => name.to_string(),
            (KEY, None) => format!("key {}", self.principal.subject),
            _ => self.principal.subject.to_string(),
        }
    }

    pub(crate) fn role_name(&self) -> &'static str {
        match self.role {
            Role::User => "user",
            Role::Admin => "administrator",
            Role::Operator => "operator",
        }
    }
}

impl Visit {
    fn new(console: Arc<ConsoleState>, request: &Request) -> Option<Self> {
        let extensions = request.extensions();
        let visitor = extensions.get::<Visitor>();
        let uri = match extensions.get::<OriginalUri>() {
            Some(OriginalUri(uri)) => uri,
            None => request.uri(),
        };
        let token = visitor.map_or(String::new(), |visitor| console.sessions.form_token(visitor));
        let address = uri.path_and_query().map_or("", |whole| whole.as_str());
        Some(Self {
            console,
            headers: request.headers().clone(),
            query: Fields::parse(request.uri().query().unwrap_or("").as_bytes()),
            form: Fields::default(),
            mistake: FormError::default(),
            pending: None,
            notice: None,
            me: Arc::default(),
            nonce: hex::random::<16>()?,
            token: mask(&token)?,
            owner: token,
            who: extensions.get::<Arc<Caller>>().cloned(),
            has_session: visitor.is_some_and(|visitor| visitor.session.is_some()),
            address: address.to_owned(),
            assets: &ADDRESSES,
        })
    }

    /// Returns the visitor as the caller of an operation. Fails without the required role.
    pub(crate) fn by<R: LeastRole>(&self) -> Result<By<R>, Problem> {
        let caller = self.who.as_deref().ok_or_else(unknown_caller)?;
        By::new(&self.console.api, caller.clone())
    }

    /// Returns the caller in the organisation of this page, which the address may name.
    pub(crate) async fn by_here<R: LeastRole>(&self) -> Result<By<R>, Problem> {
        self.by_in(self.query.get("organisation")).await
    }

    /// Returns the caller in the named organisation; in the visitor's own if the name is empty.
    pub(crate) async fn by_in<R: LeastRole>(&self, organisation: &str) -> Result<By<R>, Problem> {
        let by = self.by()?;
        match organisation {
            "" => Ok(by),
            name => by.in_organisation(name).await,
        }
    }

    /// Returns the query of a list: the search and the cursor of this page, and other filters.
    pub(crate) fn list_query<T: DeserializeOwned>(
        &self,
        limit: &str,
        others: &[(&str, &str)],
    ) -> Result<Query<T>, Problem> {
        let search = ("search", self.query.get("q"));
        let mut filter = vec![("limit", limit), search, ("cursor", self.query.get("after"))];
        filter.extend_from_slice(others);
        query(&filter)
    }

    /// Returns the query for links within the organisation of this page.
    pub(crate) fn organisation_query(&self) -> String {
        let query = PagePath::of_address("").with("organisation", self.query.get("organisation"));
        query.into_text()
    }

    /// Returns the address of the list on this page from its start, with other values of filters.
    pub(crate) fn filtered_by(&self, changes: &[(&str, &str)]) -> PagePath {
        let mut path = PagePath::of_address(&self.address);
        for (name, value) in self.query.pairs() {
            let is_changed = changes.iter().any(|(changed, _)| *changed == name);
            if !is_changed && !POSITIONS.contains(&name) {
                path = path.with(name, value.trim());
            }
        }
        for (name, value) in changes {
            path = path.with(name, value);
        }
        path
    }

    /// Returns the address of the list on this page with another value of a filter.
    pub(crate) fn tab(&self, filter: &str, value: &str) -> String {
        self.filtered_by(&[(filter, value)]).into_text()
    }

    /// Returns the address of the page after a cursor in the list on this page.
    pub(crate) fn next(&self, cursor: &Option<String>) -> Option<String> {
        cursor.as_ref().map(|cursor| self.tab("after", cursor))
    }

    /// Returns the part of a list that this page shows.
    pub(crate) fn cut<T>(&self, all: Vec<T>) -> ListPart<T> {
        ListPart::cut(all, self.query.get("page"), &self.filtered_by(&[]))
    }

    /// Returns the entered values of a form; before it was sent, those in the address.
    pub(crate) fn typed(&self) -> &Fields {
        if self.form.is_empty() { &self.query } else { &self.form }
    }

    /// Returns the version that a form was opened with, so that a mistake in it does not hide the
    /// changes of others; `current` once the visitor was told of them.
    pub(crate) fn version(&self, current: &i64) -> String {
        match self.form.get("version") {
            opened if !opened.is_empty() && !self.mistake.is_outdated => opened.to_owned(),
            _ => current.to_string(),
        }
    }

    /// Returns the visit with the mistake that an error of the API is about. Other errors take the
    /// place of the page.
    pub(crate) fn mistaken(self, problem: Problem, labels: &Labels) -> Result<Self, PageError> {
        Ok(Self { mistake: FormError::read(problem, labels)?, ..self })
    }

    /// Renders a page, and the mistake in its form.
    pub(crate) fn show(&self, page: &impl Template) -> PageResult {
        render(self.mistake.status(), page)
    }

    /// Returns the configurations of clients for an endpoint. `key` is the API key, if known.
    pub(crate) fn make_snippets(
        &self,
        name: &str,
        endpoint: &str,
        key: Option<&str>,
    ) -> Vec<Snippet> {
        make_snippets(name, &find_address(endpoint, &self.headers), key, self.has_session)
    }

    /// Returns the sections for this visitor, by group.
    pub(crate) fn sections(&self) -> Vec<Vec<Section>> {
        let mut own = SECTIONS.to_vec();
        own.retain(|(.., least)| self.has_role(*least));
        own.chunk_by(|one, other| one.0 == other.0).map(<[_]>::to_vec).collect()
    }

    /// Returns the address of the section of this page: the longest beginning of its path.
    pub(crate) fn current_section(&self) -> &'static str {
        let path = PagePath::of_address(&self.address);
        if OF_SERVERS.iter().any(|start| path.as_str().starts_with(start)) {
            return "/console/servers";
        }
        let sections = SECTIONS.into_iter().map(|(_, address, ..)| address);
        let above = sections.filter(|address| {
            let rest = path.as_str().strip_prefix(address);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        above.max_by_key(|address| address.len()).unwrap_or("")
    }

    /// Stores a result for the next page and returns its name.
    pub(crate) fn keep(&self, kept: Kept) -> String {
        let organisation = self.who.as_ref().map_or("", |caller| caller.organisation());
        self.console.results.keep((&self.owner, organisation), kept)
    }

    /// Starts a call and keeps it for the visitor, under the returned name.
    pub(crate) fn start_call<F: Future<Output = CallOutcome> + Send + 'static>(
        &self,
        form: CallForm,
        make: impl FnOnce(CallMessages) -> F,
    ) -> Result<(Arc<KeptCall>, String), PageError> {
        let results = Arc::clone(&self.console.results);
        if results.count_running(&self.owner) >= MAX_RUNNING {
            let detail = format!(
                "{MAX_RUNNING} of your calls are running: wait until one ends, or cancel one."
            );
            let title = "Too many running calls";
            return Err(PageError::new(StatusCode::TOO_MANY_REQUESTS, title, detail));
        }
        let call = Arc::new(KeptCall::start(form, make, move || results.evict()));
        let name = self.keep(Kept::Call(Arc::clone(&call)));
        if let Some(pending) = &self.pending {
            pending.note_effect();
        }
        Ok((call, name))
    }

    /// Returns a stored result of this visitor.
    pub(crate) fn find_kept(&self, name: &str) -> Option<Kept> {
        self.console.results.find(&self.owner, name)
    }

    /// Redirects to a page that shows the success of a form.
    pub(crate) fn done(&self, page: PagePath, text: impl Into<String>) -> PageResult {
        self.redirect_with(page, Severity::Good, text)
    }

    /// Redirects to a page that shows the result of a form.
    pub(crate) fn redirect_with(
        &self,
        page: PagePath,
        severity: Severity,
        text: impl Into<String>,
    ) -> PageResult {
        let name = self.keep(Kept::Notice(Notice { severity, text: text.into() }));
        Ok(redirect(&format!("{}#said", page.with(SAID, &name).as_str())))
    }

    /// Loads the visitor and the result of the last form.
    async fn complete(mut self) -> Self {
        if let Ok(by) = self.by() {
            // Read before the content of the page, so that its stream continues from there.
            let decisions = Some(self.address.starts_with(ACTIVITY));
            self.me = Arc::new(show_me(by, Query(MeQuery { decisions })).await.0);
        }
        if let Some(Kept::Notice(notice)) = self.find_kept(self.query.get(SAID)) {
            self.notice = Some(notice);
        }
        self
    }

    /// Returns whether htmx sent the request, to update a part of the page.
    pub(crate) fn is_script(&self) -> bool {
        self.headers.contains_key("hx-request")
    }

    pub(crate) fn is_operator(&self) -> bool {
        self.has_role(Role::Operator)
    }

    pub(crate) fn is_admin(&self) -> bool {
        self.has_role(Role::Admin)
    }

    /// Returns whether the visitor can create keys.
    pub(crate) fn creates_keys(&self) -> bool {
        self.is_admin() && self.me.has_keys_file
    }

    fn has_role(&self, least: Role) -> bool {
        matches!(&self.who, Some(who) if who.role >= least)
    }
}

/// Prepares the frame of a page, renders its error page if it failed, and sets the content security
/// policy.
pub(crate) async fn put_around(
    State(console): State<Arc<ConsoleState>>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(visit) = Visit::new(console, &request) else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    request.extensions_mut().insert(visit.clone());
    let mut response = next.run(request).await;
    if let Some(error) = response.extensions_mut().remove::<PageError>() {
        response = show_error(&visit, &error);
    }
    write_policy(response.headers_mut(), &visit.nonce);
    response
}

/// Renders an error page. During a partial update, htmx keeps the current content instead.
pub(crate) fn show_error(visit: &Visit, error: &PageError) -> Response {
    let mut response = match render(error.status, &ErrorPage { visit, error }) {
        Ok(page) => page,
        Err(error) => error.status.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(HeaderName::from_static("hx-reswap"), HeaderValue::from_static("none"));
    response
}

fn write_policy(headers: &mut HeaderMap, nonce: &str) {
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types htmx"
    );
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    for (name, value) in [
        (X_FRAME_OPTIONS, "DENY"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

impl<S: Sync> FromRequestParts<S> for Visit {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, PageError> {
        let visit = parts.extensions.get::<Self>().cloned();
        let mut visit = visit.ok_or_else(PageError::signed_out)?;
        visit.form = parts.extensions.get().cloned().unwrap_or_default();
        visit.mistake = parts.extensions.get().cloned().unwrap_or_default();
        visit.pending = parts.extensions.get().cloned();
        Ok(visit.complete().await)
    }
}
