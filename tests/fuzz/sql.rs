//! Checks of the SQL rule: an allowed text is a single query, and is allowed again after it is
//! printed by another parser. SQLite's authorizer confirms that the compiled query only reads, and
//! uses only permitted tables and functions.

use std::sync::{Arc, Mutex};

use lockgate_policy::sql::{Dialect, Kind, MissingLimit, Names, Spec, Sql};
use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use sqlparser::ast::Statement;
use sqlparser::dialect::{self, MySqlDialect, PostgreSqlDialect, SQLiteDialect};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

const DIALECTS: [Dialect; 3] = [Dialect::Postgres, Dialect::Mysql, Dialect::Sqlite];
/// The table that the second rule of each dialect denies.
const CANARY: &str = "canary";
/// Recursion limit of the second parser, above that of the rule.
const MAX_DEPTH: usize = 160;

const TABLES: &str = "
    CREATE TABLE canary (id INTEGER PRIMARY KEY, note TEXT);
    CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, email TEXT, age INTEGER, active INTEGER, created_at TEXT);
    CREATE TABLE orders (id INTEGER PRIMARY KEY, user_id INTEGER, total REAL, status TEXT, created_at TEXT);
    CREATE TABLE t (id INTEGER PRIMARY KEY, a, b, c, d, x, y, name TEXT);
    CREATE TABLE a (id, a, b, c); CREATE TABLE b (id, a, b, c);
";

thread_local! {
    static RULES: Vec<Sql> = rules();
    static DATABASE: Connection = {
        let database = Connection::open_in_memory().unwrap();
        database.execute_batch(TABLES).unwrap();
        database
    };
}

/// Returns three rules per dialect: the default, with a denied table, and with a row limit.
fn rules() -> Vec<Sql> {
    let names = Names { deny: vec![CANARY.into()], ..Names::default() };
    let all = DIALECTS.into_iter().flat_map(|dialect| {
        let plain = Spec { dialect, ..Spec::default() };
        let denied = Spec { tables: names.clone(), ..plain.clone() };
        let limited = Spec { max_rows: Some(5), missing_limit: MissingLimit::Add, ..plain.clone() };
        [plain, denied, limited]
    });
    all.map(|spec| Sql::compile(&spec).unwrap()).collect()
}

/// Checks the rules on an input. Panics when a property does not hold.
pub fn check(data: &[u8]) {
    let Some((which, text)) = crate::split(data) else { return };
    let (which, dialect) = (which % 9, DIALECTS[which % 9 / 3]);
    RULES.with(|rules| {
        let rule = &rules[which];
        let Some(checked) = crate::timed(|| rule.check(text)) else { return };
        assert!(matches!(checked.kind, Kind::Select | Kind::Explain), "{text:?}");
        let sent = checked.rewritten.as_deref().unwrap_or(text);
        let again =
            rule.check(sent).unwrap_or_else(|refusal| panic!("{sent:?} is refused: {refusal:?}"));
        assert_eq!((again.kind, again.rewritten), (checked.kind, None), "{sent:?}");
        one_query(dialect, sent, rule);
        if dialect == Dialect::Sqlite {
            only_read(sent, rule, which % 3 == 1);
        }
    });
}

/// Checks that a second parser finds a single query, and that the query it prints is allowed too.
fn one_query(dialect: Dialect, text: &str, rule: &Sql) {
    let known: &dyn dialect::Dialect = match dialect {
        Dialect::Postgres => &PostgreSqlDialect {},
        Dialect::Mysql => &MySqlDialect {},
        Dialect::Sqlite => &SQLiteDialect {},
    };
    let parsed = parse(known, text)
        .or_else(|error| parse(known, &respelled(dialect, text)).map_err(|_| error));
    let parsed = match parsed {
        Ok(parsed) => parsed,
        // SQLite texts are checked by the database itself; the corpora cover these PostgreSQL
        // spellings.
        Err(_) if is_rewritten(dialect, text) => return,
        Err(error) => panic!("{text:?} does not parse: {error}"),
    };
    let query = match &parsed {
        Statement::Query(query) => query.to_string(),
        Statement::Explain { statement, analyze: false, .. }
            if matches!(**statement, Statement::Query(_)) =>
        {
            statement.to_string()
        }
        _ => panic!("{text:?} is no query: {parsed:?}"),
    };
    let printed = query;
    if let Ok(checked) = rule.check(&printed) {
        assert!(
            matches!(checked.kind, Kind::Select | Kind::Explain),
            "{text:?} became {printed:?}"
        );
    } else {
        // The printed spelling may be unknown to the rule, but must not be another kind of
        // statement.
        let parsed = parse(known, &printed);
        assert!(
            parsed.is_err() || matches!(parsed, Ok(Statement::Query(_))),
            "{text:?} became {printed:?}"
        );
    }
}

/// Returns whether the text has a word or operator that the rule rewrites before parsing.
fn is_rewritten(dialect: Dialect, text: &str) -> bool {
    const POSTGRES: [&str; 16] = [
        "table", "only", "xml", "fetch", "document", "u&'", "inet", "cidr", "money", "range",
        "oid", "reg", "pg_", "mac", "name", "char",
    ];
    let lower = text.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    match dialect {
        Dialect::Postgres => {
            has(&POSTGRES) || has(&["time", "tid", "xid", "jsonpath", "/*", "cid", "refcursor"])
        }
        Dialect::Sqlite => has(&["materialized", "indexed", "<<", ">>", "is"]),
        Dialect::Mysql => false,
    }
}

/// Parses the text as a single statement up to its last token. `Parser::parse_statements` would
/// stop at an END.
fn parse(known: &dyn dialect::Dialect, text: &str) -> Result<Statement, ParserError> {
    let mut parser = Parser::new(known).with_recursion_limit(MAX_DEPTH).try_with_sql(text)?;
    let statement = parser.parse_statement()?;
    while parser.consume_token(&Token::SemiColon) {}
    match parser.peek_token().token {
        Token::EOF => Ok(statement),
        rest => Err(ParserError::ParserError(format!("{rest} follows"))),
    }
}

/// Rewrites syntax that the second parser lacks: `$` in names, SQLite variables, a `_` after a dot,
/// adjacent operators and operators before a comment, which it would merge, and a MySQL comment
/// that ends with its dashes.
fn respelled(dialect: Dialect, text: &str) -> String {
    let (mut plain, mut before, mut skipped) = (String::with_capacity(text.len() + 16), ' ', 0);
    for (at, c) in text.char_indices() {
        let named = before.is_ascii_alphanumeric() || before == '_';
        match c {
            c if at < skipped => plain.push(c),
            '\'' | '"' | '`' => {
                let escapes = dialect == Dialect::Mysql || matches!(before, 'e' | 'E');
                skipped = at + quoted(&text[at..], c, escapes);
                plain.push(c);
            }
            '$' if named => plain.push('_'),
            '$' if dialect == Dialect::Postgres => {
                skipped = at + dollar_quoted(&text[at..]);
                plain.push(c);
            }
            '_' if before == '.' => plain.push('x'),
            '@' if dialect == Dialect::Sqlite => plain.push_str(":_"),
            ':' if dialect == Dialect::Sqlite && before != ':' => plain.push_str(":_"),
            '~' if before == '~' && dialect != Dialect::Postgres => plain.push_str(" ~"),
            '+' | '-' if matches!(before, '+' | '-') && (c, before) != ('-', '-') => {
                plain.extend([' ', c])
            }
            '/' if text[at..].starts_with("/*") => {
                skipped = at + text[at..].find("*/").map_or(0, |end| end + 2);
                plain.push_str(" /");
            }
            c => plain.push(c),
        }
        before = plain.chars().next_back().unwrap_or(c);
    }
    if dialect == Dialect::Mysql && plain.ends_with("--") {
        plain.push(' ');
    }
    plain
}

/// Returns the length in bytes of the quoted text at the start, with its quotes; with `escapes`, a
/// backslash escapes a quote.
fn quoted(text: &str, quote: char, escapes: bool) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if escapes => is_escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the length in bytes of the string `$tag$…$tag$` at the start, or 0.
fn dollar_quoted(text: &str) -> usize {
    let tag = text[1..]
        .find(|c: char| c != '_' && !c.is_alphanumeric())
        .filter(|end| text[1 + end..].starts_with('$'));
    let quotes = tag.map(|end| text.split_at(end + 2));
    quotes.and_then(|(tag, rest)| rest.find(tag).map(|end| end + 2 * tag.len())).unwrap_or(0)
}

/// Checks the actions that SQLite reports for the text, unless the text is invalid in SQLite.
fn only_read(text: &str, rule: &Sql, denied: bool) {
    let (found, own) = (Arc::new(Mutex::new(Vec::new())), rule.clone());
    let told = Arc::clone(&found);
    let judge = move |context: AuthContext<'_>| {
        if !expected(&context.action, &own, denied) {
            told.lock().unwrap().push(format!("{:?}", context.action));
        }
        Authorization::Allow
    };
    DATABASE.with(|database| {
        database.authorizer(Some(judge)).unwrap();
        let readonly = database.prepare(text).map(|statement| statement.readonly());
        database.authorizer(None::<fn(AuthContext<'_>) -> Authorization>).unwrap();
        if let Ok(readonly) = readonly {
            let found = found.lock().unwrap();
            assert!(readonly && found.is_empty(), "{text:?} does {found:?}");
        }
    });
}

/// Returns whether an allowed query may perform the action.
fn expected(action: &AuthAction<'_>, rule: &Sql, denied: bool) -> bool {
    match action {
        AuthAction::Select | AuthAction::Recursive => true,
        AuthAction::Read { table_name, .. } => !denied || !table_name.eq_ignore_ascii_case(CANARY),
        AuthAction::Function { function_name } => {
            let lower = function_name.to_ascii_lowercase();
            // Operators in SQL text that SQLite implements as functions.
            rule.allows_function(&lower) || matches!(&*lower, "like" | "glob" | "->" | "->>")
        }
        _ => false,
    }
}
