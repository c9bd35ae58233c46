//! Connections to the server, through the gateway's connector, and their cleanup when the caller of
//! a statement has gone.

use std::sync::Arc;
use std::time::Duration;

use lockgate_egress::{Connector, Policy, Stream, Target};
use lockgate_postgres::{Handle, Login, Session, WireError, ssl_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::OwnedSemaphorePermit;

use crate::database::config::Network;

/// Interval between two attempts to cancel a statement. A request that arrives between two steps of
/// the statement has no effect.
const CANCEL_INTERVAL: Duration = Duration::from_millis(250);

/// Connects and logs in.
pub(super) async fn open(connector: &Connector, network: &Network) -> Result<Session, WireError> {
    let stream = dial(connector, network).await?;
    let login = Login {
        user: &network.user,
        password: &network.password,
        database: &network.database,
        is_encrypted: network.tls,
        parameters: &[("application_name", "lockgate")],
    };
    Session::start(Box::new(stream), login).await
}

/// Requests the server to cancel a session's statement. If the request is lost, the statement's
/// timeout ends it.
async fn cancel(handle: &Handle, connector: &Connector, network: &Network) {
    let Ok(mut stream) = dial(connector, network).await else { return };
    let request = handle.cancel_request();
    if stream.write_all(&request).await.is_ok() && stream.flush().await.is_ok() {
        let _closed = stream.read_u8().await;
    }
}

async fn dial(connector: &Connector, network: &Network) -> Result<Stream, WireError> {
    let host = if network.host.contains(':') {
        format!("[{}]", network.host)
    } else {
        network.host.clone()
    };
    let scheme = if network.tls { "https" } else { "http" };
    let url = url::Url::parse(&format!("{scheme}://{host}:{}/", network.port)).map_err(lost)?;
    let target = Target::new(&url).map_err(lost)?;
    if !network.tls {
        return connector.connect(&target, Policy::Operator).await.map_err(lost);
    }
    let request = ssl_request();
    let upgrade = Some((&request[..], b'S'));
    connector.connect_without_alpn(&target, Policy::Operator, upgrade).await.map_err(lost)
}

fn lost(error: impl std::fmt::Display) -> WireError {
    WireError::Lost(error.to_string())
}

/// A slot of the pool and its session. A session that is still held when dropped, because its
/// caller is gone or the session is unusable, keeps the slot until the server has ended it: the
/// server continues a statement after its client is gone.
pub(super) struct PostgresSlot<'a> {
    pub(super) connector: &'a Arc<Connector>,
    pub(super) network: &'a Network,
    pub(super) session: Option<Session>,
    pub(super) place: Option<OwnedSemaphorePermit>,
    /// The statement's own timeout has ended it by then.
    pub(super) timeout: Duration,
}

impl Drop for PostgresSlot<'_> {
    fn drop(&mut self) {
        if let Some(mut session) = self.session.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let connector = Arc::clone(self.connector);
            let network = self.network.clone();
            let place = self.place.take();
            let timeout = self.timeout;
            runtime.spawn(async move {
                let ended = async {
                    loop {
                        cancel(&session.handle, &connector, &network).await;
                        if tokio::time::timeout(CANCEL_INTERVAL, session.end()).await.is_ok() {
                            break;
                        }
                    }
                };
                if tokio::time::timeout(timeout, ended).await.is_err() {
                    tracing::warn!(database = %network.database, "an abandoned statement cannot \
                        be stopped");
                }
                drop(place);
            });
        }
    }
}
