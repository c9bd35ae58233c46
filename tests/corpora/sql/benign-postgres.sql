SELECT 1
select 1;
SELECT now()
SELECT version()
SELECT current_date, current_user, current_database()
SELECT * FROM customers
SELECT id, name FROM customers WHERE id = 1
SELECT id, name FROM customers WHERE id = $1
SELECT c.id, c.name AS "Customer name" FROM public.customers AS c ORDER BY c.name DESC NULLS LAST LIMIT 10 OFFSET 5
SELECT * FROM customers WHERE name ILIKE '%delete%' OR name ILIKE '%drop table%'
SELECT 'DROP TABLE canary; --' AS words
SELECT 'it''s fine' AS quoted
SELECT E'line\nbreak' AS escaped
SELECT $$dollar ; quoted$$ AS text
SELECT $tag$it's $$ inside$tag$ AS text
SELECT count(*) FROM orders
SELECT count(DISTINCT customer_id) FROM orders
SELECT status, count(*), sum(total), avg(total)::numeric(10,2), min(placed_at), max(placed_at) FROM orders GROUP BY status HAVING count(*) >= 1 ORDER BY 2 DESC
SELECT date_trunc('month', placed_at) AS month, sum(total) FROM orders GROUP BY 1 ORDER BY 1
SELECT extract(year FROM placed_at) AS y, extract(dow FROM placed_at) FROM orders
SELECT * FROM orders WHERE placed_at >= now() - interval '30 days'
SELECT * FROM orders WHERE placed_at BETWEEN '2024-01-01' AND DATE '2030-12-31'
SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer_id
SELECT c.name, o.total FROM customers c LEFT JOIN orders o ON o.customer_id = c.id AND o.status = 'paid'
SELECT c.name FROM customers c LEFT OUTER JOIN orders o USING (id) WHERE o.id IS NULL
SELECT * FROM customers NATURAL JOIN orders
SELECT a.id, b.id FROM customers a CROSS JOIN customers b
SELECT c.name, x.total FROM customers c CROSS JOIN LATERAL (SELECT o.total FROM orders o WHERE o.customer_id = c.id ORDER BY o.placed_at DESC LIMIT 1) AS x
SELECT name FROM customers WHERE id IN (SELECT customer_id FROM orders WHERE total > 10)
SELECT name FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id)
SELECT name FROM customers WHERE id NOT IN (1, 2, 3)
SELECT name FROM customers WHERE id = ANY(ARRAY[1, 2, 3])
SELECT name FROM customers WHERE id = ANY($1::int[])
SELECT (SELECT count(*) FROM orders o WHERE o.customer_id = c.id) AS orders, c.name FROM customers c
WITH totals AS (SELECT customer_id, sum(total) AS total FROM orders GROUP BY customer_id) SELECT c.name, t.total FROM totals t JOIN customers c ON c.id = t.customer_id
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10) SELECT sum(i) FROM n
WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS y FROM a) SELECT * FROM a, b
WITH recent AS MATERIALIZED (SELECT * FROM orders) SELECT count(*) FROM recent
SELECT id FROM customers UNION SELECT id FROM orders ORDER BY 1
SELECT id FROM customers UNION ALL SELECT id FROM orders
SELECT id FROM customers INTERSECT SELECT customer_id FROM orders
SELECT id FROM customers EXCEPT SELECT customer_id FROM orders
SELECT id, total, row_number() OVER (PARTITION BY customer_id ORDER BY total DESC) AS place FROM orders
SELECT id, sum(total) OVER (ORDER BY placed_at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM orders
SELECT id, lag(total, 1) OVER w, lead(total) OVER w, rank() OVER w FROM orders WINDOW w AS (ORDER BY placed_at)
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY total) FROM orders
SELECT count(*) FILTER (WHERE status = 'paid') AS paid, count(*) FILTER (WHERE status <> 'paid') AS unpaid FROM orders
SELECT CASE WHEN total > 100 THEN 'big' WHEN total > 10 THEN 'medium' ELSE 'small' END AS size, count(*) FROM orders GROUP BY 1
SELECT CASE status WHEN 'paid' THEN 1 ELSE 0 END FROM orders
SELECT coalesce(note, 'none'), nullif(status, ''), greatest(1, 2), least(1, 2) FROM orders
SELECT upper(name), lower(email), length(name), substring(name FROM 1 FOR 3), position('@' IN email), trim(both ' ' FROM name) FROM customers
SELECT split_part(email, '@', 2) AS domain, count(*) FROM customers GROUP BY 1
SELECT regexp_replace(name, '[^a-z]', '', 'gi') FROM customers
SELECT name ~ '^A' AS a, name !~* 'b$' AS b FROM customers
SELECT name || ' <' || email || '>' FROM customers
SELECT concat_ws(', ', name, city) FROM customers
SELECT string_agg(name, ', ' ORDER BY name) FROM customers
SELECT array_agg(name ORDER BY name) FROM customers
SELECT meta->'plan' AS plan, meta->>'plan' AS plan_text, meta #>> '{a,b}' FROM customers
SELECT * FROM customers WHERE meta @> '{"plan": "free"}'
SELECT * FROM customers WHERE meta ? 'plan'
SELECT key, value FROM customers, jsonb_each_text(meta)
SELECT jsonb_build_object('id', id, 'name', name) FROM customers
SELECT json_agg(row_to_json(c)) FROM (SELECT id, name FROM customers) AS c
SELECT jsonb_path_query(meta, '$.plan') FROM customers
SELECT tags[1], array_length(tags, 1) FROM customers
SELECT unnest(tags) FROM customers
SELECT t FROM customers, unnest(tags) AS t
SELECT * FROM customers WHERE 'vip' = ANY(tags)
SELECT * FROM customers WHERE tags && ARRAY['vip', 'new']
SELECT generate_series(1, 5)
SELECT d::date FROM generate_series('2024-01-01'::date, '2024-01-07'::date, interval '1 day') AS d
SELECT to_char(placed_at, 'YYYY-MM') FROM orders
SELECT age(now(), placed_at) FROM orders
SELECT placed_at AT TIME ZONE 'UTC' FROM orders
SELECT cast(total AS text), total::int, total::double precision FROM orders
SELECT round(total, 2), floor(total), ceil(total), abs(-1), mod(5, 2), power(2, 3) FROM orders
SELECT DISTINCT city FROM customers
SELECT DISTINCT ON (customer_id) customer_id, id FROM orders ORDER BY customer_id, placed_at DESC
SELECT * FROM orders FETCH FIRST 5 ROWS ONLY
VALUES (1, 'a'), (2, 'b')
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS t(id, label)
SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'
SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'orders'
SELECT /* a comment */ id FROM customers -- the end
SELECT "name" FROM "customers"
SELECT (1, 2) = (1, 2)
SELECT status, city, sum(total) FROM orders JOIN customers c ON c.id = customer_id GROUP BY GROUPING SETS ((status), (city), ())
SELECT status, count(*) FROM orders GROUP BY ROLLUP (status)
SELECT to_tsvector('english', note) @@ plainto_tsquery('english', 'quick') FROM orders
SELECT md5(email), encode(sha256('x'::bytea), 'hex') FROM customers
SELECT gen_random_uuid() IS NOT NULL
SELECT id IS DISTINCT FROM customer_id FROM orders
SELECT NOT true AND (false OR true)
SELECT total * 1.19 AS gross, total / 2, id % 2, -id FROM orders
SELECT pg_typeof(total) FROM orders
SELECT make_interval(days => 3)
SELECT overlay('abcdef' PLACING 'xx' FROM 2 FOR 2)
SELECT * FROM items WHERE (order_id, sku) IN ((1, 'a'), (2, 'b'))
SELECT * FROM orders TABLESAMPLE BERNOULLI (50)
SELECT 1e3, .5, 5.25
SELECT x.x FROM generate_series(1, 3) AS x ORDER BY x.x
SELECT day.d::date, count(*) FROM generate_series(now() - interval '7 days', now(), interval '1 day') AS day(d) GROUP BY day.d
SELECT e.key, e.value FROM jsonb_each('{"a": 1}') AS e ORDER BY e.key
SELECT item.value, item.ordinality FROM json_array_elements('[1, 2]') WITH ORDINALITY AS item
SELECT generate_series.generate_series FROM generate_series(1, 3)
SELECT t.tag, t.n FROM unnest(ARRAY['a', 'b']) WITH ORDINALITY AS t(tag, n)
SELECT d.d, user, current_date AS today FROM generate_series(current_date - 7, current_date, '1 day') AS d(d)
WITH "user" AS (SELECT id, note FROM canary) SELECT u.note AS user, u.id FROM "user" AS u
SELECT id FROM customers UNION ALL (SELECT id FROM orders)
SELECT xmlconcat('<a/>', xmlcomment('hello'))
SELECT xmlparse(DOCUMENT '<a><b>1</b></a>')
SELECT xpath('/a/b/text()', '<a><b>1</b></a>'::xml)
SELECT /* outer /* inner */ still outer */ id FROM customers
SELECT id /* a /* b /* c */ */ */ FROM orders
SELECT ~ 5, - total, + total FROM orders
SELECT @total - 1 FROM orders
SELECT !! 'cat'::tsquery
SELECT @-@ path '((0,0),(1,0))', @@ circle '((0,0),1)'
SELECT point '(0,0)' <-> point '(1,1)'
SELECT * FROM orders ORDER BY id OFFSET 1 ROWS FETCH NEXT 5 ROWS ONLY
SELECT * FROM orders FETCH FIRST ROW ONLY
EXPLAIN SELECT * FROM orders WHERE id = 1
EXPLAIN (COSTS OFF, FORMAT JSON) SELECT count(*) FROM orders
EXPLAIN VERBOSE SELECT name FROM customers
SELECT '2024-01-01'::timestamptz, 'orders'::regclass, 5::pg_catalog.int4
SELECT row_to_json(o) FROM orders AS o
SELECT to_jsonb(c.*) FROM customers AS c
SELECT json_agg(orders) FROM orders
SELECT count(o.*), count(DISTINCT c) FROM customers c LEFT JOIN orders o ON o.customer_id = c.id
SELECT customers FROM customers
SELECT customer_id, grouping(customer_id), count(*) FROM orders GROUP BY ROLLUP (customer_id) OFFSET 1 ROWS FETCH FIRST 5 ROWS ONLY
