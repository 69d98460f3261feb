package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks/sqlite"
	"kubecdc/test/sinktest"
)

// The log says how large it is. What takes most, and how fast it grows, is within a quarter of the truth. First lists are no growth.
func TestTheSizeOfALog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	file := own(t, path)
	h, _, _ := historyIn(t, file, path, 1, sqlite.Config{})
	memory, err := sqlite.NewMemory(t.Context(), file, sinktest.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	empty, err := memory.LogSize(t.Context(), time.Now())
	if err != nil || empty.Bytes == 0 || empty.Daily != 0 || len(empty.Largest) != 0 {
		t.Fatalf("an empty log: %+v, %v", empty, err)
	}
	truth := map[string]float64{}
	writeNoise(t, h, truth, 30_000)
	size, err := memory.LogSize(t.Context(), time.Now().Add(6*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v of %v", size, truth)
	near := func(what string, got int64, want float64) {
		t.Helper()
		if float64(got) < 0.75*want || float64(got) > 1.25*want {
			t.Errorf("%s: %d, want about %.0f", what, got, want)
		}
	}
	scale := float64(size.Bytes) / (truth["pods"] + truth["nodes"] + truth["events"] + truth["configmaps"])
	if size.Bytes < 30<<20 || size.Bytes > 60<<20 {
		t.Errorf("the log's size is %d", size.Bytes)
	}
	near("a day", size.Daily, 4*scale*(truth["pods"]+truth["nodes"]+truth["events"]))
	if len(size.Largest) != 3 {
		t.Fatalf("the largest are %v", size.Largest)
	}
	for i, want := range []string{"configmaps", "events", "pods"} {
		if size.Largest[i].Resource != want {
			t.Errorf("%d is %v, want %s", i, size.Largest[i], want)
		}
		near(want, size.Largest[i].Bytes, scale*truth[want])
	}
	if old, err := memory.LogSize(t.Context(), time.Now().Add(48*time.Hour)); err != nil || old.Daily != 0 || old.Bytes != size.Bytes {
		t.Errorf("nothing is written for two days: %+v, %v", old, err)
	}
}

// writeNoise writes first lists of ConfigMaps, and then changes of other resources, and adds the bytes of each. Noise can't be compressed.
func writeNoise(t *testing.T, h *history, truth map[string]float64, changes int) {
	t.Helper()
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
			if _, err := h.log.Write(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			b.Changes = nil
		}
	}
}

// A log is full only if the pace of the last day reaches the limit before the history ends.
func TestWhenALogIsFull(t *testing.T) {
	now, day := time.Now().UTC(), 24*time.Hour
	for _, test := range []struct {
		bytes, daily, limit int64
		history             time.Duration
		want                time.Duration // 0: never
	}{
		{10, 10, 100, 30 * day, 9 * day},
		{10, 3, 100, 30 * day, 0},
		{10, 0, 100, 30 * day, 0},
		{100, 10, 100, 30 * day, 1},
		{120, 10, 100, 30 * day, 1},
		{10, 1, 100, 1<<63 - 1, 90 * day},
		{10, 10, 0, 30 * day, 0},
	} {
		s := &change.LogSize{Bytes: test.bytes, Daily: test.daily}
		s.Expect(test.limit, test.history, now)
		if got := s.Full.Sub(now); test.want == 0 != s.Full.IsZero() || test.want > 0 && (got-test.want).Abs() > time.Minute {
			t.Errorf("%+v: full %v", test, s.Full)
		}
	}
}
