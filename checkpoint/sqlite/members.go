package sqlite

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"kubecdc/checkpoint"
)

// members are in memory: no other process has the file open.
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

// Heartbeat says that the owner lives, and who else does.
func (s *Store) Heartbeat(ctx context.Context, owner string, ttl time.Duration) (checkpoint.Replicas, error) {
	if err := s.sameLayout(ctx); err != nil {
		return checkpoint.Replicas{}, err
	}
	r := checkpoint.Replicas{Members: s.members.beat(owner, ttl), Slots: map[int]string{}}
	const look = `select slot, owner from slots where cluster = ? and lease_until > ?`
	rows, err := s.db.QueryContext(ctx, look, s.cluster.Load(), time.Now().UnixMicro())
	if err != nil {
		return r, s.fail("see who holds the slots", err)
	}
	defer rows.Close()
	for rows.Next() {
		var slot int
		var holder string
		if err := rows.Scan(&slot, &holder); err != nil {
			return r, s.fail("see who holds the slots", err)
		}
		r.Slots[slot] = holder
	}
	return r, s.fail("see who holds the slots", rows.Err())
}

// Leave withdraws the owner's heartbeat.
func (s *Store) Leave(_ context.Context, owner string) error {
	s.members.mu.Lock()
	defer s.members.mu.Unlock()
	delete(s.members.until, owner)
	return nil
}
