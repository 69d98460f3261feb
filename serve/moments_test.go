package serve

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// writtenLog is a log of Pods that a test writes.
type writtenLog struct {
	*past
	t     *testing.T
	log   sinks.Log
	batch change.Batch
}

func newWritten(t *testing.T) *writtenLog {
	log, reader := sqliteLog(t)
	return &writtenLog{past: &past{t: t, server: New(reader, nil, slog.New(slog.DiscardHandler))}, t: t, log: log,
		batch: change.Batch{Epoch: 1, Controls: []change.Control{change.SnapshotBeginControl(pods.ID(), "")}}}
}

// create adds a Pod that was created at a time, and was seen at a later one.
func (w *writtenLog) create(version int, name string, created, seen time.Time) {
	body := fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":"default","uid":%q,"resourceVersion":"%d","creationTimestamp":%q}}`,
		name, name, version, created.UTC().Format(time.RFC3339))
	w.batch.Changes = append(w.batch.Changes, change.Change{Stream: pods, Op: change.Create, Namespace: "default", Name: name, UID: name, Time: seen,
		ResourceVersion: change.VersionOf(uint64(version)), After: []byte(body), Provenance: change.Provenance{Time: created.Truncate(time.Second)}})
}

// write writes a batch, up to a version that was confirmed at a time.
func (w *writtenLog) write(version int, confirmed time.Time) {
	w.batch.Seq++
	w.batch.Positions = []change.Position{{Stream: pods.ID(), ResourceVersion: change.VersionOf(uint64(version)), Time: confirmed}}
	_, err := w.log.Write(w.t.Context(), &w.batch)
	ok(w.t, err)
	w.batch.Changes, w.batch.Controls = nil, nil
}

// ages returns the names and ages of a table's Pods.
func ages(t *testing.T, a answer) string {
	var table struct{ Rows []struct{ Cells []any } }
	if err := json.Unmarshal(a.body, &table); err != nil || a.code != http.StatusOK {
		t.Fatalf("%d %s: %v", a.code, a.body, err)
	}
	var all []string
	for _, row := range table.Rows {
		all = append(all, fmt.Sprint(row.Cells[0], " ", row.Cells[4]))
	}
	return strings.Join(all, ", ")
}

// A moment has its fraction of a second, also where answers are cached. A time has a date and an offset, since the client's zone is not known.
func TestAMomentIsExact(t *testing.T) {
	w, second := newWritten(t), time.Now().UTC().Add(-time.Hour).Truncate(time.Second)
	for i, name := range []string{"a", "b", "c"} {
		at := second.Add(time.Duration(i) * 300 * time.Millisecond)
		w.create(i+1, name, at, at)
		w.write(i+1, at)
	}
	for fraction, want := range map[string]string{".1": "a", ".4": "a b", ".7": "a b c"} {
		var list struct {
			Items []struct{ Metadata struct{ Name string } }
		}
		a := w.ours("/at/"+strings.TrimSuffix(second.Format(time.RFC3339), "Z")+fraction+"Z/api/v1/pods", asObjects)
		ok(t, json.Unmarshal(a.body, &list))
		names := ""
		for _, o := range list.Items {
			names += " " + o.Metadata.Name
		}
		if strings.TrimSpace(names) != want {
			t.Errorf("at %s there are%s, want %s", fraction, names, want)
		}
	}
	for _, local := range []string{"2025-10-26T02:30", "2025-10-26 02:30", "10:30", "yesterday"} {
		a := w.ours("/at/"+url.PathEscape(local)+"/api/v1/pods", asObjects)
		if a.code != http.StatusBadRequest || !strings.Contains(string(a.body), "has no date and offset") {
			t.Errorf("%s: %d %s", local, a.code, a.body)
		}
	}
}
