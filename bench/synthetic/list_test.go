package synthetic

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"testing"
)

// A change that a watch was made to miss can be read at each version, in pages. Earlier versions are gone, and after an event the missed
// ones are gone too.
func TestThePastOfMissedChanges(t *testing.T) {
	c := newCollection("Pod", "v1", "pods", 450)
	type state map[string]string // name -> version
	states := map[uint64]state{}
	for range 60 {
		s := state{}
		for id := c.first; id < c.next; id++ {
			s[string(appendName(nil, id))] = fmt.Sprint(c.versions[id])
		}
		states[c.version] = s
		c.miss(1)
	}
	for version, want := range states {
		got, token := state{}, ""
		for {
			code, page := read(t, c, fmt.Sprintf("?resourceVersion=%d&resourceVersionMatch=Exact&limit=200&continue=%s", version, token))
			if code != 200 || page.Metadata.ResourceVersion != fmt.Sprint(version) {
				t.Fatalf("%d at version %s, want %d", code, page.Metadata.ResourceVersion, version)
			}
			for _, o := range page.Items {
				got[o.Metadata.Name] = o.Metadata.ResourceVersion
			}
			if token = page.Metadata.Continue; token == "" {
				break
			}
			if left := len(want) - len(got); page.Metadata.RemainingItemCount != left {
				t.Fatalf("%d remain, want %d", page.Metadata.RemainingItemCount, left)
			}
		}
		if !maps.Equal(got, want) {
			t.Fatalf("version %d has %d objects, want %d", version, len(got), len(want))
		}
	}
	first := firstVersion + 450
	if code, _ := read(t, c, fmt.Sprintf("?resourceVersion=%d&resourceVersionMatch=Exact", first-1)); code != 410 {
		t.Errorf("before the first missed change: %d", code)
	}
	c.send(1)
	c.appendEvent(nil)
	if code, _ := read(t, c, fmt.Sprintf("?resourceVersion=%d&resourceVersionMatch=Exact", first)); code != 410 {
		t.Errorf("after an event: %d", code)
	}
}

type page struct {
	Metadata struct {
		ResourceVersion, Continue string
		RemainingItemCount        int
	}
	Items []struct {
		Metadata struct{ Name, ResourceVersion string }
	}
}

func read(t *testing.T, c *collection, query string) (code int, p page) {
	t.Helper()
	w := httptest.NewRecorder()
	c.list(w, httptest.NewRequest("GET", "/api/v1/pods"+query, nil))
	must(t, json.Unmarshal(w.Body.Bytes(), &p))
	return w.Code, p
}
