CREATE TABLE pods_log (
  cluster STRING, namespace STRING, name STRING,
  after ROW<
    metadata ROW<uid STRING, labels MAP<STRING, STRING>>,
    spec ROW<nodeName STRING>,
    status ROW<phase STRING>
  >,
  op STRING,
  PRIMARY KEY (cluster, namespace, name) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = 'kubecdc.pods',
  'properties.bootstrap.servers' = 'kafka-1:9092',
  'properties.isolation.level' = 'read_committed',
  'key.format' = 'avro-confluent',
  'key.avro-confluent.url' = 'https://registry.example.com:8081',
  'value.format' = 'avro-confluent',
  'value.avro-confluent.url' = 'https://registry.example.com:8081',
  'value.fields-include' = 'EXCEPT_KEY'
);

-- A delete is a record with op d whose after is null, then a tombstone. upsert-kafka takes only the tombstone for a delete.
CREATE VIEW pods AS
SELECT cluster, namespace, name, after.metadata AS metadata, after.spec AS spec, after.status AS status
FROM pods_log WHERE op <> 'd';
