package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
)

// Position gives where a stream stands.
func (s *Store) Position(ctx context.Context, stream change.StreamID) (change.Position, bool, error) {
	const look = `select resource_version, time, ended from kubecdc.positions join kubecdc.streams on id = stream where cluster = $1 and name = $2`
	p := change.Position{Stream: stream}
	err := s.bound()
	if err == nil {
		err = s.db.QueryRow(ctx, look, s.cluster.Load(), stream).Scan(&p.ResourceVersion, &p.Time, &p.Ended)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return change.Position{}, false, nil
	}
	if err != nil {
		return change.Position{}, false, s.db.Fail("read the position of stream "+string(stream), err)
	}
	p.Time = p.Time.UTC()
	return p, true, nil
}

// Streams gives the positions of all streams known, by name.
func (s *Store) Streams(ctx context.Context) ([]change.Position, error) {
	const look = `select name, coalesce(resource_version, ''), time, coalesce(ended, '')
		from kubecdc.streams s left join kubecdc.positions p on p.stream = s.id
		where cluster = $1 and (p.stream is not null or exists (select from kubecdc.inventory i where i.stream = s.id))
		order by name collate "C"`
	positions, err := s.positions(ctx, look)
	return positions, s.db.Fail("read the positions", err)
}

func (s *Store) positions(ctx context.Context, query string) ([]change.Position, error) {
	if err := s.bound(); err != nil {
		return nil, err
	}
	rows, err := s.db.Query(ctx, query, s.cluster.Load())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p change.Position, err error) {
		var at *time.Time
		if err = row.Scan(&p.Stream, &p.ResourceVersion, &at, &p.Ended); at != nil {
			p.Time = at.UTC()
		}
		return p, err
	})
}
