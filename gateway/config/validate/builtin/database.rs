//! `builtin.database`: connections by URL or file, and their names. Connects to nothing, and no
//! message shows a URL.

use std::path::Path;

use lockgate_text::percent;
use lockgate_tools::{Database, DatabaseConnection, DatabaseNetwork, DatabasePlace, EMBEDDED};
use url::{Host, Url};

use super::super::Check;
use crate::source::environment::find_set;

const MAX_CONNECTIONS: usize = 64;
const MAX_NAME: usize = 40;
const VARIABLE: &str = "DATABASE_URL";
const FROM_VARIABLE: &str = "default";
const FOLDER: &str = "lockgate-data";
const EXAMPLE: &str = "such as postgres://reader:${DB_PASSWORD}@db.example:5432/shop";

impl Check<'_> {
    pub(super) fn database(&mut self, database: &mut Database) {
        let all = "builtin.database.connections";
        self.at_most(all, database.connections.len(), MAX_CONNECTIONS, "remove some");
        for (name, connection) in &mut database.connections {
            self.within(all, name, |check| {
                if !is_name(name) || name == EMBEDDED {
                    let what = format!("is not a valid connection name (`{EMBEDDED}` is reserved)");
                    let hint = format!("use 1 to {MAX_NAME} lowercase letters, digits, - and _");
                    check.error("", what, hint);
                }
                connection.place = check.database_place(connection);
            });
        }
        if let Some(url) = find_set(&self.sources.env, VARIABLE)
            && !database.connections.contains_key(FROM_VARIABLE)
        {
            let mut connection =
                DatabaseConnection { url: Some(url.clone()), ..DatabaseConnection::default() };
            connection.place =
                self.within("builtin", "database", |check| check.database_place(&connection));
            database.connections.insert(FROM_VARIABLE.into(), connection);
        }
        database.embedded.folder.get_or_insert_with(|| self.sources.cwd.join(FOLDER));
        database.max_timeout = database.max_timeout.max(database.timeout);
        self.database_default(database);
    }

    fn database_default(&mut self, database: &mut Database) {
        let mut all: Vec<&str> = database.connections.keys().map(String::as_str).collect();
        all.extend(database.embedded.enabled.then_some(EMBEDDED));
        let default = match &database.default {
            Some(name) => all.iter().find(|other| *other == name),
            None => all.iter().find(|name| **name == FROM_VARIABLE).or(all.first()),
        };
        match default {
            Some(name) => database.default = Some((*name).to_owned()),
            None if database.default.is_some() => {
                let hint = "use one of `connections`, or `embedded`";
                self.error("builtin.database.default", "is not a connection", hint);
            }
            None => {
                let hint = "set `connections`, or keep `embedded` on";
                self.error("builtin.database", "has no database", hint);
            }
        }
    }

    fn database_place(&mut self, given: &DatabaseConnection) -> Option<DatabasePlace> {
        match (&given.url, &given.file) {
            (None, Some(file)) => Some(DatabasePlace::Sqlite(self.file("file", Path::new(file)))),
            (Some(url), None) => {
                network(url, given).map_err(|words| self.error("url", words, EXAMPLE)).ok()
            }
            _ => {
                self.error("", "requires either `url` or `file`", EXAMPLE);
                None
            }
        }
    }
}

fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c))
}

/// Parses a URL. Error messages never quote it.
fn network(url: &str, given: &DatabaseConnection) -> Result<DatabasePlace, &'static str> {
    let Ok(url) = Url::parse(url) else { return Err("is not a URL") };
    let port = match url.scheme() {
        "postgres" | "postgresql" => 5432,
        "mysql" | "mariadb" => 3306,
        _ => return Err("must begin with postgres:// or mysql://"),
    };
    let host = url.host_str().unwrap_or("");
    if host.is_empty() {
        return Err("has no host");
    }
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let user = decoded(url.username())?;
    let password = decoded(url.password().unwrap_or(""))?;
    let database = decoded(url.path().trim_start_matches('/'))?;
    if user.is_empty() || database.is_empty() || database.contains('/') {
        return Err("must have a user and the name of a database");
    }
    if url.fragment().is_some() {
        return Err("must have no fragment: write # as %23");
    }
    let nearby = matches!(&*host, "localhost" | "127.0.0.1" | "::1")
        || matches!(url.host(), Some(Host::Ipv4(address)) if address.is_loopback());
    let mut tls = !nearby;
    for (name, value) in url.query_pairs() {
        match (&*name, &*value) {
            ("sslmode", "disable") => tls = false,
            ("sslmode", "require" | "verify-ca" | "verify-full") => tls = true,
            _ => {
                return Err(
                    "has an unknown parameter: only sslmode is supported, as disable, require, \
                        verify-ca or verify-full",
                );
            }
        }
    }
    tls = given.tls.unwrap_or(tls);
    let postgres = port == 5432;
    let network = DatabaseNetwork {
        host,
        port: url.port().unwrap_or(port),
        user,
        password,
        database,
        tls,
        privileged: given.allow_privileged_role,
    };
    Ok(if postgres { DatabasePlace::Postgres(network) } else { DatabasePlace::Mysql(network) })
}

fn decoded(text: &str) -> Result<String, &'static str> {
    const WRONG: &str = "has a % that is not followed by two hexadecimal digits of UTF-8";
    let Some(bytes) = percent::decode_strictly(text) else { return Err(WRONG) };
    let Ok(text) = String::from_utf8(bytes) else { return Err(WRONG) };
    Ok(text)
}
