//! The last good lists of an integration, written to the store and read back at start. Writes are
//! queued by the registry; the caller does not wait for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use lockgate_registry::{IntegrationSnapshot, KnownLists, Registry};
use lockgate_text::date;
use lockgate_upstream::{BoxFuture, Catalog, CatalogMemory};

/// The stored lists of an integration, for its current version.
pub(super) struct Memory {
    registry: Arc<Registry>,
    organisation: Arc<str>,
    id: Arc<str>,
    version: AtomicI64,
}

impl Memory {
    pub(super) fn new(
        registry: &Arc<Registry>,
        organisation: &Arc<str>,
        integration: &IntegrationSnapshot,
    ) -> Arc<Self> {
        Arc::new(Self {
            registry: Arc::clone(registry),
            organisation: Arc::clone(organisation),
            id: Arc::clone(&integration.id),
            version: AtomicI64::new(integration.version),
        })
    }

    /// Assigns the stored lists to another version, which is the same server.
    pub(super) fn adopt(&self, integration: &IntegrationSnapshot) {
        let old = self.version.swap(integration.version, Ordering::SeqCst);
        if old != integration.version {
            self.registry.carry_lists(&self.id, old, integration.version);
        }
    }
}

impl CatalogMemory for Memory {
    fn load(&self) -> BoxFuture<'_, Option<Catalog>> {
        Box::pin(async move {
            let found = self.registry.find_lists(&self.organisation, &self.id).await;
            let version = self.version.load(Ordering::SeqCst);
            let lists = found.filter(|lists| lists.version == version)?;
            Catalog::decode(lists.content.into(), date::from_ms(lists.read_at))
        })
    }

    fn keep(&self, catalog: &Catalog) {
        self.registry.keep_lists(KnownLists {
            organisation: self.organisation.to_string(),
            integration: self.id.to_string(),
            version: self.version.load(Ordering::SeqCst),
            read_at: date::now_ms(),
            content: catalog.encode(),
        });
    }
}
