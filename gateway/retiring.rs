//! Clients of removed or replaced servers. Their running calls may finish within the grace period;
//! then the clients are closed.

use std::sync::Arc;

use lockgate_upstream::{Client, Upstream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::shutdown::GRACE_PERIOD;

#[derive(Default)]
pub(crate) struct Retiring {
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl Retiring {
    /// Closes a client after its last call or the grace period; new calls go elsewhere.
    pub(crate) fn retire(&self, client: Arc<Client>) {
        let closing = self.closing.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = client.finish_calls(GRACE_PERIOD) => {}
                () = closing.cancelled() => {}
            }
            client.close().await;
        });
    }

    pub(crate) async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
