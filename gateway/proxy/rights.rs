//! A caller's attributes at an endpoint, as evaluated by policy.

use std::borrow::Cow;
use std::sync::Arc;

use lockgate_authn::Principal;
use lockgate_policy::{Certificate, Class, Policy, Question, Subject, Target, Verdict};

use crate::transport::Endpoint;

/// A caller at an endpoint, with its policy class.
#[derive(Clone)]
pub struct CallerRights {
    pub principal: Principal,
    pub endpoint: Endpoint,
    pub class: Arc<Class>,
    /// The path of the endpoint; empty if no policy depends on it.
    path: Cow<'static, str>,
}

impl CallerRights {
    pub(crate) fn new(policy: &Policy, principal: Principal, endpoint: &Endpoint) -> Self {
        let endpoint = endpoint.clone();
        if let Some(class) = policy.everybody() {
            return Self { principal, endpoint, class: Arc::clone(class), path: Cow::Borrowed("") };
        }
        let path = endpoint.path();
        let class = policy.class(&subject(&principal), &path);
        Self { principal, endpoint, class, path }
    }

    /// Returns the verdict of a policy on a target, regardless of arguments.
    pub(crate) fn judge(&self, policy: &Policy, target: &Target<'_>) -> Verdict {
        let subject = self.subject();
        policy.verdict(&self.class, &self.question(&subject, target))
    }

    pub(crate) fn subject(&self) -> Subject<'_> {
        subject(&self.principal)
    }

    pub(crate) fn question<'a>(
        &'a self,
        subject: &'a Subject<'a>,
        target: &'a Target<'a>,
    ) -> Question<'a> {
        Question { subject, endpoint: &self.path, target }
    }
}

pub(crate) fn subject(principal: &Principal) -> Subject<'_> {
    Subject {
        key: principal.key(),
        issuer: &principal.issuer,
        subject: &principal.subject,
        organisation: Some(principal.organisation()),
        roles: &principal.roles,
        scopes: &principal.scopes,
        agent: principal.agent.as_deref(),
        certificate: principal.certificate().map(|certificate| Certificate {
            names: &certificate.names,
            fingerprint: &certificate.fingerprint,
        }),
    }
}

/// Returns a caller's name in records and questions: `issuer|subject`.
pub(crate) fn name_principal(principal: &Principal) -> String {
    subject(principal).principal()
}

#[cfg(test)]
mod tests;
