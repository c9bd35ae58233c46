//! The part of the configuration that the API uses: its access rules, the keys, and the files that
//! it writes.

use std::path::PathBuf;
use std::sync::Arc;

use lockgate_admin::{ApiConfig, ClientsAddress};
use lockgate_authn::key::Key;
use lockgate_config::Config;

use crate::trail;

pub(crate) struct ApiSettings {
    pub(crate) access: Arc<ApiConfig>,
    pub(crate) keys: Arc<[Key]>,
    pub(crate) keys_file: Option<PathBuf>,
    pub(crate) pins_file: Option<PathBuf>,
    /// The key of the audit trail's hashes.
    pub(crate) audit_key: Option<String>,
}

impl ApiSettings {
    pub(crate) fn new(config: &Config) -> Self {
        let keys = config.authn.keys.clone().unwrap_or_default().into();
        let listener = &config.listener;
        let clients_address = ClientsAddress {
            public_url: config.authn.public_url.clone(),
            has_tls: listener.tls.is_some(),
            ports: (listener.listen.port(), config.admin.listen.map(|own| own.port())),
        };
        let access = Arc::new(ApiConfig { clients_address, ..config.admin.api.clone() });
        let keys_file = config.authn.keys_file.clone();
        let audit_key = trail::find_key(&config.telemetry);
        Self { access, keys, keys_file, pins_file: config.proxy.pins.file.clone(), audit_key }
    }
}
