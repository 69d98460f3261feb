package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// Bind notes the cluster's identity the first time, and refuses another cluster later.
func (s *Store) Bind(ctx context.Context, cluster string, found change.ClusterIdentity) (b checkpoint.Binding, err error) {
	var id int32
	var same bool
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) (err error) {
		id, b, same, err = bind(ctx, tx, cluster, found)
		return err
	})
	if err != nil {
		return b, s.db.Fail("bind the checkpoint to cluster "+cluster, err)
	}
	if !same {
		return b, &checkpoint.OtherClusterError{Cluster: cluster, Stored: b.Known, Found: found}
	}
	s.streams.Clear()
	s.slots.Store(0)
	s.cluster.Store(id)
	return b, nil
}

// bind locks the cluster's row: two replicas that see different clusters must not both be taken for the one bound.
func bind(
	ctx context.Context, tx pgx.Tx, cluster string, found change.ClusterIdentity,
) (id int32, b checkpoint.Binding, same bool, err error) {
	const note = `insert into kubecdc.clusters (name, known_as, uid, ca) values ($1, $2, $3, $4)
		on conflict (name) do update set name = excluded.name returning id, known_as, uid, ca`
	err = tx.QueryRow(ctx, note, cluster, found.ID(), found.UID, found.CA).Scan(&id, &b.ID, &b.Known.UID, &b.Known.CA)
	if err != nil {
		return
	}
	if b, same = b.Match(found); same {
		_, err = tx.Exec(ctx, `update kubecdc.clusters set uid = $2, ca = $3 where id = $1`, id, b.Known.UID, b.Known.CA)
	}
	return
}

// BindLog notes the log the first time, and refuses another one later.
func (s *Store) BindLog(ctx context.Context, log string) error {
	const note = `update kubecdc.clusters set log = coalesce(log, $2) where id = $1 returning name, log`
	err := s.bound()
	var cluster, stored string
	if err == nil {
		err = s.db.QueryRow(ctx, note, s.cluster.Load(), log).Scan(&cluster, &stored)
	}
	if err != nil {
		return s.db.Fail("bind the checkpoint to "+log, err)
	}
	if stored != log {
		return &checkpoint.OtherLogError{Cluster: cluster, Stored: stored, Found: log}
	}
	return nil
}

// PinPartitions keeps the first number, unless the topic was made anew or has fewer now.
func (s *Store) PinPartitions(ctx context.Context, topic string, found int, anew bool) (use int, err error) {
	const pin = `insert into kubecdc.topics as t (cluster, name, partitions) values ($1, $2, $3)
		on conflict (cluster, name) do update
			set partitions = case when $4 then excluded.partitions else least(t.partitions, excluded.partitions) end
		returning partitions`
	if err = s.bound(); err == nil {
		err = s.db.QueryRow(ctx, pin, s.cluster.Load(), topic, found, anew).Scan(&use)
	}
	return use, s.db.Fail("note the partitions of "+topic, err)
}

// HashKey keeps the first key.
func (s *Store) HashKey(ctx context.Context, offered []byte) (key []byte, err error) {
	const note = `update kubecdc.clusters set hash_key = coalesce(hash_key, $2) where id = $1 returning hash_key`
	if err = s.bound(); err == nil {
		err = s.db.QueryRow(ctx, note, s.cluster.Load(), offered).Scan(&key)
	}
	return key, s.db.Fail("read the key of hashes", err)
}
