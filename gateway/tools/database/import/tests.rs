//! Tests of `import`, and of the isolation of imports between organisations.

#![allow(clippy::disallowed_methods, reason = "tests look at files")]

use std::path::Path;

use bytes::Bytes;
use lockgate_upstream::{BoxFuture, CallerIdentity, CallerView, ListKind, Upstream, VisibleItem};

use super::*;
use crate::database::tests::{about, config};

const CSV: &str = "id,name,price,code,when\n1,Ada,1.50,007,2024-01-01\n2,\"B, o\",20,12,\n";

/// A caller, and the CSV of all resources it can read.
struct Person {
    organisation: Option<&'static str>,
    subject: &'static str,
    csv: &'static str,
    kind: &'static str,
}

impl CallerView for Person {
    fn identity(&self) -> CallerIdentity<'_> {
        CallerIdentity {
            organisation: self.organisation,
            issuer: "issuer",
            subject: self.subject,
            access_token: None,
        }
    }

    fn calls_fail(&self, _: &dyn Upstream) -> bool {
        false
    }

    fn servers(&self) -> Vec<Arc<dyn Upstream>> {
        Vec::new()
    }

    fn items(&self, _: ListKind) -> Vec<VisibleItem> {
        Vec::new()
    }

    fn read<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<Bytes, String>> {
        let result = json!({"contents": [{"uri": uri, "mimeType": self.kind, "text": self.csv}]});
        Box::pin(async move {
            if uri == "file+x:///sales.csv" {
                Ok(result.to_string().into())
            } else {
                Err("resource not found".into())
            }
        })
    }
}

fn acme() -> Person {
    Person { organisation: Some("acme"), subject: "ada", csv: CSV, kind: "text/csv" }
}

async fn call(
    folder: &Path,
    person: &Person,
    tool: &str,
    arguments: Value,
) -> Result<Value, String> {
    let mut made = crate::database::build(&config(Vec::new(), Some(folder)), &about()).unwrap();
    let at = made.tools.iter().position(|made| made.describe().name == tool).unwrap();
    let Value::Object(arguments) = arguments else { panic!("no arguments") };
    let client = Client { channel: None, caller_view: Some(person) };
    made.tools
        .remove(at)
        .start(Arguments(arguments.into()), client)
        .await
        .map(|out| out.structured)
        .map_err(|error| error.0)
}

fn wanted(table: &str, mode: &str) -> Value {
    json!({"uri": "file+x:///sales.csv", "table": table, "mode": mode})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_becomes_a_table_of_its_organisation() {
    let folder = tempfile::tempdir().unwrap();
    let folder = &folder.path().join("new/data");
    let made = call(folder, &acme(), "database/import", wanted("sales", "replace")).await.unwrap();
    assert_eq!(
        (&made["imported"], &made["rows"], &made["connection"]),
        (&json!(2), &json!(2), &json!("embedded"))
    );
    let types: Vec<_> =
        made["columns"].as_array().unwrap().iter().map(|c| c["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["integer", "text", "real", "text", "text"]);
    let rows = json!({"sql": "SELECT id, name, price, code, \"when\" FROM sales ORDER BY id"});
    let found = call(folder, &acme(), "database/query", rows.clone()).await.unwrap();
    assert_eq!(
        found["rows"],
        json!([[1, "Ada", 1.5, "007", "2024-01-01"], [2, "B, o", 20.0, "12", null]])
    );

    let more = call(folder, &acme(), "database/import", wanted("sales", "append")).await.unwrap();
    assert_eq!((&more["imported"], &more["rows"]), (&json!(2), &json!(4)));
    let other = Person { csv: "a,b\n1,2\n", ..acme() };
    let words =
        call(folder, &other, "database/import", wanted("sales", "append")).await.unwrap_err();
    assert!(
        words.contains("the columns differ from those of the table (id, name, price, code, when)"),
        "{words}"
    );
    let listed = call(folder, &acme(), "database/imports", json!({})).await.unwrap();
    assert_eq!(
        (&listed["imports"][0]["table"], &listed["imports"][0]["rows"]),
        (&json!("sales"), &json!(4))
    );

    for stranger in [
        Person { organisation: Some("other"), ..acme() },
        Person { organisation: None, ..acme() },
        Person { organisation: None, subject: "acme", ..acme() },
    ] {
        assert!(call(folder, &stranger, "database/query", rows.clone()).await.is_err());
        assert_eq!(
            call(folder, &stranger, "database/imports", json!({})).await.unwrap(),
            json!({"imports": []})
        );
        assert!(
            call(folder, &stranger, "database/drop_import", json!({"table": "sales"}))
                .await
                .is_err()
        );
    }
    let colleague = Person { subject: "bo", ..acme() };
    let dropped =
        call(folder, &colleague, "database/drop_import", json!({"table": "sales"})).await.unwrap();
    assert_eq!(dropped, json!({"dropped": "sales"}));
    assert!(call(folder, &acme(), "database/query", rows).await.is_err());
    assert!(
        call(folder, &acme(), "database/drop_import", json!({"table": "sales"})).await.is_err()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_csv_or_no_name_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |person: Person, table: &'static str| {
        let folder = folder.path().to_owned();
        async move {
            call(&folder, &person, "database/import", wanted(table, "replace")).await.unwrap_err()
        }
    };
    let csv = |csv| Person { csv, ..acme() };
    for (text, words) in [
        ("", "the CSV must have 1 to 500 columns"),
        ("a,a\n1,2\n", "two columns of the CSV are called a"),
        ("a,\n1,2\n", "a column of the CSV needs a name"),
        ("a,b\n1\n", "the CSV cannot be read at line 2: a row has 1 values, not 2"),
    ] {
        let said = refused(csv(text), "t").await;
        assert!(said.contains(words), "{text:?}: {said}");
    }
    assert!(
        refused(Person { kind: "text/html", ..acme() }, "t")
            .await
            .contains("is not text/csv but text/html")
    );
    for table in
        ["a b", "1a", "sqlite_master", "lockgate_imports", "LOCKGATE_x", "a\"; DROP TABLE x"]
    {
        assert!(refused(acme(), table).await.contains("`table` must be"), "{table}");
    }
    let gone = json!({"uri": "file+x:///none.csv", "table": "t", "mode": "replace"});
    assert_eq!(
        call(folder.path(), &acme(), "database/import", gone).await.unwrap_err(),
        "resource not found"
    );
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "nothing was made");
    let large = "x".repeat(2 << 20);
    let person = Person { csv: Box::leak(format!("a\n{large}\n").into_boxed_str()), ..acme() };
    assert!(refused(person, "t").await.contains("bytes, more than"));
}

fn with(csv: &'static str) -> Person {
    Person { csv, ..acme() }
}

fn types(made: &Value) -> Vec<&str> {
    made["columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["type"].as_str().unwrap())
        .collect()
}

async fn rows(folder: &Path, sql: &str) -> Value {
    call(folder, &acme(), "database/query", json!({"sql": sql})).await.unwrap()["rows"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_at_the_same_time_wait_for_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let csv: &'static str =
        Box::leak(format!("a,b\n{}", "12345,some words of text\n".repeat(15_000)).into_boxed_str());
    let made = Arc::new(
        crate::database::build(&config(Vec::new(), Some(folder.path())), &about()).unwrap(),
    );
    let imports = (0..8).map(|number| {
        let made = Arc::clone(&made);
        tokio::spawn(async move {
            let tool =
                made.tools.iter().find(|tool| tool.describe().name == "database/import").unwrap();
            let Value::Object(arguments) = wanted(&format!("t{number}"), "replace") else {
                unreachable!()
            };
            let person = with(csv);
            tool.start(
                Arguments(arguments.into()),
                Client { channel: None, caller_view: Some(&person) },
            )
            .await
            .map(|_| ())
        })
    });
    for import in imports.collect::<Vec<_>>() {
        assert_eq!(import.await.unwrap(), Ok(()));
    }
    assert_eq!(
        rows(folder.path(), "SELECT count(*) FROM t0 UNION ALL SELECT count(*) FROM t7").await,
        json!([[15_000], [15_000]])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_differ_in_case_alone_are_one_table() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let imports = async || {
        call(folder, &acme(), "database/imports", json!({})).await.unwrap()["imports"].clone()
    };
    for (csv, table, mode) in
        [("a\n1\n", "zz", "replace"), ("a\n2\n", "Zz", "append"), ("b\n3\n", "ZZ", "replace")]
    {
        let made = call(folder, &with(csv), "database/import", wanted(table, mode)).await.unwrap();
        let (listed, name) = (imports().await, if mode == "append" { "zz" } else { table });
        assert_eq!((listed.as_array().unwrap().len(), &listed[0]["table"]), (1, &json!(name)));
        assert_eq!((&listed[0]["rows"], &made["table"]), (&made["rows"], &json!(name)), "{listed}");
    }
    assert_eq!(rows(folder, "SELECT b FROM zz").await, json!([[3]]));
    call(folder, &acme(), "database/drop_import", json!({"table": "zZ"})).await.unwrap();
    assert_eq!(imports().await, json!([]));
    let words =
        call(folder, &acme(), "database/drop_import", json!({"table": "ZZ"})).await.unwrap_err();
    assert!(words.contains("there is no imported table ZZ"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_appended_is_refused_where_the_table_would_change_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let import =
        async |csv, mode| call(folder, &with(csv), "database/import", wanted("t", mode)).await;
    import("a,b,c\n1,1.5,x\n", "replace").await.unwrap();
    for (csv, words) in [
        (
            "a,b,c\n007,1.5,x\n",
            "column a of the table is integer, and would change text in the CSV",
        ),
        (
            "a,b,c\n9223372036854775809,1.5,x\n",
            "column a of the table is integer, and would change text in the CSV",
        ),
        (
            "a,b,c\n1e3,1.5,x\n",
            "column a of the table is integer, and would change text in the CSV",
        ),
        (
            "a,b,c\n2.5,1.5,x\n",
            "column a of the table is integer, and would change real in the CSV",
        ),
        (
            "a,b,c\n1,12345678901234567890.123,x\n",
            "column b of the table is real, and would change text in the CSV",
        ),
        (
            "a,b,c\n1,1234567890123456789,x\n",
            "column b of the table is real, and would change longer numbers in the CSV",
        ),
    ] {
        let said = import(csv, "append").await.unwrap_err();
        assert!(said.contains(words) && said.contains("`replace`"), "{csv}: {said}");
    }
    assert_eq!(
        rows(folder, "SELECT * FROM t").await,
        json!([[1, 1.5, "x"]]),
        "nothing was appended"
    );
    // Narrower and missing values are not changed.
    let more = import("a,b,c\n2,3,4\n,,\n", "append").await.unwrap();
    assert_eq!((types(&more), &more["rows"]), (vec!["integer", "real", "text"], &json!(3)));
    assert_eq!(
        rows(folder, "SELECT * FROM t").await,
        json!([[1, 1.5, "x"], [2, 3.0, "4"], [null, null, null]])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn others_of_the_machine_cannot_read_what_is_imported() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let folder = &folder.path().join("new/data");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let file = || std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    call(folder, &acme(), "database/import", wanted("t", "replace")).await.unwrap();
    assert_eq!((mode(folder), mode(&file())), (0o700, 0o600));
    // The next import restores the mode of an existing file.
    std::fs::set_permissions(file(), std::fs::Permissions::from_mode(0o644)).unwrap();
    call(folder, &acme(), "database/import", wanted("t", "append")).await.unwrap();
    assert_eq!(mode(&file()), 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_csv_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let import =
        async |csv| call(folder, &with(csv), "database/import", wanted("t", "replace")).await;
    for (csv, words) in [
        ("a\n\"unclosed", "at line 2: a quote is not closed"),
        ("a,b\n1,2\n\"x\ny,2\n3,4\n", "at line 3: a quote is not closed"),
        ("a\n1\n\"x\"y\n", "at line 3: there is text after a closing quote"),
        ("\"a\"b\n1\n", "at line 1: there is text after a closing quote"),
        ("a,b\n\"1\n2\",3\n4\n", "at line 4: a row has 1 values, not 2"),
    ] {
        let said = import(csv).await.unwrap_err();
        assert!(said.contains(words), "{csv:?}: {said}");
    }
    // A quoted empty text is a text; an empty field is NULL. Quotes inside an unquoted value are
    // literal.
    let csv = "\u{feff}\"a\",b,\"c\"\r\n\"\",1,5\" wide\r\n\r\n,\"2\",\"say \"\"hi\"\"\r\nü\"";
    let made = import(csv).await.unwrap();
    assert_eq!((types(&made), &made["rows"]), (vec!["text", "integer", "text"], &json!(2)));
    assert_eq!(
        rows(folder, "SELECT a, b, c FROM t").await,
        json!([["", 1, "5\" wide"], [null, 2, "say \"hi\"\r\nü"]])
    );
    let made = import("n\n1\n\"\"\n").await.unwrap();
    assert_eq!(
        (types(&made), rows(folder, "SELECT n FROM t").await),
        (vec!["text"], json!([["1"], [""]]))
    );
}
