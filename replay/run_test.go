package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/replay"
	"kubecdc/sinks"
	"kubecdc/test/sinktest"
)

// log visits the same changes with each read. Each change's memory is overwritten after the visit.
type log struct {
	sinks.Reader
	changes []sinks.Logged
}

func (l *log) Changes(_ context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	for i := range l.changes {
		if !q.Wanted(&l.changes[i]) {
			continue
		}
		if err := sinktest.Visit(&l.changes[i], visit); err != nil {
			return err
		}
	}
	return nil
}

// place stores what is written. It fails at times: before a write, or after it, so that the outcome is unknown.
type place struct {
	controls []json.RawMessage
	changes  []string
	writes   int
}

var errKilled = errors.New("killed")

func (p *place) Open(_ context.Context, _ string, visit func(*change.Control) error) error {
	for _, text := range p.controls {
		c := &change.Control{}
		if err := json.Unmarshal(text, c); err != nil {
			return err
		}
		if err := visit(c); err != nil {
			return err
		}
	}
	return nil
}

func (p *place) Write(_ context.Context, changes []sinks.Logged, c *change.Control) error {
	p.writes++
	if p.writes%3 == 0 {
		return errKilled
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	p.controls = append(p.controls, text)
	for i := range changes {
		p.changes = append(p.changes, id(&changes[i]))
	}
	if p.writes%4 == 0 {
		return errKilled
	}
	return nil
}

func (p *place) Close() error { return nil }

func id(l *sinks.Logged) string {
	return fmt.Sprintf("%s/%d/%d slot %d batch %d %s@%s", l.Topic, l.Partition, l.Offset, l.Slot, l.Batch, l.Name, l.ResourceVersion)
}

var pods = change.ParseStream("pods")

func logged(topic string, offset int64, slot int, batch uint64, n int) sinks.Logged {
	value := []byte(`{"before":null,"after":{}}`)
	l := sinks.Logged{Topic: topic, Offset: offset, Slot: slot, Batch: batch, Key: []byte("k"), Value: value, Logged: time.UnixMilli(1)}
	l.Change = change.Change{Stream: pods, Op: change.Update, Name: fmt.Sprint("pod-", n), ResourceVersion: change.VersionOf(uint64(n + 1))}
	return l
}

// A replay that is stopped again and again, before and after a write, writes each change once, in any order of the log.
func TestEachChangeIsWrittenOnce(t *testing.T) {
	// The transactions of two slots share a partition, and end in another order than they began.
	records := &log{}
	for n := range 40_000 {
		slot := n / 100 % 2
		records.changes = append(records.changes, logged("k8s.pods", int64(n/200*200+n%100*2+1-slot), slot, uint64(n/200), n))
	}
	// A log without offsets has the rest of pruned batches, then batches of two slots.
	tables := &log{}
	for n := range 40_000 {
		batch := uint64(0)
		if n >= 10_000 {
			batch = uint64(n / 4000)
		}
		tables.changes = append(tables.changes, logged("", 0, n/2000%2, batch, n))
	}
	for name, from := range map[string]*log{"records": records, "tables": tables} {
		t.Run(name, func(t *testing.T) {
			to, ends, ended := &place{}, 0, false
			for resume := false; !ended; {
				r := &replay.Run{Plan: &replay.Plan{ID: "one"}, Log: from, Target: to}
				begun := r.Begin
				if resume {
					begun = func(ctx context.Context) error { return r.Resume(ctx, "one") }
				}
				check(t, begun(t.Context()))
				if ended = r.Ended(); ended {
					continue
				}
				resume = true
				switch err := r.Do(t.Context()); {
				case errors.Is(err, errKilled):
					ends++
				case err != nil:
					t.Fatal(err)
				}
				if r.Written() > int64(len(to.changes)) {
					t.Fatalf("it says that %d changes are written, and %d are", r.Written(), len(to.changes))
				}
			}
			var want []string
			for i := range from.changes {
				want = append(want, id(&from.changes[i]))
			}
			if !slices.Equal(to.changes, want) {
				t.Fatalf("%d changes are written of %d", len(to.changes), len(want))
			}
			if ends < 3 {
				t.Fatalf("it was ended only %d times", ends)
			}
		})
	}
}

func TestAReplayThatIsNotThereIsNotResumed(t *testing.T) {
	to := &place{}
	r := &replay.Run{Plan: &replay.Plan{ID: "one"}, Log: &log{}, Target: to}
	check(t, r.Begin(t.Context()))
	var unknown fault.Usage
	if err := (&replay.Run{Target: to}).Resume(t.Context(), "two"); !errors.As(err, &unknown) || !strings.HasSuffix(err.Error(), "it has one") {
		t.Fatalf("it was resumed: %v", err)
	}
}
