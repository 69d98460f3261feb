package synthetic

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/klauspost/compress/zstd"

	"kubecdc/test/require"
)

var must = require.NoError

// A pod is JSON, of the size that is promised, and its own.
func TestPods(t *testing.T) {
	c := newCollection("Pod", "v1", "pods", 100)
	seen := map[string]bool{}
	for id := range 100 {
		raw := c.appendObject(nil, id, c.versions[id])
		var object struct {
			Kind     string
			Metadata struct{ Name, Namespace, UID, ResourceVersion string }
		}
		if err := json.Unmarshal(raw, &object); err != nil || object.Kind != "Pod" {
			t.Fatalf("%v\n%s", err, raw)
		}
		if len(raw) < 4000 || len(raw) > 4500 {
			t.Errorf("%d bytes", len(raw))
		}
		if seen[object.Metadata.UID] || idOf(object.Metadata.Name) != id {
			t.Errorf("object %d is %+v", id, object.Metadata)
		}
		seen[object.Metadata.UID] = true
	}
}

// Events are complete lines, with versions that grow by one.
func TestEvents(t *testing.T) {
	c := newCollection("Pod", "v1", "pods", 10)
	c.send(100)
	kinds := map[string]int{}
	for range 100 {
		line := c.appendEvent(nil)
		var event struct{ Type string }
		if err := json.Unmarshal(line, &event); err != nil || bytes.IndexByte(line, '\n') != len(line)-1 {
			t.Fatalf("%v: %s", err, line)
		}
		kinds[event.Type]++
	}
	if kinds["ADDED"] != 5 || kinds["DELETED"] != 5 || kinds["MODIFIED"] != 90 {
		t.Error(kinds)
	}
}

// The requested number of updates change three tenths of their object, and the object retains the text.
func TestRewrites(t *testing.T) {
	for _, rewrites := range []int{0, 10, 100} {
		c := newCollection("Pod", "v1", "pods", 20)
		c.rewrites = rewrites
		last, updates, rewritten := map[string][]byte{}, 0, 0
		for range 600 {
			var event struct {
				Type   string
				Object json.RawMessage
			}
			must(t, json.Unmarshal(c.appendEvent(nil), &event))
			var object struct{ Metadata struct{ Name string } }
			must(t, json.Unmarshal(event.Object, &object))
			before := last[object.Metadata.Name]
			last[object.Metadata.Name] = event.Object
			if event.Type != "MODIFIED" || before == nil {
				continue
			}
			updates++
			differ := 0
			for i := range before {
				if before[i] != event.Object[i] {
					differ++
				}
			}
			if share := float64(differ) / float64(len(before)); share > 0.2 && share < 0.35 {
				rewritten++
			} else if share > 0.01 {
				t.Fatalf("%.2f of the object changed", share)
			}
		}
		if percent := 100 * rewritten / updates; percent < rewrites-4 || percent > rewrites+4 {
			t.Errorf("%d%% of the updates changed the text, want %d%%", percent, rewrites)
		}
	}
}

// A batch of pods shrinks to about a fifth, as one of real pods does.
func TestPodsShrinkLikeRealOnes(t *testing.T) {
	c := newCollection("Pod", "v1", "pods", 10_000)
	var batch []byte
	for range 200 {
		batch = c.appendEvent(batch)
	}
	for _, level := range []zstd.EncoderLevel{zstd.SpeedFastest, zstd.SpeedDefault} {
		encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level))
		must(t, err)
		ratio := float64(len(batch)) / float64(len(encoder.EncodeAll(batch, nil)))
		if ratio < 4.5 || ratio > 5.5 {
			t.Errorf("level %v: by %.2f", level, ratio)
		}
	}
}
