//! The retry of a failed call: once, and only if the call certainly did not run or is safe to run
//! twice. A tool call that may have run is never repeated.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use super::outcome::no_header_mismatch;
use crate::call::{Answer, Call, ClientChannel};
use crate::connection::Connection;
use crate::failure::{UpstreamError, UpstreamErrorKind};

impl Shared {
    /// Retries the call if permitted, or returns the error of the first attempt.
    pub(super) async fn retry(
        self: &Arc<Self>,
        first: Result<Answer, UpstreamError>,
        connection: &Arc<Connection>,
        call: &Call<'_>,
        channel: Option<Arc<dyn ClientChannel>>,
    ) -> Result<Answer, UpstreamError> {
        let Err(failure) = first else {
            // The server refused headers made from an outdated tool definition, so nothing ran.
            self.stale.notify_one();
            tokio::time::sleep(Duration::from_millis(500)).await;
            return self.send(connection, call, channel).await.and_then(no_header_mismatch);
        };
        if call.sink.as_ref().is_some_and(|sink| sink.has_begun()) {
            return Err(failure);
        }
        match failure.kind {
            UpstreamErrorKind::SessionLost => {
                self.renew(call, connection, "the server no longer has the session");
                if !call.method.is_safe() {
                    let words = "the server no longer had the session; a new session is being \
                        opened, and the call was not retried";
                    return Err(UpstreamError::new(UpstreamErrorKind::Lost, words));
                }
            }
            UpstreamErrorKind::Lost if call.method.is_safe() => {}
            // The connection ended while it was idle: no byte of the call was sent.
            UpstreamErrorKind::Lost | UpstreamErrorKind::Unavailable
                if !failure.sent && !connection.is_open() =>
            {
                self.renew(call, connection, "the connection is closed");
            }
            UpstreamErrorKind::Unavailable if !failure.sent => {
                self.suspect.notify_one();
                return Err(failure);
            }
            _ => return Err(failure),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let route = self.connection_for(call.caller, (call.method, call.target)).await?;
        self.send(&route.connection, call, channel).await
    }
}
