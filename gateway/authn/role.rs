//! Administrative roles, which the operator's configuration alone assigns. A role of the same name
//! in a credential has no effect unless the configuration names it as a holder.

use crate::{Holder, LOCAL, Principal};

/// The administrative role of a caller. Each role includes the permissions of the lower roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    User,
    /// Administers its organisation.
    Admin,
    /// Administers the whole gateway.
    Operator,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleHolders {
    /// Whether the user of this machine is an operator, unless a proxy sends the request. Set only
    /// where other users cannot reach the gateway.
    pub trusts_local: bool,
    pub operators: Vec<Holder>,
    /// Administrators of their own organisation.
    pub admins: Vec<Holder>,
}

impl RoleHolders {
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
