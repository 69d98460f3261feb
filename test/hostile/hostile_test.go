package hostile

import (
	"encoding/json"
	"testing"
)

func TestTheCorpusIsWhatItSays(t *testing.T) {
	for _, name := range Names() {
		var o struct{ Metadata struct{ Name string } }
		if err := json.Unmarshal(Object("v1", "Pod", "a", name.Text, UID(1), Version(1), "{}"), &o); err != nil || o.Metadata.Name != name.Text {
			t.Errorf("%s: the object has the name %q, %v", name.What, o.Metadata.Name, err)
		}
		if len(name.Text) > LongestName {
			t.Errorf("%s has %d bytes", name.What, len(name.Text))
		}
	}
	for _, c := range Contents() {
		if !json.Valid([]byte(c.Text)) {
			t.Errorf("%s is no JSON", c.What)
		}
	}
}
