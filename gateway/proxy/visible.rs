//! What one caller may see of the gateway at `/mcp`, for those who show it to people, and whether
//! the caller is still let in. It goes by the same views as lists and calls.

use std::sync::Arc;

use lockgate_authn::Principal;
use lockgate_protocol::name::Slug;
use lockgate_upstream::{ListKind, Upstream, VisibleItem};

use crate::catalog::View;
use crate::gateway::Gateway;
use crate::rights::CallerRights;
use crate::transport::Endpoint;

impl Gateway {
    /// The servers that a caller may know of.
    #[must_use]
    pub fn visible_servers(&self, caller: &Principal) -> Vec<Arc<dyn Upstream>> {
        let Some(view) = self.view_for(caller) else { return Vec::new() };
        view.servers.values().cloned().collect()
    }

    /// The tools that a caller may use without being asked things, once the servers have settled.
    pub async fn visible_tools(&self, caller: &Principal) -> Vec<VisibleItem> {
        self.settle().await;
        let Some(view) = self.view_for(caller) else { return Vec::new() };
        let mut tools = Vec::new();
        for entry in view.entries(ListKind::Tools, None) {
            tools.push(VisibleItem {
                slug: Slug::as_str(&entry.slug).into(),
                exposed: Arc::clone(view.shown(entry)),
                text: entry.item.text.clone(),
            });
        }
        tools
    }

    /// Whether a caller who was let in before would be let in now.
    #[must_use]
    pub fn is_current(&self, caller: &Principal) -> bool {
        self.snapshot().authenticator.current(caller).is_some()
    }

    /// Ready when the gateway is going away.
    pub async fn stopping(&self) {
        self.stopping.cancelled().await;
    }

    fn view_for(&self, caller: &Principal) -> Option<Arc<View>> {
        let snapshot = self.snapshot();
        let endpoint = Endpoint::All;
        let rights = CallerRights::new(&snapshot.policy, caller.clone(), &endpoint);
        self.directory.view(&endpoint, &snapshot, &rights)
    }
}
