//! Names that the databases define: their own tables and types.

/// Schemas of MySQL's system tables.
pub(super) const MYSQL_SYSTEM: &str = "mysql performance_schema sys";
/// Modules of SQLite's shell and of common extensions that read files, or the statements and pages
/// of others, besides those with the prefixes `sqlite_` and `pragma_`. All of them work as tables
/// (`zipfile WHERE z = 'path'`). Only the database can distinguish modules from the application's
/// tables, so this list denies and is not complete; `tables.allow` is the safe alternative.
pub(super) const SQLITE_SYSTEM: &str = "bytecode carray completion csv dbstat define explain \
    fileio_ls fileio_scan fsdir fstree fts5_structure incremental_index_check lines_read lsdir \
    tables_used tclvar vfsstat vsv vtablog zipfile";

/// PostgreSQL types that the parser does not know. None of their functions reads anything.
const TYPES: &str = "bpchar char cid cidr daterange datemultirange inet int2vector \
    int4multirange int4range int8multirange int8range jsonpath macaddr macaddr8 money name \
    nummultirange numrange oid oidvector pg_lsn pg_snapshot refcursor regcollation regconfig \
    regdictionary regnamespace regoper regoperator regproc regprocedure regrole regtype tid \
    timestamptz timetz tsmultirange tsrange tstzmultirange tstzrange txid_snapshot xid xid8 xml \
    box circle path point polygon";

/// Returns whether a name, as PostgreSQL folds it, is one of its types.
pub(super) fn is_type(name: &str) -> bool {
    TYPES.split_whitespace().any(|known| known == name)
}
