//! Accounts of users at servers: the caller's own, and for administrators those of their
//! organisation, by state. Tokens are never shown. Deleting a connection disconnects the account.

use lockgate_accounts::{AccountError, Accounts, Connection as Found, GrantFilter, Holder};
use lockgate_authn::{ANONYMOUS, Principal};
use lockgate_registry::{Actor, ChangeOptions, Changed, Integration, Registry, RegistryError};
use lockgate_text::date;

use super::change::complete;
use super::operation::*;
use super::servers::visible_servers;

types! {
/// An account of a user at a server.
#[derive(Clone)]
output pub(crate) struct Connection {
    pub(crate) id: String,
    pub(crate) server: String,
    /// `connected`, `needs_scope` or `needs_connect`.
    pub(crate) state: String,
    /// The issuer of its user. The subject of a key is the key's id.
    pub(crate) issuer: String,
    pub(crate) subject: String,
    pub(crate) organization_id: String,
    /// The page on which the user connects the account, for the caller's own.
    pub(crate) connect_url: Option<String>,
    /// The issuer of the tokens.
    pub(crate) authorization_server: Option<String>,
    pub(crate) scopes: Vec<String>,
    /// Scopes that the server requires beyond those granted.
    pub(crate) needed_scopes: Vec<String>,
    /// RFC 3339.
    pub(crate) connected_at: Option<String>,
    /// The expiry of the access token, which is renewed before (RFC 3339).
    pub(crate) expires_at: Option<String>,
    /// Why the account has to be connected again.
    pub(crate) failure: Option<String>,
    /// The sort key of lists.
    #[serde(skip)]
    pub(crate) place: String,
}
}

impl Connection {
    fn new(found: Found) -> Self {
        let Holder { organisation, issuer, subject, .. } = &found.holder;
        Self {
            place: format!("{} {organisation} {issuer} {subject}", found.server),
            issuer: issuer.to_string(),
            subject: subject.to_string(),
            organization_id: organisation.to_string(),
            id: found.id,
            server: found.server,
            state: found.state,
            connect_url: None,
            authorization_server: found.authorization_server,
            scopes: found.scopes,
            needed_scopes: found.needed_scopes,
            connected_at: found.connected_at.map(date::of_time),
            expires_at: found.expires_at.map(date::of_time),
            failure: found.failure,
        }
    }

    fn holder(&self) -> Holder {
        Holder::new(&self.organization_id, &self.issuer, &self.subject)
    }
}

types! {
filter pub(crate) struct ConnectionsQuery {
    /// Part of the server, the issuer or the subject.
    search: Option<String> max 256,
    /// For administrators: the accounts of all users instead of the caller's own.
    all: Option<bool>,
}
}

/// Returns the holder of a principal's accounts; `None` for callers that share an identity.
pub(crate) fn holder_of(principal: &Principal) -> Option<Holder> {
    if *principal.issuer == *ANONYMOUS {
        return None;
    }
    Some(Holder::new(principal.organisation(), &principal.issuer, &principal.subject))
}

pub(crate) async fn list_connections(
    by: By<User>,
    Query(query): Query<Paged<ConnectionsQuery>>,
) -> Result<Json<Page<Connection>>> {
    let connections = if query.filter.all.unwrap_or(false) {
        if by.caller.role < Role::Admin {
            let detail = "only administrators list the accounts of other users: omit `all`";
            return Err(Problem::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail));
        }
        let organisation = if by.caller.sees_all() { "" } else { by.caller.organisation() };
        let filter = GrantFilter { organisation, ..GrantFilter::default() };
        list(&by.state.operations.accounts(), filter).await?
    } else {
        list_own(&by).await?
    };
    let search = query.filter.search.as_deref();
    Ok(Json(query.part.cut(search, connections, |connection| &connection.place)?))
}

pub(crate) async fn show_connection(
    by: By<User>,
    Path(id): Path<String>,
) -> Result<Json<Connection>> {
    Ok(Json(find(&by, &id).await?.0))
}

pub(crate) async fn delete_connection(
    by: By<User>,
    Path(id): Path<String>,
) -> Result<Deletion<Connection>> {
    let (connection, action) = find(&by, &id).await?;
    if by.options.dry_run {
        return Ok(Deletion(Some(connection)));
    }
    disconnect(&by, connection, action).await?;
    Ok(Deletion(None))
}

/// Disconnects an account, and records it.
async fn disconnect(by: &Context, connection: Connection, action: &'static str) -> Result<()> {
    let accounts = by.state.operations.accounts();
    by.record(async move {
        let done = accounts.disconnect(&connection.server, &connection.holder()).await;
        if !done? {
            return Err(unknown_connection());
        }
        let record = ChangeRecord {
            action,
            organisation: Some(connection.organization_id.clone()),
            before: Some(serde_json::to_string(&connection).unwrap_or_default()),
            after: None,
        };
        Ok(((), Some(record)))
    })
    .await
}

/// Disconnects the accounts of all users of the caller's organisation, at a server or, if empty, at
/// all.
pub(super) async fn disconnect_all(by: &Context, server: &str) -> Result<()> {
    let accounts = by.state.operations.accounts();
    // An operator's server has taken the name, and with it the accounts.
    if accounts.config(server).is_some() {
        return Ok(());
    }
    let organisation = by.caller.organisation();
    loop {
        // A list is bounded, and a failure must not keep other accounts connected.
        let filter = GrantFilter { organisation, server, ..GrantFilter::default() };
        let mut failed = None;
        let mut ended = 0;
        for connection in list(&accounts, filter).await? {
            match disconnect(by, connection, "revoke account").await {
                Ok(()) => ended += 1,
                Err(problem) if problem.status() == StatusCode::NOT_FOUND => {}
                Err(problem) => failed = Some(problem),
            }
        }
        match failed {
            Some(problem) if ended == 0 => return Err(problem),
            None if ended == 0 => return Ok(()),
            _ => {}
        }
    }
}

/// Makes a change that may end accounts of members at integrations. They are disconnected before,
/// so that none remains if that fails, and after, because members may connect one meanwhile.
/// Completes even if the client disconnects.
pub(super) async fn make_ending<T, F>(
    by: &Context,
    action: &'static str,
    make: impl FnOnce(Arc<Registry>, Actor, ChangeOptions) -> F + Clone + Send + 'static,
) -> Result<Changed<T>>
where
    T: AsRef<[Integration]> + Serialize + Send + 'static,
    F: Future<Output = Result<Changed<T>, RegistryError>> + Send + 'static,
{
    let by = by.clone();
    complete(async move {
        let rehearsed = by.rehearse(make.clone()).await?;
        let servers = if by.options.dry_run || rehearsed.is_replayed {
            Vec::new()
        } else {
            servers_losing_accounts(&rehearsed)
        };
        for server in &servers {
            disconnect_all(&by, server).await?;
        }
        let changed = by.make(action, make).await?;
        for server in &servers {
            disconnect_all(&by, server).await?;
        }
        Ok(changed)
    })
    .await
}

/// Returns the slugs of integrations at which members have accounts before a change alone.
fn servers_losing_accounts<T: AsRef<[Integration]>>(changed: &Changed<T>) -> Vec<String> {
    let before = changed.before.as_ref().map(T::as_ref).unwrap_or_default();
    let after = changed.after.as_ref().map(T::as_ref).unwrap_or_default();
    let lost = before.iter().filter(|old| {
        let is_kept = after.iter().any(|new| new.id == old.id && new.auth == old.auth);
        old.auth.is_of_members() && !is_kept
    });
    lost.map(|old| old.slug.clone()).collect()
}

/// Finds an account, and the action that disconnects it.
async fn find(by: &Context, id: &str) -> Result<(Connection, &'static str)> {
    // Ids have an underscore, and slugs have none.
    let mut own = list_own(by).await?.into_iter();
    if let Some(found) = own.find(|known| known.id == id || known.server == id) {
        return Ok((found, "disconnect account"));
    }
    if by.caller.role < Role::Admin {
        return Err(unknown_connection());
    }
    let found = by.state.operations.accounts().connection(id).await;
    let found = found?.map(Connection::new);
    let found = found.filter(|connection| by.caller.sees(&connection.organization_id));
    Ok((found.ok_or_else(unknown_connection)?, "revoke account"))
}

/// Returns the caller's accounts at the servers that it sees, and those connected earlier.
async fn list_own(by: &Context) -> Result<Vec<Connection>> {
    let Some(holder) = holder_of(&by.caller.principal) else { return Ok(Vec::new()) };
    let accounts = by.state.operations.accounts();
    let filter = GrantFilter {
        organisation: &holder.organisation,
        issuer: &holder.issuer,
        subject: &holder.subject,
        ..GrantFilter::default()
    };
    let mut own = list(&accounts, filter).await?;
    for visible in visible_servers(&by.state, &by.caller) {
        let slug = visible.slug();
        let is_known = own.iter().any(|connection| connection.server == slug);
        if !is_known && accounts.page(slug, &holder.organisation).is_some() {
            own.push(Connection::new(Found::missing(slug, &holder)));
        }
    }
    for connection in &mut own {
        let page = accounts.page(&connection.server, &holder.organisation);
        connection.connect_url = page.map(Into::into);
    }
    Ok(own)
}

async fn list(accounts: &Accounts, filter: GrantFilter<'_>) -> Result<Vec<Connection>> {
    Ok(accounts.list(filter).await?.into_iter().map(Connection::new).collect())
}

/// Returns an account as lists have it, without the page that connects it.
pub(super) fn describe_connection(found: &Found) -> Value {
    serde_json::to_value(Connection::new(found.clone())).unwrap_or_default()
}

impl From<AccountError> for Problem {
    fn from(error: AccountError) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "STORE_UNAVAILABLE", error.to_string())
    }
}

fn unknown_connection() -> Problem {
    let detail = "there is no account of this id: the list of connections shows all";
    Problem::not_found("CONNECTION_NOT_FOUND", detail)
}
