DELETE FROM canary
UPDATE canary SET note = 'changed'
INSERT INTO canary VALUES (99, 'new')
TRUNCATE canary
DROP TABLE canary
ALTER TABLE canary ADD COLUMN extra text
CREATE TABLE planted (a int)
CREATE TABLE planted AS SELECT * FROM canary
CREATE TEMP TABLE canary AS SELECT 1
CREATE VIEW planted AS SELECT 1
CREATE MATERIALIZED VIEW planted AS SELECT 1
CREATE FUNCTION planted() RETURNS int AS 'SELECT 1' LANGUAGE sql
CREATE SEQUENCE planted
CREATE ROLE planted SUPERUSER
CREATE EXTENSION dblink
CREATE SCHEMA planted
GRANT ALL ON canary TO public
REVOKE ALL ON canary FROM public
ALTER ROLE postgres PASSWORD 'x'
ALTER SYSTEM SET work_mem = '1GB'
COMMIT; DROP TABLE canary
SELECT 1; DROP TABLE canary
SELECT 1; COMMIT; DELETE FROM canary
/* harmless */ DROP TABLE canary
/* harmless */ SELECT 1; DELETE FROM canary
COMMIT
ROLLBACK
BEGIN
END
ABORT
SAVEPOINT a
SET TRANSACTION READ WRITE
SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE
SET default_transaction_read_only = off
SET statement_timeout = 0
SET ROLE postgres
RESET ALL
DISCARD ALL
SHOW config_file
PREPARE p AS DELETE FROM canary
EXECUTE p
DEALLOCATE ALL
DECLARE c CURSOR FOR SELECT 1
FETCH ALL FROM c
LISTEN channel
NOTIFY channel, 'x'
LOAD 'auto_explain'
CHECKPOINT
VACUUM canary
ANALYZE canary
REINDEX TABLE canary
CLUSTER canary
LOCK TABLE canary
CALL planted()
DO $$ BEGIN DELETE FROM canary; END $$
COPY canary TO '/tmp/planted'
COPY canary FROM '/etc/passwd'
COPY canary TO STDOUT
COPY (SELECT * FROM canary) TO PROGRAM 'touch /tmp/planted'
COPY canary FROM PROGRAM 'touch /tmp/planted'
MERGE INTO canary USING canary AS c ON false WHEN NOT MATCHED THEN INSERT VALUES (9, 'x')
WITH gone AS (DELETE FROM canary RETURNING *) SELECT * FROM gone
WITH more AS (INSERT INTO canary VALUES (8, 'x') RETURNING *) SELECT * FROM more
WITH changed AS (UPDATE canary SET note = 'x' RETURNING *) SELECT * FROM changed
WITH a AS (SELECT 1), b AS (DELETE FROM canary RETURNING 1) SELECT * FROM a
WITH a AS (SELECT 1) DELETE FROM canary
WITH a AS (SELECT 9 AS id, 'x' AS note) INSERT INTO canary SELECT * FROM a
SELECT * FROM (WITH gone AS (DELETE FROM canary RETURNING *) SELECT * FROM gone) AS g
SELECT * INTO planted FROM canary
SELECT 1 AS a INTO TEMP planted
SELECT note INTO UNLOGGED planted FROM canary
SELECT * FROM canary FOR UPDATE
SELECT * FROM canary FOR NO KEY UPDATE
SELECT * FROM canary FOR SHARE
SELECT * FROM canary FOR KEY SHARE SKIP LOCKED
SELECT * FROM (SELECT * FROM canary FOR UPDATE) AS c
EXPLAIN ANALYZE DELETE FROM canary
EXPLAIN (ANALYZE) DELETE FROM canary
EXPLAIN (ANALYZE true) UPDATE canary SET note = 'x'
EXPLAIN ANALYZE CREATE TABLE planted AS SELECT 1
EXPLAIN ANALYZE CREATE MATERIALIZED VIEW planted AS SELECT 1
EXPLAIN ANALYZE SELECT 1 INTO planted
EXPLAIN (COSTS off, ANALYZE on) INSERT INTO canary VALUES (7, 'x')
EXPLAIN ANALYZE SELECT pg_sleep(10)
SELECT pg_sleep(10)
SELECT PG_SLEEP(10)
SELECT pg_catalog.pg_sleep(10)
SELECT "pg_sleep"(10)
SELECT pg_catalog."pg_sleep"(10)
SELECT "pg_catalog"."pg_sleep"(10)
SELECT U&"pg\005fsleep"(10)
SELECT U&"pg!005fsleep"(10) UESCAPE '!'
SELECT u&"pg\005fsleep"(10)
SELECT pg_sleep /* here */ (10)
SELECT (10::float8).pg_sleep
SELECT (10.0::double precision).pg_sleep
SELECT ('/etc/passwd'::text).pg_read_file
SELECT (SELECT 10::float8).pg_sleep
SELECT (ARRAY['/etc/passwd'::text])[1].pg_read_file
SELECT pg_sleep_for('10 seconds')
SELECT pg_sleep_until(now() + interval '10 seconds')
SELECT * FROM pg_sleep(10)
SELECT * FROM LATERAL pg_sleep(10) AS s
SELECT 1 FROM canary, pg_sleep(10)
SELECT 1 FROM canary JOIN pg_sleep(10) ON true
SELECT 1 WHERE EXISTS (SELECT pg_sleep(10))
SELECT 1 WHERE 1 = 1 OR pg_sleep(10) IS NULL
SELECT CASE WHEN true THEN pg_sleep(10) END
SELECT count(pg_sleep(10)) FROM canary
SELECT count(*) FILTER (WHERE pg_sleep(10) IS NULL) FROM canary
SELECT sum(1) OVER (ORDER BY pg_sleep(10))
SELECT sum(1) OVER w FROM canary WINDOW w AS (PARTITION BY pg_sleep(10))
SELECT 1 ORDER BY pg_sleep(10)
SELECT 1 GROUP BY pg_sleep(10)
SELECT 1 FROM canary HAVING pg_sleep(10) IS NULL
SELECT 1 LIMIT (SELECT 1 FROM pg_sleep(10))
SELECT 1 OFFSET (SELECT 0 FROM pg_sleep(10))
SELECT ARRAY(SELECT pg_sleep(10))
SELECT ARRAY[pg_sleep(10)::text]
SELECT (pg_sleep(10), 1)
SELECT coalesce(NULL, pg_sleep(10)::text)
SELECT DISTINCT ON (pg_sleep(10)) id FROM canary
SELECT string_agg(note, ',' ORDER BY pg_sleep(10)) FROM canary
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY length(pg_sleep(10)::text))
VALUES (pg_sleep(10))
SELECT 1 UNION SELECT 1 FROM pg_sleep(10)
SELECT pg_read_file('/etc/passwd')
SELECT * FROM pg_read_file('/etc/passwd')
SELECT pg_read_binary_file('/etc/passwd')
SELECT * FROM pg_ls_dir('/etc')
SELECT pg_stat_file('/etc/passwd')
SELECT pg_ls_logdir()
SELECT lo_import('/etc/passwd')
SELECT lo_export(1, '/tmp/planted')
SELECT lo_create(4711)
SELECT lo_from_bytea(4712, 'x')
SELECT lo_unlink(4711)
SELECT lo_put(1, 0, 'x')
SELECT loread(0, 10)
SELECT nextval('canary_seq')
SELECT setval('canary_seq', 1)
SELECT currval('canary_seq')
SELECT set_config('statement_timeout', '0', false)
SELECT current_setting('data_directory')
SELECT pg_notify('channel', 'x')
SELECT pg_logical_emit_message(true, 'a', 'b')
SELECT pg_create_logical_replication_slot('planted', 'test_decoding')
SELECT pg_create_physical_replication_slot('planted')
SELECT pg_drop_replication_slot('planted')
SELECT pg_advisory_lock(1)
SELECT pg_try_advisory_lock(1)
SELECT pg_advisory_xact_lock(1)
SELECT pg_advisory_unlock_all()
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
SELECT pg_cancel_backend(1)
SELECT pg_reload_conf()
SELECT pg_rotate_logfile()
SELECT pg_switch_wal()
SELECT pg_stat_reset()
SELECT pg_export_snapshot()
SELECT pg_prewarm('canary')
SELECT pg_backend_pid()
SELECT pg_get_functiondef(1)
SELECT txid_current()
SELECT pg_current_xact_id()
SELECT query_to_xml('DELETE FROM canary', true, true, '')
SELECT query_to_xml_and_xmlschema('SELECT 1', true, true, '')
SELECT table_to_xml('canary', true, true, '')
SELECT schema_to_xml('public', true, true, '')
SELECT database_to_xml(true, true, '')
SELECT cursor_to_xml('c', 1, true, true, '')
SELECT * FROM ts_stat('SELECT to_tsvector(note) FROM canary')
SELECT ts_rewrite('a'::tsquery, 'SELECT 1, 2')
SELECT dblink('dbname=postgres', 'DELETE FROM canary')
SELECT dblink_connect('dbname=postgres')
SELECT * FROM dblink('dbname=postgres', 'SELECT 1') AS t(a int)
SELECT postgres_fdw_get_connections()
SELECT canary_writer()
SELECT public.canary_writer()
SELECT * FROM canary_writer()
SELECT public.length('x')
SELECT other.lower('x')
SELECT has_table_privilege('canary', 'select')
SELECT inet_server_addr()
SELECT pg_postmaster_start_time()
SELECT 1 OPERATOR(public.+++) 2
SELECT @@@ 1
SELECT * FROM pg_shadow
SELECT * FROM pg_authid
SELECT * FROM pg_catalog.pg_authid
SELECT * FROM "pg_authid"
SELECT * FROM PG_SHADOW
SELECT * FROM pg_stat_activity
SELECT * FROM pg_settings
SELECT * FROM pg_hba_file_rules
SELECT * FROM pg_largeobject
SELECT * FROM pg_toast.pg_toast_2619
SELECT * FROM ONLY pg_authid
SELECT (SELECT passwd FROM pg_shadow LIMIT 1)
SELECT 1 WHERE 1 IN (SELECT usesysid FROM pg_shadow)
TABLE pg_authid
SELECT * FROM ROWS FROM (pg_sleep(10))
SELECT * FROM canary TABLESAMPLE planted(1)
SELECT 1 ORDER BY 1 USING <
SELECT 1 -- x${CR}; DELETE FROM canary
SELECT '\'; DELETE FROM canary; --'
SELECT E'\'' ; DELETE FROM canary
SELECT $$a$$; DELETE FROM canary
SELECT 'a' 'b'
SELECT /* /* */ 1; DELETE FROM canary -- */ */
SELECT 1 /*+ Set(statement_timeout 0) */
SELECT * FROM canary WHERE id = :x
SELECT 1 {fn pg_sleep(10)}
SELECT $1::
SELECT
;
--
XYZZY
SELECT * FROM generate_series(1, 3) AS g(a) FOR UPDATE
SELECT xmltable.* FROM xmltable('/a' PASSING pg_read_file('/etc/passwd')::xml COLUMNS a text)
SELECT xmlparse(DOCUMENT pg_read_file('/etc/passwd'))
IMPORT FOREIGN SCHEMA public FROM SERVER s INTO public
REFRESH MATERIALIZED VIEW planted
COMMENT ON TABLE canary IS 'x'
SECURITY LABEL ON TABLE canary IS 'x'
REASSIGN OWNED BY postgres TO public
DROP OWNED BY postgres
CREATE RULE r AS ON SELECT TO canary DO ALSO DELETE FROM canary
CREATE TRIGGER t BEFORE INSERT ON canary EXECUTE FUNCTION f()
CREATE PUBLICATION planted
CREATE SUBSCRIPTION planted CONNECTION 'x' PUBLICATION y
CREATE SERVER planted FOREIGN DATA WRAPPER postgres_fdw
CREATE EVENT TRIGGER planted ON ddl_command_start EXECUTE FUNCTION f()
SELECT 1 |+| 2
SELECT 1 END FROM pg_shadow
SELECT 1 END, pg_read_file('/etc/passwd')
SELECT 1 end WHERE pg_sleep(10) IS NULL
SELECT note END INTO planted FROM canary
SELECT id FROM canary AS c END FOR UPDATE
SELECT id FROM customers $$c$$
SELECT x.lo_creat FROM generate_series(1,2) AS x
SELECT x.lo_create FROM generate_series(1,2) x
SELECT lo_creat.lo_creat FROM generate_series(1,2) AS lo_creat(y)
SELECT x.pg_read_file FROM unnest(ARRAY['/etc/hostname']) AS x
SELECT x.pg_read_file FROM json_array_elements_text('["/etc/hostname"]') AS x
SELECT pg_ls_dir.pg_ls_dir FROM json_array_elements_text('["/"]') AS pg_ls_dir
SELECT unnest.pg_read_file FROM unnest(ARRAY['/etc/hostname'])
SELECT "x"."pg_read_file" FROM unnest(ARRAY['/etc/hostname']) AS x WITH ORDINALITY
SELECT X.PG_SLEEP FROM generate_series(1,2) AS x
SELECT x.ts_stat FROM unnest(ARRAY['select to_tsvector(note) from canary']) AS x
SELECT 1 FROM generate_series(1,2) AS x ORDER BY x.pg_advisory_lock
SELECT (SELECT x.pg_advisory_lock) FROM generate_series(1,2) AS x
SELECT y FROM generate_series(1,2) AS x, LATERAL (SELECT x.pg_advisory_lock AS y) AS z
WITH c AS (SELECT x.pg_advisory_lock AS y FROM generate_series(1,2) AS x) SELECT y FROM c
SELECT 1 FROM regexp_split_to_table('/etc/hostname', 'z') AS x WHERE x.pg_read_file = ''
SELECT /*/*/ '*/ */ 1; DELETE FROM canary --'
SELECT /* x ///*/ '*/ */ pg_advisory_lock(1) --'
SELECT t.pg_create_restore_point FROM current_user t
SELECT t.pg_ls_dir FROM "user" AS u, user AS t
SELECT 1 FROM (VALUES (1)) AS a(b) JOIN LOCALTIMESTAMP AS t ON t.pg_notify IS NULL
SELECT (SELECT t.pg_create_restore_point FROM (session_user AS t CROSS JOIN (SELECT 1) AS z))
WITH "current_role" AS (SELECT 1) SELECT t.pg_create_restore_point FROM current_role AS t
SELECT t.pg_sleep FROM current_timestamp(3) AS t
SELECT t.pg_ls_dir FROM current_catalog AS t
SELECT t.pg_ls_dir FROM LATERAL current_schema AS t
SELECT t.pg_ls_dir FROM ROWS FROM (current_schema) AS t
SELECT t.pg_ls_dir FROM system_user AS t
SELECT btrim.pg_read_file FROM trim('/etc/hostname')
SELECT btrim.pg_create_restore_point FROM TRIM(' here ')
SELECT text.pg_read_file FROM cast('/etc/hostname' AS text)
SELECT pg_collation_for.pg_read_file FROM collation for ('/etc/hostname'::text)
SELECT "extract".pg_sleep FROM extract(day FROM now())
SELECT "coalesce".pg_read_file FROM coalesce('/etc/hostname'::text, 'b')
SELECT xmlelement.pg_read_file FROM xmlelement(name a)
TABLE canary; DROP TABLE canary
TABLE pg_catalog.pg_shadow
(TABLE pg_authid)
TABLE "pg_authid" LIMIT 5
WITH a AS (TABLE pg_authid) SELECT * FROM a
SELECT 1 UNION ALL TABLE pg_authid
SELECT 1 UNION ALL TABLE ONLY pg_authid
TABLE ONLY (pg_authid)
TABLE canary FOR UPDATE
SELECT (1) TABLE pg_authid
SELECT * INTO TABLE stolen FROM canary
SELECT * INTO stolen FROM ONLY canary
SELECT * FROM ONLY (pg_authid)
SELECT * FROM canary, ONLY (pg_catalog.pg_authid) AS a
SELECT * FROM canary JOIN ONLY "pg_authid" ON true
SELECT * FROM ONLY (SELECT pg_sleep(10))
SELECT * FROM ONLY pg_read_file('/etc/passwd')
SELECT * FROM ONLY (pg_read_file('/etc/passwd'))
UPDATE ONLY canary SET note = 'x' WHERE true
SELECT * FROM canary FOR READ ONLY FOR UPDATE
SELECT * FROM canary FOR UPDATE FOR READ ONLY
SELECT pg_sleep(1) FOR READ ONLY
SELECT query_to_xml('SELECT * FROM canary', true, false, '')
SELECT table_to_xml('canary', true, false, '')
SELECT table_to_xml('pg_authid'::regclass, true, false, '')
SELECT schema_to_xml('public', true, false, '')
SELECT database_to_xml(true, false, '')
SELECT cursor_to_xml('c', 1, true, false, '')
SELECT query_to_xmlschema('SELECT * FROM canary', true, false, '')
SELECT xmlelement(name a, query_to_xml('DELETE FROM canary', true, false, ''))
SELECT xmlelement(name a, xmlattributes(pg_read_file('/etc/passwd') AS b))
SELECT xmlforest(pg_read_file('/etc/passwd') AS b)
SELECT xmlforest((SELECT rolpassword FROM pg_authid LIMIT 1) AS b)
SELECT xmlserialize(CONTENT query_to_xml('SELECT 1', true, false, '') AS text)
SELECT xmlserialize(CONTENT xmlcomment('a') AS public.evil)
SELECT xmlroot(query_to_xml('SELECT 1', true, false, ''), VERSION pg_read_file('/etc/passwd'))
SELECT xmlexists('//a' PASSING query_to_xml('SELECT 1', true, false, ''))
SELECT xmlpi(name a, pg_read_file('/etc/passwd'))
SELECT * FROM xmltable('//a' PASSING query_to_xml('SELECT 1', true, false, '') COLUMNS b text)
SELECT pg_catalog.query_to_xml('SELECT * FROM canary', true, false, '') IS DOCUMENT
SELECT /* /* */ pg_read_file('/etc/passwd') -- */
SELECT 1 /* /*/ */ */ , pg_read_file('/etc/passwd')
SELECT /* a /* b */ 1 */ , pg_sleep(10)
SELECT 1 /* /* */ UNION SELECT rolpassword FROM pg_authid
SELECT 1 /* /*+ IndexScan(canary) */ */ FROM canary
SELECT * FROM U&"pg\005fauthid"
SELECT * FROM U&"pg!005fauthid" UESCAPE '!'
SELECT U&"pg_read\005ffile"('/etc/passwd')
SELECT U&'\0027' || pg_read_file('/etc/passwd')
SELECT U&'a\' || pg_read_file('/etc/passwd') || '
SELECT U&'\zzzz'
SELECT U&'\D800'
SELECT U&'\0000'
SELECT U&'a!0061' UESCAPE '!' || pg_sleep(10)
SELECT U&'a' UESCAPE U&'b', pg_sleep(10)
SELECT |/ pg_sleep(10)
SELECT @ pg_backend_pid()
SELECT @ (SELECT pg_sleep(10))
SELECT <=> 5
SELECT !!! 5
SELECT @@@ 5
SELECT * FROM canary FETCH FIRST (SELECT count(*) FROM pg_authid) ROWS ONLY
EXPLAIN ANALYZE SELECT * FROM canary
EXPLAIN (ANALYZE) SELECT * FROM canary
EXPLAIN (ANALYZE true, COSTS OFF) DELETE FROM canary
EXPLAIN ANALYZE VERBOSE SELECT 1
EXPLAIN (VERBOSE, ANALYSE) SELECT 1
EXPLAIN ANALYSE SELECT 1
EXPLAIN DELETE FROM canary
EXPLAIN UPDATE canary SET note = 'x'
EXPLAIN INSERT INTO canary VALUES (9, 'x')
EXPLAIN SELECT * FROM pg_authid
EXPLAIN SELECT pg_read_file('/etc/passwd')
EXPLAIN TABLE pg_authid
EXPLAIN EXPLAIN SELECT 1
EXPLAIN (FORMAT JSON, ANALYZE) SELECT 1
EXPLAIN (SERIALIZE) SELECT 1
EXPLAIN EXECUTE evil
EXPLAIN DECLARE c CURSOR FOR SELECT 1
EXPLAIN CREATE TABLE stolen AS SELECT * FROM canary
EXPLAIN SELECT 1; DELETE FROM canary
SELECT 'a'::evil
SELECT 'a'::public.evil
SELECT CAST('a' AS public.evil)
SELECT CAST('a' AS evil[])
SELECT 'a'::"Evil"
SELECT 'a'::canary
SELECT ROW(1, 'a')::canary
SELECT evil 'a'
SELECT lower(canary) FROM canary
SELECT length(c) FROM canary AS c
SELECT upper((c)) FROM canary c
SELECT abs(c.*) FROM canary c
SELECT abs(canary.*) FROM canary
SELECT (SELECT lower(canary)) FROM canary
SELECT 1 FROM canary WHERE lower(canary) = 'a'
SELECT * FROM canary, lower(canary)
