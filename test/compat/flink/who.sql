CREATE TABLE changes (
  `cluster` STRING, `namespace` STRING, `name` STRING, `op` STRING,
  `before` ROW<`metadata` ROW<`uid` STRING, `resourceVersion` STRING>>,
  `after` ROW<`metadata` ROW<`uid` STRING, `resourceVersion` STRING>>,
  `position` BIGINT METADATA FROM 'offset' VIRTUAL
) WITH (
  'connector' = 'kafka', 'topic' = 'kubecdc.pods', 'key.format' = 'json', 'key.fields' = 'cluster;namespace;name',
  'value.format' = 'json', 'value.fields-include' = 'EXCEPT_KEY', 'scan.startup.mode' = 'earliest-offset',
  'properties.bootstrap.servers' = 'kafka-1:9092', 'properties.isolation.level' = 'read_committed'
);

CREATE TABLE requests (
  `uid` STRING, `versionBefore` STRING, `created` BOOLEAN, `effect` STRING, `retried` BOOLEAN, `code` INT,
  `verb` STRING, `user` STRING, `impersonatedUser` STRING, `time` STRING
) WITH (
  'connector' = 'kafka', 'topic' = 'kubecdc.audit', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset',
  'properties.bootstrap.servers' = 'kafka-1:9092', 'properties.isolation.level' = 'read_committed'
);

-- A creation has the object's uid and no version before; every other change has both. Where retried is set it is probable only: the API
-- server has tried the write several times.
CREATE VIEW changes_by AS
SELECT c.`cluster`, c.`namespace`, c.`name`, c.op, c.`position`, c.`after`.metadata.resourceVersion AS version, r.verb, r.retried,
  COALESCE(r.impersonatedUser, r.`user`) AS who
FROM changes c LEFT JOIN requests r
  ON r.uid = COALESCE(c.`before`.metadata.uid, c.`after`.metadata.uid)
  AND COALESCE(r.versionBefore, '') = COALESCE(c.`before`.metadata.resourceVersion, '')
  AND (r.created OR r.effect = 'wrote') AND r.code BETWEEN 200 AND 299;
