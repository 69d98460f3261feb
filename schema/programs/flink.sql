{head}
SET 'table.exec.source.cdc-events-duplicate' = 'true';

CREATE TABLE {table} (
  {keys},
{columns},
  PRIMARY KEY ({primary}) NOT ENFORCED
) WITH (
  'connector' = 'kafka',
  {source},
  'key.fields' = '{fields}',
  'scan.startup.mode' = 'earliest-offset',
  {format}
);
