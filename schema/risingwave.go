package schema

// risingwave keeps the last record of each key, and reads the columns out of its JSON.
func risingwave(t Table) (string, error) {
	columns, err := flatten(t.Object, key...)
	if err != nil {
		return "", err
	}
	log := quote(`"`, t.name()+"_log")
	return comment("--", t.title()+": the objects as they are. RisingWave reads committed records only.") +
		`CREATE TABLE ` + log + ` (
  "after" JSONB,
  "op" VARCHAR,
  "ts_ms" BIGINT,
  PRIMARY KEY (rw_key)
) INCLUDE KEY AS rw_key
WITH (
  connector = 'kafka',
  topic = ` + quote("'", t.topic()) + `,
  properties.bootstrap.server = ` + quote("'", t.Brokers) + `,
  scan.startup.mode = 'earliest'
) FORMAT UPSERT ENCODE JSON;

` + upsertView(t, columns, `convert_from(rw_key, 'UTF8')::jsonb`, `"after"`, `"op"`, log), nil
}

// upsertView is a view of the last record of each key, for databases that take a tombstone alone for a delete.
func upsertView(t Table, columns []column, keyed, after, op, log string) string {
	text := comment("--", "A delete is a record with op d whose after is null, then a tombstone: the condition leaves out a row "+
		"that waits for it.") +
		"CREATE VIEW " + quote(`"`, t.name()) + " AS SELECT\n"
	for _, name := range key {
		text += "  " + keyed + " ->> " + quote("'", name) + " AS " + quote(`"`, name) + ",\n"
	}
	return text + arrows(columns, after) + "\nFROM " + log + "\nWHERE " + op + " <> 'd';\n"
}
