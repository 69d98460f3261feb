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
func bind(ctx context.Context, tx pgx.Tx, cluster string, found change.ClusterIdentity) (id int32, b checkpoint.Binding, same bool, err error) {
	const note = `insert into kubecdc.clusters (name, known_as, uid, ca) values ($1, $2, $3, $4)
		on conflict (name) do update set name = excluded.name returning id, known_as, uid, ca`
	err = tx.QueryRow(ctx, note, cluster, found.ID(), found.UID, found.CA).Scan(&id, &b.ID, &b.Known.UID, &b.Known.CA)
	if err != nil {
		return
	}
	if b, same = b.Meet(found); same {
		_, err = tx.Exec(ctx, `update kubecdc.clusters set uid = $2, ca = $3 where id = $1`, id, b.Known.UID, b.Known.CA)
	}
	return
}
