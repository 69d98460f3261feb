package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
)

// slowStore takes time for each commit, and may fail.
type slowStore struct {
	checkpoint.Store
	takes   time.Duration
	fail    error
	mu      sync.Mutex
	commits []checkpoint.Commit
}

func (s *slowStore) Commit(ctx context.Context, c checkpoint.Commit) error {
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail == nil {
		s.commits = append(s.commits, c)
	}
	return s.fail
}

// batches lists the first and last batch of each commit.
func (s *slowStore) batches() (text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.commits {
		text += fmt.Sprintf("%d-%d ", c.First, c.Seq)
	}
	return text
}

// following is a checkpointer that runs until the test or the session ends.
type following struct {
	*checkpointer
	t       *testing.T
	session context.Context
}

func follow(t *testing.T, store *slowStore, interval time.Duration, maxBytes int64) *following {
	c := newCheckpointer(Settings{Interval: interval, CommitBytes: maxBytes}, quietParts(store), 1, 0)
	session, fail := context.WithCancelCause(t.Context())
	go c.run(session, fail)
	t.Cleanup(func() { fail(nil) })
	return &following{c, t, session}
}

// commitOne returns a batch that changes one object. Its body is the batch's number.
func commitOne(seq int, key string) effect {
	return effect{&change.Batch{Epoch: 1, Seq: uint64(seq), Positions: []change.Position{{Stream: "pods", ResourceVersion: change.VersionOf(uint64(seq))}}},
		change.Offsets{"pods": {0: int64(seq)}},
		[]objectState{{Object: checkpoint.Object{Key: key, UID: "u", Body: checkpoint.Pack(fmt.Append(nil, seq))}, stream: "pods"}}}
}

// deleted returns a batch that deletes objects.
func deleted(seq int, keys ...string) (e effect) {
	e.Batch = &change.Batch{Seq: uint64(seq)}
	for _, key := range keys {
		e.objects = append(e.objects, objectState{Object: checkpoint.Object{Key: key}, stream: "pods", deleted: true})
	}
	return e
}

func (f *following) put(seq int, key string) {
	f.t.Helper()
	if err := f.add(f.t.Context(), commitOne(seq, key)); err != nil {
		f.t.Fatal(err)
	}
}

// has returns the last batch in the store.
func (f *following) has() uint64 {
	seq, _ := f.committed()
	return seq
}

func (f *following) text(key string) string {
	f.t.Helper()
	o, ok := f.object(batching.ObjectID{Stream: "pods", Key: key})
	if !ok {
		return "unknown"
	}
	if o.deleted {
		return "deleted"
	}
	body, err := o.Body.Unpack()
	if err != nil {
		f.t.Fatal(err)
	}
	return string(body)
}

func TestTheCheckpointFollowsAtItsOwnPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{takes: 100 * time.Millisecond}
		f := follow(t, store, time.Second, 1<<20)
		f.put(1, "a") // after a pause: at once
		time.Sleep(150 * time.Millisecond)
		for seq := 2; seq < 10; seq++ {
			f.put(seq, "a")
			time.Sleep(50 * time.Millisecond)
		}
		if got := store.batches(); got != "1-1 " {
			t.Errorf("within the interval the store got %s", got)
		}
		time.Sleep(time.Second)
		if got := store.batches(); got != "1-1 2-9 " {
			t.Fatalf("after the interval the store has %s", got)
		}
		last := store.commits[1]
		body, _ := last.Streams[0].Upserts[0].Body.Unpack()
		if n := len(last.Streams[0].Upserts); n != 1 || string(body) != "9" || last.Offsets["pods"][0] != 9 ||
			len(last.Positions) != 1 || last.Positions[0].ResourceVersion != "9" {
			t.Errorf("the commit is %+v; want everything once, as batch 9 left it", last)
		}
		if f.has() != 9 || f.objects() != 0 {
			t.Errorf("the store is said to have batch %d, and to lack %d objects", f.has(), f.objects())
		}
	})
}

// An object may be updated, deleted and created again within one interval.
func TestACommitHasTheLastStateOfEachObject(t *testing.T) {
	p := newPending()
	for _, c := range []effect{commitOne(1, "again"), commitOne(2, "gone"), commitOne(3, "kept"), deleted(4, "gone", "again"),
		commitOne(5, "again"), commitOne(6, "other"), deleted(7, "other")} {
		p.add(c)
	}
	c := p.commit(0, 1)
	got := map[string]string{}
	for _, key := range c.Streams[0].Deletes {
		got[key] = "deleted"
	}
	for _, o := range c.Streams[0].Upserts {
		body, _ := o.Body.Unpack()
		got[o.Key] += string(body)
	}
	if want := "map[again:5 gone:deleted kept:3 other:deleted]"; fmt.Sprint(got) != want || len(p.objects) != 4 {
		t.Errorf("the commit has %v, %d objects; want %s", got, len(p.objects), want)
	}
	for key := range got {
		p.put(objectState{Object: checkpoint.Object{Key: key}, stream: "pods", deleted: true})
	}
	if want := int64(4*stateBytes + len("againgonekeptother")); p.bytes != want {
		t.Errorf("%d bytes are counted, not %d", p.bytes, want)
	}
}

func TestWhatTheStoreDoesNotHaveYetIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{takes: time.Second}
		f := follow(t, store, time.Second, 1<<20)
		f.put(1, "a")
		synctest.Wait() // it is being committed
		if got := f.text("a"); got != "1" || !f.concerns("pods") || f.concerns("nodes") {
			t.Errorf("of the commit in flight: %q", got)
		}
		f.put(2, "a")
		must(t, f.add(t.Context(), deleted(3, "b")))
		if a, b, c := f.text("a"), f.text("b"), f.text("c"); a != "2" || b != "deleted" || c != "unknown" {
			t.Errorf("of what is pending: %s, %s, %s", a, b, c)
		}
		if err := f.flush(t.Context()); err != nil || f.has() != 3 || store.batches() != "1-1 2-3 " {
			t.Errorf("after a flush the store has %s, error %v", store.batches(), err)
		}
		if got := f.text("a"); got != "unknown" || f.concerns("pods") {
			t.Errorf("what the store has is still held: %q", got)
		}
	})
}

// As much may be pending as is in flight. Then the slot waits for the store.
func TestMemoryDoesNotGrowWhileTheStoreIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{takes: time.Minute}
		f := follow(t, store, time.Hour, 1000)
		started := time.Now()
		for seq := 1; time.Since(started) == 0; seq++ {
			f.put(seq, fmt.Sprint(seq))
			synctest.Wait()
			if n := f.objects(); n > 2*(1000/stateBytes+1) {
				t.Fatalf("%d objects are held", n)
			}
		}
		if took := time.Since(started); took != time.Minute {
			t.Errorf("the slot waited for %v", took)
		}
	})
}

// While a spool is forwarded, run does not commit yet.
func TestMemoryDoesNotGrowBeforeTheSession(t *testing.T) {
	store := &slowStore{}
	c := newCheckpointer(Settings{Interval: time.Hour, CommitBytes: 1000}, quietParts(store), 1, 0)
	for seq := range uint64(100) {
		state := objectState{Object: checkpoint.Object{Key: fmt.Sprint(seq), Body: checkpoint.Body{Base: make([]byte, 100)}}, stream: "pods"}
		must(t, c.add(t.Context(), effect{Batch: &change.Batch{Seq: seq + 1}, objects: []objectState{state}}))
		if c.pending != nil && c.pending.bytes > 2*c.CommitBytes {
			t.Fatalf("%d bytes are pending, and %d is the limit", c.pending.bytes, c.CommitBytes)
		}
	}
}

func TestWithoutAnIntervalTheCheckpointFollowsEachBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{takes: time.Second}
		f := follow(t, store, 0, 1<<20)
		for seq := 1; seq <= 2; seq++ {
			if f.put(seq, "a"); f.has() != uint64(seq) {
				t.Errorf("batch %d is added, and the store has batch %d", seq, f.has())
			}
		}
		if got := store.batches(); got != "1-1 2-2 " {
			t.Errorf("the store has %s", got)
		}
	})
}

func TestAFailedCheckpointEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, &slowStore{takes: time.Second, fail: checkpoint.ErrFenced}, time.Second, 1<<20)
		f.put(1, "a")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !errors.Is(context.Cause(f.session), checkpoint.ErrFenced) {
			t.Errorf("the session goes on: %v", context.Cause(f.session))
		}
		if err := f.add(t.Context(), commitOne(2, "a")); !errors.Is(err, checkpoint.ErrFenced) {
			t.Errorf("another batch is added: %v", err)
		}
		if err := f.flush(t.Context()); !errors.Is(err, checkpoint.ErrFenced) || f.has() != 0 {
			t.Errorf("a flush after that: %v, batch %d", err, f.has())
		}
	})
}

// Reads of the checkpoint see the effects of pending batches.
func TestReadsSeeWhatIsPending(t *testing.T) {
	objects := func(t *testing.T, r *Inventory) (got string) {
		err := r.Objects(t.Context(), pods.ID(), func(key, _ string, version change.ResourceVersion) error {
			got += fmt.Sprint(key, " ", version)
			return nil
		})
		must(t, err)
		return got
	}
	for name, read := range map[string]func(t *testing.T, c *writer) string{
		"inventory": func(t *testing.T, c *writer) string { return objects(t, c.Inventory) },
		"streams": func(t *testing.T, c *writer) string {
			if all, err := c.Positions(t.Context()); err != nil || len(all) != 1 {
				t.Fatalf("streams are %v %v", all, err)
			}
			return objects(t, writerAt(c.Store, 2).Inventory)
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := storeAt(t, 1)
			c := writerWith(store, 1, slowly())
			must(t, c.commit(t.Context(), update(2)))
			if err := store.Check(t.Context(), 0, 1, 2); !errors.Is(err, checkpoint.ErrBehind) {
				t.Fatalf("batch 2 is not pending: %v", err)
			}
			if got := read(t, c); got != "ns/a 2" {
				t.Errorf("what is read: %s", got)
			}
		})
	}
}

// A before-image that is neither cached nor in the store is pending. A body that another owner stored there is stale.
func TestABeforeImageMayBePending(t *testing.T) {
	c := writerWith(storeAt(t, 1), 1, slowly()) // it caches nothing
	for n := 2; n <= 4; n++ {
		must(t, c.commit(t.Context(), update(n)))
	}
	var got []string
	for _, b := range c.logged.batches {
		got = append(got, string(b.Changes[0].Before))
	}
	if want := []string{"1", "2", "3"}; !slices.Equal(got, want) {
		t.Errorf("the before-images are %q, want %q", got, want)
	}
}

// slowly returns settings with which batches are pending until they are flushed.
func slowly() Settings {
	s := plain()
	s.Interval, s.CommitBytes = time.Hour, 1<<20
	return s
}
