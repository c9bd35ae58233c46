//! Forwards the records of the audit trail to other receivers, in order and each at least once.
//! Records are read from the trail's own files, so a receiver that was unavailable gets the missed
//! records later, even after a restart. Runs outside the path of requests and of the trail's
//! writer.

mod backlog;
mod syslog;
mod webhook;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use lockgate_egress::{ClientCertificate, Connector};
use lockgate_telemetry::Config;
use lockgate_telemetry::audit::{AuditCounters, Output};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use backlog::{Backlog, ForwardError};
use syslog::Collector;
use webhook::Poster;

/// How long shutdown waits for receivers to accept the remaining records.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
/// Pauses between attempts: the first, and the longest unless the receiver requests a longer one.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const MAX_PAUSE: Duration = Duration::from_secs(10);

pub(crate) struct Forwarding {
    tasks: TaskTracker,
    ending: CancellationToken,
}

/// A receiver and its protocol.
enum Receiver {
    Syslog(Collector),
    Webhook(Poster),
}

/// The sender to a single receiver.
struct Forwarder {
    receiver: Receiver,
    backlog: Backlog,
    /// The reason for the current failure; empty while the receiver accepts records.
    trouble: String,
}

impl Forwarding {
    /// Starts the configured forwarders. Requires a runtime and a started trail.
    ///
    /// # Errors
    /// The position in the trail cannot be read, or an address is not usable.
    pub(crate) fn start(
        config: &Config,
        counters: &Arc<AuditCounters>,
        connector: &Arc<Connector>,
    ) -> anyhow::Result<Self> {
        let forwarding = Self { tasks: TaskTracker::new(), ending: CancellationToken::new() };
        let Some(audit) = &config.audit else { return Ok(forwarding) };
        let Output::File(trail) = &audit.output else { return Ok(forwarding) };
        let mut forwarders = Vec::new();
        if let Some(syslog) = &audit.syslog {
            let way = way_for(&syslog.client_cert, &syslog.client_key, connector);
            let way = way.context("audit.syslog.client_cert")?;
            let collector = Collector::new(syslog, way).context("audit.syslog.address")?;
            let backlog = Backlog::open(trail, "syslog", counters).context("audit.syslog")?;
            forwarders.push((Receiver::Syslog(collector), backlog));
        }
        if let Some(webhook) = &audit.webhook {
            let way = way_for(&webhook.client_cert, &webhook.client_key, connector);
            let way = way.context("audit.webhook.client_cert")?;
            let poster = Poster::new(webhook, &way)?;
            let backlog = Backlog::open(trail, "webhook", counters).context("audit.webhook")?;
            forwarders.push((Receiver::Webhook(poster), backlog));
        }
        for (receiver, backlog) in forwarders {
            let forwarder = Forwarder { receiver, backlog, trouble: String::new() };
            forwarding.tasks.spawn(forwarder.run(forwarding.ending.clone()));
        }
        Ok(forwarding)
    }

    /// Sends remaining records for a limited time, once the trail has ended. The rest is sent after
    /// the next start.
    pub(crate) async fn finish(&self) {
        self.ending.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Returns the connector for a receiver, with the configured client certificate.
fn way_for(
    cert: &Option<PathBuf>,
    key: &Option<PathBuf>,
    connector: &Arc<Connector>,
) -> anyhow::Result<Arc<Connector>> {
    let Some((cert, key)) = cert.clone().zip(key.clone()) else {
        return Ok(Arc::clone(connector));
    };
    Ok(Arc::new(connector.with_client_certificate(ClientCertificate { cert, key })?))
}

impl Forwarder {
    async fn run(mut self, ending: CancellationToken) {
        let end = async {
            ending.cancelled().await;
            tokio::time::sleep(SHUTDOWN_TIMEOUT).await;
        };
        tokio::select! {
            () = self.forward(&ending) => {}
            () = end => {}
        }
        self.backlog.save().await;
        let left = self.backlog.waiting();
        if left > 0 {
            let to = self.backlog.to;
            tracing::warn!(
                to,
                left,
                "unsent records of the audit trail are sent after the next start"
            );
        }
    }

    async fn forward(&mut self, ending: &CancellationToken) {
        let mut pause = FIRST_PAUSE;
        while self.backlog.wait(ending).await {
            let waiting = self.backlog.waiting();
            let taken = self.backlog.taken;
            let delivered = match &mut self.receiver {
                Receiver::Syslog(collector) => collector.deliver(&mut self.backlog, ending).await,
                Receiver::Webhook(poster) => poster.deliver(&mut self.backlog).await,
            };
            match delivered {
                Ok(()) => {
                    pause = FIRST_PAUSE;
                    self.is_back(waiting);
                    // Records were counted but are missing: the file was removed, and the writer is
                    // about to report that.
                    if self.backlog.taken == taken {
                        if ending.is_cancelled() {
                            return;
                        }
                        tokio::time::sleep(FIRST_PAUSE).await;
                    }
                }
                Err(trouble) => {
                    self.is_away(&trouble);
                    if ending.is_cancelled() {
                        return;
                    }
                    tokio::select! {
                        () = tokio::time::sleep(pause.max(trouble.pause)) => {}
                        () = ending.cancelled() => {}
                    }
                    pause = (pause * 2).min(MAX_PAUSE);
                }
            }
        }
    }

    fn is_away(&mut self, trouble: &ForwardError) {
        self.backlog.counters.failing.set(true);
        if self.trouble != trouble.words {
            let behind = self.backlog.waiting();
            tracing::warn!(
                to = self.backlog.to,
                error = trouble.words,
                behind,
                "the receiver does not accept the audit trail; records are kept in its files and \
                    retried"
            );
            self.trouble.clone_from(&trouble.words);
        }
    }

    fn is_back(&mut self, behind: u64) {
        self.backlog.counters.failing.set(false);
        if !self.trouble.is_empty() {
            tracing::info!(
                to = self.backlog.to,
                behind,
                "the receiver accepts the audit trail again"
            );
            self.trouble.clear();
        }
    }
}
