CREATE VIEW changes AS
  SELECT DISTINCT ON (cluster, uid, version)
    value->'source'->>'db' AS cluster, value->'source'->>'uid' AS uid, (value->'source'->>'resourceVersion')::UBIGINT AS version,
    value->>'op' AS op, value->'source'->>'table' AS resource, value->'source'->>'schema' AS namespace, key->>'name' AS name,
    make_timestamp((value->'source'->>'ts_us')::BIGINT) AS happened, value->'before' AS before, value->'after' AS after
  FROM read_json('changes.jsonl', format = 'newline_delimited', columns = {key: 'JSON', value: 'JSON'})
  WHERE value->>'op' IS NOT NULL;
COPY changes TO 'changes.parquet' (FORMAT parquet, COMPRESSION zstd);
