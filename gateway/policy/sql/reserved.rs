//! Words that a database never accepts as an unquoted name. If the parser reads such a word as a
//! name, the two disagree on the statement (`FROM ONLY secret`: a table of that name with an alias,
//! or a clause), so it is refused.

use super::spec::Dialect;

/// Keywords of the standard's clauses, for all dialects.
const COMMON: &str = "all and as asc between both case check collate column constraint create \
    cross default delete desc distinct drop else except exists false fetch for foreign from full \
    grant group having in inner insert intersect into is join lateral leading left like limit \
    minus natural not null offset on or order outer primary references returning right select \
    set some table tablesample then to trailing true union unique update using when where";
const POSTGRES: &str = "analyse analyze any array asymmetric authorization binary cast collation \
    concurrently deferrable do end freeze ilike initially isnull notnull only overlaps placing \
    rows similar symmetric values variadic verbose window with within xmltable json_table";
const MYSQL: &str = "call convert delayed describe div distinctrow dumpfile explain force \
    fulltext high_priority ignore index interval json_table key keys kill load lock low_priority \
    outfile partition procedure regexp rename rlike separator sql_calc_found_rows straight_join \
    unlock usage use values window with xor";
const SQLITE: &str = "autoincrement commit escape if index indexed isnull notnull transaction \
    values with nothing add";

/// Calls without parentheses.
const VALUES: &str = "current_catalog current_date current_role current_schema current_time \
    current_timestamp current_user localtime localtimestamp";
const POSTGRES_VALUES: &str = "session_user system_user user";
const MYSQL_VALUES: &str = "utc_date utc_time utc_timestamp";
/// Calls with another name for their rows in PostgreSQL: `trim(…)` is `btrim`.
const RENAMED: &str = "cast collation extract treat trim";

/// Returns whether a list contains a word, ignoring case.
pub(super) fn has(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|known| known.eq_ignore_ascii_case(word))
}

/// Returns whether an unquoted word is a call without parentheses.
pub(super) fn is_value(dialect: Dialect, word: &str) -> bool {
    let own = match dialect {
        Dialect::Postgres => POSTGRES_VALUES,
        Dialect::Mysql => MYSQL_VALUES,
        Dialect::Sqlite => "",
    };
    has(VALUES, word) || has(own, word)
}

/// Returns whether PostgreSQL reads an unquoted word in FROM as a call. The name of its rows does
/// not appear in the statement.
pub(super) fn is_call(word: &str) -> bool {
    is_value(Dialect::Postgres, word) || has(RENAMED, word)
}

pub(super) fn is_reserved(dialect: Dialect, word: &str) -> bool {
    let own = match dialect {
        Dialect::Postgres => POSTGRES,
        Dialect::Mysql => MYSQL,
        Dialect::Sqlite => SQLITE,
    };
    has(COMMON, word) || has(own, word)
}
