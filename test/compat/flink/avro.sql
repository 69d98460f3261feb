SET 'table.exec.source.cdc-events-duplicate' = 'true';

CREATE TABLE pods (
  cluster STRING, namespace STRING, name STRING,
  metadata ROW<uid STRING, labels MAP<STRING, STRING>>,
  spec ROW<nodeName STRING>,
  status ROW<phase STRING>,
  PRIMARY KEY (cluster, namespace, name) NOT ENFORCED
) WITH (
  'connector' = 'kafka',
  'topic' = 'kubecdc.pods',
  'properties.bootstrap.servers' = 'kafka-1:9092',
  'properties.isolation.level' = 'read_committed',
  'scan.startup.mode' = 'earliest-offset',
  'key.format' = 'avro-confluent',
  'key.avro-confluent.url' = 'https://registry.example.com:8081',
  'key.fields' = 'cluster;namespace;name',
  'value.format' = 'debezium-avro-confluent',
  'value.debezium-avro-confluent.url' = 'https://registry.example.com:8081',
  'value.fields-include' = 'EXCEPT_KEY'
);
