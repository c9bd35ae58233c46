//! Notifies a configured address that a call waits for approvers: one signed message per call, off
//! the request path, with a few retries. The message contains no arguments, but a link at which
//! approvers authenticate.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::HeaderMap;
use lockgate_admission::spawn;
use lockgate_egress::Connector;
use lockgate_proxy::{Announcement, WaitingApproval};
use lockgate_telemetry::{Metrics, Notification};
use lockgate_text::date;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};
use url::Url;

use crate::signed_post::SignedPost;

/// Maximum number of queued messages; further messages are dropped.
const MAX_QUEUED: usize = 256;
/// Maximum number of messages sent concurrently.
const MAX_SENDERS: usize = 8;
/// The pause before each attempt.
const RETRY_PAUSES: [Duration; 4] =
    [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(25)];

pub(crate) struct Target {
    post: SignedPost,
    /// The base of links to the gateway, for approvers.
    link_base: Url,
}

impl Target {
    /// Returns the configured target, if there is one. Fails if its address is not usable.
    pub(crate) fn of(
        config: &lockgate_config::Config,
        connector: &Arc<Connector>,
    ) -> anyhow::Result<Option<Arc<Self>>> {
        let Some(webhook) = &config.admin.webhook else { return Ok(None) };
        let post = SignedPost::new(&webhook.url, &webhook.secret, HeaderMap::new(), connector);
        let post = post.context("approvals.webhook.url")?;
        let link_base = config.authn.public_url.clone().context("http.public_url")?;
        Ok(Some(Arc::new(Self { post, link_base })))
    }
}

/// The sender of messages and its current target.
pub(crate) struct Webhook(Mutex<Option<Arc<Target>>>);

impl Webhook {
    /// Starts sending. Requires a runtime. Returns the queue for announcements.
    pub(crate) fn start(
        config: &lockgate_config::Config,
        connector: &Arc<Connector>,
        metrics: &Arc<Metrics>,
    ) -> anyhow::Result<(Arc<Self>, mpsc::Sender<Announcement>)> {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED);
        let webhook = Arc::new(Self(Mutex::new(Target::of(config, connector)?)));
        spawn(send_all(Arc::clone(&webhook), receiver, Arc::clone(metrics)));
        Ok((webhook, sender))
    }

    /// Replaces the target; `None` drops further messages.
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
    let senders = Arc::new(Semaphore::new(MAX_SENDERS));
    while let Some(announcement) = receiver.recv().await {
        let Some(target) = webhook.target() else { continue };
        if announcement.is_over() {
            continue;
        }
        let Ok(permit) = Arc::clone(&senders).acquire_owned().await else { return };
        let metrics = Arc::clone(&metrics);
        spawn(async move {
            let outcome = send(&target, &announcement).await;
            metrics.notified(outcome);
            drop(permit);
        });
    }
}

/// Sends a message, with retries where they may help, as long as its call waits.
async fn send(target: &Target, announcement: &Announcement) -> Notification {
    let waiting = &announcement.approval;
    let body = write_body(&target.link_base, waiting);
    let mut reason = String::from("the call is no longer waiting");
    for pause in RETRY_PAUSES {
        tokio::time::sleep(pause).await;
        if announcement.is_over() {
            break;
        }
        reason = match target.post.send(&waiting.id, "application/json", &body).await {
            Ok(answer) if answer.status.is_success() => return Notification::Delivered,
            Ok(answer) if !answer.may_pass() => {
                reason = format!("it responded with {}", answer.status);
                break;
            }
            Ok(answer) => format!("it responded with {}", answer.status),
            Err(reason) => reason,
        };
    }
    // The address may be a secret and is not logged.
    let id = &*waiting.id;
    tracing::warn!(id, reason, "the webhook was not notified of a call waiting for approval");
    Notification::Failed
}

/// Writes the message: the call's caller and tool, without its arguments.
fn write_body(link_base: &Url, waiting: &WaitingApproval) -> Bytes {
    let mut link = link_base.clone();
    let path = format!("{}/approvals/{}/open", link.path().trim_end_matches('/'), waiting.id);
    link.set_path(&path);
    link.query_pairs_mut().append_pair("token", &waiting.token);
    let body = json!({
        "type": "approval.waiting",
        "timestamp": date::of_time(waiting.asked),
        "data": {
            "id": &*waiting.id,
            "caller": waiting.caller,
            "organisation": waiting.organisation,
            "tool": waiting.tool,
            "server": waiting.server,
            "needs": waiting.needs,
            "expires": date::of_time(waiting.expires),
            "link": link.as_str(),
        },
    });
    body.to_string().into()
}

#[cfg(test)]
mod tests;
