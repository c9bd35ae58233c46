//! Connections to the server, through the gateway's connector.

use lockgate_egress::{Connector, Policy, Stream, Target};
use lockgate_postgres::{Handle, Login, Session, WireError, ssl_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::database::config::Network;

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
pub(super) async fn cancel(handle: &Handle, connector: &Connector, network: &Network) {
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
    connector.connect_upgraded(&target, Policy::Operator, &request, b'S').await.map_err(lost)
}

fn lost(error: impl std::fmt::Display) -> WireError {
    WireError::Lost(error.to_string())
}
