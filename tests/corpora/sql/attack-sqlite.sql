DELETE FROM canary
UPDATE canary SET note = 'changed'
INSERT INTO canary VALUES (99, 'new')
INSERT OR REPLACE INTO canary VALUES (1, 'new')
REPLACE INTO canary VALUES (1, 'new')
DROP TABLE canary
ALTER TABLE canary ADD COLUMN extra text
CREATE TABLE planted (a)
CREATE TABLE planted AS SELECT * FROM canary
CREATE TEMP TABLE canary AS SELECT 1 AS note
CREATE TEMP VIEW canary AS SELECT 1 AS note
CREATE VIEW planted AS SELECT 1
CREATE INDEX planted ON canary (note)
CREATE TRIGGER planted AFTER INSERT ON canary BEGIN DELETE FROM canary; END
CREATE TEMP TRIGGER planted AFTER INSERT ON canary BEGIN DELETE FROM canary; END
CREATE VIRTUAL TABLE planted USING fts5(a)
CREATE VIRTUAL TABLE temp.planted USING fts5(a)
SELECT 1; DELETE FROM canary
; DELETE FROM canary
/* harmless */ DELETE FROM canary
WITH a AS (SELECT 1) DELETE FROM canary
WITH a AS (SELECT 1) INSERT INTO canary SELECT 9, 'x'
WITH a AS (SELECT 1) UPDATE canary SET note = 'x'
DELETE FROM canary RETURNING *
ATTACH 'planted.db' AS p
ATTACH DATABASE '/tmp/planted.db' AS p
ATTACH ':memory:' AS p
DETACH main
VACUUM
VACUUM INTO '/tmp/planted.db'
VACUUM main INTO 'planted.db'
REINDEX
ANALYZE
BEGIN
BEGIN EXCLUSIVE
BEGIN IMMEDIATE
COMMIT
END
ROLLBACK
SAVEPOINT a
RELEASE a
PRAGMA query_only = OFF
PRAGMA query_only
PRAGMA writable_schema = ON
PRAGMA journal_mode = DELETE
PRAGMA hard_heap_limit = 1
PRAGMA soft_heap_limit = 1
PRAGMA temp_store_directory = '/tmp'
PRAGMA database_list
PRAGMA table_info(canary)
PRAGMA user_version = 5
PRAGMA main.user_version = 5
PRAGMA wal_checkpoint(TRUNCATE)
PRAGMA optimize
PRAGMA foreign_keys = OFF
PRAGMA trusted_schema = ON
PRAGMA mmap_size = 99999999
PRAGMA data_version
SELECT * FROM pragma_database_list
SELECT * FROM pragma_database_list()
SELECT * FROM pragma_query_only(0)
SELECT * FROM pragma_table_info('canary')
SELECT * FROM "pragma_database_list"
SELECT * FROM [pragma_database_list]
SELECT * FROM PRAGMA_DATABASE_LIST
SELECT * FROM pragma_user_version(7)
SELECT load_extension('/tmp/planted.so')
SELECT LOAD_EXTENSION('/tmp/planted.so')
SELECT "load_extension"('/tmp/planted.so')
SELECT [load_extension]('/tmp/planted.so')
SELECT `load_extension`('/tmp/planted.so')
SELECT load_extension /* */ ('/tmp/planted.so')
SELECT readfile('/etc/passwd')
SELECT writefile('/tmp/planted', 'x')
SELECT edit('x')
SELECT * FROM fsdir('/etc')
SELECT fts3_tokenizer('simple')
SELECT fts3_tokenizer('planted', x'0000000000000000')
SELECT zeroblob(1000000000)
SELECT randomblob(1000000000)
SELECT sqlite_compileoption_get(0)
SELECT sqlite_log(1, 'x')
SELECT eval('DELETE FROM canary')
SELECT sqlite_source_id()
SELECT last_insert_rowid()
SELECT total_changes()
SELECT * FROM sqlite_dbpage
SELECT * FROM dbstat
SELECT * FROM sqlite_stmt
SELECT * FROM sqlite_temp_master
SELECT * FROM sqlite_sequence
SELECT * FROM bytecode('SELECT 1')
SELECT * FROM tables_used('SELECT 1')
SELECT 1 WHERE load_extension('x')
SELECT (SELECT load_extension('x'))
SELECT CASE WHEN 1 THEN load_extension('x') END
SELECT 1 ORDER BY load_extension('x')
SELECT 1 GROUP BY load_extension('x')
SELECT 1 LIMIT load_extension('x')
SELECT 1 UNION SELECT load_extension('x')
SELECT sum(1) FILTER (WHERE load_extension('x')) FROM canary
SELECT sum(1) OVER (ORDER BY load_extension('x')) FROM canary
SELECT group_concat(load_extension('x')) FROM canary
SELECT * FROM canary JOIN json_each(load_extension('x'))
SELECT note COLLATE nocase = load_extension('x') FROM canary
SELECT CAST(load_extension('x') AS TEXT)
VALUES (load_extension('x'))
WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT load_extension('x') FROM c) SELECT * FROM c
SELECT * FROM canary FOR UPDATE
SELECT 1 INTO planted
EXPLAIN DELETE FROM canary
EXPLAIN QUERY PLAN DELETE FROM canary
SELECT 1 /* not closed ; DELETE FROM canary
SELECT 'a' 'b'; DELETE FROM canary
SELECT 1 -- x${CR}; DELETE FROM canary
SELECT raise(ABORT, 'x')
SELECT * FROM other.canary.note
.import /etc/passwd canary
.shell touch /tmp/planted
SELECT
;
UPDATE OR REPLACE canary SET id = 1
INSERT INTO canary DEFAULT VALUES
INSERT INTO canary SELECT * FROM canary
INSERT INTO sqlite_master VALUES (1, 2, 3, 4, 5)
UPDATE sqlite_master SET sql = ''
DROP TABLE IF EXISTS sqlite_master
SELECT 1 END FROM sqlite_master
SELECT 1 END, load_extension('x')
SELECT 1 end UNION SELECT sql FROM sqlite_master
SELECT c.:id FROM canary c
SELECT name, data FROM zipfile WHERE z = '/etc/passwd.zip'
SELECT data FROM main."ZipFile" AS f JOIN canary AS c ON f.z = c.note
SELECT name FROM fsdir WHERE path = '/etc'
SELECT line FROM lines_read WHERE path = '/etc/passwd'
SELECT name FROM fileio_ls WHERE path = '/etc'
SELECT value FROM [fileio_scan] WHERE path = '/etc/passwd'
SELECT * FROM `explain` WHERE sql = 'SELECT note FROM canary'
SELECT candidate FROM completion WHERE prefix = 'c'
SELECT * FROM vfsstat
SELECT (SELECT count(*) FROM tables_used)
WITH a AS MATERIALIZED (SELECT load_extension('x')) SELECT * FROM a
WITH a AS NOT MATERIALIZED (DELETE FROM canary RETURNING *) SELECT * FROM a
WITH a AS MATERIALIZED (SELECT * FROM pragma_database_list) SELECT * FROM a
SELECT * FROM canary INDEXED BY (SELECT load_extension('x'))
SELECT * FROM sqlite_stat1 NOT INDEXED
SELECT * FROM zipfile('x') INDEXED BY i
SELECT * FROM pragma_database_list NOT INDEXED
DELETE FROM canary INDEXED BY i WHERE id = 1
UPDATE canary NOT INDEXED SET note = 'x' WHERE id = 1
EXPLAIN DELETE FROM canary
EXPLAIN QUERY PLAN DELETE FROM canary
EXPLAIN ANALYZE SELECT 1
EXPLAIN SELECT load_extension('x')
EXPLAIN QUERY PLAN SELECT * FROM zipfile('x')
EXPLAIN EXPLAIN SELECT 1
EXPLAIN QUERY PLAN EXPLAIN SELECT 1
EXPLAIN PRAGMA database_list
SELECT 1 /* /* */ */ FROM canary
