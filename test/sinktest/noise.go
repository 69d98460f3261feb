package sinktest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// WriteNoise writes first lists of ConfigMaps, and then changes of other resources. It returns about how many bytes each resource has. Noise
// can't be compressed.
func WriteNoise(t *testing.T, log sinks.Log, changes int) (truth map[string]float64) {
	t.Helper()
	truth = map[string]float64{}
	random := rand.New(rand.NewPCG(1, 2))
	resources := []struct {
		name  string
		bytes int
		op    change.Op
	}{{"configmaps", 3000, change.Read}, {"pods", 400, change.Create}, {"nodes", 100, change.Create}, {"events", 1500, change.Create}}
	b := &change.Batch{Epoch: 1}
	for i := range changes {
		kind := resources[0]
		if i >= changes/4 {
			kind = resources[1+i%3]
		}
		noise := make([]byte, kind.bytes)
		for j := range noise {
			noise[j] = byte('!' + random.IntN(90))
			if noise[j] == '"' || noise[j] == '\\' {
				noise[j] = '_'
			}
		}
		name := fmt.Sprint("n", i)
		b.Changes = append(b.Changes, change.Change{Stream: change.NewStream(change.Resource{Version: "v1", Plural: kind.name, Kind: "K", Namespaced: true}, "", "", ""),
			Op: kind.op, Namespace: "default", Name: name, UID: name, ResourceVersion: change.VersionOf(uint64(i + 1)), Time: time.Now(),
			After: fmt.Appendf(nil, `{"kind":"K","apiVersion":"v1","metadata":{"name":%q,"namespace":"default","uid":%q,"resourceVersion":"%d"},"n":"%s"}`,
				name, name, i+1, noise)})
		if truth[kind.name] += float64(kind.bytes + 250); len(b.Changes) == 50 || i == changes-1 {
			b.Seq++
			if _, err := log.Write(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			b.Changes = nil
		}
	}
	return truth
}
