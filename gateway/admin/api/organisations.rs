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
    by: By<Operator>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<Organisation>>> {
    let stored = by.registry()?.organisations();
    let all = stored.into_iter().map(Organisation::new).collect();
    Ok(Json(query.cut(all, |organisation| &organisation.id)?))
}

pub(crate) async fn create_organisation(
    by: By<Operator>,
    Body(NewOrganisation { id }): Body<NewOrganisation>,
) -> Result<Reply<Organisation>> {
    let by = by.acting_in(&id);
    let changed = by.make("create organisation", apply!(create_organisation())).await?;
    let dry_run = changed.is_dry_run;
    let value = Organisation::new(changed.after.ok_or_else(broken)?);
    let reply = Reply::new(Organisation { dry_run, ..value }, None);
    Ok(reply.with_status(StatusCode::CREATED, dry_run))
}

pub(crate) async fn delete_organisation(
    by: By<Operator>,
    Path(id): Path<String>,
) -> Result<Deletion<Organisation>> {
    if by.state.has_keys(&id) {
        return Err(RegistryError::OrganisationNotEmpty.into());
    }
    let by = by.acting_in(&id);
    complete(async move { delete(&by).await }).await
}

async fn delete(by: &Context) -> Result<Deletion<Organisation>> {
    let changed = by.make("delete organisation", apply!(delete_organisation())).await;
    let changed = match changed {
        Ok(changed) => changed,
        Err(problem) => {
            // A repeated request disconnects what an earlier one could not.
            if problem.status() == StatusCode::NOT_FOUND && !by.options.dry_run {
                disconnect_all(by, "").await?;
            }
            return Err(problem);
        }
    };
    if !changed.is_dry_run {
        disconnect_all(by, "").await?;
        return Ok(Deletion(None));
    }
    let organisation = changed.before.map(Organisation::new);
    Ok(Deletion(organisation.map(|value| Organisation { dry_run: true, ..value })))
}
