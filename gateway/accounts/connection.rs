//! A grant as its holder and administrators see it: state, scopes and times, never a token.

use std::time::SystemTime;

use lockgate_store::{GrantFilter, GrantRecord};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::account::AccountState;
use crate::grant::About;
use crate::holder::{Holder, new_record, record_holder, record_id};
use crate::records::from_unix_ms;

#[derive(Clone, Debug)]
pub struct Connection {
    /// Identifies holder and server.
    pub id: String,
    pub holder: Holder,
    pub server: String,
    /// `connected`, `needs_scope` or `needs_connect`; in changes also `failed` or `disconnected`.
    pub state: String,
    /// The issuer of the authorization server.
    pub authorization_server: Option<String>,
    pub scopes: Vec<String>,
    /// Scopes that the server required beyond those granted.
    pub needed_scopes: Vec<String>,
    pub connected_at: Option<SystemTime>,
    /// The expiry of the access token.
    pub expires_at: Option<SystemTime>,
    pub updated_at: SystemTime,
    /// Why the grant has ended, or its token could not be renewed.
    pub failure: Option<String>,
}

/// Receives changes of grants.
pub struct ConnectionChanges(pub(crate) broadcast::Receiver<GrantRecord>);

impl ConnectionChanges {
    /// Returns the next change.
    ///
    /// # Errors
    /// Changes were lost, or there are no accounts any more.
    pub async fn recv(&mut self) -> Result<Connection, RecvError> {
        Ok(Connection::new(&self.0.recv().await?))
    }
}

impl Connection {
    pub(crate) fn new(record: &GrantRecord) -> Self {
        let about: About = serde_json::from_str(&record.about).unwrap_or_default();
        let connected_at = about.connected_at.map(from_unix_ms);
        Self {
            id: record.id.clone(),
            holder: record_holder(record),
            server: record.server.clone(),
            state: record.state.clone(),
            authorization_server: about.issuer,
            scopes: about.scopes,
            needed_scopes: about.needed,
            connected_at,
            expires_at: about.expires_at.map(from_unix_ms),
            updated_at: from_unix_ms(record.updated_at),
            failure: about.failure,
        }
    }

    /// Returns the connection of a holder that has none yet.
    #[must_use]
    pub fn missing(server: &str, holder: &Holder) -> Self {
        let id = record_id(holder, server);
        let record = GrantRecord {
            state: AccountState::NeedsConnect.as_str().into(),
            ..new_record(&id, holder, server)
        };
        Self::new(&record)
    }

    pub(crate) fn is_in(&self, filter: GrantFilter<'_>) -> bool {
        let Holder { organisation, issuer, subject, .. } = &self.holder;
        let pairs = [
            (filter.organisation, &**organisation),
            (filter.issuer, issuer),
            (filter.subject, subject),
            (filter.server, &self.server),
        ];
        pairs.iter().all(|(wanted, found)| wanted.is_empty() || wanted == found)
    }
}
