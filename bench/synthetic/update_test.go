package synthetic

import (
	"bytes"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/change/provenance"
	"kubecdc/checkpoint"
)

// BenchmarkUpdate is what the two states of an object cost: who changed what, and the body that the checkpoint stores.
func BenchmarkUpdate(b *testing.B) {
	for _, rewrites := range []int{0, 10, 100} {
		all := updates(b, rewrites)
		b.Run("provenance-"+strconv.Itoa(rewrites), func(b *testing.B) {
			var r provenance.Reader
			for i := range b.N {
				if i%500 == 0 {
					r.Reset()
				}
				r.Read(&all[i%len(all)])
			}
		})
		bases := make([]checkpoint.Body, len(all))
		for i := range all {
			bases[i] = checkpoint.Pack(all[i].Before)
		}
		b.Run("body-"+strconv.Itoa(rewrites), func(b *testing.B) {
			for i := range b.N {
				bases[i%len(all)].Update(all[i%len(all)].After)
			}
		})
	}
}

func updates(b *testing.B, rewrites int) (all []change.Change) {
	b.Helper()
	c := newCollection("Pod", "v1", "pods", 50)
	c.rewrites = rewrites
	pods := change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}, "", "", "")
	last := map[string][]byte{}
	for len(all) < 500 {
		var event struct {
			Type   string
			Object json.RawMessage
		}
		must(b, json.Unmarshal(c.appendEvent(nil), &event))
		name := string(bytes.SplitN(event.Object, []byte(`"`), 15)[13])
		if before := last[name]; before != nil && event.Type == "MODIFIED" {
			all = append(all, change.Change{Stream: pods, Op: change.Update, Before: before, After: event.Object, Time: time.Now()})
		}
		last[name] = event.Object
	}
	return all
}
