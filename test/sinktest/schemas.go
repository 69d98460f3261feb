package sinktest

import (
	"maps"
	"testing"
	"time"

	"kubecdc/sinks"
)

// schemaContract is for sinks that store schemas, and their readers.
var schemaContract = []part{{"a log has the schemas of each time, and stores one only when it has changed", schemasOfEachTime}}

func schemasOfEachTime(t *testing.T, w *world) {
	log, start := w.sink(t).(sinks.SchemaLog), time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	minute := func(n int) time.Time { return start.Add(time.Duration(n) * time.Minute) }
	must := func(err error) {
		t.Helper()
		must(t, err)
	}
	apps := func(n int, hash string) *sinks.Schema {
		return &sinks.Schema{Path: "apis/apps/v1", Hash: hash, Since: minute(n), Document: []byte{0, 1, byte(n)}}
	}
	for _, s := range []*sinks.Schema{apps(10, "a"), apps(11, "a"), apps(20, "b"), apps(20, "c"), apps(30, "a"), apps(5, "d"),
		{Path: "api/v1", Hash: "core", Since: minute(15), Document: []byte("core")}} {
		must(log.WriteSchema(t.Context(), s))
	}
	another := w.another(t, "another", "").(sinks.SchemaLog)
	must(another.WriteSchema(t.Context(), &sinks.Schema{Path: "apis/batch/v1", Hash: "batch", Since: start, Document: []byte("batch")}))
	hashes, err := log.SchemaHashes(t.Context())
	must(err)
	if want := map[string]string{"apis/apps/v1": "d", "api/v1": "core"}; !maps.Equal(hashes, want) {
		t.Errorf("the hashes are %v, want %v", hashes, want)
	}
	reader := w.reader(t).(sinks.SchemaReader)
	for n, want := range map[int]string{0: "\x00\x01\x0a", 10: "\x00\x01\x0a", 19: "\x00\x01\x0a", 20: "\x00\x01\x14", 29: "\x00\x01\x14", 31: "\x00\x01\x05", 99: "\x00\x01\x05"} {
		document, err := reader.Schema(t.Context(), "apis/apps/v1", minute(n))
		must(err)
		if string(document) != want {
			t.Errorf("in minute %d the document is %q, want %q", n, document, want)
		}
	}
	if document, err := reader.Schema(t.Context(), "apis/batch/v1", minute(99)); document != nil || err != nil {
		t.Errorf("the document of another cluster: %q, %v", document, err)
	}
}
