package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks/sqlite"
	"kubecdc/test/sinktest"
)

// The log says how large it is. What takes most, and how fast it grows, is within a quarter of the truth. First lists are no growth.
func TestTheSizeOfALog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	file := own(t, path)
	h, _, _ := historyIn(t, file, path, 1, sqlite.Config{})
	shared, err := sqlitefile.Share(t.Context(), path)
	must(t, err)
	reader, err := sqlite.NewReader(t.Context(), shared, sinktest.Name)
	must(t, err)
	defer reader.Close()
	empty, err := reader.LogSize(t.Context(), time.Now())
	if err != nil || empty.Bytes == 0 || empty.Daily != 0 || len(empty.Largest) != 0 {
		t.Fatalf("an empty log: %+v, %v", empty, err)
	}
	truth := sinktest.WriteNoise(t, h.log, 30_000)
	size, err := reader.LogSize(t.Context(), time.Now().Add(6*time.Hour))
	must(t, err)
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
	if old, err := reader.LogSize(t.Context(), time.Now().Add(48*time.Hour)); err != nil || old.Daily != 0 || old.Bytes != size.Bytes {
		t.Errorf("nothing is written for two days: %+v, %v", old, err)
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
