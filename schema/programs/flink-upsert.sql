{head}
CREATE TABLE {table} (
  {keys},
{columns},
  PRIMARY KEY ({primary}) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  {source},
  {format}
);
