//! Reads the store over a separate connection that changes do not wait for: each organisation that
//! has changed since the previous read, in a consistent snapshot, or everything if the previous
//! read is not comparable. Only an older schema is changed, by its migration. Also waits for
//! changes by other gateways: PostgreSQL's notifications, and a poll for lost notifications.

use std::collections::HashSet;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::connection::Connection;
use crate::database::{Store, within};
use crate::error::{Result, StoreError};
use crate::file::Identity;
use crate::postgres::PostgresConnection;
use crate::schema;
use crate::value::{OrganisationRecords, Record, Row, Value, from_rows};

const CLOCK: &str = "SELECT revision, epoch FROM clock WHERE id = 1";
const ORGANISATIONS: &str =
    "SELECT id, revision, created_at FROM organisations WHERE revision > $1 ORDER BY revision";
const COUNT: &str = "SELECT COUNT(*) FROM organisations";
const IDS: &str = "SELECT id FROM organisations";
const INTEGRATIONS: &str =
    "SELECT * FROM integrations WHERE organisation = $1 ORDER BY created_at, id";
const AGENTS: &str = "SELECT * FROM agents WHERE organisation = $1 ORDER BY created_at, id";
const ASSIGNMENTS: &str = "SELECT agent, integration AS server, created_at FROM assignments \
    WHERE organisation = $1 UNION ALL SELECT agent, server, created_at FROM agent_servers \
    WHERE organisation = $1 ORDER BY created_at, server";
const HIDDEN_TOOLS: &str =
    "SELECT agent, server, tool FROM agent_hidden_tools WHERE organisation = $1 ORDER BY tool";

/// The position of a reader, and its connection.
#[derive(Default)]
pub struct Reader {
    connection: Option<Connection>,
    identity: Option<Identity>,
    /// Epoch of the previous read; empty if everything must be read.
    epoch: String,
    /// Revision of the previous read.
    revision: i64,
    /// The organisations at that revision.
    known: HashSet<String>,
}

#[derive(Debug)]
pub enum FoundRecords {
    /// The current rows of an organisation.
    Organisation(OrganisationRecords),
    /// The ids of all organisations. Any other organisation was deleted.
    All(HashSet<String>),
}

impl Store {
    /// Passes every organisation that has changed since the previous read to `take`, in the order
    /// of revisions. Organisations passed before an error remain valid. Reads everything over a new
    /// connection, in a new epoch, and after the clock went back.
    pub async fn read(
        &self,
        reader: &mut Reader,
        mut take: impl FnMut(FoundRecords) + Send,
    ) -> Result<()> {
        let identity = self.identify()?;
        if identity != reader.identity {
            reader.connection = None;
        }
        // Put back only on success: a connection that failed halfway is not reused.
        if let Some(mut connection) = reader.connection.take() {
            match self.read_over(&mut connection, reader, &mut take).await {
                // A new connection may still succeed. A database that hangs is not asked again,
                // which would double the time until the failure is logged.
                Err(error @ StoreError::Unavailable(_)) if !error.is_no_answer() => {}
                read => {
                    reader.connection = read.is_ok().then_some(connection);
                    return read;
                }
            }
        }
        let Some(mut connection) = self.connect_reader().await? else { return Ok(()) };
        reader.identity = identity;
        reader.epoch.clear();
        self.read_over(&mut connection, reader, &mut take).await?;
        reader.connection = Some(connection);
        Ok(())
    }

    /// Connects to the newest schema; `None` if nothing has been stored yet.
    async fn connect_reader(&self) -> Result<Option<Connection>> {
        let Some((connection, found)) = self.look().await? else { return Ok(None) };
        if found == schema::NEWEST_VERSION {
            return Ok(Some(connection));
        }
        drop(connection);
        // An older schema lacks columns that are read here, so it is migrated first.
        self.pool().await?;
        let looked = self.look().await?;
        Ok(looked.map(|(connection, _)| connection))
    }

    async fn read_over(
        &self,
        connection: &mut Connection,
        reader: &mut Reader,
        take: &mut (impl FnMut(FoundRecords) + Send),
    ) -> Result<()> {
        // Begins a consistent snapshot.
        let begin = if connection.is_postgres() {
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        } else {
            "BEGIN"
        };
        within(connection.run(begin)).await?;
        let (revision, epoch) = within(read_clock(connection)).await?;
        let is_whole = epoch != reader.epoch || revision < reader.revision;
        let since = if is_whole { i64::MIN } else { reader.revision };
        if since < revision {
            let mut changed = HashSet::new();
            for mut records in within(list_changed(connection, since)).await? {
                within(read_organisation(connection, &mut records)).await?;
                if !is_whole {
                    reader.revision = records.revision;
                }
                changed.insert(records.id.clone());
                take(FoundRecords::Organisation(records));
            }
            if is_whole {
                reader.known = changed;
            } else {
                reader.known.extend(changed);
            }
            let is_one_gone = within(forget_deleted(connection, &mut reader.known)).await?;
            if is_whole || is_one_gone {
                take(FoundRecords::All(reader.known.clone()));
            }
        }
        reader.epoch = epoch;
        reader.revision = revision;
        within(connection.run("ROLLBACK")).await
    }

    /// Checks that every row can be read.
    pub(crate) async fn check_rows(&self, connection: &mut Connection) -> Result<()> {
        within(connection.run("BEGIN")).await?;
        let mut unreadable = Vec::new();
        for mut records in within(list_changed(connection, i64::MIN)).await? {
            within(read_organisation(connection, &mut records)).await?;
            unreadable.append(&mut records.unreadable);
        }
        within(connection.run("ROLLBACK")).await?;
        if unreadable.is_empty() {
            return Ok(());
        }
        Err(StoreError::Refused(format!("these rows cannot be read: {}", unreadable.join(", "))))
    }
}

async fn read_clock(connection: &mut Connection) -> Result<(i64, String)> {
    let row = connection.find(CLOCK, &[]).await?;
    let row = row.ok_or_else(|| StoreError::Refused("its clock is missing".into()))?;
    Ok((row.get("revision")?, row.get("epoch")?))
}

/// Removes deleted organisations from `known`, and returns whether there were any. A deletion
/// leaves no row with a revision, but fewer rows than are known.
async fn forget_deleted(connection: &mut Connection, known: &mut HashSet<String>) -> Result<bool> {
    let count: i64 = connection.scalar(COUNT, &[]).await?;
    if usize::try_from(count).is_ok_and(|count| count == known.len()) {
        return Ok(false);
    }
    let rows = connection.list(IDS, &[]).await?;
    *known = rows.iter().map(Row::first).collect::<Result<_, _>>()?;
    Ok(true)
}

/// Lists the organisations with a greater revision, without their rows.
async fn list_changed(connection: &mut Connection, since: i64) -> Result<Vec<OrganisationRecords>> {
    let rows = connection.list(ORGANISATIONS, &[since.into()]).await?;
    let changed = rows.iter().map(|row| {
        Ok(OrganisationRecords {
            id: row.get("id")?,
            revision: row.get("revision")?,
            created_at: row.get("created_at")?,
            ..OrganisationRecords::default()
        })
    });
    changed.collect()
}

/// Reads the rows of an organisation. An unreadable row is recorded and left out, so that the
/// others remain available.
async fn read_organisation(
    connection: &mut Connection,
    records: &mut OrganisationRecords,
) -> Result<()> {
    let id = [Value::from(&records.id)];
    let integrations = connection.list(INTEGRATIONS, &id).await?;
    records.integrations = take_readable(&integrations, records);
    let agents = connection.list(AGENTS, &id).await?;
    records.agents = take_readable(&agents, records);
    records.assignments = from_rows(&connection.list(ASSIGNMENTS, &id).await?)?;
    records.hidden_tools = from_rows(&connection.list(HIDDEN_TOOLS, &id).await?)?;
    Ok(())
}

fn take_readable<T: Record>(rows: &[Row], records: &mut OrganisationRecords) -> Vec<T> {
    let mut readable = Vec::with_capacity(rows.len());
    for row in rows {
        match T::from_row(row) {
            Ok(record) => readable.push(record),
            Err(error) => {
                let id = row.get("id").unwrap_or_else(|_| "a row without an id".to_owned());
                tracing::error!(id, organisation = records.id, %error, "a stored row cannot be \
                    read and is ignored");
                records.unreadable.push(id);
            }
        }
    }
    readable
}

/// Timeout for connecting and subscribing.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// A waiter for changes by other gateways.
pub struct Follower<'a> {
    store: &'a Store,
    listener: Option<PostgresConnection>,
    /// A task, so that it continues when `wait` is cancelled.
    connecting: Option<JoinHandle<Option<PostgresConnection>>>,
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        if let Some(connecting) = &self.connecting {
            connecting.abort();
        }
    }
}

impl Store {
    pub fn follow(&self) -> Follower<'_> {
        Follower { store: self, listener: None, connecting: None }
    }
}

impl Follower<'_> {
    /// Waits for a change, or for about `poll`, because a notification may be lost.
    pub async fn wait(&mut self, poll: Duration) {
        if tokio::time::timeout(poll, self.hear()).await == Ok(false) {
            self.listener = None;
            tokio::time::sleep(poll).await;
        }
    }

    /// Waits for a notification. Returns `false` without a working subscription. Must be cheap to
    /// cancel; the poll finds a change if its notification is lost.
    async fn hear(&mut self) -> bool {
        if self.listener.is_none() {
            let Some(url) = self.store.postgres() else { return false };
            let connecting = match &mut self.connecting {
                Some(connecting) => connecting,
                None => self.connecting.insert(tokio::spawn(listen(url.to_owned()))),
            };
            let connected = connecting.await;
            self.connecting = None;
            let Ok(Some(listener)) = connected else { return false };
            self.listener = Some(listener);
        }
        let Some(listener) = &mut self.listener else { return false };
        listener.wait_for_notification().await.is_ok()
    }
}

async fn listen(url: String) -> Option<PostgresConnection> {
    let listening = async {
        let mut listener = PostgresConnection::open(&url).await?;
        listener.run("LISTEN lockgate").await?;
        Ok::<_, StoreError>(listener)
    };
    tokio::time::timeout(CONNECT_TIMEOUT, listening).await.ok()?.ok()
}
