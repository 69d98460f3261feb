package difference_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"kubecdc/query/difference"
	"kubecdc/test/hostile"
	"kubecdc/test/require"
)

// A patch leads from one image to the other, whatever they contain.
func TestAPatchLeadsFromOneImageToTheOther(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	images := [][]byte{}
	for range 300 {
		images = append(images, fmt.Appendf(nil, `{"o":%s}`, randomJSON(random, 4)))
	}
	for _, c := range hostile.Contents() {
		images = append(images, content(t, c))
	}
	for range 3000 {
		was, now := images[random.IntN(len(images))], images[random.IntN(len(images))]
		text := patchOf(t, was, now)
		patch, err := jsonpatch.DecodePatch(text)
		must(t, err)
		got, err := patch.Apply(was)
		if err != nil || !reflect.DeepEqual(exactly(t, got), exactly(t, now)) {
			t.Fatalf("%s\nleads from %s\nto %s\nand not to %s: %v", text, was, got, now, err)
		}
	}
}

func patchOf(t *testing.T, was, now []byte) []byte {
	t.Helper()
	operations, err := difference.Patch(was, now)
	must(t, err)
	text, err := json.Marshal(append([]difference.Operation{}, operations...))
	must(t, err)
	return text
}

func exactly(t *testing.T, text []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	must(t, d.Decode(&v))
	return v
}

// randomJSON returns one of few values, so that two of them have much in common.
func randomJSON(random *rand.Rand, depth int) string {
	var parts []string
	switch kind := random.IntN(4); {
	case depth == 0 || kind == 0:
		return []string{"1", "2", `"a"`, `"b"`, "null", "true", "12345678901234567890", "1.0"}[random.IntN(8)]
	case kind == 1:
		for _, name := range []string{"a", "b/c", "~d", ""} {
			if random.IntN(2) == 0 {
				parts = append(parts, fmt.Sprintf("%q:%s", name, randomJSON(random, depth-1)))
			}
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	for range random.IntN(5) {
		parts = append(parts, randomJSON(random, depth-1))
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// Lists of any length are compared in memory that does not grow with the square of their length.
func TestAPatchOfLongListsIsBounded(t *testing.T) {
	list := func(from, n int) []byte {
		var items []string
		for i := range n {
			items = append(items, fmt.Sprintf(`"item-%d"`, from+i))
		}
		return []byte(`{"l":[` + strings.Join(items, ",") + `]}`)
	}
	for _, tc := range []struct {
		name     string
		was, now []byte
		want     string // how the patch begins
	}{
		{"one more", list(0, 10_000), list(0, 10_001), `[{"op":"add","path":"/l/10000","value":"item-10000"}]`},
		{"all others", list(0, 10_000), list(20_000, 10_000), `[{"op":"replace","path":"/l","value":["item-20000",`},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := patchOf(t, tc.was, tc.now)
		runtime.ReadMemStats(&after)
		if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 50 {
			t.Errorf("%s: the patch took %d MB", tc.name, mb)
		}
		if !strings.HasPrefix(string(got), tc.want) {
			t.Errorf("%s: %.200s, want %s", tc.name, got, tc.want)
		}
	}
}

var must = require.NoError
