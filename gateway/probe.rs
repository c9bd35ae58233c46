//! Tests a server before it is added: a separate client, invisible to callers, connects, completes
//! the handshake, reads the lists, and is closed.

use std::sync::Arc;
use std::time::Duration;

use lockgate_admin::{Candidate, Offered, ProbeFailure, ProbeStage};
use lockgate_admission::spawn;
use lockgate_egress::{ConnectError, Policy, Target, describe};
use lockgate_upstream::{
    Catalog, Client, Config, HTTP_STATUS, ListKind, Stage, Status, Surroundings, Transport,
    Upstream, UpstreamState,
};
use tokio::sync::broadcast;

/// Timeout of a whole test.
const TEST_TIMEOUT: Duration = Duration::from_secs(28);
/// Maximum interval between checks of the client's state.
const MAX_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Tests a server of an organisation.
///
/// # Errors
/// The first stage that failed, and the reason.
pub(crate) async fn probe(
    around: Surroundings,
    candidate: Candidate,
) -> Result<Offered, ProbeFailure> {
    let tried = tokio::time::timeout(TEST_TIMEOUT, try_server(around, candidate)).await;
    tried.unwrap_or_else(|_| {
        let seconds = TEST_TIMEOUT.as_secs();
        Err(fail(ProbeStage::Handshake, format!("the server was not ready within {seconds} s")))
    })
}

async fn try_server(
    mut around: Surroundings,
    candidate: Candidate,
) -> Result<Offered, ProbeFailure> {
    let own = around.connector.config().organisations;
    let addresses = if candidate.is_predefined { Policy::Operator } else { own };
    let target =
        Target::new(&candidate.url).map_err(|error| fail(ProbeStage::Dns, error.to_string()))?;
    let connected = around.connector.connect(&target, addresses).await;
    drop(connected.map_err(|error| describe_connect(&error))?);
    // A separate channel, so that the client's events reach no subscriber of the gateway.
    around.events = broadcast::Sender::new(16);
    around.metrics = None;
    around.single_client = None;
    let transport = Transport::Http { url: candidate.url, headers: candidate.headers };
    let config = Config {
        rests_after: None,
        start_timeout: TEST_TIMEOUT,
        ..Config::of_organisation(candidate.organisation, candidate.slug, transport, addresses)
    };
    let mut events = around.events.subscribe();
    let client = Client::new(config, around);
    let client = client.map_err(|error| fail(ProbeStage::Connect, error.to_string()))?;
    let _closing = ClosedAtEnd(Arc::clone(&client));
    client.start();
    client.revive();
    loop {
        let status = client.status();
        match status.state {
            UpstreamState::Connected => return count(&client.catalog()),
            UpstreamState::Pending | UpstreamState::Resting => {}
            _ => return Err(describe_status(&status)),
        }
        let _ = tokio::time::timeout(MAX_CHECK_INTERVAL, events.recv()).await;
    }
}

/// Closes the client on drop, even when the result is no longer awaited.
struct ClosedAtEnd(Arc<Client>);

impl Drop for ClosedAtEnd {
    fn drop(&mut self) {
        let client = Arc::clone(&self.0);
        spawn(async move { client.close().await });
    }
}

fn count(catalog: &Catalog) -> Result<Offered, ProbeFailure> {
    let resources = catalog.items(ListKind::Resources).len();
    let offered = Offered {
        tools: catalog.items(ListKind::Tools).len(),
        resources: resources + catalog.items(ListKind::Templates).len(),
        prompts: catalog.items(ListKind::Prompts).len(),
    };
    if offered.tools + offered.resources + offered.prompts == 0 {
        let words = catalog
            .refused
            .as_deref()
            .unwrap_or("the server offers no tool, no resource and no prompt");
        return Err(fail(ProbeStage::List, words));
    }
    Ok(offered)
}

fn describe_connect(error: &ConnectError) -> ProbeFailure {
    match error {
        // The words of the causes alone, because the stage says what failed.
        ConnectError::Resolve(error) => fail(ProbeStage::Dns, error.to_string()),
        // The address behind an internal name must not be revealed to callers.
        ConnectError::Refused(_) => fail(
            ProbeStage::Connect,
            "the name resolves to an address that is not allowed; the operator sets the allowed \
                addresses (egress.organisations)",
        ),
        ConnectError::Tls(error) => fail(ProbeStage::Tls, describe(error)),
        ConnectError::Proxy(error) => {
            fail(ProbeStage::Connect, format!("the gateway's proxy failed: {}", error.cause))
        }
        ConnectError::Connect(error) => fail(ProbeStage::Connect, error.to_string()),
        ConnectError::Timeout => fail(ProbeStage::Connect, error.to_string()),
    }
}

fn describe_status(status: &Status) -> ProbeFailure {
    let Some(trouble) = &status.trouble else {
        return fail(ProbeStage::Handshake, status.reason());
    };
    let words = trouble.words.as_str();
    if status.state == UpstreamState::NeedsAuth {
        return fail(ProbeStage::Auth, words);
    }
    let stage = match trouble.stage {
        Stage::Discovery | Stage::Run => ProbeStage::List,
        _ if words.contains(HTTP_STATUS) => ProbeStage::Http,
        Stage::Start | Stage::Handshake => ProbeStage::Handshake,
        Stage::Connect => ProbeStage::Connect,
    };
    fail(stage, words)
}

fn fail(stage: ProbeStage, words: impl Into<String>) -> ProbeFailure {
    ProbeFailure { stage, words: words.into() }
}
