package commit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/export/inventory"
	"kubecdc/export/plan"
	"kubecdc/internal/slab"
	"kubecdc/redact"
	"kubecdc/sinks"
	"kubecdc/test/exporttest"
	"kubecdc/test/require"
)

// ahead is a run in which the sink writes each batch while the next is prepared, and sometimes fails. Or it is its model: one batch
// after another, without errors.
type ahead struct {
	t       *testing.T
	random  *rand.Rand
	isModel bool
	store   checkpoint.Store
	log     []*change.Batch
	checked map[uint64]chan struct{} // is closed when a batch is prepared
	again   int                      // how many batches were prepared again
	last    map[batching.ObjectID]change.ResourceVersion
	slot    *plan.Slot
	own     *inventory.Slot
}

const changesEach = 7 // in a batch

// life returns random changes of some objects: a few in several streams are created, updated and deleted again and again.
func life(random *rand.Rand, s *plan.Slot, n int) (all []change.Change) {
	streams := []*change.Stream{exporttest.Pods, exporttest.Secrets, change.SnapshotOf(exporttest.Pods)}
	born := map[batching.ObjectID]int{} // the version that it was created at, or 0
	for version := range n {
		stream := streams[random.IntN(len(streams))]
		c := change.Change{Stream: stream, Op: change.Update, Namespace: "ns", Name: fmt.Sprint(random.IntN(9)), Time: time.Now(),
			ResourceVersion: change.VersionOf(uint64(version + 1))}
		id := batching.ObjectID{Stream: stream.ID(), Key: c.Key()}
		switch {
		case stream.ID().IsSnapshot():
			c.Op = change.Read
		case born[id] == 0:
			c.Op, born[id] = change.Create, version+1
		case random.IntN(12) == 0:
			c.Op = change.Delete
		}
		if c.UID = fmt.Sprint("u", born[id]); c.Op == change.Delete {
			born[id] = 0
		}
		if c.Op != change.Delete {
			body := fmt.Appendf(nil, `{"metadata":{"name":%q,"uid":%q,"creationTimestamp":"2026-01-01T00:00:00Z","managedFields":[{"manager":"m%d",`+
				`"operation":"Update","time":"2026-01-02T00:00:%02dZ","fieldsV1":{"f:spec":{"f:n":{}}}}]},"spec":{"n":%d,"text":"%s"},`+
				`"data":{"k":"Y2FuYXJ5"},"status":{"beat":%d}}`, c.Name, c.UID, version%3, version%60, random.IntN(3),
				strings.Repeat(fmt.Sprint(random.IntN(2)), 900), version)
			if redact := s.Config.BodyRedactor(stream.ID()); redact != nil {
				body = redact(c.Key(), body)
			}
			c.After = body
		}
		all = append(all, c)
	}
	return all
}

// Write may fail before or after the batch is durable. It replaces some states by stubs, as Kafka's log does.
func (a *ahead) Write(_ context.Context, b *change.Batch) (change.Offsets, error) {
	outcome := a.random.IntN(20)
	if next := a.checked[b.Seq+1]; next != nil && outcome != 0 {
		<-next
	}
	for range 4 { // what was released too early is overwritten
		s := slab.New(1500)
		s.Bytes = append(s.Bytes, bytes.Repeat([]byte("x"), 1500)...)
		s.Release()
	}
	if outcome == 1 && !a.isModel {
		return nil, errKilled
	}
	for i := range b.Changes {
		c := &b.Changes[i]
		if c.ResourceVersion[len(c.ResourceVersion)-1] != '3' || c.After == nil {
			continue
		}
		stub, err := change.Stub(c.After)
		if err != nil {
			return nil, err
		}
		for j := range b.Changes[i+1:] {
			if next := &b.Changes[i+1+j]; len(next.Before) > 0 && &next.Before[0] == &c.After[0] {
				next.Before = stub
			}
		}
		c.After = stub
	}
	own := *b
	own.Changes = slices.Clone(b.Changes)
	for i := range own.Changes {
		c := &own.Changes[i]
		c.Before, c.After = bytes.Clone(c.Before), bytes.Clone(c.After)
		c.Provenance.Fields, c.Provenance.Managers = bytes.Clone(c.Provenance.Fields), bytes.Clone(c.Provenance.Managers)
	}
	if a.log = append(a.log, &own); outcome == 2 && !a.isModel {
		return nil, errKilled
	}
	return change.Offsets{"t": {0: int64(b.Seq)}}, nil
}

func (a *ahead) Close() error { return nil }

func (a *ahead) tail(after uint64) func(context.Context, func(*sinks.Recovered) error) error {
	return func(_ context.Context, visit func(*sinks.Recovered) error) error {
		for _, b := range a.log[after:] {
			own := *b
			own.Changes = slices.Clone(b.Changes)
			if err := visit(&sinks.Recovered{Batch: own, Offsets: change.Offsets{"t": {0: int64(b.Seq)}}}); err != nil {
				return err
			}
		}
		return nil
	}
}

// seen is a guard that says when a batch is prepared.
type seen struct {
	Guard
	*ahead
}

func (s seen) Check(ctx context.Context, p *batching.Prepared) error {
	err := s.Guard.Check(ctx, p)
	if c := s.checked[p.Seq]; c != nil {
		select {
		case <-c:
			s.again++
		default:
			close(c)
		}
	}
	return err
}

// session commits what the log lacks until something fails.
func (a *ahead) session(all []change.Change) error {
	state, err := a.store.Acquire(a.t.Context(), 0, "a", time.Minute)
	state.New = false // there is no log to rebuild it from
	mustDo(a.t, err)
	m, _, _, err := a.own.Open(a.t.Context(), &state, &sinks.Opened{Log: a, Tail: a.tail(state.Seq), Last: uint64(len(a.log))}, a.Write)
	mustDo(a.t, err)
	ctx, cancel := context.WithCancel(a.t.Context())
	defer m.Start(ctx, func(error) {})() // the next batch fails, too
	defer cancel()
	c := New(a.slot, &Opened{Memory: m, Guard: seen{m, a}, Following: m}, state.Epoch)
	c.isAhead = !a.isModel
	path, err := redact.ParsePath("status.beat")
	mustDo(a.t, err)
	managed, err := redact.ParsePath("metadata.managedFields")
	mustDo(a.t, err)
	mask := redact.NewMask([]redact.Path{path, managed})
	c.Filter = &Filter{mask: func(change.StreamID) *redact.Mask { return mask }}
	q := batching.New(len(all)+1, 1<<30, batching.Limits{MaxChanges: changesEach, MaxBytes: 1 << 30})
	a.last = map[batching.ObjectID]change.ResourceVersion{}
	for i := range all {
		a.last[batching.ObjectID{Stream: all[i].Stream.ID(), Key: all[i].Key()}] = all[i].ResourceVersion
	}
	left := all[min(len(a.log)*changesEach, len(all)):]
	a.checked = map[uint64]chan struct{}{}
	for i := range left {
		own := left[i]
		if own.After != nil {
			own.Slab = slab.New(len(own.After))
			own.Slab.Bytes = append(own.Slab.Bytes, own.After...)
			own.After = own.Slab.Bytes
		}
		mustDo(a.t, q.Send(a.t.Context(), change.Item{Stream: own.Stream.ID(), Change: &own, Version: own.ResourceVersion, Time: time.Unix(9, 0)}))
		if i%changesEach == 0 && i > 0 && !a.isModel {
			a.checked[uint64(len(a.log)+i/changesEach+1)] = make(chan struct{})
		}
	}
	stopped := make(chan struct{})
	close(stopped)
	if err := c.CommitAll(ctx, q, stopped); err != nil {
		return err
	}
	return m.Flush(ctx)
}

// texts returns what the log has.
func (a *ahead) texts() (all []string) {
	for _, b := range a.log {
		for i := range b.Changes {
			c := &b.Changes[i]
			p := c.Provenance
			all = append(all, fmt.Sprintf("%d %s %s %s %s: %s -> %s (%s %s %s %s)", b.Seq, c.Op, c.Stream.ID(), c.Key(), c.ResourceVersion, c.Before, c.After,
				p.Time, p.Source, p.Managers, p.Fields))
		}
		slices.SortFunc(b.Positions, func(x, y change.Position) int { return strings.Compare(string(x.Stream), string(y.Stream)) })
		all = append(all, fmt.Sprint(b.Seq, b.Positions))
	}
	return all
}

// written returns the version of an object's last change in the log.
func (a *ahead) written(stream change.StreamID, key string) (last change.ResourceVersion) {
	for _, b := range a.log {
		for i := range b.Changes {
			if c := &b.Changes[i]; c.Stream.ID() == stream && c.Key() == key {
				last = c.ResourceVersion
			}
		}
	}
	return last
}

// remembered returns the checkpoint's objects and positions. An object may have the version of its last update that was written, since
// ignored updates are not in the log.
func (a *ahead) remembered() (all []string) {
	positions, err := a.store.Streams(a.t.Context())
	mustDo(a.t, err)
	for _, stream := range []*change.Stream{exporttest.Pods, exporttest.Secrets} {
		mustDo(a.t, a.store.Inventory(a.t.Context(), stream.ID(), func(o checkpoint.Object) error {
			all = append(all, fmt.Sprintf("%s %s %s", stream.ID(), o.Key, o.UID))
			written, last := a.written(stream.ID(), o.Key), a.last[batching.ObjectID{Stream: stream.ID(), Key: o.Key}]
			if v := o.ResourceVersion; v.Compare(written) < 0 || v.Compare(last) > 0 || a.isModel && v != last {
				a.t.Errorf("%s is remembered at %s, was written at %s, and has %s", o.Key, v, written, last)
			}
			return nil
		}))
		var keys []string
		for i := range 9 {
			keys = append(keys, fmt.Sprint("ns/", i))
		}
		mustDo(a.t, a.store.Bodies(a.t.Context(), stream.ID(), keys, func(key string, b checkpoint.Body) error {
			body, err := b.Unpack()
			all = append(all, fmt.Sprintf("%s %s", key, body))
			return err
		}))
	}
	slices.Sort(all)
	return append(all, fmt.Sprint(len(positions)))
}

// What is written and remembered is the same as if each batch was prepared after the one before was remembered.
func TestABatchIsPreparedWhileTheOneBeforeIsWritten(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{2, 7, 9, rand.Uint64()} {
		cache := []int64{0, 3000, 1 << 20, 1 << 14}[seed%4]
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			var runs [2]ahead
			var all []change.Change
			for i := range runs {
				a := &runs[i]
				*a = ahead{t: t, random: rand.New(rand.NewPCG(seed, 2)), isModel: i == 0, store: exporttest.Owned(t)}
				a.slot = exporttest.Slot(t, a.store, "pods,secrets", redact.Hash)
				a.own = exporttest.Inventory(a.slot, cache)
				a.own.Interval, a.own.CommitBytes = time.Millisecond, 1<<20
				if all == nil {
					all = life(a.random, a.slot, 300*changesEach+3)
				}
				for err := a.session(all); err != nil; err = a.session(all) {
					if !errors.Is(err, errKilled) {
						t.Fatal(err)
					}
				}
			}
			wrote, want := runs[1].texts(), runs[0].texts()
			for i, text := range want {
				if i >= len(wrote) || wrote[i] != text {
					t.Fatalf("entry %d of %d is\n%.2500s\nand not\n%s", i, len(want), slices.Concat(wrote, []string{"missing"})[min(i, len(wrote))], text)
				}
			}
			if got, want := runs[1].remembered(), runs[0].remembered(); !slices.Equal(got, want) {
				t.Errorf("remembered is\n%s\nand not\n%s", strings.Join(without(got, want), "\n"), strings.Join(without(want, got), "\n"))
			}
			if runs[1].again == 0 {
				t.Error("no batch was prepared again")
			}
		})
	}
}

// without returns what is not in others.
func without(all, others []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(others, s) })
}

var errKilled = errors.New("killed")

var mustDo = require.NoError
