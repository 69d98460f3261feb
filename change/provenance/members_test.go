package provenance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
)

// Finding members by their names takes about as long as decoding, however many there are, even if all are renamed or in another
// order.
func TestManyMembers(t *testing.T) {
	image := func(prefix string, n int, reversed bool) []byte {
		var members []string
		for i := range n {
			members = append(members, fmt.Sprintf(`"%s%06d":%d`, prefix, i, i))
		}
		if reversed {
			slices.Reverse(members)
		}
		return []byte("{" + strings.Join(members, ",") + "}")
	}
	nested := func(image []byte) []byte { return fmt.Appendf(nil, `{"data":%s}`, image) }
	managed := func(prefix string, n int) []byte {
		var entries []string
		for i := range n / 3 {
			entries = append(entries, fmt.Sprintf(`{"manager":"%s%06d","operation":"Apply","apiVersion":"v1","time":"2026-11-26T10:00:00Z"}`, prefix, i))
		}
		return fmt.Appendf(nil, `{"metadata":{"managedFields":[%s],"name":"a"}}`, strings.Join(entries, ","))
	}
	for _, tc := range []struct {
		name     string
		was, now func(n int) []byte
		fields   string
	}{
		{"renamed", func(n int) []byte { return image("old", n, false) }, func(n int) []byte { return image("new", n, false) }, "new000000,"},
		{"in another order", func(n int) []byte { return image("k", n, false) }, func(n int) []byte { return image("k", n, true) }, ""},
		{"in another order within data", func(n int) []byte { return nested(image("k", n, false)) },
			func(n int) []byte { return nested(image("k", n, true)) }, ""},
		{"other managers", func(n int) []byte { return managed("old", n) }, func(n int) []byte { return managed("new", n) }, ""},
	} {
		const members = 30_000
		c := change.Change{Stream: deployments, Op: change.Update, Time: seen, Before: tc.was(members), After: tc.now(members)}
		took := func(do func()) time.Duration {
			best := time.Hour
			for range 3 {
				began := time.Now()
				do()
				best = min(best, time.Since(began))
			}
			return best
		}
		reading := took(func() { new(Reader).Read(&c) })
		decoding := took(func() {
			for _, image := range [][]byte{c.Before, c.After} {
				var v any
				must(t, json.Unmarshal(image, &v))
			}
		})
		if reading > 20*decoding {
			t.Errorf("%s: %d members take %s, and to decode them %s", tc.name, members, reading, decoding)
		}
		if !strings.HasPrefix(string(c.Provenance.Fields), tc.fields) || tc.fields == "" && len(c.Provenance.Fields) > 0 {
			t.Errorf("%s: the fields are %q", tc.name, c.Provenance.Fields)
		}
	}
}
