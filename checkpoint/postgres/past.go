package postgres

import (
	"context"

	"kubecdc/checkpoint"
	"kubecdc/internal/pgdb"
)

var _ checkpoint.Past = (*Store)(nil)

// OpenPast opens the checkpoint to read its history. It takes the tables of this or an older release as they are. It fails if a
// newer release has changed them.
func OpenPast(ctx context.Context, c Config) (checkpoint.Past, error) {
	db, err := pgdb.Open(ctx, pgdb.Options{URL: c.URL, PasswordFile: c.PasswordFile,
		Schema: schema, Migrations: migrations, ReadOnly: true, Setting: "KUBECDC_CHECKPOINT", MaxConns: 1})
	if err != nil {
		return nil, err
	}
	return newStore(db, false), nil
}

func (s *Store) Find(ctx context.Context, cluster string) error {
	var there bool
	if err := s.db.QueryRow(ctx, `select to_regclass('kubecdc.clusters') is not null`).Scan(&there); err != nil {
		return s.db.Fail("find the checkpoint of cluster "+cluster, err)
	}
	if !there {
		return &checkpoint.UnknownClusterError{Cluster: cluster, Where: s.db.Where()}
	}
	return s.Store.Find(ctx, cluster)
}
