//! The stages of a request, as types: what each step knows, and what only it can make. A server is reached with a
//! [`Permitted`](crate::authorize::Permitted) alone.

use std::borrow::Cow;
use std::sync::Arc;

use lockgate_authn::{Authenticator, Principal};
use lockgate_policy::{Certificate, Class, Limiter, Local, Policy, Question, Subject, Target};
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::name::{Naming, Separator};
use lockgate_protocol::revision::{Era, Revision};
use lockgate_protocol::sealed::Sealer;
use lockgate_telemetry::TraceContext;
use lockgate_upstream::Caller;

use crate::Config;
use crate::catalog::{Entry, View};
use crate::face::Endpoint;
use crate::gateway::{Rules, Unusable};
use crate::session::{Running, Session};

/// Everything that configuration decides, replaced as one.
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) policy: Arc<Policy>,
    /// Counts for the policies' rates; it outlives reloads.
    pub(crate) limiter: Arc<dyn Limiter>,
    pub(crate) naming: Naming,
    pub(crate) sealer: Arc<Sealer>,
    /// JSON text of our `Implementation`.
    pub(crate) info: Arc<[u8]>,
}

impl Setup {
    /// `old` is what this one replaces: sealed tokens and counts outlive a reload.
    pub(crate) fn new(rules: Rules, old: Option<&Self>) -> Result<Self, Unusable> {
        let Rules { config, authn, policy } = rules;
        let separator: Separator =
            config.names.separator.parse().map_err(|_| Unusable::Separator(config.names.separator.clone()))?;
        let sealer = match (&config.secret, old) {
            (Some(secret), _) => Arc::new(Sealer::new(secret.as_bytes())?),
            // Without a secret of their own, tokens live as long as the process, through reloads.
            (None, Some(old)) if old.config.secret.is_none() => Arc::clone(&old.sealer),
            (None, _) => Arc::new(Sealer::random()?),
        };
        let mut info = serde_json::json!({"name": config.name, "version": env!("CARGO_PKG_VERSION")});
        if let Some(title) = &config.title {
            info["title"] = title.as_str().into();
        }
        Ok(Self {
            authenticator: authn,
            limiter: old.map_or_else(|| Arc::new(Local::new()) as Arc<dyn Limiter>, |old| Arc::clone(&old.limiter)),
            policy: Arc::new(Policy::compile(&policy).map_err(|mistakes| {
                let first = mistakes.into_iter().next();
                Unusable::Policy(first.map(|m| format!("{} {}", m.path.join("."), m.what)).unwrap_or_default())
            })?),
            naming: Naming { separator, max_length: config.names.max_length },
            sealer,
            info: info.to_string().into_bytes().into(),
            config,
        })
    }
}

/// What policy knows of a caller at an endpoint.
#[derive(Clone)]
pub(crate) struct Standing {
    pub(crate) principal: Principal,
    pub(crate) class: Arc<Class>,
    /// The path of the endpoint; empty where no policy looks at it.
    path: Cow<'static, str>,
}

impl Standing {
    pub(crate) fn new(policy: &Policy, principal: Principal, endpoint: &Endpoint) -> Self {
        if let Some(class) = policy.everybody() {
            return Self { principal, class: Arc::clone(class), path: Cow::Borrowed("") };
        }
        let path = endpoint.path();
        let class = policy.class(&subject(&principal), &path);
        Self { principal, class, path }
    }

    pub(crate) fn subject(&self) -> Subject<'_> {
        subject(&self.principal)
    }

    pub(crate) fn question<'a>(&'a self, subject: &'a Subject<'a>, target: &'a Target<'a>) -> Question<'a> {
        Question { subject, endpoint: &self.path, target }
    }
}

fn subject(principal: &Principal) -> Subject<'_> {
    Subject {
        key: principal.key(),
        issuer: &principal.issuer,
        subject: &principal.subject,
        organisation: principal.organisation.as_deref(),
        roles: &principal.roles,
        scopes: &principal.scopes,
        agent: principal.agent.as_deref(),
        certificate: principal
            .certificate()
            .map(|certificate| Certificate { names: &certificate.names, fingerprint: &certificate.fingerprint }),
    }
}

/// A request of a known caller in a known era, at an endpoint that exists.
pub(crate) struct Asked {
    pub(crate) setup: Arc<Setup>,
    pub(crate) view: Arc<View>,
    pub(crate) endpoint: Endpoint,
    pub(crate) principal: Principal,
    /// What policy knows of the caller here.
    pub(crate) standing: Standing,
    pub(crate) request: Request,
    pub(crate) revision: Revision,
    pub(crate) caller: Caller,
    pub(crate) session: Option<Arc<Session>>,
    /// Where the exchange that carries it stands in the client's trace.
    pub(crate) trace: Option<TraceContext>,
    /// Legacy: by which the client can cancel it, until the call takes it over.
    pub(crate) running: Option<Running>,
}

impl Asked {
    pub(crate) fn era(&self) -> Era {
        self.revision.era()
    }

    /// Another request of the same caller at the same endpoint.
    pub(crate) fn instead(&self, request: Request) -> Self {
        Self {
            setup: Arc::clone(&self.setup),
            view: Arc::clone(&self.view),
            endpoint: self.endpoint.clone(),
            principal: self.principal.clone(),
            standing: self.standing.clone(),
            request,
            revision: self.revision,
            caller: self.caller.clone(),
            session: self.session.clone(),
            trace: self.trace.clone(),
            running: None,
        }
    }

    /// Whether a legacy server can ask the caller things: on the session that it has with the gateway.
    pub(crate) fn can_be_asked(&self) -> bool {
        self.caller.interactive && self.session.is_some()
    }

    /// Whether this caller is offered an entry of its view.
    pub(crate) fn sees(&self, entry: &Entry) -> bool {
        !entry.asks || self.can_be_asked()
    }

    /// What sealed tokens are bound to.
    pub(crate) fn bind(&self) -> [&[u8]; 3] {
        let endpoint = match &self.endpoint {
            Endpoint::All => b"".as_slice(),
            Endpoint::Server(slug) => slug.as_bytes(),
        };
        [self.principal.issuer.as_bytes(), self.principal.subject.as_bytes(), endpoint]
    }
}
