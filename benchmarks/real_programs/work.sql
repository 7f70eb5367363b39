PRAGMA journal_mode = OFF;
DROP TABLE IF EXISTS reading;
CREATE TABLE reading (id INTEGER PRIMARY KEY, station INTEGER, value REAL, name TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 700000)
INSERT INTO reading SELECT i, (i * 7919) % 1009, (i * 104729 % 10007) / 10.0, 'reading ' || (i * 31 % 5003) FROM n;
CREATE INDEX by_station ON reading (station, value);
SELECT station, count(*), avg(value), max(name) FROM reading GROUP BY station ORDER BY 3 DESC LIMIT 5;
SELECT count(*) FROM reading a JOIN reading b ON a.station = b.station AND a.value = b.value WHERE a.id < 6000;
SELECT count(*) FROM reading WHERE name LIKE '%42%';
