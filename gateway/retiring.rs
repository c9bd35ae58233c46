//! Clients of servers that are not wanted any more: their running calls end first, within the
//! grace, and then they are closed.

use std::sync::Arc;

use lockgate_upstream::{Client, Upstream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::shutdown::GRACE;

/// See the module.
#[derive(Default)]
pub(crate) struct Retiring {
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl Retiring {
    /// Closes a client once its calls have ended, or had their time. New calls go elsewhere.
    pub(crate) fn retire(&self, client: Arc<Client>) {
        let closing = self.closing.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = client.finish_calls(GRACE) => {}
                () = closing.cancelled() => {}
            }
            client.close().await;
        });
    }

    /// Closes all of them now.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
