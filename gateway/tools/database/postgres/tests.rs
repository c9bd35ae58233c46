//! Tests of `postgres` against a real server. The role has all rights on the canary, so that only
//! the other layers protect it.

#![allow(clippy::print_stderr, reason = "tests print what they measure")]

use lockgate_upstream::UpstreamState;
use serde_json::json;

use super::*;
use crate::database::config::DatabasePlace;
use crate::database::tests::servers::{self, Identity, Server};
use crate::database::tests::{
    ATTACKS, BENIGN, TABLES, ask, config, connector, knowing, limits, lines, table, tools,
};

/// Setup by the superuser.
const SETUP: [&str; 22] = [
    "CREATE EXTENSION dblink",
    "CREATE EXTENSION pg_prewarm",
    "CREATE ROLE reader LOGIN PASSWORD 'p@ss word'",
    "CREATE ROLE other LOGIN SUPERUSER PASSWORD 'secret'",
    "GRANT ALL ON SCHEMA public TO reader",
    "ALTER DATABASE postgres SET search_path = public",
    "CREATE TABLE canary (id int PRIMARY KEY, note text)",
    "INSERT INTO canary VALUES (1, 'alive'), (2, 'well')",
    "CREATE SEQUENCE canary_seq",
    "CREATE FUNCTION canary_writer() RETURNS int LANGUAGE sql AS 'DELETE FROM canary; SELECT 1'",
    "CREATE FUNCTION canary_adder(int, int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN DELETE FROM canary; RETURN 1; END'",
    "CREATE OPERATOR |+| (LEFTARG = int, RIGHTARG = int, FUNCTION = canary_adder)",
    "CREATE OPERATOR && (LEFTARG = int, RIGHTARG = int, FUNCTION = canary_adder)",
    "CREATE FUNCTION field(canary) RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM canary; RETURN 1; END'",
    "CREATE VIEW canary_view AS SELECT canary_adder(1, 2) AS a",
    "CREATE PROCEDURE planted() LANGUAGE sql AS 'DELETE FROM canary'",
    "CREATE TYPE mood AS ENUM ('happy', 'sad')",
    "GRANT ALL ON ALL TABLES IN SCHEMA public TO reader",
    "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO reader",
    "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO reader",
    "SELECT nextval('canary_seq')",
    "SELECT lo_from_bytea(1, 'object')",
];

/// Hash of all state that an attack could change.
const FINGERPRINT: &str = "SELECT md5(concat( \
    (SELECT string_agg(c::text, ',' ORDER BY id) FROM canary c), (SELECT last_value FROM canary_seq), \
    (SELECT string_agg(relname || relnamespace, ',' ORDER BY oid) FROM pg_class WHERE relnamespace NOT IN (99, 11413)), \
    (SELECT string_agg(proname, ',' ORDER BY oid) FROM pg_proc WHERE oid >= 16384), \
    (SELECT string_agg(rolname || rolsuper || coalesce(rolpassword, ''), ',' ORDER BY oid) FROM pg_authid), \
    (SELECT string_agg(nspname, ',' ORDER BY oid) FROM pg_namespace WHERE nspname NOT LIKE 'pg_t%'), \
    (SELECT string_agg(loid || ':' || encode(data, 'hex'), ',' ORDER BY loid, pageno) FROM pg_largeobject), \
    (SELECT string_agg(slot_name, ',') FROM pg_replication_slots), \
    (SELECT string_agg(setdatabase::text || setconfig::text, ',') FROM pg_db_role_setting), \
    (SELECT string_agg(relacl::text, ',' ORDER BY oid) FROM pg_class WHERE oid >= 16384), \
    (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), \
    (SELECT count(*) FROM pg_prepared_xacts), \
    (SELECT setting FROM pg_settings WHERE name = 'work_mem')))";

fn network(server: &Server, user: &str, password: &str) -> Network {
    Network {
        host: "127.0.0.1".into(),
        port: server.port,
        user: user.into(),
        password: password.into(),
        database: "postgres".into(),
        tls: false,
        privileged: false,
    }
}

fn reader(server: &Server) -> Network {
    network(server, "reader", "p@ss word")
}

async fn superuser(server: &Server) -> Session {
    let connector = connector();
    let network = network(server, "postgres", "secret");
    let began = Instant::now();
    // The port opens shortly before the server accepts logins.
    let mut session = loop {
        match log_in(&connector, &network).await {
            Ok(session) => break session,
            Err(trouble) => assert!(began.elapsed() < Duration::from_secs(60), "{trouble:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    for sql in SETUP {
        own(&mut session, sql, &[]).await.unwrap();
    }
    session
}

async fn tables(session: &mut Session) {
    for sql in TABLES {
        own(session, &table(sql, "JSONB", "TIMESTAMPTZ", ", tags TEXT[]"), &[]).await.unwrap();
    }
    own(session, "GRANT SELECT ON customers, orders, items TO reader", &[]).await.unwrap();
}

async fn fingerprint(session: &mut Session) -> String {
    own(session, FINGERPRINT, &[]).await.unwrap()[0][0].clone().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_attack_has_an_effect_with_the_parser_and_without() {
    let Some(server) = servers::postgres() else { return };
    let mut root = superuser(&server).await;
    let before = fingerprint(&mut root).await;
    let reader = network(&server, "reader", "p@ss word");
    let rig = tools(config(vec![("main", DatabasePlace::Postgres(reader.clone()))], None));
    for attack in lines(ATTACKS, "postgres") {
        let answer = rig.call("database/query", json!({"sql": attack})).await;
        assert!(answer.is_err(), "{attack}: {answer:?}");
        let explained = rig.call("database/explain", json!({"sql": attack})).await;
        assert!(explained.is_err(), "EXPLAIN {attack}: {explained:?}");
    }
    assert_eq!(fingerprint(&mut root).await, before, "after the attacks");

    // Statements that bypass the parser: the transaction, its rollback and the role protect the
    // database on their own.
    let bare = Postgres::new(reader, limits(), connector());
    let unseen = [
        "SELECT 1 |+| 2",
        "SELECT 1 && 2",
        "SELECT c.field FROM canary c",
        "SELECT * FROM canary_view",
        "EXPLAIN (ANALYZE) CREATE TABLE planted AS SELECT 1 AS a",
        "DELETE FROM canary RETURNING *",
    ];
    let attacks = lines(ATTACKS, "postgres").into_iter().chain(unseen.map(str::to_owned));
    let (mut ran, mut count) = (0, 0);
    for attack in attacks {
        let done = bare.run(&ask(&attack)).await;
        count += 1;
        ran += usize::from(done.is_ok());
        assert_eq!(fingerprint(&mut root).await, before, "after {attack}: {done:?}");
    }
    eprintln!("PostgreSQL without the parser: {count} attacks, {ran} ran and left nothing");
    assert!(!std::path::Path::new("/tmp/planted").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn harmless_statements_run() {
    let Some(server) = servers::postgres() else { return };
    tables(&mut superuser(&server).await).await;
    let rig = tools(config(
        vec![("main", DatabasePlace::Postgres(network(&server, "reader", "p@ss word")))],
        None,
    ));
    let mut failed = Vec::new();
    for sql in lines(BENIGN, "postgres") {
        let parameters = if sql.contains("$1::int[]") {
            json!(["{1,2}"])
        } else if sql.contains("$1") {
            json!([1])
        } else {
            json!([])
        };
        if let Err(words) =
            rig.call("database/query", json!({"sql": sql, "parameters": parameters})).await
        {
            failed.push((sql, words));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn types_are_named_when_no_more_names_are_kept() {
    let Some(server) = servers::postgres() else { return };
    tables(&mut superuser(&server).await).await;
    let reader = network(&server, "reader", "p@ss word");
    let postgres = Postgres::new(reader, limits(), connector());
    let names = (1_000_000..).map(|oid| (oid, String::new()));
    postgres.names.lock().extend(names.take(MAX_NAMES));
    for _ in 0..2 {
        let answer = postgres.run(&ask("SELECT 1::int AS one")).await.unwrap();
        assert_eq!(answer.columns[0].kind, "integer");
    }
    assert_eq!(postgres.names.lock().len(), MAX_NAMES);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_come_back_as_they_are() {
    let Some(server) = servers::postgres() else { return };
    tables(&mut superuser(&server).await).await;
    let mut config = config(
        vec![("main", DatabasePlace::Postgres(network(&server, "reader", "p@ss word")))],
        None,
    );
    config
        .connections
        .values_mut()
        .for_each(|connection| connection.functions = vec!["mood".into()]);
    let rig = tools(config);
    let values = "SELECT true, 1::smallint, 9007199254740993::bigint, 42::bigint, 1.5::real, 'NaN'::float8, 1234567890.10::numeric, \
                  '\\xdeadbeef'::bytea, date '2024-02-29', timestamptz '2024-02-29 12:00:00+02', interval '1 day 2 hours', \
                  '{\"a\": [1, 2]}'::jsonb, '{\"a\": 1.10}'::json, ARRAY['a', 'b c'], NULL::text, 'sad'::mood, $1::int + 1, $2";
    let answer =
        rig.call("database/query", json!({"sql": values, "parameters": [41, "ü"]})).await.unwrap();
    assert_eq!(
        answer["rows"][0],
        json!([
            true, 1, "9007199254740993", 42, 1.5, "NaN", "1234567890.10", {"base64": "3q2+7w=="}, "2024-02-29",
            "2024-02-29 10:00:00+00", "P1DT2H", {"a": [1, 2]}, "{\"a\": 1.10}", "{a,\"b c\"}", null, "sad", 42, "ü"
        ])
    );
    let types: Vec<_> =
        answer["columns"].as_array().unwrap().iter().map(|c| c["type"].as_str().unwrap()).collect();
    assert_eq!((types[2], types[6], types[15]), ("bigint", "numeric", "mood"));
    assert_eq!((&answer["row_count"], &answer["truncated"]), (&json!(1), &json!(null)));

    let rows = "SELECT generate_series(1, 500)";
    let hundred = rig.call("database/query", json!({"sql": rows})).await.unwrap();
    assert_eq!((&hundred["row_count"], &hundred["truncated"]), (&json!(100), &json!("max_rows")));
    let large = "SELECT repeat('x', 100000) FROM generate_series(1, 500)";
    let large = rig.call("database/query", json!({"sql": large, "limit": 500})).await.unwrap();
    assert_eq!((&large["row_count"], &large["truncated"]), (&json!(10), &json!("max_bytes")));
    let huge = rig
        .call("database/query", json!({"sql": "SELECT repeat('x', 5000000)"}))
        .await
        .unwrap_err();
    assert!(huge.contains("exceeds the size limit"), "{huge}");
    assert!(
        rig.call("database/query", json!({"sql": "SELECT 1", "parameters": [1]})).await.is_err()
    );
    let wrong =
        rig.call("database/query", json!({"sql": "SELECT nothing FROM orders"})).await.unwrap_err();
    assert!(wrong.contains("column \"nothing\" does not exist"), "{wrong}");

    let tables = rig.call("database/tables", json!({})).await.unwrap();
    let names: Vec<_> =
        tables["tables"].as_array().unwrap().iter().map(|t| t["name"].clone()).collect();
    assert_eq!(names, ["canary", "canary_view", "customers", "items", "orders"]);
    let rest = rig.call("database/tables", json!({"offset": 3})).await.unwrap();
    assert_eq!(
        (&rest["count"], &rest["truncated"], &rest["tables"][1]["name"]),
        (&json!(2), &json!(false), &json!("orders"))
    );
    let schema = rig.call("database/schema", json!({"table": "items"})).await.unwrap();
    assert_eq!(
        schema["columns"][0],
        json!({"name": "id", "type": "integer", "nullable": false, "default": null, "comment": null})
    );
    assert_eq!(schema["keys"][1]["definition"], "FOREIGN KEY (order_id) REFERENCES orders(id)");
    assert_eq!(
        rig.call("database/schema", json!({"table": "orders"})).await.unwrap()["indexes"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert!(rig.call("database/schema", json!({"table": "nothing"})).await.is_err());
    let plan = rig
        .call(
            "database/explain",
            json!({"sql": "SELECT * FROM orders WHERE id = $1", "parameters": [1]}),
        )
        .await
        .unwrap();
    assert!(plan["plan"][0]["Plan"]["Node Type"].is_string(), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_timeouts_and_lost_connections() {
    let Some(server) = servers::postgres() else { return };
    let mut root = superuser(&server).await;
    let rig = tools(config(
        vec![("main", DatabasePlace::Postgres(network(&server, "other", "secret")))],
        None,
    ));
    let refused = rig.call("database/query", json!({"sql": "SELECT 1"})).await.unwrap_err();
    assert!(refused.contains("its role may do more than read"), "{refused}");
    let rig = tools(config(
        vec![("main", DatabasePlace::Postgres(network(&server, "reader", "wrong")))],
        None,
    ));
    let refused = rig.call("database/query", json!({"sql": "SELECT 1"})).await.unwrap_err();
    assert!(refused.contains("cannot be reached") && !refused.contains("reader"), "{refused}");

    let reader = network(&server, "reader", "p@ss word");
    let rig = tools(config(vec![("main", DatabasePlace::Postgres(reader.clone()))], None));
    let slow =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    let late =
        rig.call("database/query", json!({"sql": slow, "timeout_ms": 200})).await.unwrap_err();
    assert!(
        late.contains("the statement took longer than") && late.contains("ms: request less"),
        "{late}"
    );
    let large = rig
        .call("database/query", json!({"sql": "SELECT repeat('x', 3000000)"}))
        .await
        .unwrap_err();
    assert!(
        large.contains(
            "a value exceeds the size limit of a result (1048576 bytes): select its length"
        ),
        "{large}"
    );
    assert!(rig.call("database/query", json!({"sql": "SELECT 1"})).await.is_ok());
    assert!(rig.call("database/query", json!({"sql": "SELECT 1"})).await.is_ok());
    let running =
        "SELECT count(*)::text FROM pg_stat_activity WHERE usename = 'reader' AND state = 'active'";
    let call = rig.call("database/query", json!({"sql": slow}));
    assert!(tokio::time::timeout(Duration::from_millis(500), call).await.is_err());
    for _ in 0..100 {
        if own(&mut root, running, &[]).await.unwrap()[0][0].as_deref() == Some("0") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(
        own(&mut root, running, &[]).await.unwrap()[0][0].as_deref(),
        Some("0"),
        "a statement that nobody waits for"
    );

    // Callers that leave in every phase of a statement. Each keeps its slot until its statement has
    // ended.
    let count = async |root: &mut Session| -> usize {
        own(root, running, &[]).await.unwrap()[0][0].as_deref().unwrap().parse().unwrap()
    };
    for milliseconds in [1, 2, 4, 7, 10, 15, 20, 30, 50, 80] {
        let calls = (0..2 * limits().pool).map(|_| {
            let call = rig.call("database/query", json!({"sql": slow, "timeout_ms": 20_000}));
            tokio::time::timeout(Duration::from_millis(milliseconds), call)
        });
        futures_join(calls).await;
        assert!(count(&mut root).await <= limits().pool, "after {milliseconds} ms");
    }
    let began = Instant::now();
    while count(&mut root).await > 0 {
        assert!(began.elapsed() < Duration::from_secs(5), "statements that nobody waits for");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(rig.call("database/query", json!({"sql": "SELECT 1"})).await.is_ok());

    let kill =
        "SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE usename = 'reader'";
    assert!(rig.call("database/query", json!({"sql": "SELECT 1"})).await.is_ok());
    own(&mut root, kill, &[]).await.unwrap();
    assert!(
        rig.call("database/query", json!({"sql": "SELECT 1"})).await.is_ok(),
        "a pooled connection that died"
    );
    let all = (0..16).map(|_| {
        rig.call("database/query", json!({"sql": "SELECT count(*) FROM generate_series(1, 1000)"}))
    });
    for answer in futures_join(all).await {
        assert_eq!(answer.unwrap()["rows"], json!([[1000]]));
    }
    let held = "SELECT count(*)::text FROM pg_stat_activity WHERE usename = 'reader'";
    assert!(
        own(&mut root, held, &[]).await.unwrap()[0][0]
            .as_deref()
            .unwrap()
            .parse::<usize>()
            .unwrap()
            <= limits().pool
    );
}

/// Runs all futures concurrently in this task.
async fn futures_join<F: Future<Output = T>, T>(all: impl Iterator<Item = F>) -> Vec<T> {
    let mut running: Vec<_> = all.map(Box::pin).collect();
    let mut done: Vec<Option<T>> = running.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (at, future) in running.iter_mut().enumerate() {
            if done[at].is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                done[at] = Some(value);
            }
        }
        if done.iter().all(Option::is_some) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// Prints p95 of `SELECT 1` through the tool and through the bare protocol.
#[tokio::test(flavor = "multi_thread")]
async fn what_select_1_costs_is_told() {
    let Some(server) = servers::postgres() else { return };
    superuser(&server).await;
    let reader = network(&server, "reader", "p@ss word");
    let rig = tools(config(vec![("main", DatabasePlace::Postgres(reader.clone()))], None));
    let mut session = log_in(&connector(), &reader).await.unwrap();
    let (mut bare, mut tool) = (Vec::new(), Vec::new());
    for _ in 0..500 {
        let began = Instant::now();
        own(&mut session, "SELECT 1", &[]).await.unwrap();
        bare.push(began.elapsed());
        let began = Instant::now();
        rig.call("database/query", json!({"sql": "SELECT 1"})).await.unwrap();
        tool.push(began.elapsed());
    }
    for (name, mut times) in [("bare", bare), ("tool", tool)] {
        times.sort();
        assert!(times[250] < Duration::from_millis(500), "{name}: {:?}", times[250]);
        eprintln!("PostgreSQL {name}: p50 {:?}, p95 {:?}", times[250], times[475]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_authority_is_trusted_when_the_operator_names_it() {
    let identity = Identity::new();
    let Some(server) = servers::postgres_as(Some(&identity)) else { return };
    superuser(&server).await;
    let secured = Network { tls: true, ..reader(&server) };
    let known = Postgres::new(secured.clone(), limits(), Arc::new(knowing(&identity.authority)));
    let encrypted = known
        .run(&ask("SELECT ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()"))
        .await
        .unwrap();
    assert_eq!(encrypted.rows, [[json!("true")]]);
    let unknown =
        Postgres::new(secured, limits(), connector()).run(&ask("SELECT 1")).await.unwrap_err();
    assert!(
        unknown.0.contains("certificate") && unknown.0.contains("egress.ca_file"),
        "{unknown:?}"
    );
    // The certificate is valid for the address, not for the name.
    let named = Network { tls: true, host: "localhost".into(), ..reader(&server) };
    let named = Postgres::new(named, limits(), Arc::new(knowing(&identity.authority)))
        .run(&ask("SELECT 1"))
        .await;
    assert!(named.unwrap_err().0.contains("certificate"));
}

/// The server's state follows the database: it reports the database's reason, and recovers by
/// itself.
#[tokio::test(flavor = "multi_thread")]
async fn the_state_follows_the_database() {
    let Some(server) = servers::postgres() else { return };
    let mut root = superuser(&server).await;
    own(&mut root, "ALTER ROLE reader NOLOGIN", &[]).await.unwrap();
    let rig = tools(config(vec![("main", DatabasePlace::Postgres(reader(&server)))], None));
    let becomes = async |state: UpstreamState, words: &str| {
        let began = Instant::now();
        loop {
            let status = rig.builtin.servers()[0].status();
            let trouble = status.trouble.as_ref().map(ToString::to_string).unwrap_or_default();
            if status.state == state && trouble.contains(words) {
                return trouble;
            }
            // On a busy machine, the first failure may be a timeout.
            assert!(began.elapsed() < Duration::from_secs(60), "{trouble}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let trouble = becomes(UpstreamState::Failed, "is not permitted to log in").await;
    assert!(trouble.contains("connection main: 127.0.0.1:"), "{trouble}");
    assert!(!trouble.contains("p@ss word"), "{trouble}");
    own(&mut root, "ALTER ROLE reader LOGIN", &[]).await.unwrap();
    assert_eq!(becomes(UpstreamState::Connected, "").await, "");
    assert!(rig.call("database/query", json!({"sql": "SELECT 1"})).await.is_ok());
}
