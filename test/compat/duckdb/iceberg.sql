CREATE VIEW changes AS
  SELECT DISTINCT ON (cluster, uid, version)
    source.db AS cluster, source.uid AS uid, source.resourceVersion::UBIGINT AS version, op, source."table" AS resource,
    source.schema AS namespace, coalesce(after, before)::JSON->'metadata'->>'name' AS name, before, after
  FROM '/var/lib/warehouse/kubernetes/changes/data/*.parquet';
COPY changes TO 'changes.parquet' (FORMAT parquet, COMPRESSION zstd);
