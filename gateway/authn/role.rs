//! What a caller may administer, and who says so: the operator's configuration alone. A role that a
//! credential has by the same name is none of these until the configuration names its holders.

use crate::{Holder, LOCAL, Principal};

/// What somebody is to the gateway. Roles go up: an operator may do what an administrator may, and
/// an administrator what a user may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    User,
    /// Runs its organisation.
    Admin,
    /// Runs the gateway.
    Operator,
}

/// Who has which role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleHolders {
    /// The user of this machine is an operator, unless a proxy sends the request: other users
    /// cannot reach the gateway.
    pub trusts_local: bool,
    /// Who runs the whole gateway.
    pub operators: Vec<Holder>,
    /// Who runs its own organisation.
    pub admins: Vec<Holder>,
}

impl RoleHolders {
    /// The highest role of a caller.
    #[must_use]
    pub fn role_of(&self, caller: &Principal) -> Role {
        let is_local = *caller.issuer == *LOCAL && !caller.is_forwarded();
        let is_trusted = self.trusts_local && is_local;
        if is_trusted || is_named(caller, &self.operators) {
            Role::Operator
        } else if is_named(caller, &self.admins) {
            Role::Admin
        } else {
            Role::User
        }
    }
}

fn is_named(caller: &Principal, holders: &[Holder]) -> bool {
    holders.iter().any(|holder| holder.names(caller))
}

#[cfg(test)]
mod tests;
