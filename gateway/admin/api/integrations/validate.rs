//! Tests of integrations that are stored or about to be stored. Connections of tests are not kept.

use std::sync::atomic::{AtomicUsize, Ordering};

use lockgate_registry::{
    Credential, CredentialState, IntegrationSnapshot, NewIntegration, Origin, RegistryError,
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
                capabilities: Offered::default(),
            },
        }
    }
}

pub(crate) async fn validate_integration(
    by: By<Admin>,
    Path(id): Path<String>,
) -> Result<Json<Validation>> {
    let registry = by.registry()?;
    if !registry.integration(&by.actor(), &id)?.enabled {
        return Err(RegistryError::Disabled.into());
    }
    let snapshot = registry.snapshot(by.caller.organisation());
    let mut integrations = snapshot.integrations.iter();
    let found = integrations.find(|integration| *integration.id == *id);
    let integration = found.ok_or(RegistryError::IntegrationNotFound)?;
    Ok(Json(validate_snapshot(&by, integration).await?))
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

pub(crate) async fn check_mcp(by: By<Admin>) -> Result<Json<McpHealth>> {
    let snapshot = by.registry()?.snapshot(by.caller.organisation());
    let count = snapshot.integrations.len();
    let at = NEXT_SAMPLE.fetch_add(1, Ordering::Relaxed).checked_rem(count);
    let Some(sample) = at.and_then(|at| snapshot.integrations.get(at)) else {
        return Ok(Json(McpHealth { healthy: true, integration: None, validation: None }));
    };
    let validation = validate_snapshot(&by, sample).await?;
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

async fn validate_snapshot(by: &Context, integration: &IntegrationSnapshot) -> Result<Validation> {
    let Some(headers) = integration.credential.headers() else {
        let words = "the stored credentials cannot be used; enter them again";
        let failure = ProbeFailure { stage: ProbeStage::Auth, words: words.to_owned() };
        return Ok(Validation::new(&integration.slug, Err(failure)));
    };
    let candidate = Candidate {
        organisation: by.caller.organisation().into(),
        slug: integration.slug.to_string(),
        url: integration.url.clone(),
        is_predefined: integration.is_predefined,
        headers,
        is_of_members: matches!(integration.credential, CredentialState::OfMembers(_)),
    };
    Ok(Validation::new(&integration.slug, try_candidate(&by.state, candidate).await?))
}

/// Adds an integration, after a test if requested. Nothing is stored if the test fails.
pub(super) async fn create(
    by: By<Admin>,
    new: NewIntegration,
    validate: Option<bool>,
) -> Result<Reply<Integration>> {
    if validate == Some(true) {
        let like = new.clone();
        let rehearsed = by.rehearse(apply!(create_integration(like)));
        if !rehearsed.await?.is_replayed {
            validate_new(&by, &new).await?;
        }
    }
    let changed = by.make("create mcp-integration", apply!(create_integration(new))).await?;
    answer_changed(&by, StatusCode::CREATED, changed)
}

/// Tests an integration that is about to be stored, and that the registry accepts.
async fn validate_new(by: &Context, new: &NewIntegration) -> Result<()> {
    let catalogue = by.registry()?.catalogue();
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
    let credential = new.credentials.as_ref().and_then(|secret| Credential::new(auth, secret));
    let candidate = Candidate {
        organisation: by.caller.organisation().into(),
        slug: slug.to_owned(),
        url,
        is_predefined: matches!(new.origin, Origin::Predefined(_)),
        headers: credential.map(Credential::into_header).into_iter().collect(),
        is_of_members: auth.is_of_members(),
    };
    let Err(ProbeFailure { stage, words }) = try_candidate(&by.state, candidate).await? else {
        return Ok(());
    };
    let fault = Fault::new(stage.as_str(), new.name.as_deref().unwrap_or(slug), &words, &words);
    let detail = format!("the server failed its test, so nothing was stored: {words}");
    let problem = Problem::new(StatusCode::BAD_REQUEST, "VALIDATION_FAILED", detail);
    let problem = problem.of_kind(stage.kind()).with("stage", stage.as_str().into());
    Err(problem.with("fault", serde_json::to_value(&fault).unwrap_or_default()))
}

/// Limits the requests to other hosts on behalf of an organisation.
pub(super) fn enter_probe(state: &ApiState, organisation: &str) -> Result<OrganisationPermit> {
    state.probes.enter(organisation).ok_or_else(|| {
        let detail = "four servers of this organisation are already being tested; retry later";
        Problem::overloaded(detail, RETRY_SECONDS)
    })
}

/// Tests a server, unless too many servers of its organisation are being tested.
async fn try_candidate(
    state: &ApiState,
    candidate: Candidate,
) -> Result<Result<Offered, ProbeFailure>> {
    let _place = enter_probe(state, &candidate.organisation)?;
    let hidden = candidate.is_predefined.then(|| candidate.url.clone());
    let is_of_members = candidate.is_of_members;
    let tried = match state.operations.probe(candidate).await {
        // A server that demands a member's credential works.
        Err(failure) if is_of_members && failure.stage == ProbeStage::Auth => {
            Ok(Offered::default())
        }
        tried => tried,
    };
    Ok(tried.map_err(|failure| match hidden {
        Some(url) => failure.without(url.host_str().unwrap_or(""), url.port_or_known_default()),
        None => failure,
    }))
}
