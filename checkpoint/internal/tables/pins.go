package tables

import (
	"context"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// Bind records the cluster's identity the first time. Later calls add what was unknown before, and refuse another cluster with
// *checkpoint.OtherClusterError. Bind returns the recorded identity, even with this error.
func (s *Store) Bind(ctx context.Context, cluster string, found change.ClusterIdentity) (b checkpoint.Binding, err error) {
	var id int64
	var same bool
	err = s.db.Begin(ctx, func(q Querier) (err error) {
		id, b, same, err = bind(ctx, q, cluster, found)
		return err
	})
	if err != nil {
		return b, s.db.Fail("bind the checkpoint to cluster "+cluster, err)
	}
	if !same {
		return b, &checkpoint.OtherClusterError{Cluster: cluster, Stored: b.Known, Found: found}
	}
	s.slots.Store(0)
	s.cluster.Store(id)
	return b, nil
}

// bind locks the cluster's row. Otherwise two replicas that see different clusters could both be accepted.
func bind(
	ctx context.Context, q Querier, cluster string, found change.ClusterIdentity,
) (id int64, b checkpoint.Binding, same bool, err error) {
	const record = `insert into kubecdc.clusters (name, known_as, uid, ca) values ($1, $2, $3, $4)
		on conflict (name) do update set name = excluded.name returning id, known_as, uid, ca`
	err = q.Row(ctx, record, []any{cluster, found.ID(), found.UID, found.CA}, &id, &b.ID, &b.Known.UID, &b.Known.CA)
	if err != nil {
		return
	}
	if b, same = b.Match(found); same {
		_, err = q.Exec(ctx, `update kubecdc.clusters set uid = $2, ca = $3 where id = $1`, id, b.Known.UID, b.Known.CA)
	}
	return
}

func (s *Store) BindLog(ctx context.Context, log string) error {
	const record = `update kubecdc.clusters set log = coalesce(log, $2) where id = $1 returning name, log`
	e := &checkpoint.OtherLogError{Found: log}
	if err := s.row(ctx, record, []any{s.Cluster(), log}, &e.Cluster, &e.Stored); err != nil {
		return s.db.Fail("bind the checkpoint to "+log, err)
	}
	if e.Stored != log {
		return e
	}
	return nil
}

// PinPartitions retains the first number, unless the topic was created anew or has fewer now.
func (s *Store) PinPartitions(ctx context.Context, topic string, found int, anew bool) (use int, err error) {
	const pin = `insert into kubecdc.topics as t (cluster, name, partitions) values ($1, $2, $3)
		on conflict (cluster, name) do update set partitions =
			case when $4 or excluded.partitions < t.partitions then excluded.partitions else t.partitions end
		returning partitions`
	err = s.row(ctx, pin, []any{s.Cluster(), topic, found, anew}, &use)
	return use, s.db.Fail("note the partitions of "+topic, err)
}

// HashKey retains the first key.
func (s *Store) HashKey(ctx context.Context, offered []byte) (key []byte, err error) {
	const record = `update kubecdc.clusters set hash_key = coalesce(hash_key, $2) where id = $1 returning hash_key`
	err = s.row(ctx, record, []any{s.Cluster(), offered}, &key)
	return key, s.db.Fail("read the key of hashes", err)
}
