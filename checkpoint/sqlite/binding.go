package sqlite

import (
	"context"
	"database/sql"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// Bind notes the cluster's identity the first time, and refuses another cluster later.
func (s *Store) Bind(ctx context.Context, cluster string, found change.ClusterIdentity) (b checkpoint.Binding, err error) {
	var id int64
	var same bool
	err = s.begin(ctx, func(tx *sql.Tx) (err error) {
		id, b, same, err = bind(ctx, tx, cluster, found)
		return err
	})
	if err != nil {
		return b, s.fail("bind the checkpoint to cluster "+cluster, err)
	}
	if !same {
		return b, &checkpoint.OtherClusterError{Cluster: cluster, Stored: b.Known, Found: found}
	}
	s.cluster.Store(id)
	s.slots.Store(0)
	return b, nil
}

func bind(ctx context.Context, tx *sql.Tx, cluster string, found change.ClusterIdentity) (id int64, b checkpoint.Binding, same bool, err error) {
	const note = `insert into clusters (name, known_as, uid, ca) values (?1, ?2, ?3, ?4)
		on conflict (name) do update set name = excluded.name returning id, known_as, uid, ca`
	err = tx.QueryRowContext(ctx, note, cluster, found.ID(), found.UID, found.CA).Scan(&id, &b.ID, &b.Known.UID, &b.Known.CA)
	if err != nil {
		return
	}
	if b, same = b.Meet(found); same {
		_, err = tx.ExecContext(ctx, `update clusters set uid = ?2, ca = ?3 where id = ?1`, id, b.Known.UID, b.Known.CA)
	}
	return
}
