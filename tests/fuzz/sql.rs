//! Checks of the SQL rule: the text sent for an allowed statement is a single query, is allowed
//! again, and is sent unchanged. SQLite's authorizer confirms that the compiled query only reads, and
//! uses only permitted tables and functions.

use std::cell::RefCell;
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
/// Recursion limit of the parser, above that of the rule.
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
    static DATABASE: RefCell<Connection> = {
        let database = Connection::open_in_memory().unwrap();
        database.execute_batch(TABLES).unwrap();
        RefCell::new(database)
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
        let sent = &*checked.text;
        let again =
            rule.check(sent).unwrap_or_else(|refusal| panic!("{sent:?} is refused: {refusal:?}"));
        assert_eq!(again, checked, "{text:?} has two canonical texts");
        one_query(dialect, sent);
        if dialect == Dialect::Sqlite {
            only_read(sent, rule, which % 3 == 1);
        }
    });
}

/// Checks that the parser, without the rule's own steps, finds a single query.
fn one_query(dialect: Dialect, text: &str) {
    let known: &dyn dialect::Dialect = match dialect {
        Dialect::Postgres => &PostgreSqlDialect {},
        Dialect::Mysql => &MySqlDialect {},
        Dialect::Sqlite => &SQLiteDialect {},
    };
    match parse(known, text) {
        Ok(Statement::Query(_)) => {}
        Ok(Statement::Explain { statement, analyze: false, .. })
            if matches!(*statement, Statement::Query(_)) => {}
        other => panic!("{text:?} is no query: {other:?}"),
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
    DATABASE.with_borrow_mut(|database| {
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
