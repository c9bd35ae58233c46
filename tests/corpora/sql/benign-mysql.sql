SELECT 1
select 1;
SELECT now(), curdate(), version(), database(), user()
SELECT * FROM customers
SELECT `id`, `name` FROM `customers` WHERE `id` = 1
SELECT id, name FROM customers WHERE id = ?
SELECT c.id, c.name AS 'Customer name' FROM customers AS c ORDER BY c.name DESC LIMIT 10 OFFSET 5
SELECT * FROM customers LIMIT 5, 10
SELECT * FROM customers WHERE name LIKE '%delete%' OR name LIKE '%drop table%'
SELECT 'DROP TABLE canary; --' AS words
SELECT 'it''s fine' AS quoted
SELECT "double quotes" AS quoted
SELECT 'line\nbreak' AS broken
SELECT count(*) FROM orders
SELECT count(DISTINCT customer_id) FROM orders
SELECT status, count(*), sum(total), avg(total), min(placed_at), max(placed_at) FROM orders GROUP BY status HAVING count(*) >= 1 ORDER BY 2 DESC
SELECT date_format(placed_at, '%Y-%m') AS month, sum(total) FROM orders GROUP BY month ORDER BY month
SELECT year(placed_at), month(placed_at), day(placed_at), hour(placed_at), dayofweek(placed_at) FROM orders
SELECT * FROM orders WHERE placed_at >= now() - INTERVAL 30 DAY
SELECT * FROM orders WHERE placed_at >= date_sub(now(), INTERVAL 1 MONTH)
SELECT * FROM orders WHERE placed_at BETWEEN '2024-01-01' AND '2030-12-31'
SELECT extract(YEAR FROM placed_at) FROM orders
SELECT datediff(now(), placed_at), timestampdiff(DAY, placed_at, now()) FROM orders
SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer_id
SELECT c.name, o.total FROM customers c LEFT JOIN orders o ON o.customer_id = c.id AND o.status = 'paid'
SELECT c.name FROM customers c LEFT JOIN orders o USING (id) WHERE o.id IS NULL
SELECT a.id, b.id FROM customers a CROSS JOIN customers b
SELECT STRAIGHT_JOIN c.name FROM customers c JOIN orders o ON o.customer_id = c.id
SELECT name FROM customers WHERE id IN (SELECT customer_id FROM orders WHERE total > 10)
SELECT name FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id)
SELECT name FROM customers WHERE id NOT IN (1, 2, 3)
SELECT (SELECT count(*) FROM orders o WHERE o.customer_id = c.id) AS orders, c.name FROM customers c
WITH totals AS (SELECT customer_id, sum(total) AS total FROM orders GROUP BY customer_id) SELECT c.name, t.total FROM totals t JOIN customers c ON c.id = t.customer_id
WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 10) SELECT sum(i) FROM n
WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS y FROM a) SELECT * FROM a, b
SELECT id FROM customers UNION SELECT id FROM orders ORDER BY 1
SELECT id FROM customers UNION ALL SELECT id FROM orders
SELECT id, total, row_number() OVER (PARTITION BY customer_id ORDER BY total DESC) AS place FROM orders
SELECT id, sum(total) OVER (ORDER BY placed_at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS running FROM orders
SELECT id, lag(total, 1) OVER (ORDER BY placed_at) AS before_it FROM orders
SELECT CASE WHEN total > 100 THEN 'big' WHEN total > 10 THEN 'medium' ELSE 'small' END AS size, count(*) FROM orders GROUP BY 1
SELECT if(total > 10, 'big', 'small'), ifnull(note, 'none'), coalesce(note, 'none'), nullif(status, '') FROM orders
SELECT upper(name), lower(email), length(name), char_length(name), substring(name, 1, 3), left(name, 2), right(name, 2), trim(name) FROM customers
SELECT substring_index(email, '@', -1) AS domain, count(*) FROM customers GROUP BY domain
SELECT replace(name, 'a', 'b'), reverse(name), lpad(name, 10, ' '), repeat('x', 3) FROM customers
SELECT name REGEXP '^A' AS a, name NOT REGEXP 'b$' AS b FROM customers
SELECT name RLIKE '^A' FROM customers
SELECT concat(name, ' <', email, '>'), concat_ws(', ', name, city) FROM customers
SELECT group_concat(name ORDER BY name SEPARATOR ', ') FROM customers
SELECT group_concat(DISTINCT city) FROM customers
SELECT json_extract(meta, '$.plan'), json_unquote(json_extract(meta, '$.plan')) FROM customers
SELECT json_object('id', id, 'name', name) FROM customers
SELECT json_arrayagg(name) FROM customers
SELECT cast(total AS char), cast(total AS signed), cast(total AS decimal(10, 2)), convert(total, char) FROM orders
SELECT convert(name USING utf8mb4) FROM customers
SELECT round(total, 2), floor(total), ceil(total), abs(-1), mod(5, 2), pow(2, 3), truncate(1.234, 2) FROM orders
SELECT DISTINCT city FROM customers
SELECT table_name FROM information_schema.tables WHERE table_schema = 'test'
SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'orders'
SELECT /* a comment */ id FROM customers -- the end
SELECT id FROM customers # the end
SELECT 1 + 1 FROM DUAL
SELECT total * 1.19 AS gross, total / 2, id % 2, id DIV 2, -id, id & 1, id | 1, id ^ 1, id << 1 FROM orders
SELECT id <=> customer_id FROM orders
SELECT * FROM orders WHERE NOT (status = 'paid' AND total > 5) XOR id = 1
SELECT * FROM items WHERE (order_id, sku) IN ((1, 'a'), (2, 'b'))
SELECT md5(email), sha2(email, 256), hex(email) FROM customers
SELECT unix_timestamp(placed_at), from_unixtime(0) FROM orders
SELECT status, count(*) FROM orders GROUP BY status WITH ROLLUP
SELECT * FROM customers USE INDEX (PRIMARY) WHERE id = 1
SELECT name COLLATE utf8mb4_bin FROM customers
SELECT find_in_set('b', 'a,b,c'), field('b', 'a', 'b'), instr('abc', 'b'), locate('b', 'abc')
SELECT * FROM (SELECT id, name FROM customers) AS c WHERE c.id > 0
SELECT SQL_NO_CACHE id FROM orders
SELECT * FROM customers WHERE name IS NOT NULL AND city <> '' AND id != 5
SELECT date_add(placed_at, INTERVAL 1 DAY), last_day(placed_at), week(placed_at) FROM orders
SELECT std(total), variance(total), bit_or(id) FROM orders
SELECT id FROM orders WHERE total > (SELECT avg(total) FROM orders)
EXPLAIN SELECT * FROM orders WHERE id = 1
EXPLAIN FORMAT=JSON SELECT count(*) FROM orders
DESCRIBE SELECT id FROM customers
