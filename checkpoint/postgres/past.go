package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/pgdb"
)

var _ checkpoint.Past = (*Store)(nil)

// OpenPast opens the checkpoint to read its history. It leaves the tables as they are; those of a newer release it refuses.
func OpenPast(ctx context.Context, c Config) (checkpoint.Past, error) {
	db, err := pgdb.Open(ctx, pgdb.Options{URL: c.URL, PasswordFile: c.PasswordFile,
		Schema: schema, Migrations: migrations, ReadOnly: true, Setting: "KUBECDC_CHECKPOINT", MaxConns: 1})
	if err != nil {
		return nil, err
	}
	return &Store{db: db}, nil
}

// Find chooses the cluster by name.
func (s *Store) Find(ctx context.Context, cluster string) error {
	const op = "find the checkpoint of cluster "
	unknown := &checkpoint.UnknownClusterError{Cluster: cluster, Where: s.db.Where()}
	var there bool
	if err := s.db.QueryRow(ctx, `select to_regclass('kubecdc.clusters') is not null`).Scan(&there); err != nil {
		return s.db.Fail(op+cluster, err)
	}
	if !there {
		return unknown
	}
	rows, err := s.db.Query(ctx, `select id, name from kubecdc.clusters order by name`)
	if err != nil {
		return s.db.Fail(op+cluster, err)
	}
	var id, found int32
	var name string
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		if unknown.Known = append(unknown.Known, name); name == cluster {
			found = id
		}
		return nil
	})
	if err != nil {
		return s.db.Fail(op+cluster, err)
	}
	if found == 0 {
		return unknown
	}
	s.cluster.Store(found)
	return nil
}

// HistorySlots gives the slots that have checkpoints.
func (s *Store) HistorySlots(ctx context.Context) (slots []int, err error) {
	const look = `select slot from kubecdc.slots s where cluster = $1
		and exists (select from kubecdc.checkpoints c where c.cluster = s.cluster and c.slot = s.slot) order by slot`
	if err = s.bound(); err != nil {
		return nil, err
	}
	rows, err := s.db.Query(ctx, look, s.cluster.Load())
	if err == nil {
		slots, err = pgx.CollectRows(rows, pgx.RowTo[int])
	}
	return slots, s.db.Fail("read which slots have a history", err)
}

// PositionsAt gives the position of each stream of a slot at a time.
func (s *Store) PositionsAt(ctx context.Context, slot int, at time.Time) (all []change.Position, err error) {
	const look = `select distinct on (p.key) p.value from kubecdc.checkpoints c, jsonb_each(c.positions) p
		where c.cluster = $1 and c.slot = $2 and c.time <= $3 order by p.key, c.second desc`
	if err = s.bound(); err != nil {
		return nil, err
	}
	rows, err := s.db.Query(ctx, look, s.cluster.Load(), slot, at)
	if err == nil {
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p change.Position, err error) {
			var text []byte
			if err = row.Scan(&text); err == nil {
				err = json.Unmarshal(text, &p)
			}
			return p, err
		})
	}
	return all, s.db.Fail(fmt.Sprintf("read the positions of slot %d at %s", slot, at.Format(time.RFC3339)), err)
}
