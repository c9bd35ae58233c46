//! What a server requires of an account beyond its grant: scopes and sign-ins, and the limits on
//! authorizations for them.

use http::StatusCode;
use lockgate_text::date::now_ms;

use super::{Account, Refusal};
use crate::challenge::{Challenge, StepUp};
use crate::grant::Upgrade;

/// Maximum number of scopes that a server may require beyond those granted, and their length in
/// bytes.
const MAX_SCOPES: usize = 32;
const MAX_SCOPE: usize = 128;
/// Maximum number of authorizations for the same requirements of a server, for all, and their
/// period in milliseconds.
const MAX_UPGRADES: usize = 2;
const MAX_ALL_UPGRADES: usize = 10;
const UPGRADE_PERIOD: i64 = 3_600_000;

impl Account {
    /// Records the challenge of a response with status 401 or 403.
    pub fn note_refusal<'a>(&self, status: StatusCode, headers: impl Iterator<Item = &'a str>) {
        let challenge = Challenge::read(headers).unwrap_or_default();
        self.server.note(&challenge);
        let mut needs = self.needs.lock();
        needs.last_refusal = match status {
            _ if challenge.step_up().is_some() => Refusal::Scope,
            StatusCode::UNAUTHORIZED => Refusal::Token,
            _ if challenge.is_insufficient_scope() => Refusal::Scope,
            _ => Refusal::Other,
        };
        let is_raised = needs.last_refusal == Refusal::Scope;
        drop(needs);
        if is_raised {
            self.require(challenge.scopes(), challenge.step_up());
        }
    }

    /// Records requirements for the next authorization.
    pub(super) fn require(&self, scopes: Vec<String>, step_up: Option<StepUp>) {
        let mut needs = self.needs.lock();
        if !scopes.is_empty() || step_up.is_some() {
            needs.last_refusal = Refusal::Scope;
        }
        for scope in scopes {
            let is_bounded = scope.len() <= MAX_SCOPE && needs.scopes.len() < MAX_SCOPES;
            if is_bounded && !needs.scopes.contains(&scope) {
                needs.scopes.push(scope);
                needs.is_shared = false;
            }
        }
        if step_up.is_some() && needs.step_up != step_up {
            needs.step_up = step_up;
            needs.is_shared = false;
        }
    }

    /// Returns the scopes that the next authorization has to include: those granted and those that
    /// the server required.
    pub fn needed_scopes(&self) -> Vec<String> {
        let mut scopes = match &*self.grant.load() {
            Some(grant) => grant.scopes.clone(),
            None => self.server.challenged_scopes(),
        };
        scopes.extend(self.needs.lock().scopes.iter().cloned());
        scopes
    }

    /// Returns the sign-in that the next authorization has to include.
    pub(crate) fn step_up(&self) -> Option<StepUp> {
        self.needs.lock().step_up.clone()
    }

    /// Returns the upgrade for the current requirements, and those of the last hour.
    fn upgrades(&self) -> (Upgrade, Vec<Upgrade>) {
        let needs = self.needs.lock();
        let mut scopes = needs.scopes.clone();
        scopes.sort_unstable();
        let at = now_ms();
        let wanted = Upgrade { at, scopes, step_up: needs.step_up.clone() };
        let grant = self.grant.load();
        let mut recent = grant.as_ref().map(|grant| grant.upgrades.clone()).unwrap_or_default();
        recent.retain(|upgrade| upgrade.at > at - UPGRADE_PERIOD);
        (wanted, recent)
    }

    /// Returns the upgrades of the last hour, with that of a new authorization.
    pub(crate) fn next_upgrades(&self) -> Vec<Upgrade> {
        let (wanted, mut recent) = self.upgrades();
        if self.needs.lock().is_waiting() {
            recent.push(wanted);
        }
        let surplus = recent.len().saturating_sub(MAX_ALL_UPGRADES);
        recent.drain(..surplus);
        recent
    }

    /// Returns whether the user may be asked to authorize again for the server's requirements: not
    /// if that was of no use twice within an hour, and not for ever new ones.
    pub fn may_upgrade(&self) -> bool {
        let (wanted, recent) = self.upgrades();
        let alike = recent.iter().filter(|upgrade| upgrade.covers(&wanted)).count();
        alike < MAX_UPGRADES && recent.len() < MAX_ALL_UPGRADES
    }

    /// Returns the scopes that are not granted.
    pub(super) fn beyond_grant(&self, mut scopes: Vec<String>) -> Vec<String> {
        if let Some(grant) = &*self.grant.load() {
            scopes.retain(|scope| !grant.scopes.contains(scope));
        }
        scopes
    }
}
