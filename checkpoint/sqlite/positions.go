package sqlite

import (
	"context"
	"time"

	"kubecdc/change"
)

const lookPosition = `select name, resource_version, time, ended from positions join streams on id = stream where cluster = ? and name = ?`

const lookStreams = `select name, coalesce(resource_version, ''), time, coalesce(ended, '')
	from streams s left join positions p on p.stream = s.id
	where cluster = ? and (p.stream is not null or exists (select 1 from inventory i where i.stream = s.id))
	order by name`

// Position gives where a stream stands.
func (s *Store) Position(ctx context.Context, stream change.StreamID) (change.Position, bool, error) {
	found, err := s.positions(ctx, lookPosition, s.cluster.Load(), stream)
	if err != nil || len(found) == 0 {
		return change.Position{}, false, s.fail("read the position of stream "+string(stream), err)
	}
	return found[0], true, nil
}

// Streams gives the positions of all streams known, by name.
func (s *Store) Streams(ctx context.Context) ([]change.Position, error) {
	positions, err := s.positions(ctx, lookStreams, s.cluster.Load())
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
		var micros *int64
		if err := rows.Scan(&p.Stream, &p.ResourceVersion, &micros, &p.Ended); err != nil {
			return nil, err
		}
		if micros != nil {
			p.Time = time.UnixMicro(*micros).UTC()
		}
		all = append(all, p)
	}
	return all, rows.Err()
}
