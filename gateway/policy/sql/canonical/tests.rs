//! Tests of `canonical`: the text that is sent for a statement, and the texts that have none.

use proptest::prelude::*;

use super::*;

const POSTGRES: Dialect = Dialect::Postgres;
const MYSQL: Dialect = Dialect::Mysql;
const SQLITE: Dialect = Dialect::Sqlite;
const DIALECTS: [Dialect; 3] = [POSTGRES, MYSQL, SQLITE];

/// Returns the statement and its canonical text.
fn canonical(dialect: Dialect, text: &str) -> Result<(Statement, String), Refusal> {
    let effort = Effort::default();
    let reader = Reader { dialect, effort: &effort };
    let statement = reader.read(text)?;
    let sent = reader.write(&statement, text)?;
    Ok((statement, sent))
}

#[test]
fn a_statement_is_sent_in_one_form() {
    for (dialect, text, sent) in [
        (POSTGRES, "select  1 ; -- end", "SELECT 1"),
        (POSTGRES, "SELECT/* a /* b */ c */a\r\nFROM\tt;;", "SELECT a FROM t"),
        (POSTGRES, "SELECT a b FROM t c", "SELECT a AS b FROM t c"),
        (POSTGRES, "SELECT $$it's$$, $a$b$a$", "SELECT 'it''s', 'b'"),
        (POSTGRES, r"SELECT E'it\'s\n', E'\x41\101'", "SELECT 'it''s\n', 'AA'"),
        (POSTGRES, r"SELECT 'C:\dir', 'C:\\'", r"SELECT 'C:\dir', 'C:\\'"),
        (
            POSTGRES,
            "SELECT 'it''s''''', N'a', x'4F', b'01'",
            "SELECT 'it''s''''', N'a', X'4F', B'01'",
        ),
        (
            POSTGRES,
            "SELECT a!=-1, a<-1, -1::int, a[1:2]",
            "SELECT a <> -1, a < -1, -1::INT, a[1:2]",
        ),
        (POSTGRES, "SELECT 1 LIMIT ALL", "SELECT 1"),
        (POSTGRES, "SELECT \"a b\", $1", "SELECT \"a b\", $1"),
        (MYSQL, "SELECT \"it's\" # end", "SELECT 'it''s'"),
        (MYSQL, "SELECT a -- end", "SELECT a"),
        (MYSQL, r"SELECT 'a\nb', `a b`, ?", r"SELECT 'a\nb', `a b`, ?"),
        (MYSQL, "SELECT a LIMIT 5, 10", "SELECT a LIMIT 5, 10"),
        (SQLITE, "SELECT [a b], `c`, ?1, :a, @b", "SELECT [a b], `c`, ?1, :a, @b"),
        (SQLITE, r"SELECT 'C:\', a==1", r"SELECT 'C:\', a = 1"),
    ] {
        assert_eq!(canonical(dialect, text).map(|(_, sent)| sent), Ok(sent.into()), "{text}");
    }
}

/// Texts that a database and the parser could read differently, or a database in two ways.
#[test]
fn what_has_two_meanings_is_refused() {
    const ALL: &[Dialect] = &DIALECTS;
    for (dialects, text) in [
        (ALL, "SELECT 1 /*! + 1 */"),
        (ALL, "SELECT 1 /*+ a */"),
        (ALL, "SELECT 1 /*M!100 + 1 */"),
        (ALL, "SELECT 1 -- a\r, 2"),
        (ALL, "SELECT '\0'"),
        (ALL, "SELECT 1; SELECT 2"),
        (ALL, "SELECT 'a' 'b'"),
        (ALL, "SELECT 'a'\n'b'"),
        (ALL, "SELECT - - a"),
        (ALL, "SELECT 0x1F"),
        (ALL, "SELECT 1_000"),
        (ALL, "SELECT X'4G'"),
        (ALL, "SELECT 1a"),
        (ALL, "SELECT \u{e9}t\u{e9} FROM t"),
        (ALL, "SELECT a$\u{e9} FROM t"),
        (ALL, "SELECT {d '2024-01-01'}"),
        (ALL, "SELECT \u{a0}1"),
        (&[POSTGRES, MYSQL], r"SELECT 'a\'"),
        (&[POSTGRES, MYSQL], r"SELECT 'a\' || 'b'"),
        (&[POSTGRES, MYSQL], r"SELECT 'a\\\''"),
        (&[POSTGRES], r"SELECT E'\0'"),
        (&[POSTGRES], r"SELECT E'\\'"),
        (&[POSTGRES], r"SELECT $$a\$$"),
        (&[POSTGRES], "SELECT \"a\"\"b\""),
        (&[POSTGRES], "SELECT @@@ 1"),
        (&[POSTGRES], "SELECT @ -1"),
        (&[MYSQL], "SELECT \"a\"\"b\""),
        (&[MYSQL], r#"SELECT "a\"""#),
        (&[MYSQL], "SELECT 1--1"),
        (&[MYSQL], "SELECT count (a)"),
        (&[MYSQL], "SELECT Now /**/ ()"),
        (&[MYSQL], "SELECT @a"),
        (&[MYSQL], "SELECT `a``b`"),
        (&[SQLITE], "SELECT N'a'"),
        (&[SQLITE], "SELECT $a"),
    ] {
        for &dialect in dialects {
            assert!(canonical(dialect, text).is_err(), "{dialect:?} {text}");
        }
    }
    for (text, length) in [("SELECT {}", 63), ("SELECT \"{}\"", 63)] {
        for (extra, fits) in [(0, true), (1, false)] {
            let text = text.replace("{}", &"a".repeat(length + extra));
            assert_eq!(canonical(POSTGRES, &text).is_ok(), fits, "{text}");
        }
    }
}

/// Fragments of statements, which are joined at random.
const PARTS: [&str; 40] = [
    "SELECT ",
    "a",
    "b.c",
    "\"d e\"",
    "`f`",
    "[g]",
    "'h'",
    "'it''s'",
    "'\\n'",
    "\"i\"",
    "$$j$$",
    "E'\\n'",
    "1",
    "2.5e3",
    "x'4F'",
    "$1",
    "?",
    ":k",
    " FROM t",
    " FROM t AS u",
    ", ",
    "(",
    ")",
    " WHERE ",
    " = ",
    "=-",
    " - ",
    " AND ",
    " OR NOT ",
    " IN (1, 2)",
    " LIKE ",
    "::int",
    "CAST(a AS text)",
    "count(*)",
    " UNION ",
    " ORDER BY a DESC",
    " LIMIT 5",
    " OFFSET 2",
    " /* c */ ",
    " -- d\n",
];

proptest! {
    /// The canonical text of a statement is parsed as the same statement, and is its own.
    #[test]
    fn a_canonical_text_is_the_statement(
        parts in prop::collection::vec(prop::sample::select(&PARTS[..]), 1..9),
        dialect in prop::sample::select(&DIALECTS[..]),
    ) {
        let text = format!("SELECT {}", parts.concat());
        if let Ok((statement, sent)) = canonical(dialect, &text) {
            prop_assert_eq!(canonical(dialect, &sent), Ok((statement, sent)), "{}", text);
        }
    }
}
