package logread

import (
	"errors"
	"testing"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/encoding"
	"kubecdc/sinks/kafka/internal/consumer"
)

// A tombstone repeats its delete. If compaction has removed the delete, the tombstone is the delete.
func TestADeleteIsReadBackOnce(t *testing.T) {
	record := func(op, uid, value string) consumer.Record {
		r := consumer.Record{Key: []byte(`{"cluster":"test","namespace":"default","name":"a"}`),
			Headers: map[string]string{"op": op, "uid": uid, "resourceVersion": "7", "stream": "pods", "batch": "1"}}
		if value != "" {
			r.Value = []byte(value)
		}
		return r
	}
	created, deleted := record("c", "2", `{"before":null,"after":{}}`), record("d", "1", `{"before":{},"after":null}`)
	for _, op := range []string{change.OpTombstone, "d"} { // now, and in logs of older versions
		tombstone := record(op, "1", "")
		for _, tc := range []struct {
			name    string
			records []consumer.Record
			want    string
		}{
			{"a delete and its tombstone", []consumer.Record{deleted, tombstone, created}, "dc"},
			{"a tombstone whose delete is gone", []consumer.Record{tombstone, created}, "dc"},
			{"a delete whose tombstone is gone", []consumer.Record{deleted, created}, "dc"},
			{"a tombstone of another object of the name", []consumer.Record{record("d", "2", `{}`), tombstone}, "dd"},
		} {
			got := ""
			l := &Log{Encodings: encoding.NewSet(encoding.AvroOptions{}), Envelope: change.Envelope{Cluster: "test", Prefix: "t"}}
			read := l.Changes(t.Context(), Changes{Span: Span{Topic: "t.pods"}, Committed: true, Bodies: After,
				Visit: func(c *sinks.Logged) error {
					got += c.Op.String()
					return nil
				}})
			var err error
			for i, r := range tc.records {
				if r.Offset = int64(i); read.Wanted(&r) {
					err = errors.Join(err, read.Visit(r))
				}
			}
			if err != nil || got != tc.want {
				t.Errorf("%s with the op %q: read back %q, %v; want %q", tc.name, op, got, err, tc.want)
			}
		}
	}
}
