package change_test

import (
	"encoding/json"
	"errors"
	"testing"

	"kubecdc/change"
)

func TestControlRecordsOfNewerReleasesAreRefused(t *testing.T) {
	for text, refused := range map[string]bool{`{"type":"gap"}`: false, `{"type":"gap","version":1}`: false, `{"type":"gap","version":2}`: true} {
		var c change.Control
		var newer *change.NewerVersionError
		err := json.Unmarshal([]byte(text), &c)
		if errors.As(err, &newer) != refused || !refused && (err != nil || c.Type != "gap") {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
}

func TestRecordsOfNewerReleasesAreRefused(t *testing.T) {
	for header, refused := range map[string]bool{"": false, "1": false, "2": true, "next": true} {
		if err := change.CheckVersion(header); (err != nil) != refused {
			t.Errorf("%q: %v", header, err)
		}
	}
}
