package postgres

import (
	"context"

	"kubecdc/checkpoint"
)

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
