package tables

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// selectHistory begins at the last complete row before the oldest wanted one.
const selectHistory = `
with wanted as (select second from kubecdc.checkpoints where cluster = $1 and slot = $2
    and time >= $3 and time <= $4 and ($6::bigint = 0 or seq = $6) order by second desc limit $5),
  oldest as (select min(second) as second from wanted)
select c.epoch, c.seq, c.time, c.positions, c.offsets, c.second >= (select second from oldest)
from kubecdc.checkpoints c where c.cluster = $1 and c.slot = $2 and c.second >= (
  select max(b.second) from kubecdc.checkpoints b
  where b.cluster = $1 and b.slot = $2 and b.complete and b.second <= (select second from oldest))
  and c.second <= (select max(second) from wanted)
order by c.second`

// never is later than all stored times.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func (s *Store) Select(ctx context.Context, slot int, w checkpoint.Window) ([]checkpoint.Checkpoint, error) {
	if w.Until.IsZero() {
		w.Until = never
	}
	var all []checkpoint.Checkpoint
	var after change.Offsets // offsets of all partitions: a complete row has all, other rows have what moved in their second
	c := checkpoint.Checkpoint{Slot: slot}
	var moved, offsets []byte
	var wanted bool
	err := s.rows(ctx, selectHistory, []any{s.Cluster(), slot, w.Since, w.Until, cmp.Or(w.Limit, math.MaxInt32), int64(w.Batch)},
		[]any{&c.Epoch, &c.Seq, &c.Time, &moved, &offsets, &wanted}, func() error {
			o, err := s.Parse(offsets)
			after = after.Merge(o)
			if err != nil || !wanted {
				return err
			}
			c.Offsets = change.Offsets{}.Merge(after)
			c.Positions, err = DecodePositions(moved)
			all = append(all, c)
			return err
		})
	slices.Reverse(all)
	return all, s.db.Fail(fmt.Sprintf("read the history of slot %d", slot), err)
}

func (s *Store) HistorySlots(ctx context.Context) (slots []int, err error) {
	const query = `select slot from kubecdc.slots s where cluster = $1
		and exists (select 1 from kubecdc.checkpoints c where c.cluster = s.cluster and c.slot = s.slot) order by slot`
	var slot int
	err = s.rows(ctx, query, []any{s.Cluster()}, []any{&slot}, func() error {
		slots = append(slots, slot)
		return nil
	})
	return slots, s.db.Fail("read which slots have a history", err)
}

func (s *Store) PositionsAt(ctx context.Context, slot int, seq uint64) (all []change.Position, err error) {
	var text []byte
	err = s.rows(ctx, s.Dialect.PositionsAt, []any{s.Cluster(), slot, int64(seq)}, []any{&text}, func() error {
		all = append(all, change.Position{})
		return json.Unmarshal(text, &all[len(all)-1])
	})
	return all, s.db.Fail(fmt.Sprintf("read the positions of slot %d at batch %d", slot, seq), err)
}

func (s *Store) Find(ctx context.Context, cluster string) error {
	unknown := &checkpoint.UnknownClusterError{Cluster: cluster, Where: s.db.Where()}
	var id, found int64
	var name string
	err := s.db.Rows(ctx, `select id, name from kubecdc.clusters order by name`, nil, []any{&id, &name}, func() error {
		if unknown.Known = append(unknown.Known, name); name == cluster {
			found = id
		}
		return nil
	})
	switch {
	case err == nil && found == 0:
		return unknown
	case err == nil:
		s.cluster.Store(found)
	}
	return s.db.Fail("find the checkpoint of cluster "+cluster, err)
}

func (s *Store) SlotOwners(ctx context.Context) (owners []checkpoint.SlotOwner, err error) {
	const op = "see who owns the slots"
	const slots = `select coalesce(max(slots), 0) from kubecdc.layouts where cluster = $1`
	var n int
	if err := s.row(ctx, slots, []any{s.Cluster()}, &n); err != nil {
		return nil, s.db.Fail(op, err)
	}
	for slot := range n {
		owners = append(owners, checkpoint.SlotOwner{Slot: slot})
	}
	const query = `select slot, owner, lease_until > clock_timestamp(), lease_until, epoch, seq,
			(select max(time) from kubecdc.checkpoints c where c.cluster = s.cluster and c.slot = s.slot)
		from kubecdc.slots s where cluster = $1 and slot < $2`
	var o checkpoint.SlotOwner
	into := []any{&o.Slot, &o.Owner, &o.Held, &o.Until, &o.Epoch, &o.Seq, &o.Time}
	err = s.rows(ctx, query, []any{s.Cluster(), n}, into, func() error {
		owners[o.Slot] = o
		return nil
	})
	if err == nil {
		err = s.readSelected(ctx, owners)
	}
	return owners, s.db.Fail(op, err)
}

func (s *Store) readSelected(ctx context.Context, owners []checkpoint.SlotOwner) error {
	var slot int
	var selected string
	return s.rows(ctx, s.Dialect.Selected, []any{s.Cluster()}, []any{&slot, &selected}, func() error {
		if selected == "" || slot >= len(owners) {
			return nil
		}
		return json.Unmarshal([]byte(selected), &owners[slot].Selected)
	})
}
