//! Tells a configured address that a call waits for approvers: one signed message for each, off the
//! request path, tried a few times and then given up. What the call is about stays here: the
//! message has a link, behind which approvers show who they are.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request, StatusCode};
use lockgate_admin::Webhook as Config;
use lockgate_egress::{Connector, Origin, Payload, Policy};
use lockgate_proxy::{Announcement, WaitingApproval};
use lockgate_telemetry::{Metrics, Notification};
use lockgate_text::date;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};

/// Messages that wait to be sent; more are dropped.
const QUEUE: usize = 256;
/// Messages that are being sent at once.
const SENDERS: usize = 8;
/// Time for one attempt.
const PATIENCE: Duration = Duration::from_secs(10);
/// What is waited before each attempt.
const PAUSES: [Duration; 4] =
    [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(25)];
/// Most bytes of an answer, of which nothing but the status is looked at.
const MAX_ANSWER: usize = 64 * 1024;

// Standard Webhooks 1.0.
const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Where messages go.
pub(crate) struct Target {
    origin: Origin,
    config: Config,
}

impl Target {
    /// # Errors
    /// The address cannot be used.
    pub(crate) fn new(
        config: &Config,
        connector: &Arc<Connector>,
        egress: &lockgate_egress::Config,
    ) -> anyhow::Result<Arc<Self>> {
        let connector = Arc::clone(connector);
        let origin = Origin::new(connector, &config.url, Policy::Operator, egress);
        let origin = origin.context("approvals.webhook.url")?;
        Ok(Arc::new(Self { origin, config: config.clone() }))
    }

    async fn post(&self, id: &str, body: &Bytes) -> Result<StatusCode, String> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let request = write_request(&self.config, &self.origin, id, since.as_secs(), body)?;
        let answer = tokio::time::timeout(PATIENCE, async {
            let response = self.origin.send(request).await.map_err(|error| error.to_string())?;
            let status = response.status();
            // Read, so that the connection can be used again.
            let _ = response.into_body().collect_limited(MAX_ANSWER).await;
            Ok(status)
        });
        answer.await.unwrap_or_else(|_| Err("no answer in time".into()))
    }
}

/// The sender of messages, and where they go now.
#[derive(Default)]
pub(crate) struct Webhook(Mutex<Option<Arc<Target>>>);

impl Webhook {
    /// Starts to send; needs a runtime. Gives what the gateway is to put messages into.
    pub(crate) fn start(metrics: Arc<Metrics>) -> (Arc<Self>, mpsc::Sender<Announcement>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let webhook = Arc::new(Self::default());
        tokio::spawn(send_all(Arc::clone(&webhook), receiver, metrics));
        (webhook, sender)
    }

    /// From now on messages go there, or nowhere.
    pub(crate) fn adopt(&self, target: Option<Arc<Target>>) {
        *self.0.lock() = target;
    }

    fn target(&self) -> Option<Arc<Target>> {
        self.0.lock().clone()
    }
}

async fn send_all(
    webhook: Arc<Webhook>,
    mut receiver: mpsc::Receiver<Announcement>,
    metrics: Arc<Metrics>,
) {
    let senders = Arc::new(Semaphore::new(SENDERS));
    while let Some(announcement) = receiver.recv().await {
        let Some(target) = webhook.target() else { continue };
        if announcement.is_over() {
            continue;
        }
        let Ok(permit) = Arc::clone(&senders).acquire_owned().await else { return };
        let metrics = Arc::clone(&metrics);
        tokio::spawn(async move {
            let outcome = send(&target, &announcement).await;
            metrics.notified(outcome);
            drop(permit);
        });
    }
}

/// Sends one message, again where that may help, for as long as its call waits.
async fn send(target: &Target, announcement: &Announcement) -> Notification {
    let waiting = &announcement.approval;
    let body = write_body(&target.config, waiting);
    let mut reason = String::from("the call does not wait any more");
    for pause in PAUSES {
        tokio::time::sleep(pause).await;
        if announcement.is_over() {
            break;
        }
        reason = match target.post(&waiting.id, &body).await {
            Ok(status) if status.is_success() => return Notification::Delivered,
            Ok(status) if !may_help(status) => {
                reason = format!("it answered {status}");
                break;
            }
            Ok(status) => format!("it answered {status}"),
            Err(reason) => reason,
        };
    }
    // The address itself may be a secret.
    let id = &*waiting.id;
    tracing::warn!(id, reason, "the webhook was not told of a call that waits for approvers");
    Notification::Failed
}

/// Whether the same again may be taken.
fn may_help(status: StatusCode) -> bool {
    let busy = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
    status.is_server_error() || busy.contains(&status)
}

/// What is said of a call: whose it is and which tool, not its arguments.
fn write_body(config: &Config, waiting: &WaitingApproval) -> Bytes {
    let mut link = config.link_base.clone();
    let path = format!("{}/approvals/{}/open", link.path().trim_end_matches('/'), waiting.id);
    link.set_path(&path);
    link.query_pairs_mut().append_pair("token", &waiting.token);
    let body = json!({
        "type": "approval.waiting",
        "timestamp": write_time(waiting.asked),
        "data": {
            "id": &*waiting.id,
            "caller": waiting.caller,
            "organisation": waiting.organisation,
            "tool": waiting.tool,
            "server": waiting.server,
            "needs": waiting.needs,
            "expires": write_time(waiting.expires),
            "link": link.as_str(),
        },
    });
    body.to_string().into()
}

fn write_time(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    date::of_seconds(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

fn write_request(
    config: &Config,
    origin: &Origin,
    id: &str,
    seconds: u64,
    body: &Bytes,
) -> Result<Request<Payload>, String> {
    let signature = sign(&config.secret, id, seconds, body);
    let mut request = Request::new(Payload::from(body.clone()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = origin.uri().clone();
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static("lockgate"));
    headers.insert(ID, header_value(id)?);
    headers.insert(TIMESTAMP, seconds.into());
    headers.insert(SIGNATURE, header_value(&signature)?);
    Ok(request)
}

fn header_value(text: &str) -> Result<HeaderValue, String> {
    HeaderValue::from_str(text).map_err(|error| error.to_string())
}

/// The signature of Standard Webhooks 1.0: HMAC-SHA256 of id, time and body.
fn sign(secret: &[u8], id: &str, seconds: u64, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let signed = [format!("{id}.{seconds}.").as_bytes(), body].concat();
    format!("v1,{}", STANDARD.encode(hmac::sign(&key, &signed)))
}

#[cfg(test)]
mod tests;
