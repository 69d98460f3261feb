package change

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"kubecdc/test/require"
)

var must = require.NoError

// aBatch is what most records of a control topic say.
func aBatch() *Control {
	return &Control{Type: ControlBatch, Version: 1, Cluster: "prod", ClusterUID: "9f0c3b52", Slot: 2, Epoch: 3, Batch: 118, TimeMs: 1795258493803,
		Encoding: "avro", Stream: "pods", ResourceVersion: "7", SinceMs: 5, BatchEnd: BatchEnd{Changes: 12, Bytes: 48000,
			Positions: []Position{{"pods", "4711", time.UnixMilli(1795258493803).UTC(), ""}, {"nodes", "12", time.UnixMilli(1795258493000).UTC(), EndedRemoved}},
			Ranges:    map[string]map[int][2]int64{"kube.pods": {0: {1, 2}, 11: {100, 200}}, "kube.nodes": {3: {7, 7}}}}}
}

// What is parsed quickly is what encoding/json makes of it, whatever the text is.
func FuzzControl(f *testing.F) {
	text, err := json.Marshal(aBatch())
	if err != nil || !new(Control).scan(text) {
		f.Fatalf("%s is not parsed quickly: %v", text, err)
	}
	f.Add(text)
	for _, odd := range []string{`{}`, `{"type":null}`, `{"Type":"batch"}`, `{"type":"b","type":"c"}`, `{"slot":1e0}`, `{"slot":-1}`, `{"slot":-0}`,
		`{"batch":18446744073709551615}`, `{"positions":[]}`, `{"positions":null}`, `{"positions":[{"stream":"a"}],"positions":[{}]}`,
		`{"positions":[{"time":null}]}`, `{"positions":[{"time":"2026-11-29"}]}`, `{"ranges":{"t":{"0":[1]}}}`, `{"ranges":{"t":{"0":[1,2,3]}}}`,
		`{"ranges":{"t":{"+1":[1,2],"1":[3,4]},"t":{"2":[1,2]}}}`, `{"ranges":{"t":{"x":[1,2]}}}`, `{"ranges":{"\u0074":null}}`, `{"ranges":{}}`,
		`{"cluster":"a\u0000b"}`, "{\"cluster\":\"\xff\"}", "{\"ranges\":{\"\xff\":{}}}", `{"cluster":1}`, `{"type":"gap","gap":{"id":"x"}}`, `{"streams":["a"]}`,
		`{"type":"batch"} x`, `{"type":"batch",}`, ` { "type" : "batch" } `, `null`, `[]`, ``} {
		f.Add([]byte(odd))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		type plain Control
		var want plain
		wantErr := json.Unmarshal(text, &want)
		var quick Control
		if quick.scan(text) && (wantErr != nil || !reflect.DeepEqual(plain(quick), want)) {
			t.Errorf("%q is parsed to %+v, want %+v, %v", text, quick, want, wantErr)
		}
		c := Control{Cause: "what was there before", BatchEnd: BatchEnd{Malformed: 3}}
		if err := c.UnmarshalJSON(text); (err == nil) != (wantErr == nil && want.Version <= LogVersion) || wantErr == nil && !reflect.DeepEqual(plain(c), want) {
			t.Errorf("%q is %+v (%v), want %+v (%v)", text, c, err, want, wantErr)
		}
	})
}

// A byte that changes anywhere changes the two in the same way.
func TestControlWithADamagedByte(t *testing.T) {
	text, err := json.Marshal(aBatch())
	must(t, err)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 20 * len(text) {
		damaged := append([]byte(nil), text...)
		damaged[i%len(text)] = `0-9.eE"\,:{}[] tunlrfas+Z`[random.IntN(25)]
		type plain Control
		var want plain
		wantErr := json.Unmarshal(damaged, &want)
		var quick Control
		if quick.scan(damaged) && (wantErr != nil || !reflect.DeepEqual(plain(quick), want)) {
			t.Fatalf("%q is parsed to %+v, want %+v, %v", damaged, quick, want, wantErr)
		}
	}
}

func BenchmarkControl(b *testing.B) {
	text, err := json.Marshal(aBatch())
	must(b, err)
	for b.Loop() {
		must(b, new(Control).UnmarshalJSON(text))
	}
}
