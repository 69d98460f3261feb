
-- A delete is a record with op d whose after is null, then a tombstone. upsert-kafka takes only the tombstone
-- for a delete, and the record before it for a row without an object: the condition leaves that row out.
CREATE VIEW {view} AS
SELECT `cluster`, `namespace`, `name`,
  {columns}
FROM {table} WHERE `op` <> 'd';
