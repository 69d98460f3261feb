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

// killedStore ends before it notes that the log has lost streams, and the next time after that.
type killedStore struct {
	checkpoint.Store
	before, after bool
}

func (k *killedStore) Rewrite(ctx context.Context, slot int, epoch int64, streams []change.StreamID) error {
	if !k.before {
		k.before = true
		return errKilled
	}
	if err := k.Store.Rewrite(ctx, slot, epoch, streams); err != nil || k.after {
		return err
	}
	k.after = true
	return errKilled
}

// A log that was emptied is written anew, also where the process is killed while that is noted.
func TestAnEmptiedLogIsWrittenAnewAfterAKill(t *testing.T) {
	url := servers.Database(t)
	parts := relaidIn(t, url, 1)
	killed := &killedStore{Store: parts.Store}
	parts.Store = killed
	session := func() (*slot, checkpoint.SlotState, sinks.Log, error) {
		s := newSlot(0, relaidTo(1), parts, nil)
		state, err := s.acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		log, err := s.openRaised(t.Context(), &state, s.open)
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
	for range 2 {
		if _, _, _, err := session(); !errors.Is(err, errKilled) {
			t.Fatalf("error is %v", err)
		}
	}
	if _, _, _, err := session(); err != nil {
		t.Fatal(err)
	}
	var gaps int
	if err := db.QueryRow(t.Context(), `select count(*) from kubecdc_log.control where type = 'gap'`).Scan(&gaps); err != nil || gaps != 1 {
		t.Errorf("%d gap records, %v; want 1", gaps, err)
	}
	p, _, err := parts.Store.Position(t.Context(), pods.ID())
	if err != nil || p.ResourceVersion != "" {
		t.Errorf("the stream goes on from %q, %v, though the log has none of its objects", p.ResourceVersion, err)
	}
}
