//! Tests of integrations that are stored or about to be stored. Connections of tests are not kept.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use lockgate_registry::{
    Auth, CredentialState, IntegrationSnapshot, NewIntegration, Origin, RegistryError, Secret,
};
use url::Url;

use super::view::{Integration, answer_changed};
use crate::api::operation::*;
use crate::api::state::{Candidate, Offered, OrganisationPermit, ProbeFailure, ProbeStage};
use crate::fault::Fault;

/// Retry delay while other servers are being tested, in seconds.
const RETRY_SECONDS: u64 = 5;

types! {
/// The result of a test of an integration.
output pub(crate) struct Validation {
    pub(crate) valid: bool,
    /// The cause of the failure.
    pub(crate) error: Option<String>,
    /// The first stage that failed.
    pub(crate) stage: Option<ProbeStage>,
    /// The failure, its cause and the fix.
    pub(crate) fault: Option<Fault>,
    pub(crate) capabilities: Offered,
}
}

impl Validation {
    fn new(slug: &str, tried: Result<Offered, ProbeFailure>) -> Self {
        match tried {
            Ok(capabilities) => {
                Self { valid: true, error: None, stage: None, fault: None, capabilities }
            }
            Err(ProbeFailure { stage, words }) => Self {
                valid: false,
                fault: Some(Fault::new(stage.as_str(), slug, &words, &words)),
                error: Some(words),
                stage: Some(stage),
                capabilities: Offered { tools: 0, resources: 0, prompts: 0 },
            },
        }
    }
}

pub(crate) async fn validate_integration(
    By { state, caller, .. }: By<Admin>,
    Path(id): Path<String>,
) -> Result<Json<Validation>, Problem> {
    let actor = make_actor(&caller);
    let registry = state.registry()?;
    let stored = registry.integration(&actor, &id)?;
    if !stored.enabled {
        return Err(RegistryError::Disabled.into());
    }
    let snapshot = registry.snapshot(&actor.organisation);
    let mut integrations = snapshot.integrations.iter();
    let Some(integration) = integrations.find(|integration| *integration.id == *id) else {
        return Err(RegistryError::IntegrationNotFound.into());
    };
    Ok(Json(validate_snapshot(&state, &actor.organisation, integration).await?))
}

types! {
/// The health of the organisation's integrations, by a test of one of them.
output pub(crate) struct McpHealth {
    healthy: bool,
    /// The tested integration; absent if none is enabled.
    integration: Option<Sample>,
    validation: Option<Validation>,
}

/// The integration tested as a sample.
#[cfg_attr(test, schema(as = SampleIntegration))]
output pub(crate) struct Sample {
    id: String,
    name: String,
    slug: String,
}
}

/// Counts samples, so that each integration of an organisation has its turn.
static NEXT_SAMPLE: AtomicUsize = AtomicUsize::new(0);

pub(crate) async fn check_mcp(
    By { state, caller, .. }: By<Admin>,
) -> Result<Json<McpHealth>, Problem> {
    let actor = make_actor(&caller);
    let snapshot = state.registry()?.snapshot(&actor.organisation);
    let count = snapshot.integrations.len();
    let at = NEXT_SAMPLE.fetch_add(1, Ordering::Relaxed).checked_rem(count);
    let Some(sample) = at.and_then(|at| snapshot.integrations.get(at)) else {
        return Ok(Json(McpHealth { healthy: true, integration: None, validation: None }));
    };
    let validation = validate_snapshot(&state, &actor.organisation, sample).await?;
    let integration = Sample {
        id: sample.id.to_string(),
        name: sample.name.to_string(),
        slug: sample.slug.to_string(),
    };
    Ok(Json(McpHealth {
        healthy: validation.valid,
        integration: Some(integration),
        validation: Some(validation),
    }))
}

async fn validate_snapshot(
    state: &ApiState,
    organisation: &Arc<str>,
    integration: &IntegrationSnapshot,
) -> Result<Validation, Problem> {
    let Some(candidate) = make_candidate(organisation, integration) else {
        let words = "the stored credentials cannot be used; enter them again";
        let failure = ProbeFailure { stage: ProbeStage::Auth, words: words.to_owned() };
        return Ok(Validation::new(&integration.slug, Err(failure)));
    };
    let slug = candidate.slug.clone();
    Ok(Validation::new(&slug, try_candidate(state, candidate).await?))
}

/// Returns `None` if the stored credentials cannot be used.
fn make_candidate(organisation: &Arc<str>, integration: &IntegrationSnapshot) -> Option<Candidate> {
    let mut headers = BTreeMap::new();
    match &integration.credential {
        CredentialState::None | CredentialState::OfMembers(_) => {}
        CredentialState::Ready(credential) => {
            headers.insert(credential.header.to_string(), credential.value.expose().to_owned());
        }
        CredentialState::Unusable(_) | CredentialState::Outdated => return None,
    }
    Some(Candidate {
        organisation: Arc::clone(organisation),
        slug: integration.slug.to_string(),
        url: integration.url.clone(),
        is_predefined: integration.is_predefined,
        headers,
        is_of_members: matches!(integration.credential, CredentialState::OfMembers(_)),
    })
}

/// Adds an integration, after a test if requested. Nothing is stored if the test fails.
pub(super) async fn create(
    by: By<Admin>,
    new: NewIntegration,
    validate: Option<bool>,
) -> Result<Reply<Integration>, Problem> {
    let change = by.change()?;
    if validate == Some(true) {
        let like = new.clone();
        let rehearsed = change.rehearse(apply!(create_integration(like)));
        if !rehearsed.await?.is_replayed {
            validate_new(&change.state, change.organisation(), &new).await?;
        }
    }
    let changed = change.make("create mcp-integration", apply!(create_integration(new))).await?;
    answer_changed(&change, StatusCode::CREATED, changed)
}

/// Tests an integration that is about to be stored, and that the registry accepts.
async fn validate_new(
    state: &ApiState,
    organisation: &Arc<str>,
    new: &NewIntegration,
) -> Result<(), Problem> {
    let catalogue = state.registry()?.catalogue();
    let (slug, url, auth) = match &new.origin {
        Origin::Custom { url, auth } => match Url::parse(url) {
            Ok(url) => ("new", url, auth),
            Err(_) => return Ok(()),
        },
        Origin::Predefined(slug) => match catalogue.get(slug) {
            Some(entry) => (slug.as_str(), entry.url.clone(), &entry.auth),
            None => return Ok(()),
        },
    };
    let candidate = Candidate {
        organisation: Arc::clone(organisation),
        slug: slug.to_owned(),
        url,
        is_predefined: matches!(new.origin, Origin::Predefined(_)),
        headers: write_headers(auth, new.credentials.as_ref()),
        is_of_members: auth.is_of_members(),
    };
    require_working(state, candidate, new.name.as_deref().unwrap_or(slug)).await
}

fn write_headers(auth: &Auth, credentials: Option<&Secret>) -> BTreeMap<String, String> {
    let Some(secret) = credentials.map(Secret::expose) else { return BTreeMap::new() };
    match auth {
        Auth::None | Auth::User | Auth::UserHeaders { .. } => BTreeMap::new(),
        Auth::ApiKey { header } => [(header.clone(), secret.to_owned())].into(),
        Auth::BearerToken => [("authorization".to_owned(), format!("Bearer {secret}"))].into(),
    }
}

async fn require_working(
    state: &ApiState,
    candidate: Candidate,
    name: &str,
) -> Result<(), Problem> {
    match try_candidate(state, candidate).await? {
        Ok(_) => Ok(()),
        Err(ProbeFailure { stage, words }) => {
            let fault = Fault::new(stage.as_str(), name, &words, &words);
            let detail = format!("the server failed its test, so nothing was stored: {words}");
            let problem = Problem::new(StatusCode::BAD_REQUEST, "VALIDATION_FAILED", detail);
            let problem = problem.with("stage", stage.as_str().into());
            let shown = serde_json::to_value(&fault).unwrap_or_default();
            Err(problem.of_kind(stage.kind()).with("fault", shown))
        }
    }
}

/// Limits the requests to other hosts on behalf of an organisation.
pub(super) fn enter_probe(
    state: &ApiState,
    organisation: &Arc<str>,
) -> Result<OrganisationPermit, Problem> {
    state.probes.enter(organisation).ok_or_else(|| {
        let detail = "four servers of this organisation are already being tested; retry later";
        Problem::overloaded(detail, RETRY_SECONDS)
    })
}

/// Tests a server, unless too many servers of its organisation are being tested.
async fn try_candidate(
    state: &ApiState,
    candidate: Candidate,
) -> Result<Result<Offered, ProbeFailure>, Problem> {
    let _place = enter_probe(state, &candidate.organisation)?;
    let hidden = if candidate.is_predefined { Some(candidate.url.clone()) } else { None };
    let is_of_members = candidate.is_of_members;
    let tried = match state.operations.probe(candidate).await {
        // A server that demands a member's credential works.
        Err(failure) if is_of_members && failure.stage == ProbeStage::Auth => {
            Ok(Offered { tools: 0, resources: 0, prompts: 0 })
        }
        tried => tried,
    };
    match (tried, hidden) {
        (Err(failure), Some(url)) => {
            let host = url.host_str().unwrap_or("");
            Ok(Err(failure.without(host, url.port_or_known_default())))
        }
        (tried, _) => Ok(tried),
    }
}
