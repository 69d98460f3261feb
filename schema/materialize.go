package schema

// materialize keeps the last record of each key, and reads the columns out of its JSON.
func materialize(t Table) (string, error) {
	columns, err := flatten(t.Object, key...)
	if err != nil {
		return "", err
	}
	log := quote(`"`, t.name()+"_log")
	return comment("--", t.title()+": the objects as they are. Materialize reads committed records only.",
		"The connection, unless there is one:",
		"  CREATE CONNECTION kafka TO KAFKA (BROKER "+quote("'", t.Brokers)+", SECURITY PROTOCOL = 'PLAINTEXT');") +
		`CREATE SOURCE ` + log + `
  FROM KAFKA CONNECTION kafka (TOPIC ` + quote("'", t.topic()) + `)
  KEY FORMAT TEXT VALUE FORMAT JSON
  INCLUDE KEY AS key
  ENVELOPE UPSERT;

` + upsertView(t, columns, `key::jsonb`, `data -> 'after'`, `data ->> 'op'`, log), nil
}
