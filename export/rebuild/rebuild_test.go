package rebuild

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/dependency"
	"kubecdc/sinks"
	"kubecdc/test/require"
)

var must = require.NoError

// pages is a checkpoint that records the steps of a rebuild.
type pages struct {
	cleared bool
	pages   [][]checkpoint.StreamCommit
	ended   int // number of pages when the rebuild ended, or -1
	commit  checkpoint.Commit
	failAt  int // page whose write fails, or -1
}

func (p *pages) Clear(context.Context, int, int64, func(change.StreamID) bool) error {
	p.cleared = true
	return nil
}

func (p *pages) PutPage(_ context.Context, _ int, _ int64, page int, streams []checkpoint.StreamCommit) error {
	if !p.cleared || page != len(p.pages) {
		return fmt.Errorf("page %d comes after %d others", page, len(p.pages))
	}
	if page == p.failAt {
		return errors.New("the disk is full")
	}
	p.pages = append(p.pages, streams)
	return nil
}

func (p *pages) Rebuilt(_ context.Context, n int, c checkpoint.Commit) error {
	p.ended, p.commit = n, c
	return nil
}

// log is a sink's log with its records.
type log struct {
	sinks.Content
	past    sinks.State
	records []change.Change
	err     error // returned after the records
}

func (l *log) State(context.Context, sinks.Selection) (*sinks.State, error) {
	past := l.past
	past.Fold = func(_ context.Context, visit func(*change.Change) error, _ func(sinks.Progress)) (sinks.Progress, error) {
		for i := range l.records {
			if err := visit(&l.records[i]); err != nil {
				return sinks.Progress{}, err
			}
		}
		return sinks.Progress{Records: int64(len(l.records))}, l.err
	}
	return &past, nil
}

// run rebuilds slot 0, which has all streams but nodes.
func run(t *testing.T, p *pages, l *log, state *checkpoint.SlotState, loss *sinks.LostTailError, known ...change.Position) error {
	_, err := slotOf(p, known...).Run(t.Context(), l, state, loss)
	return err
}

func slotOf(p *pages, known ...change.Position) Slot {
	p.ended = -1
	return Slot{Mine: func(stream change.StreamID) bool { return stream != "nodes" }, Bodies: true, Store: p, Delayed: func(int, string) {}, Logger: slog.New(slog.DiscardHandler),
		Known: known,
		Redactor: func(stream change.StreamID) func(string, []byte) []byte {
			if stream != "secrets" {
				return nil
			}
			return func(string, []byte) []byte { return []byte("redacted") }
		}}
}

func record(op change.Op, stream, name, version string, size int) change.Change {
	c := change.Change{Op: op, Stream: change.ParseStream(change.StreamID(stream)), Name: name, UID: "u", ResourceVersion: change.ResourceVersion(version)}
	if op != change.Delete {
		c.After = []byte(strings.Repeat("x", size))
	}
	return c
}

// A log that can't be read back, like stdout's, does not replace the rest of a damaged checkpoint. A log that has lost all of a
// slot's records does, and they are written again.
func TestAnEmptyLogReplacesNoDamagedCheckpoint(t *testing.T) {
	for _, damaged := range []bool{true, false} {
		p := &pages{}
		s := slotOf(p)
		s.Damaged = damaged
		_, err := s.Run(t.Context(), &log{}, &checkpoint.SlotState{Seq: 7}, &sinks.LostTailError{})
		if p.cleared == damaged || (err == nil) == damaged {
			t.Errorf("damaged: %v, cleared: %v, error %v", damaged, p.cleared, err)
		}
	}
}

// A page is bounded in objects and in bytes, and so is memory.
func TestPages(t *testing.T) {
	for name, test := range map[string]struct {
		records, size int
		want          []int
	}{
		"none":                 {0, 0, nil},
		"one that is not full": {3, 10, []int{3}},
		"by objects":           {2*pageObjects + 1, 10, []int{pageObjects, pageObjects, 1}},
		"by bytes":             {5, pageBytes / 2, []int{2, 2, 1}},
		"an object each":       {2, 2 * pageBytes, []int{1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &log{past: sinks.State{Seq: 1, Records: int64(test.records)}}
			for n := range test.records {
				l.records = append(l.records, record(change.Create, "pods", fmt.Sprint(n), "1", test.size))
			}
			p := &pages{failAt: -1}
			must(t, run(t, p, l, &checkpoint.SlotState{}, &sinks.LostTailError{}))
			var got []int
			for _, page := range p.pages {
				got = append(got, len(page[0].Upserts))
			}
			if !slices.Equal(got, test.want) || p.ended != len(test.want) {
				t.Errorf("pages have %v objects, want %v; it ends after %d", got, test.want, p.ended)
			}
		})
	}
}

// A page has the last state of each key, redacted.
func TestAPageHasTheLastStateOfEachKey(t *testing.T) {
	l := &log{past: sinks.State{Seq: 1}, records: []change.Change{record(change.Create, "pods", "a", "1", 1), record(change.Create, "pods", "b", "2", 1),
		record(change.Delete, "pods", "b", "3", 0), record(change.Update, "pods", "a", "4", 1), record(change.Create, "secrets", "s", "5", 1)}}
	p := &pages{failAt: -1}
	must(t, run(t, p, l, &checkpoint.SlotState{}, &sinks.LostTailError{}))
	got := map[string]string{}
	for _, s := range p.pages[0] {
		for _, o := range s.Upserts {
			got[string(s.Stream)+"/"+o.Key] = string(o.ResourceVersion) + " " + unpacked(t, o.Body)
		}
		for _, key := range s.Deletes {
			got[string(s.Stream)+"/"+key] = "deleted"
		}
	}
	if want := map[string]string{"pods/a": "4 x", "pods/b": "deleted", "secrets/s": "5 redacted"}; !maps.Equal(got, want) {
		t.Errorf("the page has %v, want %v", got, want)
	}
}

// A stream resumes from its position in the log, or from an unknown one if the log has lost it.
func TestPositionsOfStreams(t *testing.T) {
	unknown := change.UnknownVersion
	positionOf := func(stream change.StreamID, version change.ResourceVersion, ended change.Ended) change.Position {
		return change.Position{Stream: stream, ResourceVersion: version, Ended: ended}
	}
	for name, test := range map[string]struct {
		log   []change.Position
		known []change.Position // the checkpoint's positions
		seen  string            // a stream with records
		want  map[string]string
	}{
		"the log has it":                         {log: []change.Position{positionOf("pods", "9", "")}, known: []change.Position{positionOf("pods", "5", "")}, seen: "pods", want: map[string]string{"pods": "9"}},
		"the log has objects only":               {seen: "pods", want: map[string]string{"pods": string(unknown)}},
		"the checkpoint alone knew it":           {known: []change.Position{positionOf("pods", "5", "")}, want: map[string]string{"pods": string(unknown)}},
		"its first list had not ended":           {known: []change.Position{positionOf("pods", "", "")}, want: map[string]string{}},
		"nor by the log":                         {log: []change.Position{positionOf("pods", "", "")}, seen: "pods", want: map[string]string{"pods": ""}},
		"its resource was removed":               {log: []change.Position{positionOf("pods", "9", change.EndedRemoved)}, known: []change.Position{positionOf("pods", "5", "")}, want: map[string]string{}},
		"it was not selected any more":           {log: []change.Position{positionOf("pods", "9", change.EndedDeselected)}, want: map[string]string{"pods": "9"}},
		"it belongs to another slot, or is gone": {known: []change.Position{positionOf("nodes", "5", "")}, want: map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &log{past: sinks.State{Seq: 1, Positions: test.log}}
			if test.seen != "" {
				l.records = []change.Change{record(change.Create, test.seen, "a", "1", 1)}
			}
			p := &pages{failAt: -1}
			must(t, run(t, p, l, &checkpoint.SlotState{}, &sinks.LostTailError{}, test.known...))
			got := map[string]string{}
			for _, position := range p.commit.Positions {
				got[string(position.Stream)] = string(position.ResourceVersion)
			}
			if !maps.Equal(got, test.want) {
				t.Errorf("positions are %v, want %v", got, test.want)
			}
		})
	}
}

// The slot continues after the newer batch of checkpoint and log, with the log's offsets. It keeps the old offsets of a lost
// topic, so that the loss is found again until it is recorded.
func TestStateOfTheSlot(t *testing.T) {
	for _, test := range []struct{ checkpoint, log, want uint64 }{{0, 7, 7}, {9, 7, 9}, {3, 0, 3}} {
		state := checkpoint.SlotState{Epoch: 2, Seq: test.checkpoint, New: true, Offsets: change.Offsets{"gone": {0: 50}, "kept": {0: 60}}}
		l := &log{past: sinks.State{Seq: test.log, Offsets: change.Offsets{"kept": {0: 70}}}}
		p := &pages{failAt: -1}
		must(t, run(t, p, l, &state, &sinks.LostTailError{Offsets: change.Offsets{"gone": {0: 0}}}))
		if state.Seq != test.want || state.New || state.Offsets["gone"][0] != 50 || state.Offsets["kept"][0] != 70 {
			t.Errorf("checkpoint at %d, log at %d: the slot continues from %+v", test.checkpoint, test.log, state)
		}
		if p.commit.Seq != test.want || p.commit.Epoch != 2 {
			t.Errorf("the checkpoint has %+v", p.commit)
		}
	}
}

// A rebuild that fails leaves the slot marked as new, and its error is attributed to the log or to the checkpoint.
func TestARebuildThatFails(t *testing.T) {
	for name, test := range map[string]struct {
		failAt    int
		err       error
		component string
	}{
		"the log can't be read":           {-1, errors.New("no route"), dependency.Sink},
		"the checkpoint can't be written": {0, nil, dependency.Checkpoint},
	} {
		t.Run(name, func(t *testing.T) {
			state := checkpoint.SlotState{Seq: 3, New: true}
			p := &pages{failAt: test.failAt}
			err := run(t, p, &log{past: sinks.State{Seq: 9}, records: []change.Change{record(change.Create, "pods", "a", "1", 1)}, err: test.err},
				&state, &sinks.LostTailError{})
			if err == nil || dependency.NameOf(err) != test.component || !strings.HasPrefix(err.Error(), "rebuild the checkpoint of slot 0 from the log: ") {
				t.Errorf("error %v, of %q", err, dependency.NameOf(err))
			}
			if p.ended != -1 || !state.New || state.Seq != 3 {
				t.Errorf("it ends after %d pages, the slot is %+v", p.ended, state)
			}
		})
	}
}

func unpacked(t *testing.T, b checkpoint.Body) string {
	t.Helper()
	if b.IsZero() {
		return ""
	}
	body, err := b.Unpack()
	must(t, err)
	return string(body)
}
