//! Organisations, for operators: their list, creation ahead of use, and deletion of empty ones.
//! Accounts of its users at servers are disconnected; nothing else is deleted with it.

use lockgate_registry::{Organisation as Stored, RegistryError};

use super::change::complete;
use super::connections::disconnect_all;
use super::integrations::write_time;
use super::operation::*;

types! {
/// An organisation that was created, or that has integrations or agents.
output pub(crate) struct Organisation {
    pub(crate) id: String,
    pub(crate) integrations: usize,
    pub(crate) agents: usize,
    /// RFC 3339.
    pub(crate) created_at: String,
    /// Set if this was a dry run.
    pub(crate) dry_run: bool,
}

/// An organisation to create.
input pub(crate) struct NewOrganisation {
    /// Its name in keys and tokens: letters, digits, single spaces and signs, without a slash.
    #[cfg_attr(test, schema(min_length = 1, max_length = 256))]
    id: String,
}
}

impl Organisation {
    fn new(stored: Stored) -> Self {
        let Stored { id, created_at, integrations, agents } = stored;
        Self { id, integrations, agents, created_at: write_time(created_at), dry_run: false }
    }
}

pub(crate) async fn list_organisations(
    By { state, .. }: By<Operator>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<Organisation>>, Problem> {
    let stored = state.registry()?.organisations();
    let all = stored.into_iter().map(Organisation::new).collect();
    Ok(Json(query.cut(all, |organisation| &organisation.id)?))
}

pub(crate) async fn create_organisation(
    by: By<Operator>,
    Body(NewOrganisation { id }): Body<NewOrganisation>,
) -> Result<Reply<Organisation>, Problem> {
    let change = by.acting_in(&id).change()?;
    let changed = change.make("create organisation", apply!(create_organisation())).await?;
    let dry_run = changed.is_dry_run;
    let status = if dry_run { StatusCode::OK } else { StatusCode::CREATED };
    let value = Organisation::new(changed.after.ok_or_else(broken)?);
    Ok(Reply { value: Organisation { dry_run, ..value }, status, version: None })
}

pub(crate) async fn delete_organisation(
    by: By<Operator>,
    Path(id): Path<String>,
) -> Result<Deletion<Organisation>, Problem> {
    if by.state.has_keys(&id) {
        return Err(RegistryError::OrganisationNotEmpty.into());
    }
    let change = by.acting_in(&id).change()?;
    complete(async move { delete(&change).await }).await
}

async fn delete(change: &Change) -> Result<Deletion<Organisation>, Problem> {
    let changed = change.make("delete organisation", apply!(delete_organisation())).await;
    let changed = match changed {
        Ok(changed) => changed,
        Err(problem) => {
            // A repeated request disconnects what an earlier one could not.
            if problem.status() == StatusCode::NOT_FOUND && !change.is_dry_run() {
                disconnect_all(change, "").await?;
            }
            return Err(problem);
        }
    };
    if !changed.is_dry_run {
        disconnect_all(change, "").await?;
        return Ok(Deletion(None));
    }
    let organisation = changed.before.map(Organisation::new);
    Ok(Deletion(organisation.map(|value| Organisation { dry_run: true, ..value })))
}
