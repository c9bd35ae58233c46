//! Console sessions: of an organisation for its administrators, all for operators. A session ends
//! at once, and its event streams with it. Callers cannot end sessions with a higher role.

use lockgate_text::date;

use super::operation::*;
use crate::console::sessions::OpenSession;

types! {
/// A session of the console.
#[derive(Clone)]
output pub(crate) struct ConsoleSession {
    pub(crate) id: String,
    /// The issuer of its user. The subject of a key is the key's id.
    pub(crate) issuer: String,
    pub(crate) subject: String,
    /// The name of its key.
    pub(crate) name: Option<String>,
    pub(crate) organization_id: String,
    /// RFC 3339.
    pub(crate) began_at: String,
    /// The time of its last request, RFC 3339.
    pub(crate) used_at: String,
    /// The sort key of lists.
    #[serde(skip)]
    pub(crate) place: String,
}
}

impl ConsoleSession {
    fn new(session: OpenSession) -> Self {
        let OpenSession { name: id, principal, began, used } = session;
        let issuer = &principal.issuer;
        let subject = &principal.subject;
        let organisation = principal.organisation();
        let name = principal.key_name.as_deref().map(str::to_owned);
        let shown = name.as_deref().unwrap_or("");
        Self {
            place: format!("{organisation} {issuer} {shown} {subject} {id}"),
            name,
            id,
            issuer: issuer.to_string(),
            subject: subject.to_string(),
            organization_id: organisation.to_owned(),
            began_at: date::of_time(began),
            used_at: date::of_time(used),
        }
    }
}

pub(crate) async fn list_sessions(
    by: By<Admin>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<ConsoleSession>>> {
    let mut open = by.state.sessions.list();
    open.retain(|session| by.caller.sees(session.principal.organisation()));
    let sessions = open.into_iter().map(ConsoleSession::new).collect();
    Ok(Json(query.cut(sessions, |session| &session.place)?))
}

pub(crate) async fn end_session(
    by: By<Admin>,
    Path(id): Path<String>,
) -> Result<Deletion<ConsoleSession>> {
    let mut sessions = by.state.sessions.list().into_iter();
    let known = sessions.find(|one| one.name == id && by.caller.sees(one.principal.organisation()));
    let Some(known) = known else { return Err(unknown_session()) };
    let holders = &by.state.operations.settings().role_holders;
    if holders.role_of(&known.principal) > by.caller.role {
        let detail = "this session has more permissions than your credential: ask an operator to \
            end it";
        return Err(Problem::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail));
    }
    let session = ConsoleSession::new(known);
    if by.options.dry_run {
        return Ok(Deletion(Some(session)));
    }
    let sessions = Arc::clone(&by.state.sessions);
    by.record(async move {
        if !sessions.end_named(&session.id) {
            return Err(unknown_session());
        }
        let record = ChangeRecord {
            action: "end session",
            organisation: Some(session.organization_id.clone()),
            before: Some(serde_json::to_string(&session).unwrap_or_default()),
            after: None,
        };
        Ok(((), Some(record)))
    })
    .await?;
    Ok(Deletion(None))
}

fn unknown_session() -> Problem {
    let detail = "there is no session of this id: it may have ended";
    Problem::not_found("SESSION_NOT_FOUND", detail)
}
