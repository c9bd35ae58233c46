//! The retry of a call: once, and only if the call certainly did not run or is safe to run twice;
//! also with another credential if the server refuses one that changes. A tool call that may have
//! run is never repeated. Calls with a credential that changes end with their client.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;

use super::outcome::no_header_mismatch;
use super::{Client, Shared};
use crate::call::{Answer, Authorization, Call, ClientChannel};
use crate::connection::Connection;
use crate::failure::{Result, UpstreamError, UpstreamErrorKind};

impl Shared {
    /// Retries the call if permitted, or returns the error of the first attempt.
    pub(super) async fn retry(
        self: &Arc<Self>,
        first: Result<Answer>,
        connection: &Arc<Connection>,
        call: &Call<'_>,
        channel: Option<Arc<dyn ClientChannel>>,
    ) -> Result<Answer> {
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
                if !call.method().is_safe() {
                    let words = "the server no longer had the session; a new session is being \
                        opened, and the call was not retried";
                    return Err(UpstreamErrorKind::Lost.error(words));
                }
            }
            UpstreamErrorKind::Lost if call.method().is_safe() => {}
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
        let route = self.connection_for(call.caller, (call.method(), call.target)).await?;
        self.send(&route.connection, call, channel).await
    }
}

impl Client {
    /// Makes a call that the server refused before it has run once more, with another credential.
    pub(super) async fn call_again(
        &self,
        authorization: &dyn Authorization,
        used: Option<HeaderValue>,
        call: &Call<'_>,
        mut answered: Result<Answer>,
    ) -> Result<Answer> {
        if authorization.renew(used).await {
            answered = self.run_until_closed(call).await;
        }
        match answered {
            Err(failure) if failure.kind == UpstreamErrorKind::NeedsAuth => {
                Err(authorization.explain(failure).await)
            }
            answered => answered,
        }
    }

    /// Runs a call. One with a credential that may end is ended with the client.
    pub(super) async fn run_until_closed(&self, call: &Call<'_>) -> Result<Answer> {
        let mut running = pin!(self.shared.run(call));
        if self.shared.around.authorization.is_none() {
            return running.await;
        }
        tokio::select! {
            biased;
            answered = &mut running => answered,
            // No prompt, after which the call would be made again.
            () = self.shared.closing.cancelled() => {
                Err(UpstreamError::lost("the account was disconnected during the call"))
            }
        }
    }

    /// Waits for a credential that can be used. Returns `None` if the server may need none.
    pub(super) async fn prepare(
        &self,
        authorization: &dyn Authorization,
    ) -> Result<Option<HeaderValue>> {
        match authorization.prepare().await {
            Ok(()) => Ok(authorization.header()),
            Err(words) => {
                let failure = UpstreamErrorKind::NeedsAuth.error(words);
                Err(authorization.explain(failure).await)
            }
        }
    }
}
