SELECT 1
select 1;
SELECT date('now'), datetime('now', '-1 day'), strftime('%Y', 'now'), julianday('now')
SELECT * FROM customers
SELECT id, name FROM customers WHERE id = 1
SELECT id, name FROM customers WHERE id = ?1
SELECT id, name FROM customers WHERE id = ? AND name = ?
SELECT c.id, c.name AS "Customer name" FROM main.customers AS c ORDER BY c.name DESC LIMIT 10 OFFSET 5
SELECT * FROM customers LIMIT 5, 10
SELECT [name], `email`, "city" FROM [customers]
SELECT * FROM customers WHERE name LIKE '%delete%' OR name LIKE '%drop table%'
SELECT 'DROP TABLE canary; --' AS words
SELECT 'it''s fine' AS quoted
SELECT 'C:\' AS path
SELECT count(*) FROM orders
SELECT count(DISTINCT customer_id) FROM orders
SELECT status, count(*), sum(total), avg(total), min(placed_at), max(placed_at), total(total) FROM orders GROUP BY status HAVING count(*) >= 1 ORDER BY 2 DESC
SELECT strftime('%Y-%m', placed_at) AS month, sum(total) FROM orders GROUP BY month ORDER BY month
SELECT * FROM orders WHERE placed_at BETWEEN '2024-01-01' AND '2030-12-31'
SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer_id
SELECT c.name, o.total FROM customers c LEFT JOIN orders o ON o.customer_id = c.id AND o.status = 'paid'
SELECT c.name FROM customers c LEFT JOIN orders o USING (id) WHERE o.id IS NULL
SELECT * FROM customers NATURAL JOIN orders
SELECT a.id, b.id FROM customers a CROSS JOIN customers b
SELECT name FROM customers WHERE id IN (SELECT customer_id FROM orders WHERE total > 10)
SELECT name FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id)
SELECT name FROM customers WHERE id NOT IN (1, 2, 3)
SELECT (SELECT count(*) FROM orders o WHERE o.customer_id = c.id) AS orders, c.name FROM customers c
WITH totals AS (SELECT customer_id, sum(total) AS total FROM orders GROUP BY customer_id) SELECT c.name, t.total FROM totals t JOIN customers c ON c.id = t.customer_id
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10) SELECT sum(i) FROM n
WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS y FROM a) SELECT * FROM a, b
SELECT id FROM customers UNION SELECT id FROM orders ORDER BY 1
SELECT id FROM customers UNION ALL SELECT id FROM orders
SELECT id FROM customers INTERSECT SELECT customer_id FROM orders
SELECT id FROM customers EXCEPT SELECT customer_id FROM orders
SELECT id, total, row_number() OVER (PARTITION BY customer_id ORDER BY total DESC) AS place FROM orders
SELECT id, sum(total) OVER (ORDER BY placed_at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM orders
SELECT id, lag(total, 1) OVER w, rank() OVER w FROM orders WINDOW w AS (ORDER BY placed_at)
SELECT count(*) FILTER (WHERE status = 'paid') AS paid FROM orders
SELECT CASE WHEN total > 100 THEN 'big' WHEN total > 10 THEN 'medium' ELSE 'small' END AS size, count(*) FROM orders GROUP BY 1
SELECT iif(total > 10, 'big', 'small'), ifnull(note, 'none'), coalesce(note, 'none'), nullif(status, '') FROM orders
SELECT upper(name), lower(email), length(name), substr(name, 1, 3), trim(name), ltrim(name, ' '), instr(name, 'a'), replace(name, 'a', 'b') FROM customers
SELECT name || ' <' || email || '>' FROM customers
SELECT group_concat(name, ', ') FROM customers
SELECT group_concat(DISTINCT city) FROM customers
SELECT json_extract(meta, '$.plan'), meta -> '$.plan', meta ->> '$.plan' FROM customers
SELECT key, value FROM customers, json_each(customers.meta)
SELECT json_object('id', id, 'name', name) FROM customers
SELECT json_group_array(name) FROM customers
SELECT cast(total AS text), cast(total AS integer), cast(total AS real) FROM orders
SELECT round(total, 2), abs(-1), max(1, 2), min(1, 2), typeof(total) FROM orders
SELECT DISTINCT city FROM customers
SELECT name, sql FROM sqlite_master WHERE type = 'table'
SELECT name FROM sqlite_schema
SELECT /* a comment */ id FROM customers -- the end
SELECT name GLOB 'A*' FROM customers
SELECT name COLLATE NOCASE FROM customers
SELECT printf('%.2f', total), format('%d', id) FROM orders
SELECT * FROM items WHERE (order_id, sku) IN (VALUES (1, 'a'), (2, 'b'))
VALUES (1, 'a'), (2, 'b')
SELECT * FROM (SELECT id, name FROM customers) AS c WHERE c.id > 0
SELECT id FROM orders WHERE total > (SELECT avg(total) FROM orders)
SELECT 1 = 1, 1 == 1, 1 != 2, 1 <> 2, NOT 0
SELECT random() IS NOT NULL
SELECT unixepoch('2024-01-01'), timediff('2024-01-02', '2024-01-01')
SELECT name FROM customers ORDER BY lower(name) ASC NULLS LAST
SELECT count(*) FROM customers WHERE name NOT LIKE 'x%' ESCAPE '\'
WITH lines AS (SELECT id, total FROM orders) SELECT l.id, j.value FROM lines AS l JOIN json_each AS j ON j.json = '[1, 2]'
EXPLAIN QUERY PLAN SELECT * FROM orders WHERE id = 1
EXPLAIN SELECT 1
