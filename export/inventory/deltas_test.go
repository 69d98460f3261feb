package inventory

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/test/require"
)

// countingStore counts what commits do to bodies, and how many bodies are read.
type countingStore struct {
	checkpoint.Store
	bases, deltas, read int
}

func (s *countingStore) Bodies(ctx context.Context, stream change.StreamID, keys []string,
	visit func(key string, body checkpoint.Body) error) error {
	s.read += len(keys)
	return s.Store.Bodies(ctx, stream, keys, visit)
}

func (s *countingStore) Commit(ctx context.Context, c checkpoint.Commit) error {
	for _, stream := range c.Streams {
		for _, o := range stream.Upserts {
			if o.Body.Base != nil {
				s.bases++
			}
			if o.Body.Delta != nil {
				s.deltas++
			}
		}
	}
	return s.Store.Commit(ctx, c)
}

// life is the states of a few objects: each has one state, or none.
type life struct {
	random  *rand.Rand
	states  map[string][]byte
	version int
	leftOut map[change.ResourceVersion]bool // changes that are not written
}

// batch returns random changes, with the expected before-images of those that are written.
func (l *life) batch() (b *batching.Batch, before []string) {
	b = &batching.Batch{}
	for range 1 + l.random.IntN(12) {
		l.version++
		name := fmt.Sprint(l.random.IntN(10))
		former := l.states[name]
		c := change.Change{Op: change.Update, Stream: pods, Namespace: "ns", Name: name, UID: "u",
			ResourceVersion: change.VersionOf(uint64(l.version)), After: bytes.Clone(former)}
		switch n := l.random.IntN(20); {
		case former == nil:
			c.Op, c.After = change.Create, fmt.Appendf(nil, `{"name":"%s","v":%d,"spec":"%x"}`, name, l.version, l.text(2000))
		case n == 0:
			c.Op, c.After = change.Delete, nil
		case n == 1: // everything differs
			c.After = fmt.Appendf(nil, `{"v":%d,"other":"%x"}`, l.version, l.text(l.random.IntN(3000)))
		default: // a little
			l.leftOut[c.ResourceVersion] = n == 2
			i := l.random.IntN(len(c.After) - 20)
			c.After = append(append(bytes.Clone(former[:i]), fmt.Sprint(l.version)...), former[i+l.random.IntN(20):]...)
		}
		b.Changes = append(b.Changes, c)
		if l.leftOut[c.ResourceVersion] {
			continue
		}
		if l.states[name] = c.After; c.After == nil {
			delete(l.states, name)
		}
		before = append(before, string(former))
	}
	return b, before
}

func (l *life) text(n int) []byte {
	text := make([]byte, n)
	for i := range text {
		text[i] = byte(l.random.Uint32())
	}
	return text
}

// Each before-image is the state before, and most updates store a delta. This holds whatever happens to objects, whatever is
// cached, pending or in flight, and however often the session ends.
func TestBeforeImagesOfDeltas(t *testing.T) {
	for name, cache := range map[string]int64{"nothing is cached": 0, "some is": 10_000, "all is": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			store := &countingStore{Store: storeAt(t, 0)}
			l := &life{random: rand.New(rand.NewPCG(1, uint64(cache))), states: map[string][]byte{}, leftOut: map[change.ResourceVersion]bool{}}
			for seq := uint64(0); seq < 400; {
				settings := plain()
				settings.CacheBytes, settings.Interval, settings.CommitBytes = cache, time.Hour, 1<<30
				c := writerWith(store, seq, settings)
				c.leftOut = l.leftOut
				var flushing sync.WaitGroup
				for range 1 + l.random.IntN(60) {
					b, before := l.batch()
					must(t, c.commit(t.Context(), b))
					seq++
					for i, written := range c.logged.batches[len(c.logged.batches)-1].Changes {
						if written.Op != change.Create && string(written.Before) != before[i] {
							t.Fatalf("batch %d, change %d: before is %.80q, not %.80q", seq, i, written.Before, before[i])
						}
					}
					flushing.Wait()
					if l.random.IntN(4) == 0 { // the next batch is prepared meanwhile
						flushing.Go(func() {
							if err := c.Flush(t.Context()); err != nil {
								t.Error(err)
							}
						})
					}
				}
				flushing.Wait()
				must(t, c.Flush(t.Context()))
			}
			if store.deltas < store.bases {
				t.Errorf("%d deltas and %d bases were stored", store.deltas, store.bases)
			}
		})
	}
}

// An object that changes again and again is read twice, however many others change once meanwhile.
func TestWhatChangesOnceLeavesTheCacheAsItIs(t *testing.T) {
	store := &countingStore{Store: storeAt(t, 0)}
	settings := plain()
	settings.CacheBytes = 10_000
	c, l := writerWith(store, 0, settings), &life{random: rand.New(rand.NewPCG(1, 2))}
	for version := range 20 {
		b := &batching.Batch{}
		for i := range 10 { // the first is always the same object
			op, name := change.Create, fmt.Sprintf("%d-%d", version, i)
			if i == 0 && version > 0 {
				op = change.Update
			}
			if i == 0 {
				name = "often"
			}
			b.Changes = append(b.Changes, change.Change{Op: op, Stream: pods, Namespace: "ns", Name: name, UID: "u",
				ResourceVersion: change.VersionOf(uint64(10*version + i + 1)), After: fmt.Appendf(nil, `{"v":%d,"spec":"%x"}`, version, l.text(1000))})
		}
		must(t, c.commit(t.Context(), b))
	}
	if store.read > 2 {
		t.Errorf("%d bodies were read", store.read)
	}
}

// A thousand Pods that change again and again, always in the same order, are packed once a commit, which waits for its interval.
func TestAHotSetIsPackedOnceACommit(t *testing.T) {
	const hot = 1000
	store := &countingStore{Store: storeAt(t, 0)}
	settings := plain()
	settings.CacheBytes, settings.Interval, settings.CommitBytes = 8<<20, time.Hour, 2<<20
	c, l := writerWith(store, 0, settings), &life{random: rand.New(rand.NewPCG(1, 2))}
	spec := l.text(2000)
	round := func(version int) {
		b := &batching.Batch{}
		for i := range hot {
			op := change.Update
			if version == 1 {
				op = change.Create
			}
			b.Changes = append(b.Changes, change.Change{Op: op, Stream: pods, Namespace: "ns", Name: fmt.Sprint(i), UID: "u",
				ResourceVersion: change.VersionOf(uint64(hot*version + i)), After: fmt.Appendf(nil, `{"v":%d,"spec":"%x"}`, version, spec)})
		}
		must(t, c.commit(t.Context(), b))
	}
	for version := 1; version <= 12; version++ {
		if round(version); version > 2 {
			if wait, isPending := c.checkpoints.due(); !isPending || wait <= 0 {
				t.Fatalf("a commit is due after round %d, with %d bytes", version, c.checkpoints.pending.bytes)
			}
			continue
		}
		must(t, c.Flush(t.Context()))
	}
	if cached := c.bodies.cache.Len(); cached < hot*9/10 {
		t.Errorf("%d of %d are cached", cached, hot)
	}
	deltas := store.deltas
	must(t, c.Flush(t.Context()))
	if store.deltas != deltas+hot {
		t.Errorf("%d deltas were stored", store.deltas-deltas)
	}
}

// An object whose update is left out has the same base in the store, with or without a delta. So has one with two updates, of which either
// or both are left out. Bodies are read back as the log has them.
func TestALeftOutUpdateKeepsTheBase(t *testing.T) {
	store := &countingStore{Store: storeAt(t, 0)}
	l, states := &life{random: rand.New(rand.NewPCG(1, 2))}, map[string]string{}
	spec, version := l.text(2000), 0
	leftOut := map[change.ResourceVersion]bool{}
	session := func(seq uint64, updates ...bool) { // whether each update of an object is left out
		c := writerWith(store, seq, plain())
		c.leftOut = leftOut
		b := &batching.Batch{}
		for i := range 30 {
			for _, out := range updates {
				version++
				op, name := change.Update, fmt.Sprint(i)
				if states[name] == "" {
					op = change.Create
				}
				after := fmt.Sprintf(`{"v":%d,"spec":"%x"}`, version, spec)
				v := change.VersionOf(uint64(version))
				if leftOut[v] = out; !out {
					states[name] = after
				}
				b.Changes = append(b.Changes, change.Change{Op: op, Stream: pods, Namespace: "ns", Name: name, UID: "u", ResourceVersion: v, After: []byte(after)})
			}
		}
		must(t, c.commit(t.Context(), b))
	}
	session(0, false)
	bases := store.bases
	for seq, updates := range [][]bool{{true}, {false}, {true}, {true, true}, {true, false}, {false, true}} {
		session(uint64(seq+1), updates...)
		if store.bases != bases {
			t.Errorf("updates that are left out, %v: %d new bases", updates, store.bases-bases)
		}
		for name, state := range states {
			err := store.Store.Bodies(t.Context(), pods.ID(), []string{"ns/" + name}, func(_ string, b checkpoint.Body) error {
				body, err := b.Unpack()
				if string(body) != state {
					t.Errorf("updates that are left out, %v: the body is %.40s, not %.40s", updates, body, state)
				}
				return err
			})
			must(t, err)
		}
	}
}

// A base that is neither cached nor in the store is in the commit in flight, and its delta is pending.
func TestABaseMayBeInFlight(t *testing.T) {
	first := checkpoint.Pack(bytes.Repeat([]byte("0123456789"), 100))
	second := checkpoint.Body{Delta: []byte("second")}
	p, c := newPending(), &checkpointer{pending: newPending()}
	p.put(objectState{Object: checkpoint.Object{Key: "a", Body: first}, stream: "pods"})
	c.inFlight = p
	c.pending.put(objectState{Object: checkpoint.Object{Key: "a", Body: second}, stream: "pods"})
	if got, ok := c.object(batching.ObjectID{Stream: "pods", Key: "a"}); !ok || !bytes.Equal(got.Body.Base, first.Base) || string(got.Body.Delta) != "second" {
		t.Errorf("the body is %v %v", got, ok)
	}
	c.inFlight = nil // it is in the store
	if got, ok := c.object(batching.ObjectID{Stream: "pods", Key: "a"}); !ok || !got.Body.KeepsBase() {
		t.Errorf("then the body is %v %v", got, ok)
	}
	p.put(objectState{Object: checkpoint.Object{Key: "a", Body: second}, stream: "pods"})
	if got := p.objects[0].Body; !bytes.Equal(got.Base, first.Base) || string(got.Delta) != "second" {
		t.Errorf("one commit of both has the body %v", got)
	}
	if want := int64(len("a")+len(first.Base)+len("second")) + stateBytes; p.bytes != want {
		t.Errorf("%d bytes are counted, not %d", p.bytes, want)
	}
}

// The checkpoint gets what the log has, even if the sink has written a stub instead of an object.
func TestTheCheckpointGetsTheStubThatTheLogHas(t *testing.T) {
	object := func(n int) []byte { return fmt.Appendf(nil, `{"metadata":{"name":"a","uid":"u"},"n":%d}`, n) }
	update := func(n int) change.Change {
		return change.Change{Op: change.Update, Stream: pods, Namespace: "ns", Name: "a", UID: "u", ResourceVersion: change.VersionOf(uint64(n)), After: object(n)}
	}
	stub, err := change.Stub(object(2))
	must(t, err)
	for name, cache := range map[string]int64{"made at once": 0, "made when it is committed": 1 << 20} {
		settings := slowly()
		settings.CacheBytes = cache
		w := writerWith(storeAt(t, 0), 0, settings)
		for n, written := range [][]byte{nil, nil, stub, nil} {
			w.logged.stub = written
			batch := &batching.Batch{Batch: change.Batch{Changes: []change.Change{update(2*n + 1), update(2*n + 2)}}}
			must(t, w.commit(t.Context(), batch))
			if written == nil {
				written = object(2*n + 2)
			}
			err := w.Bodies(t.Context(), pods.ID(), []string{"ns/a"}, func(_ string, body []byte) error {
				if !bytes.Equal(body, written) {
					t.Errorf("%s: the checkpoint has %s, not %s", name, body, written)
				}
				return nil
			})
			if err != nil || w.bodies.cache.Contains(batching.ObjectID{Stream: pods.ID(), Key: "ns/a"}) != (n > 0 && cache > 0) {
				t.Error(name, n, err)
			}
		}
	}
}

var must = require.NoError
