//! Tests of `sqlite` on real files, which must not change by a single byte.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests make files and print what they measure"
)]

use serde_json::json;

use super::*;
use crate::database::config::DatabasePlace;
use crate::database::tests::{ATTACKS, BENIGN, TABLES, ask, config, lines, table, tools};

fn file(folder: &Path) -> PathBuf {
    let path = folder.join("canary.db");
    let connection = Connection::open(&path).unwrap();
    for sql in [
        "CREATE TABLE canary (id INTEGER PRIMARY KEY, note TEXT)",
        "INSERT INTO canary VALUES (1, 'alive'), (2, 'well')",
        "CREATE VIRTUAL TABLE docs USING fts5(body)",
        "INSERT INTO docs VALUES ('the quick brown fox')",
    ] {
        connection.execute_batch(sql).unwrap();
    }
    for sql in TABLES {
        connection.execute_batch(&table(sql, "JSON", "TIMESTAMP", "")).unwrap();
    }
    path
}

/// Returns every file of the folder with its contents.
fn fingerprint(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

fn bare(path: PathBuf) -> Sqlite {
    let rule = Arc::new(
        Sql::compile(&lockgate_policy::sql::Spec {
            dialect: lockgate_policy::sql::Dialect::Sqlite,
            ..Default::default()
        })
        .unwrap(),
    );
    Sqlite {
        path: Some(path),
        rule,
        lock_timeout: Duration::from_secs(1),
        places: BlockingPool::new(2),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_attack_has_an_effect_with_the_parser_and_without() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path());
    let before = fingerprint(folder.path());
    let rig = tools(config(vec![("main", DatabasePlace::Sqlite(path.clone()))], None));
    for attack in lines(ATTACKS, "sqlite") {
        let answer = rig.call("database/query", json!({"sql": attack})).await;
        assert!(answer.is_err(), "{attack}: {answer:?}");
        assert!(
            rig.call("database/explain", json!({"sql": attack})).await.is_err(),
            "EXPLAIN {attack}"
        );
    }
    assert_eq!(fingerprint(folder.path()), before, "after the attacks");

    let bare = bare(path);
    let (mut ran, mut count) = (Vec::new(), 0);
    for attack in lines(ATTACKS, "sqlite") {
        let done = bare.run(&ask(&attack)).await;
        count += 1;
        if done.is_ok() {
            ran.push(attack.clone());
        }
        assert_eq!(fingerprint(folder.path()), before, "after {attack}: {done:?}");
    }
    eprintln!(
        "SQLite without the parser: {count} attacks, {} ran and left nothing: {ran:#?}",
        ran.len()
    );
    assert!(!Path::new("/tmp/planted.db").exists() && !Path::new("planted.db").exists());
    // A limit of the whole process, which an attack could have changed.
    assert!(
        Connection::open_in_memory()
            .unwrap()
            .execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(1000000))")
            .is_ok()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn harmless_statements_run_and_values_come_back_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path());
    let rig = tools(config(vec![("main", DatabasePlace::Sqlite(path))], None));
    let mut failed = Vec::new();
    for sql in lines(BENIGN, "sqlite") {
        let count = if sql.contains(":name") { 3 } else { sql.matches('?').count() };
        let parameters = vec![json!(1); count];
        if let Err(words) =
            rig.call("database/query", json!({"sql": sql, "parameters": parameters})).await
        {
            failed.push((sql, words));
        }
    }
    assert!(failed.len() <= 2, "{failed:#?}");
    let search = "SELECT body FROM docs WHERE docs MATCH ?";
    let found =
        rig.call("database/query", json!({"sql": search, "parameters": ["quick"]})).await.unwrap();
    assert_eq!(found["row_count"], 1);
    let values = "SELECT 9007199254740993, 42, 1.5, 'ü', x'00ff', NULL, ?1, ?2";
    let answer = rig
        .call("database/query", json!({"sql": values, "parameters": [true, "t"]}))
        .await
        .unwrap();
    assert_eq!(
        answer["rows"][0],
        json!(["9007199254740993", 42, 1.5, "ü", {"base64": "AP8="}, null, 1, "t"])
    );
    let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
    let hundred = rig.call("database/query", json!({"sql": rows})).await.unwrap();
    assert_eq!((&hundred["row_count"], &hundred["truncated"]), (&json!(100), &json!("max_rows")));
    let slow =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    let late =
        rig.call("database/query", json!({"sql": slow, "timeout_ms": 100})).await.unwrap_err();
    assert!(late.contains("longer than 100 ms"), "{late}");
    let tables = rig.call("database/tables", json!({})).await.unwrap();
    assert!(tables["tables"].as_array().unwrap().iter().any(|t| t["name"] == "orders"), "{tables}");
    let schema = rig.call("database/schema", json!({"table": "items"})).await.unwrap();
    assert_eq!(
        schema["columns"][0],
        json!({"name": "id", "type": "INTEGER", "nullable": false, "default": null})
    );
    assert_eq!(schema["keys"][1]["definition"], "(order_id) REFERENCES orders (id)", "{schema}");
    let indexes = rig.call("database/schema", json!({"table": "orders"})).await.unwrap();
    assert_eq!(indexes["indexes"][0]["definition"], "(customer_id)", "{indexes}");
    let plan = rig
        .call(
            "database/explain",
            json!({"sql": "SELECT * FROM orders WHERE id = ?", "parameters": [1]}),
        )
        .await
        .unwrap();
    assert!(plan["plan"][0]["detail"].as_str().unwrap().contains("SEARCH"), "{plan}");
}

/// Prints p95 of `SELECT 1` through the tool and on an open connection.
#[tokio::test(flavor = "multi_thread")]
async fn what_select_1_costs_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path());
    let connection = Connection::open(&path).unwrap();
    let rig = tools(config(vec![("main", DatabasePlace::Sqlite(path))], None));
    let (mut bare, mut tool) = (Vec::new(), Vec::new());
    for _ in 0..500 {
        let began = Instant::now();
        let _one: i64 = connection.query_row("SELECT 1", [], |row| row.get(0)).unwrap();
        bare.push(began.elapsed());
        let began = Instant::now();
        rig.call("database/query", json!({"sql": "SELECT 1"})).await.unwrap();
        tool.push(began.elapsed());
    }
    for (name, mut times) in [("bare", bare), ("tool", tool)] {
        times.sort();
        assert!(times[250] < Duration::from_millis(500), "{name}: {:?}", times[250]);
        eprintln!("SQLite {name}: p50 {:?}, p95 {:?}", times[250], times[475]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_tables_come_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.db");
    let connection = Connection::open(&path).unwrap();
    let made: String = (0..2100).map(|number| format!("CREATE TABLE t{number:04} (a);")).collect();
    connection.execute_batch(&format!("BEGIN; {made} COMMIT")).unwrap();
    let rig = tools(config(vec![("main", DatabasePlace::Sqlite(path))], None));
    let first = rig.call("database/tables", json!({})).await.unwrap();
    assert_eq!(
        (&first["count"], &first["truncated"], &first["next"]),
        (&json!(2000), &json!(true), &json!(2000))
    );
    let rest = rig.call("database/tables", json!({"offset": 2000})).await.unwrap();
    assert_eq!(
        (&rest["count"], &rest["truncated"], &rest["next"]),
        (&json!(100), &json!(false), &Value::Null)
    );
    assert_eq!(
        (&rest["tables"][0]["name"], &rest["tables"][99]["name"]),
        (&json!("t2000"), &json!("t2099"))
    );
    let none = rig.call("database/tables", json!({"offset": 3000})).await.unwrap();
    assert_eq!((&none["count"], &none["truncated"]), (&json!(0), &json!(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_is_too_large_is_named_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let long = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 200000) \
                SELECT group_concat('1234567890') FROM n";
    let long = Ask { timeout: Duration::from_secs(10), ..ask(long) };
    let large = bare(file(folder.path())).run(&long).await.unwrap_err();
    assert!(
        large.0.contains(
            "a value exceeds the size limit of a result (1048576 bytes): select its length"
        ),
        "{large:?}"
    );
}
