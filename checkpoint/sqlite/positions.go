package sqlite

import (
	"context"
	"time"

	"kubecdc/change"
)

const lookPositions = `select name, resource_version, time from positions join streams on id = stream where cluster = ?`

// Position gives where a stream stands.
func (s *Store) Position(ctx context.Context, stream string) (change.Position, bool, error) {
	found, err := s.positions(ctx, lookPositions+` and name = ?`, s.cluster.Load(), stream)
	if err != nil || len(found) == 0 {
		return change.Position{}, false, s.fail("read the position of stream "+stream, err)
	}
	return found[0], true, nil
}

// Streams gives the positions of all streams known, by name.
func (s *Store) Streams(ctx context.Context) ([]change.Position, error) {
	positions, err := s.positions(ctx, lookPositions+` order by name`, s.cluster.Load())
	return positions, s.fail("read the positions", err)
}

func (s *Store) positions(ctx context.Context, query string, args ...any) (all []change.Position, err error) {
	if err := s.bound(); err != nil {
		return nil, err
	}
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var p change.Position
		var micros int64
		if err := rows.Scan(&p.Stream, &p.ResourceVersion, &micros); err != nil {
			return nil, err
		}
		p.Time = time.UnixMicro(micros).UTC()
		all = append(all, p)
	}
	return all, rows.Err()
}
