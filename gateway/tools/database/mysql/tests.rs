//! Tests of `mysql` against a real MariaDB and, if installed, a real MySQL, with the same steps.
//! The role has all rights on the canary's database, so that only the other layers protect it.

#![allow(clippy::print_stderr, reason = "tests print what they measure")]

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use lockgate_policy::sql::{Dialect, Spec, Sql as Rule};
use serde_json::json;

use super::*;
use crate::database::config::DatabasePlace;
use crate::database::tests::servers::{self, Identity, Server};
use crate::database::tests::{
    ATTACKS, BENIGN, TABLES, ask, config, connector, knowing, limits, lines, table, tools,
};

const SETUP: [&str; 18] = [
    "CREATE DATABASE test CHARACTER SET utf8mb4",
    "USE test",
    "CREATE TABLE canary (id int PRIMARY KEY, note text, FULLTEXT (note)) ENGINE=InnoDB",
    "INSERT INTO canary VALUES (1, 'alive'), (2, 'well')",
    "CREATE FUNCTION canary_writer() RETURNS int MODIFIES SQL DATA BEGIN DELETE FROM canary; RETURN 1; END",
    "CREATE PROCEDURE planted() BEGIN COMMIT; START TRANSACTION READ WRITE; DELETE FROM canary; COMMIT; END",
    "CREATE VIEW canary_view AS SELECT canary_writer() AS a",
    "CREATE USER reader IDENTIFIED BY 'p@ss word'",
    "CREATE USER other IDENTIFIED BY 'secret'",
    "GRANT ALL ON test.* TO reader",
    "GRANT FILE, SELECT ON *.* TO other",
    "CREATE USER looker IDENTIFIED BY 'look'",
    "GRANT SELECT ON test.* TO looker",
    "CREATE ROLE filing",
    "GRANT FILE ON *.* TO filing",
    "CREATE USER filer IDENTIFIED BY 'file'",
    "GRANT filing TO filer",
    "GRANT SELECT ON test.* TO filer",
];

/// Statements that differ between MariaDB and MySQL. MySQL has no sequences, so a table replaces
/// the sequence.
const ON_MARIADB: [&str; 3] = [
    "CREATE SEQUENCE canary_seq",
    "SELECT nextval(canary_seq)",
    "SET DEFAULT ROLE filing FOR filer",
];
const ON_MYSQL: [&str; 3] = [
    "CREATE TABLE canary_seq (next_not_cached_value int)",
    "INSERT INTO canary_seq VALUES (1)",
    "SET DEFAULT ROLE filing TO filer",
];

const FINGERPRINT: &str = "SELECT sha2(concat_ws(';', \
    (SELECT group_concat(id, note ORDER BY id) FROM test.canary), \
    (SELECT group_concat(table_schema, table_name, table_type ORDER BY 1, 2) FROM information_schema.tables \
     WHERE table_schema NOT IN ('information_schema', 'performance_schema')), \
    (SELECT group_concat(routine_name ORDER BY 1) FROM information_schema.routines), \
    (SELECT group_concat(user, host, authentication_string ORDER BY 1, 2) FROM mysql.user), \
    (SELECT group_concat(event_name ORDER BY 1) FROM information_schema.events), \
    (SELECT group_concat(trigger_name ORDER BY 1) FROM information_schema.triggers WHERE trigger_schema = 'test'), \
    (SELECT group_concat(schema_name ORDER BY 1) FROM information_schema.schemata), \
    @@global.general_log, is_used_lock('a'), (SELECT next_not_cached_value FROM test.canary_seq)), 256)";

fn network(server: &Server, user: &str, password: &str, database: &str) -> Network {
    Network {
        host: "127.0.0.1".into(),
        port: server.port,
        user: user.into(),
        password: password.into(),
        database: database.into(),
        tls: false,
        privileged: false,
    }
}

async fn superuser(server: &Server) -> Conn {
    let options = OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(server.port)
        .user(Some("root"))
        .prefer_socket(false);
    let mut conn = Conn::new(Opts::from(options)).await.unwrap();
    let mariadb = name(&mut conn).await.contains("MariaDB");
    let own = if mariadb { ON_MARIADB } else { ON_MYSQL };
    // The fingerprint exceeds the default limit.
    let roomy = "SET SESSION group_concat_max_len = 1000000";
    for sql in SETUP.iter().chain(&own).chain([&roomy]) {
        conn.query_drop(*sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    conn
}

/// Returns the server's version.
async fn name(conn: &mut Conn) -> String {
    conn.query_first("SELECT concat(version(), ' ', @@version_comment)").await.unwrap().unwrap()
}

async fn fingerprint(conn: &mut Conn) -> String {
    conn.query_first(FINGERPRINT).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_attack_has_an_effect_with_the_parser_and_without() {
    for server in servers::mysqls() {
        let mut root = superuser(&server).await;
        let before = fingerprint(&mut root).await;
        let reader = network(&server, "reader", "p@ss word", "test");
        let rig = tools(config(vec![("main", DatabasePlace::Mysql(reader.clone()))], None));
        for attack in lines(ATTACKS, "mysql") {
            let answer = rig.call("database/query", json!({"sql": attack})).await;
            assert!(answer.is_err(), "{attack}: {answer:?}");
            let explained = rig.call("database/explain", json!({"sql": attack})).await;
            assert!(explained.is_err(), "EXPLAIN {attack}: {explained:?}");
        }
        assert_eq!(fingerprint(&mut root).await, before, "after the attacks");

        let bare = Mysql::new(reader, limits(), &connector());
        let unseen = [
            "SELECT * FROM canary_view",
            "DELETE FROM canary RETURNING *",
            "EXPLAIN DELETE FROM canary",
            "EXPLAIN FORMAT=JSON DELETE FROM canary",
        ];
        let attacks = lines(ATTACKS, "mysql").into_iter().chain(unseen.map(str::to_owned));
        let (mut ran, mut count) = (0, 0);
        for attack in attacks {
            let done = bare.run(&ask(&attack)).await;
            count += 1;
            ran += usize::from(done.is_ok());
            assert_eq!(fingerprint(&mut root).await, before, "after {attack}: {done:?}");
        }
        let name = name(&mut root).await;
        eprintln!("{name} without the parser: {count} attacks, {ran} ran and left nothing");
        assert!(!Path::new("/tmp/planted").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn harmless_statements_run_and_values_come_back_as_they_are() {
    for server in servers::mysqls() {
        let mut root = superuser(&server).await;
        for sql in TABLES {
            root.query_drop(table(sql, "JSON", "TIMESTAMP", "")).await.unwrap();
        }
        let rig = tools(config(
            vec![("main", DatabasePlace::Mysql(network(&server, "reader", "p@ss word", "test")))],
            None,
        ));
        let mut failed = Vec::new();
        for sql in lines(BENIGN, "mysql") {
            let parameters = if sql.contains('?') { json!([1]) } else { json!([]) };
            let done =
                rig.call("database/query", json!({"sql": sql, "parameters": parameters})).await;
            // MySQL 9.6 moved MD5 into a component that some packages do not install.
            if let Err(words) = done
                && !words.contains("FUNCTION test.md5 does not exist")
            {
                failed.push((sql, words));
            }
        }
        assert!(failed.is_empty(), "{failed:#?}");

        let made = "CREATE TABLE all_kinds (a tinyint, b bigint unsigned, c decimal(20,4), d float, e double, f date, g datetime(3), \
                h time, i year, j varbinary(10), k varchar(10), l bit(9), m enum('x', 'y'), n blob)";
        root.query_drop(made).await.unwrap();
        root.query_drop(
            "INSERT INTO all_kinds VALUES (-1, 18446744073709551615, 1234567890.1000, 1.1, 2.5, '2024-02-29', \
         '2024-02-29 12:00:00.250', '-25:00:01', 2024, x'00ff', 'ü', b'100000001', 'y', x'01'), \
         (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        )
        .await
        .unwrap();
        let answer = rig
            .call("database/query", json!({"sql": "SELECT * FROM all_kinds ORDER BY a DESC"}))
            .await
            .unwrap();
        assert_eq!(
            answer["rows"][0],
            json!([
                -1, "18446744073709551615", "1234567890.1000", 1.1, 2.5, "2024-02-29", "2024-02-29 12:00:00.250000", "-25:00:01",
                2024, {"base64": "AP8="}, "ü", 257, "y", {"base64": "AQ=="}
            ])
        );
        assert!(answer["rows"][1].as_array().unwrap().iter().all(Value::is_null));
        assert_eq!(answer["columns"][1], json!({"name": "b", "type": "bigint unsigned"}));

        let rows = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 500) SELECT i FROM n";
        let hundred = rig.call("database/query", json!({"sql": rows})).await.unwrap();
        assert_eq!(
            (&hundred["row_count"], &hundred["truncated"]),
            (&json!(100), &json!("max_rows"))
        );
        let names = rig.call("database/tables", json!({})).await.unwrap();
        assert!(
            names["tables"].as_array().unwrap().iter().any(|t| t["name"] == "orders"),
            "{names}"
        );
        let schema = rig.call("database/schema", json!({"table": "items"})).await.unwrap();
        assert_eq!(
            (&schema["columns"][0]["nullable"], &schema["keys"][0]["type"]),
            (&json!(false), &json!("primary key")),
            "{schema}"
        );
        let plan = rig
            .call(
                "database/explain",
                json!({"sql": "SELECT * FROM orders WHERE id = ?", "parameters": [1]}),
            )
            .await
            .unwrap();
        // The two servers have different formats.
        assert!(
            plan["plan"]["query_block"].is_object() || plan["plan"]["query_plan"].is_object(),
            "{plan}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_timeouts_and_lost_connections() {
    for server in servers::mysqls() {
        let mut root = superuser(&server).await;
        for (user, password) in [("other", "secret"), ("filer", "file")] {
            let rig = tools(config(
                vec![("main", DatabasePlace::Mysql(network(&server, user, password, "test")))],
                None,
            ));
            let refused = rig.call("database/query", json!({"sql": "SELECT 1"})).await.unwrap_err();
            assert!(refused.contains("its role may do more than read"), "{user}: {refused}");
        }
        let rig = tools(config(
            vec![("main", DatabasePlace::Mysql(network(&server, "reader", "p@ss word", "test")))],
            None,
        ));
        let slow = "SELECT count(*) FROM information_schema.columns a, information_schema.columns b, information_schema.columns c";
        let late =
            rig.call("database/query", json!({"sql": slow, "timeout_ms": 200})).await.unwrap_err();
        assert!(late.contains("the statement took longer than 200 ms: request less"), "{late}");
        assert!(rig.call("database/query", json!({"sql": "SELECT 1"})).await.is_ok());
        let ids: Vec<u64> = root
            .query("SELECT id FROM information_schema.processlist WHERE user = 'reader'")
            .await
            .unwrap();
        for id in ids {
            root.query_drop(format!("KILL {id}")).await.unwrap();
        }
        assert!(
            rig.call("database/query", json!({"sql": "SELECT 1"})).await.is_ok(),
            "a pooled connection that died"
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
    }
}

/// Prints p95 of `SELECT 1` through the tool and through the bare driver.
#[tokio::test(flavor = "multi_thread")]
async fn what_select_1_costs_is_told() {
    for server in servers::mysqls() {
        let mut root = superuser(&server).await;
        let rig = tools(config(
            vec![("main", DatabasePlace::Mysql(network(&server, "reader", "p@ss word", "test")))],
            None,
        ));
        let server = name(&mut root).await;
        let (mut bare, mut tool) = (Vec::new(), Vec::new());
        for _ in 0..500 {
            let began = Instant::now();
            let _one: Vec<u64> = root.exec("SELECT 1", ()).await.unwrap();
            bare.push(began.elapsed());
            let began = Instant::now();
            rig.call("database/query", json!({"sql": "SELECT 1"})).await.unwrap();
            tool.push(began.elapsed());
        }
        for (name, mut times) in [("bare", bare), ("tool", tool)] {
            times.sort();
            assert!(times[250] < Duration::from_millis(500), "{name}: {:?}", times[250]);
            eprintln!("{server} {name}: p50 {:?}, p95 {:?}", times[250], times[475]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_authority_is_trusted_when_the_operator_names_it() {
    let identity = Identity::new();
    for server in servers::mysqls_as(Some(&identity)) {
        superuser(&server).await;
        let secured = Network { tls: true, ..network(&server, "reader", "p@ss word", "test") };
        let known = Mysql::new(secured.clone(), limits(), &knowing(&identity.authority));
        let encrypted = known.run(&ask("SHOW SESSION STATUS LIKE 'Ssl_cipher'")).await.unwrap();
        assert!(
            encrypted.rows[0][1].as_str().is_some_and(|cipher| cipher.starts_with("TLS_")),
            "{:?}",
            encrypted.rows
        );
        let unknown =
            Mysql::new(secured, limits(), &connector()).run(&ask("SELECT 1")).await.unwrap_err();
        assert!(
            unknown.0.contains("certificate") && unknown.0.contains("egress.ca_file"),
            "{unknown:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_statement_ends_at_the_server_and_the_pool_stays_bounded() {
    for server in servers::mysqls() {
        let mut root = superuser(&server).await;
        let bare =
            Mysql::new(network(&server, "reader", "p@ss word", "test"), limits(), &connector());
        let slow = "SELECT count(*) FROM information_schema.columns a, information_schema.columns b, information_schema.columns c";
        let slow = Ask { timeout: Duration::from_secs(30), ..ask(slow) };
        let sessions = "SELECT count(*) FROM information_schema.processlist WHERE user = 'reader'";
        let mut most = 0;
        for _ in 0..10 {
            let given_up = tokio::time::timeout(Duration::from_millis(150), bare.run(&slow)).await;
            assert!(given_up.is_err(), "{given_up:?}");
            most = most.max(root.query_first::<u64, _>(sessions).await.unwrap().unwrap());
        }
        // The session that kills others may be counted, too.
        assert!(most <= limits().pool as u64 + 1, "{most} sessions");
        let running = format!("{sessions} AND command <> 'Sleep'");
        let began = Instant::now();
        while root.query_first::<u64, _>(running.as_str()).await.unwrap() != Some(0) {
            assert!(
                began.elapsed() < Duration::from_secs(5),
                "a statement that nobody waits for runs on"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let one = Ask { timeout: Duration::from_secs(5), ..ask("SELECT 1") };
        for _ in 0..4 {
            assert!(bare.run(&one).await.is_ok(), "the places are free again");
        }
    }
}

/// The role recommended in the documentation sees as much as a role with all rights.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_with_select_alone_sees_keys_and_indexes() {
    for server in servers::mysqls() {
        let mut root = superuser(&server).await;
        for sql in [
            "CREATE TABLE parents (a int, b int, code varchar(9) UNIQUE, PRIMARY KEY (a, b))",
            "CREATE TABLE children (id int PRIMARY KEY, a int, b int, CONSTRAINT both_of_them FOREIGN KEY (a, b) REFERENCES parents (a, b))",
        ] {
            root.query_drop(sql).await.unwrap();
        }
        let all = tools(config(
            vec![("main", DatabasePlace::Mysql(network(&server, "reader", "p@ss word", "test")))],
            None,
        ));
        let rig = tools(config(
            vec![("main", DatabasePlace::Mysql(network(&server, "looker", "look", "test")))],
            None,
        ));
        let children = rig.call("database/schema", json!({"table": "children"})).await.unwrap();
        let keys = json!([
            {"name": "PRIMARY", "type": "primary key", "definition": "(id)"},
            {"name": "both_of_them", "type": "foreign key", "definition": "(a, b) REFERENCES parents (a, b)"}
        ]);
        assert_eq!(children["keys"], keys);
        assert_eq!(children["indexes"].as_array().unwrap().len(), 2);
        let parents = rig.call("database/schema", json!({"table": "parents"})).await.unwrap();
        let keys = json!([
            {"name": "code", "type": "unique", "definition": "(code)"},
            {"name": "PRIMARY", "type": "primary key", "definition": "(a, b)"}
        ]);
        assert_eq!(parents["keys"], keys);
        assert_eq!(
            all.call("database/schema", json!({"table": "parents"})).await.unwrap(),
            parents
        );
        let listed = rig.call("database/tables", json!({})).await.unwrap();
        let rest = rig.call("database/tables", json!({"offset": 1})).await.unwrap();
        assert_eq!(
            rest["tables"].as_array().unwrap()[..],
            listed["tables"].as_array().unwrap()[1..]
        );
    }
}

/// Global settings that change the server's syntax and character sets, for new sessions only.
const STRANGE: [&str; 4] = [
    "SET GLOBAL sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE,HIGH_NOT_PRECEDENCE'",
    "SET GLOBAL character_set_client = gbk",
    "SET GLOBAL character_set_connection = gbk",
    "SET GLOBAL character_set_results = latin1",
];

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_the_server_let_nothing_through() {
    for server in servers::mysqls() {
        let mut root = superuser(&server).await;
        for sql in STRANGE {
            root.query_drop(sql).await.unwrap();
        }
        let before = fingerprint(&mut root).await;
        let reader = network(&server, "reader", "p@ss word", "test");
        let bare = Mysql::new(reader, limits(), &connector());
        for round in 0..3 {
            let read = bare
                .run(&ask("SELECT @@character_set_client, @@sql_mode LIKE '%ANSI_QUOTES%', 'ü'"))
                .await;
            let read = read.unwrap().rows;
            assert_eq!(read, [[json!("utf8mb4"), json!(1), json!("ü")]], "round {round}");
        }
        for attack in lines(ATTACKS, "mysql") {
            let done = bare.run(&ask(&attack)).await;
            assert_eq!(fingerprint(&mut root).await, before, "after {attack}: {done:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn defaults_are_sql_on_both_servers() {
    for server in servers::mysqls() {
        let mut root = superuser(&server).await;
        root.query_drop(
            "CREATE TABLE defaults (a int DEFAULT 5, b varchar(9) DEFAULT 'NULL', c varchar(9), d varchar(9) DEFAULT 'it''s', \
             e date DEFAULT '2024-01-01', f decimal(5,2) DEFAULT 1.5, g year DEFAULT 2024, h bit(3) DEFAULT b'101', \
             i varchar(9) DEFAULT (concat('x', 'y')), j enum('p', 'q') DEFAULT 'q', k varchar(9) DEFAULT '', l int NOT NULL)",
        )
        .await
        .unwrap();
        let rig = tools(config(
            vec![("main", DatabasePlace::Mysql(network(&server, "looker", "look", "test")))],
            None,
        ));
        let schema = rig.call("database/schema", json!({"table": "defaults"})).await.unwrap();
        let mut told: Vec<Value> = schema["columns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| column["default"].clone())
            .collect();
        // The servers format expressions differently.
        assert!(told[8].as_str().is_some_and(|text| text.starts_with("concat(")), "{}", told[8]);
        assert!(["'it''s'", "'it\\'s'"].map(Value::from).contains(&told[3]), "{}", told[3]);
        (told[3], told[8]) = (Value::Null, Value::Null);
        let defaults = json!([
            "5",
            "'NULL'",
            null,
            null,
            "'2024-01-01'",
            "1.50",
            "2024",
            "b'101'",
            null,
            "'q'",
            "''",
            null
        ]);
        assert_eq!(Value::from(told), defaults, "{}", name(&mut root).await);
        assert_eq!(schema["columns"][11]["nullable"], false);
    }
}

/// Types and indexes that MariaDB lacks, or stores as text.
#[tokio::test(flavor = "multi_thread")]
async fn what_mysql_alone_has_comes_back_too() {
    for server in servers::mysqls() {
        let mut root = superuser(&server).await;
        if name(&mut root).await.contains("MariaDB") {
            continue;
        }
        for sql in [
            "CREATE TABLE own (a json, b geometry, c vector(2), d int, KEY by_next ((d + 1)), KEY by_both (d, (d * 2)))",
            "INSERT INTO own VALUES ('{\"b\": [1, 2.5], \"a\": null}', point(1, 2), string_to_vector('[1,2.5]'), 7)",
            "INSERT INTO own VALUES ('{\"x\": 1.10}', NULL, NULL, NULL)",
        ] {
            root.query_drop(sql).await.unwrap();
        }
        let rig = tools(config(
            vec![("main", DatabasePlace::Mysql(network(&server, "looker", "look", "test")))],
            None,
        ));
        let found = rig
            .call("database/query", json!({"sql": "SELECT a, b, c FROM own ORDER BY d DESC"}))
            .await
            .unwrap();
        let rows = json!([
            [{"b": [1, 2.5], "a": null}, {"base64": "AAAAAAEBAAAAAAAAAAAA8D8AAAAAAAAAQA=="}, {"base64": "AACAPwAAIEA="}],
            [{"x": 1.1}, null, null]
        ]);
        assert_eq!(found["rows"], rows);
        let kinds = ["json", "geometry", "vector"].map(|kind| json!(kind));
        assert_eq!(
            found["columns"]
                .as_array()
                .unwrap()
                .iter()
                .map(|c| c["type"].clone())
                .collect::<Vec<_>>(),
            kinds
        );
        let schema = rig.call("database/schema", json!({"table": "own"})).await.unwrap();
        let indexes = json!([
            {"name": "by_both", "definition": "(d, an expression)"}, {"name": "by_next", "definition": "(an expression)"}
        ]);
        assert_eq!(schema["indexes"], indexes);
    }
}

/// Returns whether a statement calls the stored function created below.
async fn is_stored(conn: &mut Conn, sql: &str) -> bool {
    let found: Result<Option<Option<Vec<u8>>>, _> = conn.query_first(sql).await;
    matches!(found, Ok(Some(Some(text))) if text == b"666")
}

/// A space before the parenthesis, or quotes around the name, may turn a built-in function into a
/// stored function.
#[tokio::test(flavor = "multi_thread")]
async fn no_stored_function_is_called_by_the_name_of_a_built_in_one() {
    let spec = Spec { dialect: Dialect::Mysql, ..Spec::default() };
    let rule = Rule::compile(&spec).unwrap();
    let words = include_str!("../../../policy/sql/functions.rs")
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let functions: BTreeSet<&str> = words.filter(|word| rule.allows_function(word)).collect();
    assert!(functions.len() > 200, "{functions:?}");
    for server in servers::mysqls() {
        let mut root = superuser(&server).await;
        let rig = tools(config(
            vec![("main", DatabasePlace::Mysql(network(&server, "reader", "p@ss word", "test")))],
            None,
        ));
        let mut called = Vec::new();
        for function in &functions {
            let made =
                format!("CREATE FUNCTION `{function}`(x int) RETURNS int DETERMINISTIC RETURN 666");
            root.query_drop(made).await.unwrap_or_else(|error| panic!("{function}: {error}"));
            // If the server lacks the function, every spelling calls the stored function.
            let lacks = is_stored(&mut root, &format!("SELECT {function}(1)")).await;
            for call in [
                format!("{function} (1)"),
                format!("{function}/**/(1)"),
                format!("`{function}`(1)"),
            ] {
                let sql = format!("SELECT {call}");
                let stored = is_stored(&mut root, &sql).await;
                let answer = rig.call("database/query", json!({"sql": sql})).await;
                if stored && !lacks && answer.is_ok() {
                    called.push(call);
                }
            }
        }
        assert!(called.is_empty(), "{}: {called:?}", name(&mut root).await);
    }
}
