package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/tables"
)

// members are in memory, since no other process has the file open.
type members struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func (m *members) beat(owner string, ttl time.Duration) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.until == nil {
		m.until = map[string]time.Time{}
	}
	now := time.Now()
	maps.DeleteFunc(m.until, func(_ string, until time.Time) bool { return until.Before(now) })
	m.until[owner] = now.Add(ttl)
	return slices.Sorted(maps.Keys(m.until))
}

func (s *Store) Heartbeat(ctx context.Context, owner string, ttl time.Duration) (checkpoint.Replicas, error) {
	if err := s.SameLayout(ctx); err != nil {
		return checkpoint.Replicas{}, err
	}
	r := checkpoint.Replicas{Members: s.members.beat(owner, ttl), Slots: map[int]string{}}
	const query = `select slot, owner from slots where cluster = $1 and lease_until > clock_timestamp()`
	var slot int
	var holder string
	err := querier{s.db}.Rows(ctx, query, []any{s.Cluster()}, []any{&slot, &holder}, func() error {
		r.Slots[slot] = holder
		return nil
	})
	return r, s.file.Fail("see who holds the slots", err)
}

// Leave removes the owner's heartbeat, which is only in memory.
func (s *Store) Leave(_ context.Context, owner string) error {
	s.members.mu.Lock()
	defer s.members.mu.Unlock()
	delete(s.members.until, owner)
	return nil
}

func (s *Store) Relayout(ctx context.Context, r checkpoint.Relayout) error {
	err := s.InTx(ctx, func(t *tables.Tx) error {
		var have int
		if err := t.Row(ctx, `select slots from layouts where cluster = $1`, []any{t.Cluster}, &have); err != nil {
			return err
		}
		if have != r.From {
			return &checkpoint.LayoutError{Want: r.From, Have: have}
		}
		for slot := range r.From {
			if err := tables.Check(ctx, t, t.Cluster, slot, r.Slots[slot].Epoch, r.Slots[slot].Seq); err != nil {
				return err
			}
		}
		_, err := t.Do(`update layouts set slots = $1 where cluster = $2`, r.To, t.Cluster)
		return err
	})
	if err == nil {
		s.Adopt(r.To)
	}
	if other, ok := errors.AsType[*checkpoint.LayoutError](err); ok {
		return other
	}
	return s.file.Fail(fmt.Sprintf("change the number of slots from %d to %d", r.From, r.To), err)
}
