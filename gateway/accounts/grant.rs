//! A grant: tokens, and the authorization server, client and resource that they are bound to; its
//! stored forms, sealed and for lists; and its form for holders and administrators, which has no
//! token.

use std::time::{Duration, SystemTime};

use http::HeaderValue;
use http::header::AUTHORIZATION;
use lockgate_store::{GrantFilter, GrantRecord, Secret};
use lockgate_text::date::{from_ms, to_ms};
use lockgate_text::json;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use url::Url;

use crate::challenge::StepUp;
use crate::config::{Authentication, Method, ServerConfig};
use crate::discovery::{Discovered, canonical, is_same_or_parent};
use crate::error::Result;
use crate::holder::{Holder, new_record, record_holder, record_id};
use crate::records::seal_text;
use crate::token_endpoint::{ClientIdentity, Tokens, write_header};

/// How long before its expiry a token is refreshed, at most a tenth of its lifetime.
const REFRESH_AHEAD: Duration = Duration::from_secs(60);
/// How long before its expiry an exchanged token is replaced.
const EXCHANGED_AHEAD: Duration = Duration::from_secs(30);
const BEARER: &str = "Bearer ";

#[derive(Clone)]
pub(crate) struct Grant {
    /// The value of `Authorization`.
    pub(crate) header: HeaderValue,
    pub(crate) refresh: Option<Secret>,
    pub(crate) scopes: Vec<String>,
    pub(crate) issuer: String,
    pub(crate) resource: String,
    pub(crate) client: ClientIdentity,
    /// When to refresh ahead of the expiry, and the expiry.
    pub(crate) times: Option<(SystemTime, SystemTime)>,
    pub(crate) connected_at: SystemTime,
    /// Authorizations that a server required for an operation, in the last hour.
    pub(crate) upgrades: Vec<Upgrade>,
}

/// An authorization that a server required for an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Upgrade {
    /// Milliseconds since 1970.
    pub(crate) at: i64,
    /// The scopes beyond those granted, sorted.
    pub(crate) scopes: Vec<String>,
    pub(crate) step_up: Option<StepUp>,
}

impl Upgrade {
    /// Returns whether this authorization was for the same requirements, or for more.
    pub(crate) fn covers(&self, wanted: &Self) -> bool {
        wanted.scopes.iter().all(|scope| self.scopes.contains(scope))
            && (wanted.step_up.is_none() || wanted.step_up == self.step_up)
    }
}

/// The sealed form.
#[derive(Serialize, Deserialize)]
struct StoredGrant {
    access: String,
    refresh: Option<String>,
    scopes: Vec<String>,
    issuer: String,
    resource: String,
    client: StoredClient,
    due: Option<i64>,
    end: Option<i64>,
    connected_at: i64,
    upgrades: Vec<Upgrade>,
}

/// A client without the key of the configuration.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct StoredClient {
    pub(crate) id: String,
    secret: Option<String>,
}

/// The form for lists, without secrets.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct About {
    pub(crate) issuer: Option<String>,
    pub(crate) scopes: Vec<String>,
    /// Scopes that the server required beyond those granted.
    pub(crate) needed: Vec<String>,
    pub(crate) step_up: Option<StepUp>,
    pub(crate) connected_at: Option<i64>,
    pub(crate) expires_at: Option<i64>,
    /// Whether the last change was a new token for the same authorization.
    pub(crate) is_renewed: bool,
    pub(crate) failure: Option<String>,
}

impl Grant {
    pub(crate) fn new(
        tokens: Tokens,
        requested: Vec<String>,
        found: &Discovered,
        client: ClientIdentity,
    ) -> Self {
        let now = SystemTime::now();
        let times = tokens.lifetime.map(|lifetime| {
            let ahead = REFRESH_AHEAD.min(lifetime / 10);
            (now + lifetime - ahead, now + lifetime)
        });
        Self {
            header: tokens.header,
            refresh: tokens.refresh,
            scopes: tokens.scopes.unwrap_or(requested),
            issuer: found.server.issuer.clone(),
            resource: found.resource.clone(),
            client,
            times,
            connected_at: now,
            upgrades: Vec::new(),
        }
    }

    /// Ends the token's use before this time, and half a minute before its own expiry, or after
    /// half of a shorter lifetime.
    pub(crate) fn limit(&mut self, mut end: SystemTime) {
        if let Some((_, own)) = self.times {
            let left = own.duration_since(SystemTime::now()).unwrap_or_default();
            end = end.min(own - EXCHANGED_AHEAD.min(left / 2));
        }
        self.times = Some((end, end));
    }

    /// Creates the grant of a key that its user has entered.
    pub(crate) fn of_key(key: &str, config: &ServerConfig) -> Result<Self> {
        Ok(Self {
            header: write_value(key, config)?,
            refresh: None,
            scopes: Vec::new(),
            issuer: String::new(),
            resource: canonical(&config.url),
            client: ClientIdentity { id: String::new(), authentication: Authentication::None },
            times: None,
            connected_at: SystemTime::now(),
            upgrades: Vec::new(),
        })
    }

    /// Returns whether the token has expired or soon will.
    pub(crate) fn is_due(&self) -> bool {
        self.times.is_some_and(|(due, _)| due <= SystemTime::now())
    }

    /// Returns whether the token is not known to have expired.
    pub(crate) fn is_fresh(&self) -> bool {
        self.times.is_none_or(|(_, end)| end > SystemTime::now())
    }

    /// Returns whether the grant is for this server and its authorization server.
    pub(crate) fn is_for(&self, config: &ServerConfig) -> bool {
        // Keys of users have no issuer.
        self.issuer.is_empty() == (config.method == Method::UserKey)
            && is_same_or_parent(&self.resource, &config.url)
            && config.issuer.as_ref().is_none_or(|issuer| *issuer == self.issuer)
    }

    /// Returns the grant as text, for sealing.
    pub(crate) fn write(&self) -> Result<Secret> {
        let header = self.header.to_str().unwrap_or_default();
        let access = header.strip_prefix(BEARER).unwrap_or(header);
        let refresh = self.refresh.as_ref().map(|token| token.expose().to_owned());
        let stored = StoredGrant {
            access: access.to_owned(),
            refresh,
            scopes: self.scopes.clone(),
            issuer: self.issuer.clone(),
            resource: self.resource.clone(),
            client: StoredClient::new(&self.client),
            due: self.times.map(|(due, _)| to_ms(due)),
            end: self.times.map(|(_, end)| to_ms(end)),
            connected_at: to_ms(self.connected_at),
            upgrades: self.upgrades.clone(),
        };
        seal_text(&stored)
    }

    /// Reads a grant that [`Self::write`] returned.
    pub(crate) fn read(text: &Secret, config: &ServerConfig) -> Option<Self> {
        let stored: StoredGrant = json::from_str(text.expose()).ok()?;
        let header = write_value(&stored.access, config).ok()?;
        let times = stored.due.zip(stored.end);
        Some(Self {
            header,
            refresh: stored.refresh.map(Secret::new),
            scopes: stored.scopes,
            issuer: stored.issuer,
            resource: stored.resource,
            client: stored.client.identity(config),
            times: times.map(|(due, end)| (from_ms(due), from_ms(end))),
            connected_at: from_ms(stored.connected_at),
            upgrades: stored.upgrades,
        })
    }

    /// Returns the address of the server of a grant that [`Self::write`] returned.
    pub(crate) fn resource_of(text: &Secret) -> Option<Url> {
        let stored: StoredGrant = json::from_str(text.expose()).ok()?;
        Url::parse(&stored.resource).ok()
    }

    /// Returns the token whose revocation ends the grant, and the parameter that names its kind.
    pub(crate) fn revocable(&self) -> (&str, (&'static str, &'static str)) {
        if let Some(refresh) = &self.refresh {
            return (refresh.expose(), ("token_type_hint", "refresh_token"));
        }
        let header = self.header.to_str().unwrap_or_default();
        let access = header.strip_prefix(BEARER).unwrap_or_default();
        (access, ("token_type_hint", "access_token"))
    }

    pub(crate) fn describe(&self) -> About {
        About {
            issuer: Some(self.issuer.clone()).filter(|issuer| !issuer.is_empty()),
            scopes: self.scopes.clone(),
            connected_at: Some(to_ms(self.connected_at)),
            expires_at: self.times.map(|(_, end)| to_ms(end)),
            ..About::default()
        }
    }
}

/// Returns the value of the server's header with a token or a key.
fn write_value(token: &str, config: &ServerConfig) -> Result<HeaderValue> {
    let bearer = write_header(token)?;
    let Ok(mut plain) = HeaderValue::from_str(token) else { return Ok(bearer) };
    plain.set_sensitive(true);
    Ok(if config.header == AUTHORIZATION { bearer } else { plain })
}

impl StoredClient {
    pub(crate) fn new(client: &ClientIdentity) -> Self {
        let secret = match &client.authentication {
            Authentication::Secret(secret) | Authentication::RegisteredSecret(secret) => {
                Some(secret.expose().to_owned())
            }
            Authentication::None | Authentication::Key(_) => None,
        };
        Self { id: client.id.clone(), secret }
    }

    /// Returns the client, with the authentication of the configuration if it is the operator's.
    pub(crate) fn identity(self, config: &ServerConfig) -> ClientIdentity {
        match &config.client {
            Some(client) if client.id == self.id => client.clone(),
            _ => {
                let secret = self.secret.map(Secret::new);
                let authentication =
                    secret.map_or(Authentication::None, Authentication::RegisteredSecret);
                ClientIdentity { id: self.id, authentication }
            }
        }
    }
}

lockgate_text::words! {
    /// The state of an account, for its holder.
    pub enum AccountState {
        Connected = "connected",
        NeedsConnect = "needs_connect",
        NeedsScope = "needs_scope",
        Failed = "failed",
    }
}

/// A grant as its holder and administrators see it, without tokens.
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
        let about: About = json::from_str(&record.about).unwrap_or_default();
        let connected_at = about.connected_at.map(from_ms);
        Self {
            id: record.id.clone(),
            holder: record_holder(record),
            server: record.server.clone(),
            state: record.state.clone(),
            authorization_server: about.issuer,
            scopes: about.scopes,
            needed_scopes: about.needed,
            connected_at,
            expires_at: about.expires_at.map(from_ms),
            failure: about.failure,
        }
    }

    /// Returns the connection of a holder that has none yet.
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
