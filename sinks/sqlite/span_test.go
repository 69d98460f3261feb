package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/query"
	"kubecdc/query/timeline"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
)

// A log that is read by its spans gives the same answers as one that is read in full. That holds at every moment, after its start
// was removed, and where spans can't be read. An earlier release has written null where a span sets no position.
func TestALogInShortAnswersAlike(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	h, sink, r := newHistory(t, path, 3, sqlite.Config{History: time.Millisecond})
	began, logged := time.Now().Add(-time.Hour).Truncate(time.Second), time.Now()
	timeOf := func(seq uint64) time.Time { return began.Add(time.Duration(seq) * time.Second) }
	for seq := uint64(1); seq <= 400; seq++ {
		b := &change.Batch{Epoch: 1, Seq: seq, Changes: []change.Change{h.next()}}
		b.Changes[0].Time = timeOf(seq)
		b.Positions = []change.Position{{Stream: pods.ID(), ResourceVersion: change.VersionOf(uint64(h.version)), Time: timeOf(seq)}}
		if seq%80 == 0 { // ends a span
			b.Controls = []change.Control{change.GapControl(pods.ID(), change.VersionOf(uint64(h.version)), change.Gap{ID: fmt.Sprint("pods:", h.version),
				From: change.VersionOf(uint64(h.version) - 5), To: change.VersionOf(uint64(h.version)), Reason: "compacted"}, "")}
		}
		if _, err := h.log.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if seq == 200 {
			logged = time.Now()
		}
	}
	damage := func(statement string) func() error {
		return func() error {
			_, err := share(t, path).DB().Exec(statement)
			return err
		}
	}
	for _, tc := range []struct {
		name    string
		step    func() error
		records int // the limit of records read by spans
	}{
		{"as it was written", func() error { return nil }, 130},
		{"without its start", func() error { return sink.Prune(t.Context(), logged.Add(10*time.Minute)) }, 130},
		{"with spans of an earlier release", damage(`update log_spans set positions = 'null' where first % 2 = 0`), 400},
		{"with spans of a stream that it does not have", damage(`update log_spans set positions = '[[99,"5",0]]'`), 400},
		{"with spans that are no spans", damage(`update log_spans set batches = 'many'`), 400},
		{"without spans", damage(`drop table log_spans`), 400},
	} {
		must(t, tc.step())
		short := 0
		err := r.Controls(t.Context(), time.Time{}, func(*sinks.Span) bool { return false }, func(*change.Control) error { short++; return nil })
		if err != nil || short > tc.records {
			t.Errorf("%s: in short it has %d records: %v", tc.name, short, err)
		}
		follower := timeline.NewFollower(r)
		for seq := uint64(1); seq <= 400; seq += 47 {
			for _, moment := range []timeline.Target{{Happened: timeOf(seq)}, {Version: change.VersionOf(seq)}, {Logged: logged}, {}} {
				got, want := answer(t, r, moment), answer(t, inFull{r}, moment)
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("%s: %s: %q, want %q", tc.name, moment, got, want)
				}
				if n := len(want); n > 1 { // without the coverage
					want = slices.Delete(want, n-2, n-1)
				}
				if got := followed(t, follower, moment); !slices.Equal(got, want) {
					t.Fatalf("%s: %s: a follower says %q, want %q", tc.name, moment, got, want)
				}
			}
		}
	}
}

// inFull is a log that is read without its spans.
type inFull struct{ sinks.Reader }

func (r inFull) FindsObjects() bool { return false }

func (r inFull) Changes(ctx context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	if q.Each != sinks.All {
		return errors.ErrUnsupported
	}
	return r.Reader.Changes(ctx, q, visit)
}

func (r inFull) Controls(ctx context.Context, since time.Time, _ func(*sinks.Span) bool, visit func(*change.Control) error) error {
	return r.Reader.Controls(ctx, since, nil, visit)
}

// followed returns what a follower of a log says about a moment.
func followed(t *testing.T, f *timeline.Follower, moment timeline.Target) (all []string) {
	t.Helper()
	question := query.Question{Objects: sinks.Objects{Resources: []string{"pods"}}}
	found, err := f.Moment(t.Context(), question.Resources, moment)
	if err != nil {
		return []string{fmt.Sprint(moment, ": ", err)}
	}
	pages, err := query.OpenPages(t.Context(), f, found, question, moment)
	must(t, err)
	page, err := pages.Page(t.Context(), query.Within{}, 1000)
	must(t, err)
	for _, o := range page.Objects {
		all = append(all, fmt.Sprint(o.Name, o.UID, o.ResourceVersion, string(o.Body)))
	}
	return append(all, fmt.Sprint(page.Missing))
}

// answer returns what a log says about a moment.
func answer(t *testing.T, r sinks.Reader, moment timeline.Target) (all []string) {
	t.Helper()
	states, err := query.ReadStates(t.Context(), r, query.Question{}, moment)
	if err != nil {
		return []string{err.Error()}
	}
	err = states[0].Objects(func(o *query.Object) error {
		all = append(all, fmt.Sprint(o.Name, o.UID, o.ResourceVersion, string(o.Body)))
		return nil
	})
	must(t, err)
	return append(all, fmt.Sprint(states[0].Coverage), fmt.Sprint(states[0].Missing))
}
