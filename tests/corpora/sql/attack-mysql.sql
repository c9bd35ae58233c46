DELETE FROM canary
UPDATE canary SET note = 'changed'
INSERT INTO canary VALUES (99, 'new')
REPLACE INTO canary VALUES (1, 'new')
TRUNCATE TABLE canary
DROP TABLE canary
ALTER TABLE canary ADD COLUMN extra text
CREATE TABLE planted (a int)
CREATE TABLE planted AS SELECT * FROM canary
CREATE TEMPORARY TABLE canary AS SELECT 1
CREATE VIEW planted AS SELECT 1
CREATE DATABASE planted
CREATE USER planted
CREATE FUNCTION sys_exec RETURNS int SONAME 'udf.so'
CREATE PROCEDURE planted() DELETE FROM canary
CREATE EVENT planted ON SCHEDULE EVERY 1 SECOND DO DELETE FROM canary
CREATE TRIGGER planted BEFORE INSERT ON canary FOR EACH ROW SET @a = 1
GRANT ALL ON *.* TO 'x'@'%'
REVOKE ALL ON *.* FROM 'x'@'%'
SET PASSWORD = 'x'
RENAME TABLE canary TO planted
SELECT 1; DELETE FROM canary
COMMIT; DELETE FROM canary
/* harmless */ DELETE FROM canary
/*! DELETE FROM canary */
/*!50000 DELETE FROM canary */
SELECT 1 /*! UNION SELECT sleep(10) */
SELECT /*!99999 1, */ 2
SELECT 1 /*!50000 INTO OUTFILE '/tmp/planted' */
SELECT 1 /*M! UNION SELECT sleep(10) */
SELECT /*+ SET_VAR(sql_mode='') */ 1
SELECT /*+ MAX_EXECUTION_TIME(0) */ 1
COMMIT
ROLLBACK
BEGIN
START TRANSACTION READ WRITE
SET autocommit = 1
SET SESSION TRANSACTION READ WRITE
SET @@session.transaction_read_only = 0
SET GLOBAL general_log = 1
SET @a = 1
SELECT @a
SELECT @a := 1
SELECT @@version
SELECT @@global.datadir
SELECT @@session.sql_mode
SELECT 1 INTO @a
SELECT * FROM canary INTO OUTFILE '/tmp/planted'
SELECT 1 INTO DUMPFILE '/tmp/planted'
SELECT * INTO OUTFILE '/tmp/planted' FROM canary
SELECT note INTO @a FROM canary
SELECT * FROM canary FOR UPDATE
SELECT * FROM canary FOR SHARE
SELECT * FROM canary LOCK IN SHARE MODE
SELECT * FROM canary FOR UPDATE SKIP LOCKED
SELECT * FROM (SELECT * FROM canary FOR UPDATE) AS c
SELECT * FROM canary PROCEDURE ANALYSE()
LOCK TABLES canary WRITE
UNLOCK TABLES
FLUSH TABLES
FLUSH TABLES WITH READ LOCK
RESET MASTER
PURGE BINARY LOGS TO 'x'
KILL 1
SHUTDOWN
USE mysql
HANDLER canary OPEN
HELP 'x'
SHOW VARIABLES
SHOW GRANTS
SHOW PROCESSLIST
DESCRIBE canary
CALL planted()
DO sleep(10)
DO release_all_locks()
PREPARE p FROM 'DELETE FROM canary'
EXECUTE p
EXECUTE IMMEDIATE 'DELETE FROM canary'
DEALLOCATE PREPARE p
LOAD DATA INFILE '/etc/passwd' INTO TABLE canary
LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE canary
LOAD XML INFILE '/etc/passwd' INTO TABLE canary
INSTALL PLUGIN x SONAME 'x.so'
ANALYZE TABLE canary
OPTIMIZE TABLE canary
REPAIR TABLE canary
CHECK TABLE canary
CACHE INDEX canary IN hot
ANALYZE FORMAT=JSON DELETE FROM canary
ANALYZE SELECT sleep(10)
EXPLAIN ANALYZE SELECT sleep(10)
WITH a AS (SELECT 1) DELETE FROM canary
WITH a AS (SELECT 1) UPDATE canary SET note = 'x'
SELECT sleep(10)
SELECT SLEEP(10)
SELECT sleep (10)
SELECT `sleep`(10)
SELECT sleep/**/(10)
SELECT sys.sleep(10)
SELECT 1 WHERE sleep(10)
SELECT 1 FROM canary WHERE id = 1 AND sleep(10)
SELECT 1 ORDER BY sleep(10)
SELECT 1 GROUP BY sleep(10)
SELECT 1 FROM canary HAVING sleep(10)
SELECT IF(1, sleep(10), 0)
SELECT CASE WHEN 1 THEN sleep(10) END
SELECT * FROM (SELECT sleep(10)) AS a
SELECT (SELECT sleep(10))
SELECT 1 UNION SELECT sleep(10)
SELECT group_concat(note ORDER BY sleep(10)) FROM canary
SELECT benchmark(100000000, sha2('x', 512))
SELECT load_file('/etc/passwd')
SELECT LOAD_FILE(0x2f6574632f706173737764)
SELECT hex(load_file('/etc/passwd'))
SELECT get_lock('a', 10)
SELECT release_lock('a')
SELECT release_all_locks()
SELECT is_free_lock('a')
SELECT is_used_lock('a')
SELECT master_pos_wait('a', 1)
SELECT source_pos_wait('a', 1)
SELECT wait_for_executed_gtid_set('a')
SELECT last_insert_id(5)
SELECT row_count()
SELECT found_rows()
SELECT uuid_short()
SELECT nextval(canary_seq)
SELECT NEXT VALUE FOR canary_seq
SELECT lastval(canary_seq)
SELECT setval(canary_seq, 100)
SELECT sys_exec('touch /tmp/planted')
SELECT sys_eval('id')
SELECT canary_writer()
SELECT test.canary_writer()
SELECT extractvalue(1, concat(0x7e, version()))
SELECT updatexml(1, concat(0x7e, version()), 1)
SELECT encrypt('x')
SELECT connection_id()
SELECT * FROM mysql.user
SELECT * FROM `mysql`.`user`
SELECT * FROM MySQL.user
SELECT authentication_string FROM mysql.global_priv
SELECT * FROM performance_schema.threads
SELECT * FROM sys.session
SELECT (SELECT 1 FROM mysql.user LIMIT 1)
SELECT 1 FROM canary WHERE id IN (SELECT 1 FROM mysql.user)
SELECT * FROM canary JOIN mysql.user ON true
TABLE canary
SELECT 'it\'s'; DELETE FROM canary
SELECT 'a\' OR 1; DELETE FROM canary; -- '
SELECT "a\" ; DELETE FROM canary; -- "
SELECT 1--1
SELECT 1 -- x${CR}; DELETE FROM canary
SELECT 1 # x${CR}; DELETE FROM canary
SELECT _utf8'x'
SELECT {fn sleep(10)}
SELECT {ts sleep(10)}
SELECT 1 || sleep(10)
SELECT NOT sleep(10)
SELECT * FROM canary PARTITION (p0) FOR UPDATE
SELECT * FROM JSON_TABLE(load_file('/etc/passwd'), '$' COLUMNS (a INT PATH '$')) AS t
SELECT MATCH (note) AGAINST (load_file('x')) FROM canary
SELECT
;
SIGNAL SQLSTATE '45000'
XA START 'x'
BINLOG 'x'
CHANGE MASTER TO MASTER_HOST = 'x'
START SLAVE
SELECT 1 END FROM mysql.user
SELECT 1 END, load_file('/etc/passwd')
SELECT 1 end INTO OUTFILE '/tmp/x'
SELECT count (1)
SELECT count/**/(*) FROM canary
SELECT Now ()
SELECT trim (note) FROM canary
SELECT `count`(1)
SELECT `md5`(note) FROM canary
SELECT $$x$$
EXPLAIN ANALYZE SELECT * FROM canary
EXPLAIN ANALYZE FORMAT=TREE SELECT * FROM canary
EXPLAIN FORMAT=JSON INTO @x SELECT * FROM canary
EXPLAIN DELETE FROM canary
EXPLAIN UPDATE canary SET note = 'x' WHERE id = 1
EXPLAIN SELECT * FROM mysql.user
EXPLAIN SELECT sleep(10)
EXPLAIN SELECT load_file('/etc/passwd')
EXPLAIN FOR CONNECTION 5
EXPLAIN EXPLAIN SELECT 1
DESCRIBE mysql.user
EXPLAIN SELECT * FROM canary INTO OUTFILE '/tmp/stolen'
ANALYZE SELECT * FROM canary
ANALYZE FORMAT=JSON SELECT * FROM canary
SELECT 1 /* /* */ */ FROM canary
TABLE mysql.user
