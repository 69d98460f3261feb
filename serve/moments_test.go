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

// A moment has its fraction of a second, also where answers are cached. A time without an offset is one of the server's, and a warning says which.
func TestAMomentIsExact(t *testing.T) {
	w, second := newWritten(t), time.Now().UTC().Add(-time.Hour).Truncate(time.Second)
	for i, name := range []string{"a", "b", "c"} {
		happened := second.Add(time.Duration(i) * 300 * time.Millisecond)
		w.create(i+1, name, happened, happened)
		w.write(i+1, happened)
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
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", time.RFC3339} {
		text := second.Local().Format(layout)
		a := w.ours("/at/"+url.PathEscape(text)+"/api/v1/pods", asObjects)
		want := ""
		if layout != time.RFC3339 {
			want = text + " is read as " + second.Local().Format(time.RFC3339)
		}
		if got := strings.Join(a.warnings, " "); a.code != http.StatusOK || !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %d, warning %q, want %q", text, a.code, got, want)
		}
	}
}

// The exporter was stopped for an hour, and then read what had happened meanwhile. Ages at a version are those at its own time, as objects show
// it. None is from the future, of the time before the outage, or of the time after it.
func TestAgesAtAVersionOfAnOutage(t *testing.T) {
	w, began := newWritten(t), time.Now().UTC().Add(-3*time.Hour).Truncate(time.Second)
	minute := func(minutes int) time.Time { return began.Add(time.Duration(minutes) * time.Minute) }
	w.create(10, "a", minute(0), minute(0))
	w.write(10, minute(0))
	for i := range 5 {
		w.write(10, minute(i+1)) // the last position before the outage is at 5
	}
	w.create(20, "b", minute(20), minute(65))
	w.write(20, minute(65))
	w.create(30, "c", minute(40), minute(65))
	w.create(40, "d", minute(60), minute(65))
	w.write(45, minute(65))
	for i := range 4 {
		w.write(50, minute(66+i))
	}
	w.create(60, "e", minute(70), minute(70))
	w.write(60, minute(70))
	w.create(70, "f", minute(71), minute(71)) // a batch that is long
	w.create(80, "g", minute(71), minute(71).Add(20*time.Second))
	w.write(90, minute(71).Add(20*time.Second))
	for version, want := range map[int]string{10: "a 5m", 15: "a 5m", 20: "a 20m, b 0s", 25: "a 20m, b 0s", 30: "a 40m, b 20m, c 0s", 39: "a 40m, b 20m, c 0s",
		45: "a 60m, b 40m, c 20m, d 0s", 60: "a 70m, b 50m, c 30m, d 10m, e 0s", 70: "a 71m, b 51m, c 31m, d 11m, e 60s, f 0s"} {
		if got := ages(t, w.ours(fmt.Sprintf("/at/%d/api/v1/pods", version), asTable)); got != want {
			t.Errorf("at %d the ages are %s, want %s", version, got, want)
		}
	}
}

// Nobody writes the log any more. After two minutes its end is not the present. Answers say since when, and ages are those of then. A watch's
// bookmark has the time, too. A moment of the past is what it was.
func TestTheEndOfALogThatNobodyWrites(t *testing.T) {
	w, last := newWritten(t), time.Now().UTC().Truncate(time.Second)
	w.create(10, "a", last.Add(-time.Hour), last)
	w.write(10, last)
	const watch = "?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	ends := "the log ends at " + last.Format(time.RFC3339)
	for passed, want := range map[time.Duration]struct {
		age     string
		isStale bool
	}{0: {"a 60m", false}, 110 * time.Second: {"a 61m", false}, 130 * time.Second: {"a 60m", true}, 30 * time.Hour: {"a 60m", true}} {
		w.server.now = func() time.Time { return last.Add(passed) }
		if got := ages(t, w.ours("/api/v1/pods", asTable)); got != want.age {
			t.Errorf("after %s the ages are %s, want %s", passed, got, want.age)
		}
		for _, path := range []string{"/api/v1/pods", "/api/v1/namespaces/default/pods/a", "/api/v1/namespaces/default/pods/b", "/at/now/api/v1/pods", "/api/v1/pods?limit=1",
			"/api/v1/pods" + watch, "/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion=10"} {
			a := w.ours(path, asObjects)
			if says := strings.Contains(fmt.Sprint(a.warnings), ends); says != want.isStale || len(a.warnings) > 1 {
				t.Errorf("after %s %s warns %q", passed, path, a.warnings)
			}
			bookmark := strings.Contains(string(a.body), `"`+endAnnotation+`":"`+last.Format(time.RFC3339)+`"`)
			if strings.HasSuffix(path, watch) && bookmark != want.isStale {
				t.Errorf("after %s the bookmark is %s", passed, a.body)
			}
		}
		if a := w.ours("/at/10/api/v1/pods", asTable); len(a.warnings) > 0 || ages(t, a) != "a 60m" {
			t.Errorf("after %s a moment has %s, %q", passed, ages(t, a), a.warnings)
		}
	}
	w.server.now = time.Now
	w.write(20, time.Now())
	if a := w.ours("/api/v1/pods", asTable); len(a.warnings) > 0 {
		t.Errorf("a log that is written again: %q", a.warnings)
	}
	w.batch.Seq++ // a resource that was removed gets nothing more
	w.batch.Positions = []change.Position{{Stream: pods.ID(), ResourceVersion: "30", Time: time.Now(), Ended: change.EndedRemoved}}
	must[change.Offsets](t)(w.log.Write(t.Context(), &w.batch))
	w.server.now = func() time.Time { return last.Add(30 * time.Hour) }
	if a := w.ours("/api/v1/pods", asTable); len(a.warnings) > 0 {
		t.Errorf("a resource that was removed: %q", a.warnings)
	}
}
