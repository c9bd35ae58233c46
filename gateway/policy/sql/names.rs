//! The names in a statement (tables, functions, types and aliases), decoded as the database decodes
//! them and checked against the rule.

use globset::{Glob, GlobSet, GlobSetBuilder};
use sqlparser::ast::{Ident, ObjectName, ObjectNamePart};

use super::functions::Functions;
use super::spec::{Dialect, Names, Spec};
use crate::{Refusal, no};

/// Schemas of MySQL's system tables.
const MYSQL_SYSTEM: &str = "mysql performance_schema sys";
/// Modules of SQLite's shell and of common extensions that read files, or the statements and pages
/// of others, besides those with the prefixes `sqlite_` and `pragma_`. All of them work as tables
/// (`zipfile WHERE z = 'path'`). Only the database can distinguish modules from the application's
/// tables, so this list denies and is not complete; `tables.allow` is the safe alternative.
const SQLITE_SYSTEM: &str = "bytecode carray completion csv dbstat define explain \
    fileio_ls fileio_scan fsdir fstree fts5_structure incremental_index_check lines_read lsdir \
    tables_used tclvar vfsstat vsv vtablog zipfile";

/// PostgreSQL types that the parser does not know. None of their functions reads anything.
const TYPES: &str = "bpchar char cid cidr daterange datemultirange inet int2vector \
    int4multirange int4range int8multirange int8range jsonpath macaddr macaddr8 money name \
    nummultirange numrange oid oidvector pg_lsn pg_snapshot refcursor regcollation regconfig \
    regdictionary regnamespace regoper regoperator regproc regprocedure regrole regtype tid \
    timestamptz timetz tsmultirange tsrange tstzmultirange tstzrange txid_snapshot xid xid8 xml \
    box circle path point polygon";

#[derive(Clone, Debug)]
pub(super) struct Named {
    dialect: Dialect,
    schemas: Pair,
    tables: Pair,
    default_schema: String,
    system: bool,
    functions: Functions,
}

#[derive(Clone, Debug)]
struct Pair {
    allow: GlobSet,
    deny: GlobSet,
}

/// A name as the database resolves it.
struct Name {
    exact: String,
    lower: String,
}

impl Named {
    pub(super) fn compile(spec: &Spec) -> Result<Self, String> {
        let default = match spec.dialect {
            Dialect::Postgres => "public",
            Dialect::Mysql => "",
            Dialect::Sqlite => "main",
        };
        let folds = spec.dialect == Dialect::Sqlite;
        Ok(Self {
            dialect: spec.dialect,
            schemas: Pair::compile(&spec.schemas, folds, "schemas")?,
            tables: Pair::compile(&spec.tables, folds, "tables")?,
            default_schema: spec.default_schema.as_deref().unwrap_or(default).to_owned(),
            system: spec.system_tables,
            functions: Functions::compile(spec)?,
        })
    }

    /// Checks a table that is not a common table expression.
    pub(super) fn table(&self, name: &ObjectName) -> Result<(), Refusal> {
        let parts = self.parts(name)?;
        let (schema, table) = match parts.as_slice() {
            [table] => (None, table),
            [schema, table] => (Some(schema), table),
            _ => {
                let shown = shown(name);
                return no(format!("the table {shown} has too many parts: write schema.table"));
            }
        };
        if self.dialect == Dialect::Mysql && schema.is_none() && table.lower == "dual" {
            return Ok(());
        }
        let default = Name {
            exact: self.default_schema.clone(),
            lower: self.default_schema.to_ascii_lowercase(),
        };
        let schema = schema.unwrap_or(&default);
        if !self.system && self.is_system(&schema.lower, &table.lower) {
            return no(format!("the system table {} is not allowed", shown(name)));
        }
        if !self.schemas.allows(&[schema]) {
            return no(format!("the schema of the table {} is not allowed", shown(name)));
        }
        let whole = Name {
            exact: format!("{}.{}", schema.exact, table.exact),
            lower: format!("{}.{}", schema.lower, table.lower),
        };
        if !self.tables.allows(&[table, &whole]) {
            return no(format!("the table {} is not allowed", shown(name)));
        }
        Ok(())
    }

    fn is_system(&self, schema: &str, table: &str) -> bool {
        match self.dialect {
            Dialect::Postgres => table.starts_with("pg_") || schema.starts_with("pg_"),
            Dialect::Mysql => has(MYSQL_SYSTEM, schema),
            Dialect::Sqlite => {
                let own = ["sqlite_master", "sqlite_schema"];
                (table.starts_with("sqlite_") && !own.contains(&table))
                    || table.starts_with("pragma_")
                    || has(SQLITE_SYSTEM, table)
            }
        }
    }

    /// Checks the name of a function, in any position.
    pub(super) fn function(&self, name: &ObjectName) -> Result<(), Refusal> {
        let mut parts = Vec::with_capacity(2);
        for part in &name.0 {
            let ObjectNamePart::Identifier(ident) = part else {
                return no("a name contains a call: write a plain name");
            };
            // MySQL's own functions are keywords: a quoted name often refers to a stored function.
            if self.dialect == Dialect::Mysql && name.0.len() == 1 && ident.quote_style.is_some() {
                return no(format!("the function {} is quoted: leave the quotes out", shown(name)));
            }
            parts.push(self.decoded(ident));
        }
        let known = match parts.as_slice() {
            [only] => self.has(only),
            [schema, only] if self.dialect == Dialect::Postgres && schema.exact == "pg_catalog" => {
                self.has(only)
            }
            [schema, only] => self.functions.allows(&format!("{}.{}", schema.exact, only.exact)),
            _ => false,
        };
        if known {
            return Ok(());
        }
        no(format!("the function {} is not on the list of allowed functions", shown(name)))
    }

    /// Checks a type that the parser does not know. In PostgreSQL, a user-defined type may bring
    /// user-defined functions along.
    pub(super) fn type_name(&self, name: &ObjectName) -> Result<(), Refusal> {
        let parts = self.parts(name)?;
        if self.dialect != Dialect::Postgres {
            return Ok(());
        }
        let known = match parts.as_slice() {
            [only] => {
                let is_own = TYPES.split_whitespace().any(|known| known == only.exact);
                is_own || self.functions.adds(&only.exact)
            }
            [schema, _] if schema.exact == "pg_catalog" => true,
            [schema, only] => self.functions.adds(&format!("{}.{}", schema.exact, only.exact)),
            _ => false,
        };
        if known {
            return Ok(());
        }
        no(format!(
            "the type {} is not built into PostgreSQL, and a cast to it may call a function: \
                leave the cast out, or ask the operator to name it in functions.allow",
            shown(name)
        ))
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Returns whether an unqualified name, as the database folds it, is an allowed function.
    pub(super) fn has_function(&self, lower: &str) -> bool {
        self.functions.allows(lower)
    }

    /// Checks a call that the parser does not represent as a function: `TRIM(a FROM b)`.
    pub(super) fn syntax(&self, lower: &str) -> Result<(), Refusal> {
        if self.functions.denies(lower) {
            return no(format!("the function {lower} is not allowed"));
        }
        Ok(())
    }

    fn has(&self, name: &Name) -> bool {
        let is_exact = self.dialect == Dialect::Postgres;
        self.functions.allows(if is_exact { &name.exact } else { &name.lower })
    }

    /// Checks a field access, `(value).field`: in PostgreSQL it is a call if a function has that
    /// name.
    pub(super) fn field(&self, ident: &Ident) -> Result<(), Refusal> {
        self.ident(ident)?;
        if self.dialect == Dialect::Postgres && !self.has(&self.decoded(ident)) {
            return no(format!(
                "`(…).{}` may be a call of a function: name the table and the column instead",
                short(&ident.value)
            ));
        }
        Ok(())
    }

    /// Checks a simple name: an alias, a column, a window.
    pub(super) fn ident(&self, ident: &Ident) -> Result<(), Refusal> {
        if ident.quote_style.is_none() && is_reserved(self.dialect, &ident.value) {
            return no(format!(
                "the word {} cannot be a name here: quote it, or choose another",
                ident.value
            ));
        }
        if ident.quote_style == Some('\'') && self.dialect == Dialect::Postgres {
            return no("a string is used in place of a name: write it in double quotes");
        }
        Ok(())
    }

    /// Checks a qualified name that is neither a table nor a function.
    pub(super) fn object(&self, name: &ObjectName) -> Result<(), Refusal> {
        self.parts(name)?;
        Ok(())
    }

    fn parts(&self, name: &ObjectName) -> Result<Vec<Name>, Refusal> {
        let mut parts = Vec::with_capacity(name.0.len());
        for part in &name.0 {
            let ObjectNamePart::Identifier(ident) = part else {
                return no("a name contains a call: write a plain name");
            };
            let is_string = ident.quote_style == Some('"') && self.dialect == Dialect::Mysql;
            if ident.quote_style == Some('\'') || is_string {
                return no(format!("the name {} has the wrong quotes", short(&ident.value)));
            }
            self.ident(ident)?;
            parts.push(self.decoded(ident));
        }
        Ok(parts)
    }

    fn decoded(&self, ident: &Ident) -> Name {
        let lower = ident.value.to_ascii_lowercase();
        let folds = match self.dialect {
            Dialect::Postgres => ident.quote_style.is_none(),
            Dialect::Mysql => false,
            Dialect::Sqlite => true,
        };
        Name { exact: if folds { lower.clone() } else { ident.value.clone() }, lower }
    }

    pub(super) fn last(&self, name: &ObjectName) -> String {
        match name.0.last() {
            Some(ObjectNamePart::Identifier(ident)) => self.scoped(ident),
            _ => String::new(),
        }
    }

    /// Returns the form of a name by which the statement refers to its own definitions.
    pub(super) fn scoped(&self, ident: &Ident) -> String {
        self.decoded(ident).exact
    }
}

impl Pair {
    fn compile(names: &Names, lower: bool, setting: &str) -> Result<Self, String> {
        Ok(Self {
            allow: compile_globs(&names.allow, lower, &format!("{setting}.allow"))?,
            deny: compile_globs(&names.deny, true, &format!("{setting}.deny"))?,
        })
    }

    /// Returns whether a name is allowed. A denied spelling takes precedence. `deny` ignores case;
    /// `allow` ignores it where the database does.
    fn allows(&self, spellings: &[&Name]) -> bool {
        spellings.iter().any(|name| self.allow.is_match(&name.exact))
            && !spellings.iter().any(|name| self.deny.is_match(&name.lower))
    }
}

/// Compiles the globs of a list. Errors begin with the key of the list.
fn compile_globs(globs: &[String], lower: bool, key: &str) -> Result<GlobSet, String> {
    let mut builder = GlobSetBuilder::new();
    for glob in globs {
        let glob = if lower { glob.to_ascii_lowercase() } else { glob.clone() };
        match Glob::new(&glob) {
            Ok(glob) => builder.add(glob),
            Err(error) => return Err(format!("{key}: {glob:?} is not a glob: {}", error.kind())),
        };
    }
    builder.build().map_err(|error| format!("{key}: {}", error.kind()))
}

/// Checks that `default_schema` is set if the rule denies by schema. The schema of an unqualified
/// table is a setting of the connection, which no statement shows, so omitting the schema would
/// bypass the rule.
pub(super) fn default_is_told(spec: &Spec) -> Result<(), String> {
    if spec.default_schema.as_deref() == Some("") {
        return Err("default_schema: must not be empty: leave it out if it is unknown".into());
    }
    let is_where = match spec.dialect {
        Dialect::Postgres => {
            "the schema in which the role's search_path finds them (by default `public`)"
        }
        Dialect::Mysql => "the database of the connection",
        Dialect::Sqlite => return Ok(()),
    };
    if spec.default_schema.is_some() {
        return Ok(());
    }
    if let Some(schema) = spec.schemas.deny.first() {
        return Err(format!(
            "schemas.deny: {schema:?} can be bypassed by tables without a schema: set \
                default_schema to {is_where}"
        ));
    }
    // `*.pay` matches in every schema.
    for glob in &spec.tables.deny {
        if let Some((_, table)) = glob.strip_prefix("*.").unwrap_or(glob).rsplit_once('.') {
            return Err(format!(
                "tables.deny: {glob:?} can be bypassed by leaving the schema out: write \
                    \"*.{table}\", or set default_schema to {is_where}"
            ));
        }
    }
    Ok(())
}

/// Formats a name for a message: shortened, on one line.
pub(super) fn shown(name: &ObjectName) -> String {
    short(&name.to_string())
}

pub(super) fn short(text: &str) -> String {
    cut(text, 80)
}

/// Truncates a text to `most` characters and escapes it.
pub(super) fn cut(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for c in text.chars().take(most) {
        shown.extend(c.escape_default());
    }
    shown
}

// Words that a database never accepts as an unquoted name. If the parser reads such a word as a
// name, the two disagree on the statement (`FROM ONLY secret`: a table of that name with an alias,
// or a clause), so it is refused.

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

fn is_reserved(dialect: Dialect, word: &str) -> bool {
    let own = match dialect {
        Dialect::Postgres => POSTGRES,
        Dialect::Mysql => MYSQL,
        Dialect::Sqlite => SQLITE,
    };
    has(COMMON, word) || has(own, word)
}
