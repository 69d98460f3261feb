package export

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/sinks"
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

// A log that was emptied is written again, even if the process is killed while it finds out what is left.
func TestAnEmptiedLogIsWrittenAgainAfterAKill(t *testing.T) {
	t.Run("before", func(t *testing.T) { killedInARebuild(t, "before") })
	t.Run("after", func(t *testing.T) { killedInARebuild(t, "after") })
}

func killedInARebuild(t *testing.T, kill string) {
	url := servers.Database(t)
	parts := partsIn(t, url, 1)
	parts.Store = &killedStore{Store: parts.Store, kill: kill}
	session := func() (*slot, checkpoint.SlotState, sinks.Log, error) {
		s := newSlot(0, configFor(1), parts, nil)
		state, err := s.acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		log, err := s.openRaisingEpoch(t.Context(), &state, s.open)
		return s, state, log, err
	}
	_, state, log, err := session()
	if err != nil {
		t.Fatal(err)
	}
	made := change.Change{Op: change.Create, Stream: pods, Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "5", After: []byte("{}"), Time: time.Now()}
	b := &change.Batch{Epoch: state.Epoch, Seq: state.Seq + 1, Changes: []change.Change{made},
		Positions: []change.Position{{Stream: pods.ID(), ResourceVersion: "5", Time: time.Now().UTC()}}}
	if _, err := log.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := parts.Store.Commit(t.Context(), commitOf(b, state.Epoch, nil, false)); err != nil {
		t.Fatal(err)
	}
	log.Close()
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	if _, err := db.Exec(t.Context(), `truncate kubecdc_log.slots, kubecdc_log.batches, kubecdc_log.changes, kubecdc_log.objects, kubecdc_log.control`); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := session(); !errors.Is(err, errKilled) {
		t.Fatalf("error is %v", err)
	}
	if _, _, _, err := session(); err != nil {
		t.Fatal(err)
	}
	p, _, err := parts.Store.Position(t.Context(), pods.ID())
	if err != nil || p.ResourceVersion != "" {
		t.Errorf("the stream resumes from %q, %v, though the log has none of its objects", p.ResourceVersion, err)
	}
}
