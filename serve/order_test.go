package serve

import (
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
	"kubecdc/test/servers"
)

// The record of a gap is in a batch before the gap's changes, with them, or after them. A watch shows the changes, the deletion last.
func TestARecordOfAGapAndItsChangesAreInAnyOrder(t *testing.T) {
	object := func(op change.Op, name, version, gap string) change.Change {
		c := change.Change{Stream: pods, Op: op, Namespace: "default", Name: name, UID: name, ResourceVersion: change.ResourceVersion(version), Time: time.Now(),
			Inferred: gap != "", Gap: gap}
		body := []byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"` + name + `","namespace":"default","resourceVersion":"` + version + `"}}`)
		if c.After = body; op != change.Create {
			c.Before = body
		}
		if op == change.Delete {
			c.After = nil
		}
		return c
	}
	gap := change.GapControl(pods.ID(), "20", change.Gap{ID: "g", From: "6", To: "20", Deleted: 1, Updated: 1}, "")
	for _, recorded := range []int{1, 2, 3} {
		file := must[*sqlitefile.File](t)(sqlitefile.Own(t.Context(), filepath.Join(t.TempDir(), "log")))
		sink := must[*sqlite.Sink](t)(sqlite.New(t.Context(), file, sqlite.Config{Cluster: cluster, ClusterUID: "u"}))
		opened := must[*sinks.Opened](t)(sink.Open(t.Context(), 0, 1, sinks.Durable{New: true}))
		defer opened.Log.Close()
		positionsAt := func(version string) []change.Position {
			return []change.Position{{Stream: pods.ID(), ResourceVersion: change.ResourceVersion(version), Time: time.Now()}}
		}
		batches := []change.Batch{
			{Changes: []change.Change{object(change.Create, "a", "5", ""), object(change.Create, "b", "6", "")},
				Controls: []change.Control{change.SnapshotBeginControl(pods.ID(), "")}, Positions: positionsAt("6")},
			{}, {Changes: []change.Change{object(change.Delete, "a", "5", "g"), object(change.Update, "b", "15", "g")}},
			{Positions: positionsAt("20")},
		}
		batches[recorded].Controls = []change.Control{gap}
		for i := range batches {
			b := &batches[i]
			b.Epoch, b.Seq = 1, uint64(i+1)
			_, err := opened.Log.Write(t.Context(), b)
			ok(t, err)
		}
		p := &past{server: New(must[*sqlite.Reader](t)(sqlite.NewReader(t.Context(), file, cluster)), nil, slog.New(slog.DiscardHandler))}
		a := p.ours("/api/v1/pods?watch=1&timeoutSeconds=4&resourceVersion=6", asObjects)
		if got, want := events(a.body), []string{"MODIFIED b 15", "DELETED a 20"}; a.code != http.StatusOK || !slices.Equal(got, want) {
			t.Errorf("with the record in batch %d: %d %q, want %q", recorded+1, a.code, got, want)
		}
	}
}

// The log has a change that is newer than its stream's position, as happens while a gap is written. A client at that position gets it.
func TestAWatchHasWhatIsNewerThanThePosition(t *testing.T) {
	file := must[*sqlitefile.File](t)(sqlitefile.Own(t.Context(), filepath.Join(t.TempDir(), "log")))
	sink := must[*sqlite.Sink](t)(sqlite.New(t.Context(), file, sqlite.Config{Cluster: cluster, ClusterUID: "u"}))
	opened := must[*sinks.Opened](t)(sink.Open(t.Context(), 0, 1, sinks.Durable{New: true}))
	defer opened.Log.Close()
	for seq, version := range []string{"6", "15"} {
		b := change.Batch{Epoch: 1, Seq: uint64(seq + 1), Changes: []change.Change{{Stream: pods, Op: change.Create, Namespace: "default", Name: "v" + version, UID: version,
			ResourceVersion: change.ResourceVersion(version), Time: time.Now(),
			After: []byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"v` + version + `","namespace":"default","resourceVersion":"` + version + `"}}`)}}}
		if seq == 0 {
			b.Controls = []change.Control{change.SnapshotBeginControl(pods.ID(), "")}
			b.Positions = []change.Position{{Stream: pods.ID(), ResourceVersion: "6", Time: time.Now()}}
		}
		_, err := opened.Log.Write(t.Context(), &b)
		ok(t, err)
	}
	p := &past{server: New(must[*sqlite.Reader](t)(sqlite.NewReader(t.Context(), file, cluster)), nil, slog.New(slog.DiscardHandler))}
	a := p.ours("/api/v1/pods?watch=1&timeoutSeconds=2&resourceVersion=6", asObjects)
	if got := events(a.body); !slices.Equal(got, []string{"ADDED v15 15"}) {
		t.Errorf("%d %q", a.code, got)
	}
}

// While a watch lasts, an object is replaced by another one of its name, whose deletion is found in a gap. The watch shows that deletion.
func TestAWatchHasTheDeletionOfAReplacement(t *testing.T) {
	log, reader := sqliteLog(t)
	object := func(op change.Op, uid, version, gap string) change.Change {
		c := change.Change{Stream: pods, Op: op, Namespace: "default", Name: "a", UID: uid, ResourceVersion: change.ResourceVersion(version), Time: time.Now(), Gap: gap, Inferred: gap != ""}
		body := []byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"default","resourceVersion":"` + version + `"}}`)
		if c.After = body; op == change.Delete {
			c.Before, c.After = body, nil
		}
		return c
	}
	seq := uint64(0)
	write := func(version string, controls []change.Control, changes ...change.Change) {
		seq++
		_, err := log.Write(t.Context(), &change.Batch{Epoch: 1, Seq: seq, Changes: changes, Controls: controls,
			Positions: []change.Position{{Stream: pods.ID(), ResourceVersion: change.ResourceVersion(version), Time: time.Now()}}})
		ok(t, err)
	}
	write("6", []change.Control{change.SnapshotBeginControl(pods.ID(), "")}, object(change.Create, "first", "5", ""))
	p := &past{server: New(reader, nil, slog.New(slog.DiscardHandler))}
	watched := make(chan answer)
	go func() { watched <- p.ours("/api/v1/pods?watch=1&timeoutSeconds=6&resourceVersion=6", asObjects) }()
	servers.Await(t, "the watch to begin", func() (bool, error) { return p.server.views.recent.Len() > 0, nil })
	write("8", nil, object(change.Delete, "first", "7", ""), object(change.Create, "second", "8", ""))
	write("20", []change.Control{change.GapControl(pods.ID(), "20", change.Gap{ID: "g", From: "8", To: "20", Deleted: 1}, "")}, object(change.Delete, "second", "8", "g"))
	if got, want := events((<-watched).body), []string{"DELETED a 7", "ADDED a 8", "DELETED a 20"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
