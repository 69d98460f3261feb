// Package checkpointtest is the contract of checkpoint.Store, as tests. It uses only that interface.
package checkpointtest

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// Run runs the contract, its parts in parallel. open returns a store on a new, empty database of its own, which the suite closes.
func Run(t *testing.T, open func(t *testing.T) checkpoint.Store) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"the same cluster binds again, another is refused", rebind},
		{"a cluster is known by its uid or its CA, and stays what it was first known by", identities},
		{"of two clusters with one CA that bind at once, one is refused", bindAtOnce},
		{"the same log binds again, another is refused", bindLog},
		{"a topic keeps its number of partitions", pinPartitions},
		{beforeBind, unbound},
		{"a new slot starts at epoch 1, batch 0", newSlot},
		{"a held lease keeps another owner out", heldLease},
		{"a lease that ran out, or was released, is free", freeLease},
		{"the same owner takes its own slot again at once", sameOwner},
		{"renewing keeps the slot", renew},
		{"slots are apart from each other", separateSlots},
		{"the former owner can neither commit, renew nor release", fenced},
		{"a store that does not know the epoch has forgotten it, and fences nobody", forgotten},
		{"a commit moves everything", commitMoves},
		{"a commit that does not follow the last one moves nothing", strayCommit},
		{"a check tells who owns the slot, and whether a batch is there", check},
		{"upsert, update, delete and re-create", lifecycle},
		{"streams are separate", separateStreams},
		{"clusters are separate", separateClusters},
		{"ten thousand objects in one commit", bigCommit},
		{"the inventory is ordered bytewise", bytewise},
		{"hostile names and contents stop nothing", hostileNames},
		{"hostile names and contents are rebuilt", hostileRebuild},
		{"a visitor may stop, and may commit", visitor},
		{"the order of the inventory holds over pages", pages},
		{"resourceVersions of any length", longVersions},
		{"bodies come back as they were", bodies},
		{"a delta leaves the base in the store", deltas},
		{"a rebuild leaves no delta of what was stored before", rebuiltDeltas},
		{"redaction also changes bases", redactDeltas},
		{"offsets are merged", offsets},
		{"history retains the last checkpoint of each second, and the newest of all", history},
		{"history has all offsets, also of partitions that did not move, and after a prune", historyOffsets},
		{"the past is read by time", past},
		{"positions keep their time", positionTimes},
		{"members are those whose heartbeat has not run out", members},
		{"a heartbeat returns who owns the slots", owners},
		{"only the owner of all slots changes their number", layouts},
		{"slots of clusters are separate", otherLayout},
		{"the first key of hashes is retained", hashKey},
		{"redaction rewrites or drops bodies", redactBodies},
		{"only the owner redacts", redactFenced},
		{"a stream that was removed is forgotten", removed},
		{"an unselected stream has its position and objects until it is forgotten", deselected},
		{"a stream without a position is known by its objects", brokenOff},
		{"one commit may hold several batches", severalBatches},
		{"an epoch is raised above another", raiseEpoch},
		{"a slot is new until the content of the log is known", newUntilKnown},
		{"a slot is rebuilt page by page", rebuildSlot},
		{"an overview has the owner and the progress of each slot", overview},
		{"an overview has the streams that each owner has selected", selection},
		{"the last gap and proof of each stream are retained", lastControls},
		{"only the owner of a slot answers signals, until they have ended", signals},
		{"a signal for several streams is stored for all of them, unless the first has one", manySignals},
		{"signals are aborted, pruned after they have ended, and separate by cluster", abortSignals},
	} {
		t.Run(test.name, func(t *testing.T) { runPart(t, open, test.name, test.run) })
	}
}

func runPart(t *testing.T, open func(t *testing.T) checkpoint.Store, name string, part func(*testing.T, *suite)) {
	t.Parallel()
	store := open(t)
	t.Cleanup(store.Close)
	s := &suite{store: store, ctx: t.Context(), t: t}
	if name != beforeBind {
		s.bind()
	}
	part(t, s)
}

const beforeBind = "calls before Bind are refused"

// suite has a store that is bound to a cluster.
type suite struct {
	store checkpoint.Store
	ctx   context.Context
	t     *testing.T
}

const ttl = time.Minute

func (s *suite) bind() { Bind(s.t, s.store, "prod", "uid-1") }

func (s *suite) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *suite) acquire(slot int, owner string) checkpoint.SlotState {
	s.t.Helper()
	state, err := s.store.Acquire(s.ctx, slot, owner, ttl)
	s.must(err)
	return state
}

func (s *suite) wantError(err, want error) {
	s.t.Helper()
	if !errors.Is(err, want) {
		s.t.Fatalf("error is %v, not %v", err, want)
	}
}

func (s *suite) wantHeld(err error, owner string) {
	s.t.Helper()
	var held *checkpoint.HeldError
	if !errors.As(err, &held) {
		s.t.Fatalf("error is %v, not a HeldError", err)
	}
	if held.Owner != owner || time.Until(held.Until) < 0 || time.Until(held.Until) > 2*ttl {
		s.t.Fatalf("held by %s until %s", held.Owner, held.Until)
	}
}

// put commits upserts to one stream, and its position.
func (s *suite) put(slot int, epoch int64, seq uint64, stream change.StreamID, objects ...checkpoint.Object) {
	s.t.Helper()
	s.must(s.store.Commit(s.ctx, checkpoint.Commit{Slot: slot, Epoch: epoch, Seq: seq,
		Streams: []checkpoint.StreamCommit{{Stream: stream, Upserts: objects}}}))
}

func (s *suite) inventory(stream change.StreamID) []checkpoint.Object {
	s.t.Helper()
	var all []checkpoint.Object
	s.must(s.store.Inventory(s.ctx, stream, func(o checkpoint.Object) error {
		all = append(all, o)
		return nil
	}))
	return all
}

func (s *suite) wantInventory(stream change.StreamID, want ...checkpoint.Object) {
	s.t.Helper()
	got := s.inventory(stream)
	if len(got) == 0 && len(want) == 0 {
		return
	}
	if !reflect.DeepEqual(got, want) {
		s.t.Fatalf("inventory of %s is\n%v, not\n%v", stream, got, want)
	}
}

func (s *suite) wantPosition(stream change.StreamID, version change.ResourceVersion) {
	s.t.Helper()
	p, ok, err := s.store.Position(s.ctx, stream)
	s.must(err)
	if version == "" && ok || version != "" && (!ok || p.ResourceVersion != version || p.Stream != stream) {
		s.t.Fatalf("position of %s is %+v %v, not %q", stream, p, ok, version)
	}
}

func (s *suite) history(slot int) []checkpoint.Checkpoint {
	s.t.Helper()
	all, err := s.store.Select(s.ctx, slot, checkpoint.Window{Limit: 100})
	s.must(err)
	return all
}

func object(key, uid string, version change.ResourceVersion) checkpoint.Object {
	return checkpoint.Object{Key: key, UID: uid, ResourceVersion: version}
}

func position(stream change.StreamID, version change.ResourceVersion) change.Position {
	return change.Position{Stream: stream, ResourceVersion: version, Time: time.Unix(1700000000, 0).UTC()}
}
