package session

import (
	"context"
	"errors"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/export/commit"
	"kubecdc/export/plan"
	"kubecdc/test/exporttest"
	"kubecdc/test/servers"
)

// killedStore fails once, before or after the end of a rebuild.
type killedStore struct {
	checkpoint.Store
	kill string
}

func (k *killedStore) Rebuilt(ctx context.Context, pages int, c checkpoint.Commit) (err error) {
	kill := k.kill
	if c.Seq == 0 { // the log was new
		kill = ""
	} else {
		k.kill = ""
	}
	if kill != "before" {
		err = k.Store.Rebuilt(ctx, pages, c)
	}
	if kill != "" && err == nil {
		err = errKilled
	}
	return err
}

// After a log was emptied, everything is written again, even if the process is killed while it finds out what the log still has.
func TestAnEmptiedLogIsWrittenAgainAfterAKill(t *testing.T) {
	t.Run("before", func(t *testing.T) { killedInARebuild(t, "before") })
	t.Run("after", func(t *testing.T) { killedInARebuild(t, "after") })
}

func killedInARebuild(t *testing.T, kill string) {
	url := servers.Database(t)
	parts := partsIn(t, url, 1)
	parts.Store = &killedStore{Store: parts.Store, kill: kill}
	session := func() (*slot, checkpoint.SlotState, *commit.Opened, error) {
		s := newSlot(0, configFor(1), parts, nil)
		state, err := s.acquire(t.Context())
		mustDo(t, err)
		o, err := s.openRaisingEpoch(t.Context(), &state, s.open)
		return s, state, o, err
	}
	s, state, o, err := session()
	mustDo(t, err)
	made := change.Change{Op: change.Create, Stream: exporttest.Pods, Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "5", After: []byte("{}"), Time: time.Now()}
	c := commit.New(&s.Slot, o, state.Epoch)
	b := &batching.Batch{Batch: change.Batch{Changes: []change.Change{made}}, Newest: map[change.StreamID]change.Position{
		exporttest.Pods.ID(): {Stream: exporttest.Pods.ID(), ResourceVersion: "5", Time: time.Now().UTC()}}}
	mustDo(t, c.Commit(t.Context(), b))
	mustDo(t, s.finish(t.Context(), o.Following, nil))
	o.Log.Close()
	servers.Exec(t, url, `truncate kubecdc_log.slots, kubecdc_log.batches, kubecdc_log.changes, kubecdc_log.objects, kubecdc_log.control`)
	if _, _, _, err := session(); !errors.Is(err, errKilled) {
		t.Fatalf("error is %v", err)
	}
	if _, _, _, err := session(); err != nil {
		t.Fatal(err)
	}
	p, _, err := parts.Store.Position(t.Context(), exporttest.Pods.ID())
	if err != nil || p.ResourceVersion.Compare(change.UnknownVersion) > 0 {
		t.Errorf("the stream resumes from %q, %v, though the log has none of its objects", p.ResourceVersion, err)
	}
}

// flushed counts how often it was flushed before the context had ended.
type flushed struct {
	commit.Following
	times int
}

func (f *flushed) Flush(ctx context.Context) error {
	if ctx.Err() == nil {
		f.times++
	}
	return ctx.Err()
}

// When a session ends, whether it drains or fails, the checkpoint gets what the log has.
func TestWhatIsPendingIsStoredWhenASessionEnds(t *testing.T) {
	for _, end := range []error{nil, errKilled} {
		ctx, cancel := context.WithCancel(t.Context())
		if end != nil {
			cancel()
		}
		m := &flushed{}
		if err := newSlot(0, plan.Config{}, exporttest.Parts(nil), nil).finish(ctx, m, end); err != end || m.times != 1 {
			t.Errorf("after %v the error is %v, and it was flushed %d times", end, err, m.times)
		}
		cancel()
	}
}
