package past

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/change"
	"kubecdc/sinks"
)

// tangledLog is a log of two slots, whose clocks step. In Kafka its changes come partition by partition, and the changes of a
// batch have times within a millisecond.
type tangledLog struct {
	randomLog
	visits []sinks.Logged // as they are read
}

func (l *tangledLog) Changes(_ context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	for i := range l.visits {
		if c := &l.visits[i]; q.After == nil || !q.After.Has(c) {
			if err := visit(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// CutAt returns the last cut whose batches were all logged by a time.
func (l *tangledLog) CutAt(_ context.Context, logged time.Time) (sinks.Cut, error) {
	cut := sinks.Cut{Batches: map[int]uint64{0: 0, 1: 0}}
	for i := range l.controls {
		if !logged.IsZero() && time.UnixMilli(l.controls[i].TimeMs).After(logged) {
			break
		}
		cut.Batches[l.controls[i].Slot] = l.controls[i].Batch
	}
	return cut, nil
}

func newTangledLog(random *rand.Rand, kafka bool) *tangledLog {
	log, now, version := &tangledLog{}, time.Now().Add(-10*time.Minute).Truncate(time.Millisecond), 0
	batches := map[int]uint64{}
	for now.Before(time.Now().Add(-time.Second)) {
		slot := random.IntN(2)
		if now = now.Add(time.Duration(random.IntN(20_000)) * time.Millisecond); random.IntN(15) == 0 {
			now = now.Add(-2 * time.Minute)
		}
		batches[slot]++
		c := change.Control{Type: change.ControlBatch, Slot: slot, Epoch: 1, Batch: batches[slot], TimeMs: now.UnixMilli()}
		log.controls = append(log.controls, c)
		for range 1 + random.IntN(4) {
			version++
			l := sinks.Logged{Slot: slot, Epoch: 1, Batch: batches[slot], Logged: now, Change: change.Change{Stream: change.ParseStream("configmaps"), Op: change.Create,
				Namespace: "shop", Name: fmt.Sprint("app-", version), UID: fmt.Sprint(version), ResourceVersion: change.VersionOf(uint64(version)), Time: now,
				After: fmt.Appendf(nil, `{"metadata":{"resourceVersion":"%d"}}`, version)}}
			if kafka {
				l.Topic, l.Partition, l.Offset = "configmaps", random.IntN(6), int64(version)
			}
			log.past = append(log.past, l)
		}
	}
	if log.visits = slices.Clone(log.past); kafka {
		slices.SortStableFunc(log.visits, func(a, b sinks.Logged) int { return a.Partition - b.Partition })
	}
	return log
}

// The last lines are the log's end, in its order. The order is by batches within a slot, by place within a batch, and as the log
// has it across slots.
func TestTheLastLinesAreTheLogsEnd(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 13))
		log, n := newTangledLog(random, seed%2 == 0), 1+random.IntN(30)
		asked := &tail{changes: changes{printer: *printing(t, "json", "never")}, last: n}
		asked.labelled, _ = (&sinks.Objects{}).Labelled()
		lines, err := asked.newest(t.Context(), &cobra.Command{}, log, &sinks.Objects{}, sinks.Query{})
		must(t, err)
		var got, want []string
		for _, l := range lines {
			got = append(got, l.key)
		}
		for i := range log.past[max(0, len(log.past)-n):] {
			want = append(want, "configmaps\x00"+log.past[max(0, len(log.past)-n)+i].Change.Key())
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: the last %d are\n%q, want\n%q", seed, n, got, want)
		}
	}
}
