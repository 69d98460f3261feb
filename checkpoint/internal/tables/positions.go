package tables

import (
	"context"
	"encoding/json"
	"time"

	"kubecdc/change"
)

func (s *Store) Position(ctx context.Context, stream change.StreamID) (p change.Position, ok bool, err error) {
	const query = `select name, resource_version, time, ended
		from kubecdc.positions join kubecdc.streams on id = stream where cluster = $1 and name = $2`
	found, err := s.positions(ctx, query, s.Cluster(), stream)
	if err != nil || len(found) == 0 {
		return p, false, s.db.Fail("read the position of stream "+string(stream), err)
	}
	return found[0], true, nil
}

func (s *Store) Streams(ctx context.Context) ([]change.Position, error) {
	const query = `select name, coalesce(resource_version, ''), time, coalesce(ended, '')
		from kubecdc.streams s left join kubecdc.positions p on p.stream = s.id
		where cluster = $1 and (p.stream is not null or exists (select 1 from kubecdc.inventory i where i.stream = s.id))
		order by name collate "C"`
	positions, err := s.positions(ctx, query, s.Cluster())
	return positions, s.db.Fail("read the positions", err)
}

func (s *Store) positions(ctx context.Context, query string, args ...any) (all []change.Position, err error) {
	var p change.Position
	err = s.rows(ctx, query, args, []any{&p.Stream, &p.ResourceVersion, &p.Time, &p.Ended}, func() error {
		all = append(all, p)
		return nil
	})
	return all, err
}

// Move sets positions. It drops the positions of removed streams.
func (t *Tx) Move(list []change.Position) error {
	const set = `insert into kubecdc.positions (stream, resource_version, time, ended) values ($1, $2, $3, $4)
		on conflict (stream) do update set resource_version = excluded.resource_version, time = excluded.time, ended = excluded.ended`
	const forget = `delete from kubecdc.positions where stream = $1`
	for _, p := range list {
		id, err := t.Stream(p.Stream)
		switch {
		case err != nil:
		case p.Ended == change.EndedRemoved:
			_, err = t.Do(forget, id)
		default:
			_, err = t.Do(set, id, p.ResourceVersion, p.Time, p.Ended)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// KeepControls stores the last control records of streams.
func (t *Tx) KeepControls(controls []change.Control) error {
	const keep = `insert into kubecdc.last_controls (stream, type, control) values ($1, $2, $3)
		on conflict (stream, type) do update set control = excluded.control`
	for i := range controls {
		c := &controls[i]
		id, err := t.Stream(c.Stream)
		var text json.RawMessage
		if err == nil {
			text, err = json.Marshal(c)
		}
		if err == nil {
			_, err = t.Do(keep, id, c.Type, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) LastControls(ctx context.Context) (all []change.Control, err error) {
	const query = `select control from kubecdc.last_controls join kubecdc.streams s on s.id = stream where cluster = $1
		order by s.name collate "C", type`
	var text []byte
	err = s.rows(ctx, query, []any{s.Cluster()}, []any{&text}, func() error {
		all = append(all, change.Control{})
		return json.Unmarshal(text, &all[len(all)-1])
	})
	return all, s.db.Fail("read the last control records", err)
}

func (s *Store) Clock(ctx context.Context) (now time.Time, err error) {
	err = s.db.Row(ctx, `select clock_timestamp()`, nil, &now)
	return now, s.db.Fail("read the clock", err)
}
