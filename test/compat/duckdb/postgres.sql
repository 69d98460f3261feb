LOAD postgres_scanner;
ATTACH 'postgres://kubecdc@db/kubecdc' AS log (TYPE postgres, READ_ONLY);
CREATE VIEW changes AS
  SELECT cluster, uid, resource_version::UBIGINT AS version, op, resource, namespace, name, happened, before, after
  FROM log.kubecdc_log.changes
  WHERE written >= '2026-11-01';
COPY changes TO 'changes.parquet' (FORMAT parquet, COMPRESSION zstd);
