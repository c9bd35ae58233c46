//! Names of keys, for responses that would otherwise show only ids. Callers see the names of their
//! organisation's keys; operators see all.

use std::collections::HashMap;

use lockgate_authn::KEY;

use super::access::Caller;
use super::state::ApiState;

pub(crate) struct KeyNames(HashMap<String, String>);

impl KeyNames {
    pub(crate) fn of(state: &ApiState, caller: &Caller) -> Self {
        let mut names = HashMap::new();
        for key in &*state.operations.keys() {
            if caller.sees_all() || key.organisation_or_default() == caller.organisation() {
                names.insert(key.id.clone(), key.name.clone());
            }
        }
        Self(names)
    }

    /// Returns the name of a key by its issuer and subject.
    pub(crate) fn find(&self, issuer: &str, subject: &str) -> Option<&str> {
        let name = self.0.get(subject)?;
        (issuer == KEY).then_some(name)
    }

    /// Returns the name of a key by `issuer|subject`.
    pub(crate) fn find_whole(&self, principal: &str) -> Option<&str> {
        let (issuer, subject) = principal.split_once('|')?;
        self.find(issuer, subject)
    }
}
