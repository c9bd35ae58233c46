//! Tests of `sql`: the corpora, the settings of a rule, and properties of all inputs.

#![allow(clippy::print_stderr, reason = "a test prints what it measures")]

use std::time::Duration;

use super::*;

const DIALECTS: [Dialect; 3] = [Dialect::Postgres, Dialect::Mysql, Dialect::Sqlite];

const CORPORA: [(Dialect, &str, &str); 3] = [
    (
        Dialect::Postgres,
        include_str!("../../../tests/corpora/sql/attack-postgres.sql"),
        include_str!("../../../tests/corpora/sql/benign-postgres.sql"),
    ),
    (
        Dialect::Mysql,
        include_str!("../../../tests/corpora/sql/attack-mysql.sql"),
        include_str!("../../../tests/corpora/sql/benign-mysql.sql"),
    ),
    (
        Dialect::Sqlite,
        include_str!("../../../tests/corpora/sql/attack-sqlite.sql"),
        include_str!("../../../tests/corpora/sql/benign-sqlite.sql"),
    ),
];

fn rule(dialect: Dialect) -> Sql {
    Sql::compile(&Spec { dialect, ..Spec::default() }).unwrap()
}

fn lines(corpus: &str) -> impl Iterator<Item = String> {
    corpus.lines().map(|line| line.replace("${CR}", "\r"))
}

#[test]
fn no_attack_passes() {
    let mut count = 0;
    for (dialect, attacks, _) in CORPORA {
        let passed: Vec<_> =
            lines(attacks).filter(|attack| rule(dialect).check(attack).is_ok()).collect();
        assert!(passed.is_empty(), "{dialect:?}: {passed:#?}");
        count += attacks.lines().count();
    }
    assert!(count >= 500, "{count} attacks");
}

#[test]
fn at_most_one_in_a_hundred_benign_statements_is_refused() {
    let (mut count, mut refused) = (0, Vec::new());
    for (dialect, _, benign) in CORPORA {
        let rule = rule(dialect);
        count += benign.lines().count();
        refused.extend(
            lines(benign)
                .filter_map(|text| rule.check(&text).err().map(|no| (dialect, text, no.0))),
        );
    }
    eprintln!("{} of {count} benign statements are refused: {refused:#?}", refused.len());
    assert!(
        count >= 280 && refused.len() * 100 <= count,
        "{} of {count}: {refused:#?}",
        refused.len()
    );
}

fn spec(dialect: Dialect, change: impl FnOnce(&mut Spec)) -> Sql {
    let mut spec = Spec { dialect, ..Spec::default() };
    change(&mut spec);
    Sql::compile(&spec).unwrap()
}

/// Returns the statement that the server receives.
fn sent(rule: &Sql, text: &str) -> String {
    match rule.check(text) {
        Ok(checked) => checked.text,
        Err(refusal) => panic!("{text}: {refusal}"),
    }
}

fn globs(allow: &[&str], deny: &[&str]) -> Names {
    let own = |globs: &[&str]| globs.iter().map(|&glob| glob.to_owned()).collect();
    Names { allow: own(allow), deny: own(deny) }
}

#[test]
fn tables_are_compared_as_the_database_knows_them() {
    let rule = spec(Dialect::Postgres, |spec| {
        spec.tables = globs(&["orders", "shop.*"], &["shop.secret*"]);
        spec.default_schema = Some("public".into());
    });
    for allowed in [
        "SELECT * FROM orders",
        "SELECT * FROM ORDERS",
        "SELECT * FROM \"orders\"",
        "SELECT * FROM public.orders AS secrets",
        "SELECT * FROM shop.anything",
        "WITH secret AS (SELECT * FROM orders) SELECT * FROM secret",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT * FROM t",
    ] {
        assert_eq!(rule.check(allowed).map(|ok| ok.kind), Ok(Kind::Select), "{allowed}");
    }
    for refused in [
        "SELECT * FROM \"Orders\"",
        "SELECT * FROM secret",
        "SELECT * FROM orders, secret",
        "SELECT * FROM orders JOIN secret ON true",
        "SELECT (SELECT 1 FROM secret)",
        "SELECT * FROM shop.secret_plans",
        "SELECT * FROM shop.\"SECRET\"",
        "SELECT * FROM a.b.orders",
        "WITH secret AS (SELECT * FROM secret) SELECT * FROM secret",
        "WITH secret AS (SELECT 1) SELECT * FROM public.secret",
        "SELECT * FROM (WITH secret AS (SELECT 1) SELECT * FROM secret) AS a, secret",
        "SELECT * FROM ONLY secret",
        "SELECT * FROM only secret",
        "SELECT 1 ORDER BY (SELECT 1 FROM secret)",
    ] {
        assert!(rule.check(refused).is_err(), "{refused}");
    }
    let schemas = spec(Dialect::Postgres, |spec| spec.schemas = globs(&["shop"], &[]));
    assert!(
        schemas.check("SELECT * FROM shop.a").is_ok() && schemas.check("SELECT * FROM a").is_err()
    );
    let at_home = spec(Dialect::Mysql, |spec| spec.default_schema = Some("MySQL".into()));
    assert!(
        at_home.check("SELECT * FROM user").is_err()
            && at_home.check("SELECT * FROM shop.user").is_ok()
    );
    let mysql = spec(Dialect::Mysql, |spec| spec.tables = globs(&["orders"], &["secret"]));
    assert!(
        mysql.check("SELECT * FROM orders").is_ok() && mysql.check("SELECT 1 FROM dual").is_ok()
    );
    for refused in [
        "SELECT * FROM Orders",
        "SELECT * FROM SECRET",
        "WITH Secret AS (SELECT 1) SELECT * FROM secret",
    ] {
        assert!(mysql.check(refused).is_err(), "{refused}");
    }
    let sqlite = spec(Dialect::Sqlite, |spec| spec.tables = globs(&["Orders"], &[]));
    assert!(
        sqlite.check("SELECT * FROM ORDERS").is_ok()
            && sqlite.check("SELECT * FROM 'secret'").is_err()
    );
}

#[test]
fn words_that_are_calls_stand_for_no_table_of_postgres() {
    let words = "current_user CURRENT_ROLE current_catalog current_schema current_time current_timestamp current_date \
                 localtime localtimestamp session_user system_user user current_time(3) trim(a)";
    let rule = |dialect| {
        spec(dialect, |spec| spec.statements = vec![Kind::Select, Kind::Update, Kind::Delete])
    };
    for word in words.split_whitespace() {
        for text in [
            format!("SELECT 1 FROM {word}"),
            format!("SELECT t.f FROM a LEFT JOIN {word} AS t ON true"),
            format!("SELECT t.f FROM a, LATERAL {word} AS t"),
            format!("SELECT t.f FROM ({word} t CROSS JOIN a)"),
            format!("WITH c AS (SELECT t.f FROM {word} t) SELECT 1 FROM c"),
            format!("SELECT (SELECT t.f FROM {word} t)"),
            format!("UPDATE a SET b = t.f FROM {word} AS t WHERE true"),
            format!("DELETE FROM a USING {word} AS t WHERE t.f"),
        ] {
            assert!(rule(Dialect::Postgres).check(&text).is_err(), "{text}");
        }
    }
    for allowed in [
        "SELECT a.f FROM \"user\" AS a",
        "SELECT a.user FROM s.user AS a",
        "SELECT user, current_user",
    ] {
        assert!(rule(Dialect::Postgres).check(allowed).is_ok(), "{allowed}");
    }
    for dialect in [Dialect::Mysql, Dialect::Sqlite] {
        assert!(rule(dialect).check("SELECT u.name FROM user AS u").is_ok(), "{dialect:?}");
    }
    let refusal = rule(Dialect::Postgres).check("SELECT t.f FROM current_user t").unwrap_err().0;
    assert!(refusal.contains("current_user in FROM is a call"), "{refusal}");
}

#[test]
fn a_tilde_compares_in_postgres_alone() {
    for (dialect, compares) in
        [(Dialect::Postgres, true), (Dialect::Mysql, false), (Dialect::Sqlite, false)]
    {
        assert_eq!(rule(dialect).check("SELECT a ~ b FROM t").is_ok(), compares, "{dialect:?}");
        assert_eq!(rule(dialect).check("SELECT a ~ ~b FROM t").is_ok(), compares, "{dialect:?}");
        assert!(rule(dialect).check("SELECT ~a, - ~b FROM t").is_err(), "{dialect:?}");
        assert!(rule(dialect).check("SELECT ~a, -(~b) FROM t").is_ok(), "{dialect:?}");
    }
}

#[test]
fn an_interval_is_written_as_its_database_writes_it() {
    let allows = |dialect, interval: &str| {
        rule(dialect).check(&format!("SELECT now() - {interval} FROM t")).is_ok()
    };
    assert!(
        allows(Dialect::Postgres, "INTERVAL '1 day'") && allows(Dialect::Mysql, "INTERVAL a DAY")
    );
    assert!(!allows(Dialect::Postgres, "INTERVAL day") && !allows(Dialect::Mysql, "INTERVAL day"));
}

#[test]
fn a_parameter_is_no_name_of_a_column() {
    for (dialect, parameter) in
        [(Dialect::Postgres, "$1"), (Dialect::Mysql, "?"), (Dialect::Sqlite, "@a")]
    {
        for between in ["", " ", "/**/", "\n"] {
            let text = format!("SELECT e.{between}{parameter} FROM e");
            assert!(rule(dialect).check(&text).is_err(), "{text}");
        }
        assert!(rule(dialect).check(&format!("SELECT e.a, {parameter} FROM e")).is_ok());
    }
}

#[test]
fn a_refusal_is_short_whatever_the_name() {
    let text = format!("SELECT 1 FROM \"{}\"", "\u{e9}".repeat(500));
    let refusal = rule(Dialect::Mysql).check(&text).unwrap_err();
    assert!(refusal.0.contains("wrong quotes") && refusal.0.len() <= 1000, "{refusal:?}");
}

/// `parse_statements` of the parser reads END as the end and ignores the rest.
#[test]
fn what_follows_an_end_is_part_of_the_statement() {
    for (dialect, ..) in CORPORA {
        let rule = spec(dialect, |spec| {
            spec.tables.deny = vec!["canary".into()];
            spec.max_rows = Some(5);
        });
        for text in [
            "SELECT 1 END FROM canary",
            "SELECT 1 end, no_such_function()",
            "SELECT 1 END UNION SELECT note FROM canary",
            "SELECT 1 END\nLIMIT 1000",
        ] {
            assert!(rule.check(text).is_err(), "{dialect:?} {text}");
        }
        assert!(rule.check("SELECT CASE WHEN a = 1 THEN 2 END FROM t LIMIT 5").is_ok());
    }
}

#[test]
fn a_limit_is_added_held_or_asked_for() {
    let rule = spec(Dialect::Postgres, |spec| {
        spec.max_rows = Some(100);
        spec.tables.deny = vec!["secret".into()];
    });
    for held in [
        "SELECT 1 LIMIT 100",
        "SELECT 1 FETCH FIRST 5 ROWS ONLY",
        "SELECT * FROM t OFFSET 5 ROWS FETCH FIRST 10 ROWS ONLY",
        "SELECT * FROM t ORDER BY a FETCH FIRST 1 ROWS ONLY",
        "VALUES (1), (2)",
        "(SELECT * FROM t FETCH FIRST 5 ROWS ONLY)",
        "EXPLAIN SELECT * FROM t",
    ] {
        assert_eq!(sent(&rule, held), held);
    }
    for (lacking, sends) in [
        ("SELECT 1 ; -- end", "SELECT 1 LIMIT 100"),
        ("SELECT 1 -- end", "SELECT 1 LIMIT 100"),
        ("SELECT 1 LIMIT ALL", "SELECT 1 LIMIT 100"),
        ("SELECT 1 UNION (SELECT 2 LIMIT 999)", "SELECT 1 UNION (SELECT 2 LIMIT 999) LIMIT 100"),
        ("SELECT * FROM t OFFSET 5", "SELECT * FROM t LIMIT 100 OFFSET 5"),
    ] {
        assert_eq!(sent(&rule, lacking), sends);
        assert_eq!(rule.check(lacking).unwrap().limit, Some(100));
    }
    for refused in [
        "SELECT 1 LIMIT 101",
        "SELECT 1 LIMIT $1",
        "SELECT 1 LIMIT 50 + 51",
        "SELECT 1 FETCH FIRST 5 ROWS WITH TIES",
        "SELECT 1 FETCH FIRST 500 ROWS ONLY",
        "SELECT * FROM t FETCH FIRST (101) ROWS ONLY",
        "SELECT * FROM t FETCH FIRST 5 ROWS ONLY LIMIT 1000",
        "SELECT * FROM t LIMIT 1000 FOR READ ONLY",
        "TABLE t LIMIT 101",
        "TABLE secret",
        "TABLE public.secret",
        "TABLE ONLY secret",
        "SELECT * FROM ONLY (secret)",
        "SELECT * FROM t, ONLY (public.\"secret\")",
        "SELECT 1 UNION TABLE secret",
        "EXPLAIN TABLE secret",
        "EXPLAIN SELECT * FROM secret",
    ] {
        assert!(rule.check(refused).is_err(), "{refused}");
    }
    let asking = spec(Dialect::Mysql, |spec| {
        spec.max_rows = Some(10);
        spec.missing_limit = MissingLimit::Refuse;
    });
    assert!(asking.check("SELECT 1").is_err() && asking.check("SELECT 1 LIMIT 5, 10").is_ok());
    assert!(asking.check("SELECT 1 LIMIT 5, 11").is_err());
}

/// Databases reject a second limit around a query in parentheses, and in some other positions.
#[test]
fn a_limit_is_added_where_databases_take_one() {
    for dialect in [Dialect::Postgres, Dialect::Mysql] {
        let rule = spec(dialect, |spec| spec.max_rows = Some(100));
        for held in [
            "(SELECT * FROM t LIMIT 10)",
            "((SELECT * FROM t LIMIT 10))",
            "(SELECT * FROM t LIMIT 10) ORDER BY a",
            "(SELECT * FROM t LIMIT 10 OFFSET 2)",
            "(SELECT * FROM t FETCH FIRST 1 ROWS ONLY)",
            "WITH x AS (SELECT 1) (SELECT * FROM t LIMIT 10)",
            "(VALUES (1), (2))",
        ] {
            assert_eq!(sent(&rule, held), held);
        }
        for lacking in [
            "((SELECT * FROM t))",
            "(SELECT * FROM t) ORDER BY a",
            "(SELECT 1 LIMIT 1) UNION (SELECT 2 LIMIT 999)",
        ] {
            assert_eq!(sent(&rule, lacking), format!("{lacking} LIMIT 100"));
        }
        for refused in [
            "(SELECT * FROM t LIMIT 101)",
            "((SELECT * FROM t LIMIT 999)) ORDER BY a",
            "(SELECT 1 FETCH FIRST 500 ROWS ONLY)",
        ] {
            let refusal = rule.check(refused).unwrap_err().0;
            assert!(refusal.contains("use LIMIT 100 or less"), "{refused}: {refusal}");
        }
    }
    for (dialect, text, words) in [
        (Dialect::Mysql, "SELECT * FROM t OFFSET 3 ROWS", "end with LIMIT 100 OFFSET"),
        (Dialect::Sqlite, "SELECT 1 UNION VALUES (2)", "no LIMIT after VALUES"),
    ] {
        let rule = spec(dialect, |spec| spec.max_rows = Some(100));
        let refusal = rule.check(text).unwrap_err().0;
        assert!(refusal.contains(words), "{text}: {refusal}");
    }
}

#[test]
fn the_plan_of_a_select_is_for_whom_may_select() {
    for dialect in DIALECTS {
        let reads = rule(dialect);
        assert_eq!(
            reads.check("EXPLAIN SELECT 1").map(|ok| ok.kind),
            Ok(Kind::Explain),
            "{dialect:?}"
        );
        let writes = spec(dialect, |spec| spec.statements = vec![Kind::Select, Kind::Delete]);
        for refused in [
            "EXPLAIN DELETE FROM t WHERE a = 1",
            "EXPLAIN ANALYZE SELECT 1",
            "EXPLAIN EXPLAIN SELECT 1",
        ] {
            assert!(
                reads.check(refused).is_err() && writes.check(refused).is_err(),
                "{dialect:?} {refused}"
            );
        }
        let only = spec(dialect, |spec| spec.statements = vec![Kind::Delete]);
        assert!(
            only.check("EXPLAIN SELECT 1").is_err()
                && only.check("EXPLAIN DELETE FROM t WHERE a = 1").is_err()
        );
        let explains = spec(dialect, |spec| spec.statements = vec![Kind::Explain]);
        assert!(explains.check("EXPLAIN SELECT 1").is_err(), "{dialect:?}");
    }
}

#[test]
fn a_cast_to_a_type_of_somebody_is_a_call() {
    let plain = rule(Dialect::Postgres);
    for own in [
        "'a'::mood",
        "'a'::app.mood",
        "CAST('a' AS mood[])",
        "'a'::\"Mood\"",
        "'a'::mood(3)",
        "'a'::lower",
    ] {
        let refusal = plain.check(&format!("SELECT {own}")).unwrap_err().0;
        assert!(refusal.contains("not built into PostgreSQL"), "{own}: {refusal}");
    }
    for known in
        ["'a'::inet", "'a'::pg_catalog.inet", "'a'::INET[]", "'a'::\"char\"", "'a'::timestamptz(3)"]
    {
        assert!(plain.check(&format!("SELECT {known}")).is_ok(), "{known}");
    }
    let named = spec(Dialect::Postgres, |spec| {
        spec.functions.allow = vec!["mood".into(), "app.level".into()];
    });
    assert!(named.check("SELECT 'a'::mood, 'a'::MOOD[], 'b'::app.level").is_ok());
    assert!(
        named.check("SELECT 'a'::app.mood").is_err() && named.check("SELECT 'a'::level").is_err()
    );
    for number in ["(1, 2)::mood", "NULL::mood", "1::mood"] {
        assert!(plain.check(&format!("SELECT {number}")).is_err(), "{number}");
    }
    for dialect in [Dialect::Mysql, Dialect::Sqlite] {
        assert!(rule(dialect).check("SELECT CAST(a AS mood) FROM t").is_ok(), "{dialect:?}");
    }
}

#[test]
fn a_whole_row_is_for_functions_that_take_rows() {
    let postgres = rule(Dialect::Postgres);
    for refused in [
        "lower(t) FROM t",
        "lower(T) FROM t",
        "lower(\"t\") FROM s.t",
        "lower(((a))) FROM t AS a",
        "lower(a) FROM b JOIN t a ON true",
        "lower(t.*) FROM t",
        "lower(s.t.*) FROM s.t",
        "(SELECT lower(t)) FROM t",
        "1 FROM t WHERE lower(t) = 'a'",
        "1 FROM t, unnest(t)",
        "coalesce(1, t) FROM t",
    ] {
        let refusal = postgres.check(&format!("SELECT {refused}")).expect_err(refused).0;
        assert!(refusal.contains("whole row"), "{refused}: {refusal}");
    }
    for allowed in [
        "lower(a) FROM t",
        "lower(t) FROM t AS a",
        "lower(t.t) FROM t",
        "row_to_json(t) FROM t",
        "count(t.*) FROM t",
        "lower(t) FROM unnest(ARRAY['a']) AS t",
        "max(n) FROM (SELECT 1 AS n) AS n",
        "t FROM t",
    ] {
        assert!(postgres.check(&format!("SELECT {allowed}")).is_ok(), "{allowed}");
    }
    for dialect in [Dialect::Mysql, Dialect::Sqlite] {
        assert!(rule(dialect).check("SELECT lower(t) FROM t").is_ok(), "{dialect:?}");
    }
}

#[test]
fn comments_end_where_the_database_ends_them() {
    let called = |comment: &str| format!("SELECT 1 {comment}, no_such_function()");
    let postgres = rule(Dialect::Postgres);
    for comment in
        ["/* a /* b */ c */", "/*/**/*/", "/*/*/*/ */ */ */", "/***/", "/* /* /* */ */ **/"]
    {
        let refusal = postgres.check(&called(comment)).unwrap_err().0;
        assert!(refusal.contains("no_such_function"), "{comment}: {refusal}");
        assert!(postgres.check(&format!("SELECT 1 {comment}")).is_ok(), "{comment}");
    }
    for open in ["/* /* */", "/*/", "/* /*/ */", "/*/*/", "/*", "/* *"] {
        let refusal = postgres.check(&format!("SELECT 1 {open}")).unwrap_err().0;
        assert!(refusal.contains("multi-line comment"), "{open}: {refusal}");
    }
    for runs in ["/*! */", "/*+ a */", "/* /*+ a */ */", "/* /*! a */ */", "/*M! */"] {
        assert!(
            postgres.check(&format!("SELECT 1 {runs}")).unwrap_err().0.contains("may run"),
            "{runs}"
        );
    }
    for dialect in [Dialect::Mysql, Dialect::Sqlite] {
        assert!(rule(dialect).check("SELECT 1 /* /* */ */").is_err(), "{dialect:?}");
    }
}

#[test]
fn writes_pass_where_a_rule_names_them() {
    let rule = spec(Dialect::Postgres, |spec| {
        spec.statements = vec![Kind::Insert, Kind::Update, Kind::Delete, Kind::Explain];
        spec.tables = globs(&["orders"], &[]);
    });
    for (text, kind) in [
        ("INSERT INTO orders (id) VALUES (1), ($1) RETURNING id", Kind::Insert),
        (
            "INSERT INTO orders (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET note = 'x'",
            Kind::Insert,
        ),
        ("UPDATE orders SET note = lower(note) WHERE id = 1", Kind::Update),
        ("DELETE FROM orders WHERE id = 1", Kind::Delete),
        ("EXPLAIN DELETE FROM orders WHERE id = 1", Kind::Explain),
    ] {
        assert_eq!(rule.check(text).map(|ok| ok.kind), Ok(kind), "{text}");
    }
    for refused in [
        "SELECT 1",
        "EXPLAIN SELECT 1",
        "DELETE FROM orders",
        "UPDATE orders SET note = 'x'",
        "UPDATE orders SET note = pg_read_file('x') WHERE id = 1",
        "UPDATE orders SET note = (SELECT note FROM secret) WHERE id = 1",
        "DELETE FROM secret WHERE id = 1",
        "DELETE FROM orders USING secret WHERE true",
        "INSERT INTO orders SELECT * FROM secret",
        "EXPLAIN ANALYZE DELETE FROM orders WHERE id = 1",
        "EXPLAIN EXPLAIN DELETE FROM orders WHERE id = 1",
        "WITH a AS (SELECT 1) INSERT INTO orders SELECT * FROM a",
    ] {
        assert!(rule.check(refused).is_err(), "{refused}");
    }
}

fn writes(dialect: Dialect) -> Sql {
    spec(dialect, |spec| {
        spec.statements = vec![Kind::Insert, Kind::Update, Kind::Delete];
        spec.tables.deny = vec!["secret".into()];
    })
}

#[test]
fn a_write_that_does_more_than_its_word_says_is_refused() {
    for (dialect, text) in [
        (Dialect::Postgres, "INSERT OVERWRITE t (a) VALUES (1)"),
        (Dialect::Postgres, "INSERT INTO TABLE t (a) VALUES (1)"),
        (Dialect::Postgres, "INSERT INTO t (a) OUTPUT inserted.a VALUES (1)"),
        (Dialect::Mysql, "REPLACE INTO t (a) VALUES (1)"),
        (Dialect::Mysql, "REPLACE t (a) VALUES (1)"),
        (Dialect::Mysql, "INSERT INTO t PARTITION (p) VALUES (1)"),
        (Dialect::Mysql, "INSERT HIGH_PRIORITY INTO t (a) VALUES (1)"),
        (Dialect::Mysql, "INSERT INTO t (a) VALUES (1) AS n"),
        (Dialect::Sqlite, "INSERT OR REPLACE INTO t (a) VALUES (1)"),
        (Dialect::Sqlite, "REPLACE INTO t (a) VALUES (1)"),
        (Dialect::Sqlite, "UPDATE OR REPLACE t SET a = 1 WHERE true"),
        (Dialect::Postgres, "UPDATE t SET a = 1 OUTPUT inserted.a WHERE true"),
        (Dialect::Postgres, "UPDATE t FROM s SET a = 1 WHERE true"),
        (Dialect::Postgres, "DELETE FROM t OUTPUT deleted.a WHERE true"),
        (Dialect::Mysql, "DELETE t FROM t WHERE true"),
        (Dialect::Mysql, "DELETE t, s FROM t JOIN s ON true WHERE true"),
        (Dialect::Mysql, "DELETE FROM t, s USING t JOIN s ON true WHERE true"),
    ] {
        let refusal = writes(dialect).check(text).expect_err(text).0;
        assert!(refusal.starts_with("this form of "), "{text}: {refusal}");
    }
}

/// Each part of a write, with an allowed expression and then with a refused one.
#[test]
fn every_part_of_a_write_is_judged() {
    const ALL: &[Dialect] = &DIALECTS;
    for (dialects, text) in [
        (ALL, "INSERT INTO TABLE_ (a) VALUES (1)"),
        (ALL, "INSERT INTO t (a) VALUES (CALL_)"),
        (ALL, "INSERT INTO t (a) SELECT a FROM TABLE_"),
        (ALL, "INSERT INTO t (a) VALUES (1) RETURNING CALL_"),
        (ALL, "INSERT INTO t (a) VALUES (1) ON DUPLICATE KEY UPDATE a = CALL_"),
        (ALL, "INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET a = CALL_"),
        (ALL, "INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 1 WHERE CALL_ = 'x'"),
        (&[Dialect::Mysql], "INSERT INTO t SET a = CALL_"),
        (ALL, "UPDATE TABLE_ SET a = 1 WHERE true"),
        (ALL, "UPDATE t JOIN TABLE_ ON true SET a = 1 WHERE true"),
        (ALL, "UPDATE t SET a = 1 FROM TABLE_ WHERE true"),
        (ALL, "UPDATE t SET a = CALL_ WHERE true"),
        (ALL, "UPDATE t SET a = 1 WHERE CALL_ = 'x'"),
        (ALL, "UPDATE t SET a = 1 WHERE true RETURNING CALL_"),
        (&[Dialect::Mysql], "UPDATE t SET a = 1 WHERE true ORDER BY CALL_"),
        (&[Dialect::Mysql], "UPDATE t SET a = 1 WHERE true ORDER BY a LIMIT CALL_"),
        (ALL, "DELETE FROM TABLE_ WHERE true"),
        (ALL, "DELETE FROM t USING TABLE_ WHERE true"),
        (ALL, "DELETE FROM t WHERE CALL_ = 'x'"),
        (ALL, "DELETE FROM t WHERE true RETURNING CALL_"),
        (ALL, "DELETE FROM t WHERE true ORDER BY CALL_"),
        (ALL, "DELETE FROM t WHERE true ORDER BY a LIMIT CALL_"),
    ] {
        let with = |table: &str, call: &str| text.replace("TABLE_", table).replace("CALL_", call);
        for &dialect in dialects {
            let rule = writes(dialect);
            let (good, bad) = (with("open", "lower('x')"), with("secret", "load_file('x')"));
            assert!(rule.check(&good).is_ok(), "{dialect:?} {good}: {:?}", rule.check(&good));
            assert!(rule.check(&bad).is_err(), "{dialect:?} {bad}");
        }
    }
}

#[test]
fn names_in_a_write_are_no_strings() {
    for text in [
        "INSERT INTO t (COLUMN_) VALUES (1)",
        "INSERT INTO t AS COLUMN_ (a) VALUES (1)",
        "INSERT INTO t (a) VALUES (1) ON CONFLICT (COLUMN_) DO NOTHING",
        "INSERT INTO t (a) VALUES (1) ON CONFLICT ON CONSTRAINT COLUMN_ DO NOTHING",
        "UPDATE t SET COLUMN_ = 1 WHERE true",
        "UPDATE t SET (COLUMN_, b) = (1, 2) WHERE true",
    ] {
        let with = |column: &str| writes(Dialect::Postgres).check(&text.replace("COLUMN_", column));
        assert!(with("a").is_ok() && with("\"A\"").is_ok(), "{text}");
        let refusal = with("'a'").expect_err(text).0;
        assert!(refusal.contains("quotes"), "{text}: {refusal}");
    }
}

/// Types declared inline and row types are not types of a value.
#[test]
fn a_cast_is_to_plain_types() {
    for (dialect, other) in [
        (Dialect::Postgres, "TABLE(a int)"),
        (Dialect::Postgres, "ENUM('a')"),
        (Dialect::Postgres, "SET('a')"),
        (Dialect::Postgres, "trigger"),
        (Dialect::Postgres, "int[][][][][][]"),
        (Dialect::Mysql, "ENUM('a')"),
        (Dialect::Mysql, "SET('a')"),
        (Dialect::Sqlite, "ENUM('a')"),
    ] {
        let refusal =
            rule(dialect).check(&format!("SELECT CAST(a AS {other}) FROM t")).expect_err(other).0;
        assert!(refusal.contains("is not allowed"), "{dialect:?} {other}: {refusal}");
    }
    for plain in ["int", "varchar(9)", "numeric(3, 1)", "date", "int[][][][][]"] {
        assert!(
            rule(Dialect::Postgres).check(&format!("SELECT CAST(a AS {plain}) FROM t")).is_ok(),
            "{plain}"
        );
    }
}

#[test]
fn functions_are_added_and_taken_away_by_their_whole_name() {
    let rule = spec(Dialect::Postgres, |spec| {
        spec.functions = Functions { allow: vec!["app.score".into()], deny: vec!["MD5".into()] };
    });
    assert!(rule.check("SELECT app.score(1)").is_ok() && rule.check("SELECT lower('x')").is_ok());
    for refused in [
        "SELECT score(1)",
        "SELECT md5('x')",
        "SELECT pg_catalog.md5('x')",
        "SELECT \"LOWER\"('x')",
    ] {
        assert!(rule.check(refused).is_err(), "{refused}");
    }
}

/// As tables, with their arguments in WHERE.
#[test]
fn modules_that_read_files_are_no_tables() {
    let rule = |system_tables| spec(Dialect::Sqlite, |spec| spec.system_tables = system_tables);
    for module in [
        "zipfile",
        "ZIPFILE",
        "main.zipfile",
        "[fsdir]",
        "lines_read",
        "vsv",
        "pragma_table_info",
        "sqlite_dbpage",
    ] {
        let text = format!("SELECT * FROM {module} WHERE path = '/etc/passwd'");
        assert!(rule(false).check(&text).is_err() && rule(true).check(&text).is_ok(), "{text}");
    }
    for table in ["lines", "json_each", "generate_series", "documents"] {
        let text = format!("SELECT * FROM {table} WHERE path = '/etc/passwd'");
        assert!(rule(false).check(&text).is_ok(), "{text}");
    }
}

#[test]
fn what_denies_by_schema_is_told_the_schema_of_bare_names() {
    let compile = |dialect, schemas: &[&str], tables: &[&str], default: Option<&str>| {
        let (schemas, tables) = (globs(&["*"], schemas), globs(&["*"], tables));
        let default_schema = default.map(str::to_owned);
        Sql::compile(&Spec { dialect, schemas, tables, default_schema, ..Spec::default() })
    };
    for dialect in [Dialect::Postgres, Dialect::Mysql] {
        let dotted = compile(dialect, &[], &["pay", "app.credentials"], None).unwrap_err();
        assert!(
            dotted.contains("\"app.credentials\"") && dotted.contains("write \"*.credentials\""),
            "{dotted}"
        );
        assert!(compile(dialect, &[], &["*.app.credentials"], None).is_err());
        let schema = compile(dialect, &["hr"], &[], None).unwrap_err();
        assert!(
            schema.contains("schemas.deny: \"hr\"") && schema.contains("set default_schema"),
            "{schema}"
        );
        for (schemas, tables) in [(&["hr"][..], &[][..]), (&[], &["hr.*"]), (&[], &["hr.pay"])] {
            let rule = compile(dialect, schemas, tables, Some("hr")).unwrap();
            assert!(
                rule.check("SELECT * FROM pay").is_err()
                    && rule.check("SELECT * FROM app.pay").is_ok()
            );
        }
        let any = compile(dialect, &[], &["*.pay"], None).unwrap();
        assert!(
            any.check("SELECT * FROM pay").is_err() && any.check("SELECT * FROM hr.pay").is_err()
        );
        assert!(any.check("SELECT * FROM hr.paid").is_ok());
    }
    for dialect in DIALECTS {
        let empty = compile(dialect, &[], &[], Some("")).unwrap_err();
        assert!(empty.starts_with("default_schema: "), "{empty}");
    }
    compile(Dialect::Sqlite, &["temp"], &["aux.pay"], None).unwrap();
    let allowed = spec(Dialect::Mysql, |spec| spec.schemas = globs(&["app"], &[]));
    assert!(
        allowed.check("SELECT * FROM pay").is_err()
            && allowed.check("SELECT * FROM app.pay").is_ok()
    );
}

/// Returns calls of a function, in every syntax that the grammars have for calls.
fn calls(name: &str) -> Vec<String> {
    [
        "",
        "()",
        "(a)",
        "(a, 1)",
        "(a, b, 1)",
        "(a FROM b)",
        "(a IN b)",
        "(DAY FROM a)",
        "(a AS char)",
        "(a, char)",
        "(a USING utf8)",
        "(a PLACING b FROM 1)",
        "(SELECT 1)",
        "(BOTH a FROM b)",
        "(a ORDER BY b)",
        "() OVER ()",
        "(*)",
        "(a) WITHIN GROUP (ORDER BY b)",
    ]
    .map(|arguments| format!("SELECT {name}{arguments} FROM t"))
    .into()
}

#[test]
fn what_is_denied_is_denied_in_every_syntax() {
    for dialect in DIALECTS {
        let (open, mut called) = (rule(dialect), 0);
        for name in functions::of(dialect) {
            let closed =
                spec(dialect, |spec| spec.functions.deny = vec![name.to_ascii_uppercase()]);
            // The remaining text uses the name as a column.
            let other = |text: &String| open.check(&text.replace(name, "no_such_function")).is_ok();
            for text in calls(name).into_iter().filter(|text| open.check(text).is_ok()) {
                called += 1;
                assert!(closed.check(&text).is_err() || other(&text), "{dialect:?}: {text}");
            }
        }
        assert!(called > 300, "{dialect:?}: {called}");
    }
    let utc = spec(Dialect::Mysql, |spec| {
        spec.functions.deny = vec!["utc_*".into(), "user".into(), "current_*".into()]
    });
    assert!(utc.check("SELECT utc_date").is_err() && utc.check("SELECT CURRENT_USER").is_err());
    assert!(utc.check("SELECT user, `utc_date` FROM t").is_ok());
    let role = spec(Dialect::Postgres, |spec| {
        spec.functions.deny = vec!["*_role".into(), "*_schema".into()]
    });
    assert!(
        role.check("SELECT current_role").is_err() && role.check("SELECT current_schema").is_err()
    );
}

#[test]
fn functions_are_denied_by_pattern_and_mistakes_are_told() {
    let globs = spec(Dialect::Postgres, |spec| {
        spec.functions =
            Functions { allow: vec!["app.score".into()], deny: vec!["REGEXP_*".into()] };
    });
    assert!(globs.check("SELECT lower(a), app.score(a) FROM t").is_ok());
    for refused in ["regexp_match(a, 'b')", "pg_catalog.regexp_replace(a, 'b', 'c')"] {
        assert!(globs.check(&format!("SELECT {refused} FROM t")).is_err(), "{refused}");
    }
    let mistake = |dialect, allow: &[&str], deny: &[&str]| {
        let own = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let functions = Functions { allow: own(allow), deny: own(deny) };
        Sql::compile(&Spec { dialect, functions, ..Spec::default() }).err().unwrap_or_default()
    };
    for (dialect, allow, deny, words) in [
        (
            Dialect::Postgres,
            "",
            "pg_catalog.upper",
            "functions.deny: \"pg_catalog.upper\" must be written \"upper\"",
        ),
        (
            Dialect::Postgres,
            "",
            "nosuchfn",
            "functions.deny: \"nosuchfn\" matches no allowed function",
        ),
        (Dialect::Postgres, "", "nosuch_*", "matches no allowed function"),
        (Dialect::Mysql, "", "app.score", "matches no allowed function"),
        (Dialect::Postgres, "", "a{", "functions.deny: \"a{\" is not a glob"),
        (
            Dialect::Postgres,
            "pg_catalog.pg_relation_size",
            "",
            "must be written \"pg_relation_size\"",
        ),
        (
            Dialect::Postgres,
            "app.*",
            "",
            "functions.allow: \"app.*\" is a pattern: name each function",
        ),
        (
            Dialect::Postgres,
            "a.b.c",
            "",
            "is not the name of a function: write name or schema.name",
        ),
        (Dialect::Mysql, "score()", "", "is not the name of a function"),
        (Dialect::Mysql, ".score", "", "is not the name of a function"),
        (Dialect::Sqlite, "main.score", "", "is not the name of a function: write name, without"),
        (
            Dialect::Mysql,
            "app.score",
            "app.*",
            "functions.allow: \"app.score\" is denied by functions.deny",
        ),
    ] {
        let list = |entry: &'static str| if entry.is_empty() { vec![] } else { vec![entry] };
        let found = mistake(dialect, &list(allow), &list(deny));
        assert!(found.contains(words), "{allow} {deny}: {found}");
    }
    for (allow, deny) in [("pg_relation_size", "*"), ("App.Score", "lower")] {
        let found = mistake(Dialect::Postgres, &[allow], &[deny, "upper"]);
        assert_eq!(found.is_empty(), deny != "*", "{found}");
    }
}

#[test]
fn a_rule_that_says_nothing_sensible_does_not_compile() {
    let error = |change: &dyn Fn(&mut Spec)| {
        let mut spec = Spec::default();
        change(&mut spec);
        Sql::compile(&spec).unwrap_err()
    };
    assert!(error(&|spec| spec.statements.clear()).starts_with("statements: "));
    assert!(error(&|spec| spec.max_rows = Some(0)).starts_with("max_rows: "));
    assert!(error(&|spec| spec.max_bytes = 65_537).starts_with("max_bytes: "));
    assert!(error(&|spec| spec.tables.deny = vec!["a{".into()]).starts_with("tables.deny: \"a{\""));
    assert!(serde_json::from_str::<Spec>(r#"{"dialect": "sqlite", "max_row": 5}"#).is_err());
    assert_eq!(serde_json::from_str::<Spec>("{}").unwrap(), Spec::default());
}

#[test]
fn what_is_too_long_too_deep_or_no_text_is_refused() {
    for dialect in [Dialect::Postgres, Dialect::Mysql, Dialect::Sqlite] {
        let rule = rule(dialect);
        let many = |text: &str, times: usize| text.repeat(times);
        for text in [
            String::new(),
            " ".into(),
            "SELECT 1\0".into(),
            "SELECT 1 /*\0*/ LIMIT 1".into(),
            "SELECT '\0'".into(),
            "SELECT\u{a0}1".into(),
            "SELECT 1\u{b}".into(),
            format!("SELECT '{}'", many("x", MAX_BYTES)),
            format!("SELECT {}1{}", many("(", 60), many(")", 60)),
            format!("SELECT {}", many("(", 60_000)),
            format!("SELECT 1{}", many("+1", 30_000)),
            format!("SELECT {}1", many("- ", 30_000)),
            format!("SELECT {}1", many("NOT ", 15_000)),
            format!("SELECT 1{}", many(" IS NULL", 8_000)),
            format!("SELECT 1{}", many("::int", 8_000)),
            format!("SELECT 1{}", many(" UNION SELECT 1", 4_000)),
            format!("SELECT {}", many("CASE WHEN 1 THEN ", 3_000)),
            format!("SELECT * FROM {}a", many("(SELECT * FROM ", 3_000)),
            format!("SELECT * FROM {}", many("(", 40)),
            format!("WITH {} SELECT 1", many("a AS (WITH ", 40)),
        ] {
            let shown: String = text.chars().take(40).collect();
            assert!(rule.check(&text).is_err(), "{dialect:?}: {shown}");
        }
        let short = spec(dialect, |spec| spec.max_bytes = 20);
        assert!(
            short.check("SELECT 1234567890123").is_ok()
                && short.check("SELECT 12345678901234").is_err()
        );
        let long = format!("SELECT * FROM t WHERE id IN ({})", vec!["12345"; 9_000].join(", "));
        assert!(rule.check(&long).is_ok(), "{:?}", rule.check(&long));
        assert!(
            rule.check(&format!("SELECT * FROM t WHERE {}", vec!["a = 1"; 200].join(" OR ")))
                .is_ok()
        );
    }
}

/// Random combinations of corpus fragments never panic, and any accepted text is one SELECT or its
/// plan.
#[test]
fn no_text_makes_it_panic() {
    let all: Vec<String> = CORPORA.iter().flat_map(|(_, a, b)| lines(a).chain(lines(b))).collect();
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).unwrap()
    };
    let rules = CORPORA.map(|(dialect, _, _)| rule(dialect));
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..=random(2) {
            let line: Vec<char> = all[random(all.len())].chars().collect();
            let (from, to) = (random(line.len() + 1), random(line.len() + 1));
            text.extend(&line[from.min(to)..from.max(to)]);
        }
        for rule in &rules {
            if let Ok(checked) = rule.check(&text) {
                assert!(matches!(checked.kind, Kind::Select | Kind::Explain), "{text}");
            }
        }
    }
}

/// Syntax that the parser tries in several ways, each over everything nested inside.
#[test]
fn no_nesting_keeps_the_parser_busy() {
    const NESTED: [&str; 11] = [
        "1 IN (SELECT ",
        "1 IN (SELECT - ",
        "CAST(",
        "EXTRACT(",
        "POSITION(",
        "CASE WHEN (",
        "f((SELECT ",
        "ARRAY[(",
        "* FROM ((SELECT ",
        "EXISTS ((SELECT ",
        "INTERVAL (",
    ];
    let mut busy = 0;
    for (dialect, nested) in
        DIALECTS.into_iter().flat_map(|dialect| NESTED.map(|nested| (dialect, nested)))
    {
        for end in ["", "x y z", "1 +", ")))"] {
            for times in [4, 12, 23, 46] {
                let text = format!("SELECT {}{end}", nested.repeat(times));
                let began = thread_time();
                let refusal = rule(dialect).check(&text).unwrap_err().0;
                let took = thread_time() - began;
                assert!(took < Duration::from_secs(1), "{took:?}: {text}");
                busy += usize::from(refusal.contains("too long to parse"));
            }
        }
    }
    assert!(busy > 10, "{busy}");
    // The same before lists that the parser reads to the end on each attempt.
    for (dialect, list) in [
        (Dialect::Postgres, "1, "),
        (Dialect::Postgres, "1::f(1,"),
        (Dialect::Postgres, "1::set('','',"),
        (Dialect::Mysql, "CAST(1 AS f(1,"),
        (Dialect::Sqlite, "CAST(1 AS f(1,"),
    ] {
        let (first, item) = list.split_at(list.find("'',").or(list.rfind("1,")).unwrap());
        let text = format!(
            "SELECT {}{first}{}1)) x y z",
            "1 IN (SELECT - ".repeat(40),
            item.repeat(60_000 / item.len())
        );
        let began = thread_time();
        let refusal = rule(dialect).check(&text).unwrap_err().0;
        assert!(refusal.contains("too long to parse"), "{refusal}");
        let took = thread_time() - began;
        assert!(took < Duration::from_secs(5), "{took:?}");
        eprintln!("{took:?} for {} bytes of {list}", text.len());
    }
}

/// Queries without an expression make no dialect calls that can fail.
#[test]
fn no_nesting_of_tables_keeps_the_parser_busy() {
    // Stack frames of a build without optimisation are several times larger.
    let large = std::thread::Builder::new().stack_size(16 * 1024 * 1024);
    large.spawn(nest_tables).unwrap().join().unwrap();
}

fn nest_tables() {
    for (open, inside, close) in [
        ("((SELECT FROM ", "t", ") a) b"),
        ("((SELECT FROM ", "t", ") a b) c"),
        ("((DELETE FROM ", "t", ") a) b"),
        ("((TABLE t) u JOIN ((SELECT FROM ", "t", ") a) b"),
        ("((SELECT FROM ", "t", ""),
        ("((", "t", ") a) b"),
        ("((UPDATE ", "t", " SET) a) b"),
        ("((WITH w AS (SELECT FROM ", "t", ") SELECT FROM w) a) b"),
    ] {
        let parentheses = open.matches('(').count() - open.matches(')').count();
        for (dialect, deep) in DIALECTS.into_iter().flat_map(|one| [(one, 12), (one, 47)]) {
            let times = deep / parentheses;
            let text = format!("SELECT FROM {}{inside}{}", open.repeat(times), close.repeat(times));
            let began = thread_time();
            rule(dialect).check(&text).unwrap_err();
            let took = thread_time() - began;
            assert!(took < Duration::from_secs(1), "{took:?}: {text}");
        }
    }
}

/// Once the time is spent, no statement is parsed.
#[test]
fn time_is_for_all_statements_of_a_call() {
    let spent = Effort::new(Duration::ZERO);
    let enough = Effort::new(Duration::from_secs(3600));
    for dialect in DIALECTS {
        let rule = rule(dialect);
        assert!(rule.check_within("SELECT 1", &enough).is_ok());
        for text in ["SELECT 1", "no SQL", ""] {
            let refusal = rule.check_within(text, &spent.clone()).unwrap_err().0;
            assert!(refusal.contains("too long to parse"), "{refusal}");
        }
    }
}

#[test]
fn what_is_nested_well_is_understood() {
    for dialect in DIALECTS {
        for (open, inside, close) in [
            ("(", "1", ")"),
            ("(SELECT ", "1", ")"),
            ("1 IN (SELECT ", "1", ")"),
            ("1 IN (2, ", "1", ")"),
            ("CAST(", "1", " AS char)"),
            ("abs(", "1", ")"),
            ("CASE WHEN (", "1", ") THEN 1 ELSE 2 END"),
            ("* FROM (SELECT ", "1", ") AS t"),
            ("NOT EXISTS (SELECT ", "1", ")"),
        ] {
            let text = format!("SELECT {}{inside}{}", open.repeat(20), close.repeat(20));
            let checked = rule(dialect).check(&text);
            assert!(checked.is_ok(), "{dialect:?}: {text}: {checked:?}");
        }
    }
}

/// The largest trees fit the stack of a thread.
#[test]
fn what_is_nested_most_fits_the_stack() {
    for dialect in DIALECTS {
        for (text, fits) in [
            (format!("SELECT 1{}", "+1".repeat(498)), true),
            (format!("SELECT 1{}", "+1".repeat(500)), false),
            (format!("SELECT 1{}", " UNION SELECT 1, 1".repeat(200)), true),
            (format!("SELECT 1{}", " UNION SELECT 1, 1".repeat(1000)), false),
            (format!("SELECT {}1{}", "f(".repeat(20), "+1+1, 0)".repeat(20)), true),
            (
                format!(
                    "SELECT {}1{}",
                    "f(".repeat(20),
                    &format!("{}, 0)", "+1".repeat(100)).repeat(20)
                ),
                false,
            ),
        ] {
            let spec = Spec {
                dialect,
                functions: Functions { allow: vec!["f".into()], deny: Vec::new() },
                ..Spec::default()
            };
            let checked = Sql::compile(&spec).unwrap().check(&text);
            assert_eq!(checked.is_ok(), fits, "{dialect:?}: {checked:?}");
        }
    }
}

/// Harmless forms that the parser does not know, or that have no canonical text.
#[test]
fn some_harmless_forms_are_refused() {
    for (dialect, text) in [
        (Dialect::Postgres, "TABLE customers"),
        (Dialect::Postgres, "SELECT * FROM ONLY orders"),
        (Dialect::Postgres, "SELECT * FROM orders FOR READ ONLY"),
        (Dialect::Postgres, "SELECT * FROM orders FETCH FIRST (5) ROWS ONLY"),
        (Dialect::Postgres, "SELECT xmlelement(name customer, name) FROM customers"),
        (Dialect::Postgres, "SELECT U&'d\\0061t'"),
        (Dialect::Postgres, "SELECT inet '10.0.0.1'"),
        (Dialect::Postgres, "SELECT @ -5.0"),
        (Dialect::Mysql, "SELECT 0x4142"),
        (Dialect::Mysql, "SELECT upper (name) FROM customers"),
        (Dialect::Sqlite, "SELECT name FROM customers WHERE name IS 'Ada'"),
        (Dialect::Sqlite, "SELECT id << 1 FROM orders"),
        (Dialect::Sqlite, "SELECT 0x1F"),
        (Dialect::Sqlite, "SELECT $name"),
        (Dialect::Sqlite, "WITH a AS MATERIALIZED (SELECT 1) SELECT * FROM a"),
        (Dialect::Sqlite, "SELECT * FROM orders NOT INDEXED"),
    ] {
        assert!(rule(dialect).check(text).is_err(), "{text}");
    }
}
