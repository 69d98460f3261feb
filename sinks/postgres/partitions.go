package postgres

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/internal/wait"
	"kubecdc/sinks"
)

const day = 24 * time.Hour

// days is how many days a partition covers. So a change is dropped at most so many days late, and no query reads many partitions.
func (s *Sink) days() int {
	switch {
	case s.history <= 14*day:
		return 1
	case s.history <= 90*day:
		return 7
	}
	return 28
}

func (s *Sink) makePartitions(ctx context.Context) error {
	return s.db.WithDeadline(ctx, 0, func(ctx context.Context) error {
		_, err := s.db.Exec(ctx, `select kubecdc_log.make_partitions($1)`, s.days())
		return err
	})
}

// maintain makes partitions ahead, and drops those that are older than the history, as long as the log is open. If it fails for
// as many days as a partition covers, writing fails too. Then the slot is opened again, which makes the partitions.
func (l *slotLog) maintain(ctx context.Context) {
	for pause := l.sink.upkeep / 60; wait.For(ctx, pause) == nil; {
		pause = l.sink.upkeep
		err := l.sink.makePartitions(ctx)
		for name := "any"; err == nil && name != ""; {
			if name, err = l.dropOne(ctx); name != "" && err == nil {
				l.sink.log.Info("dropped a partition that is older than KUBECDC_SINK_POSTGRES_HISTORY", "partition", schema+"."+
					name)
			}
		}
		if err == nil {
			err = cmp.Or(l.sink.dropAudit(ctx), l.sink.dropSchemas(ctx))
		}
		if err != nil && ctx.Err() == nil {
			pause /= 10
			l.sink.log.Warn("the partitions of the log can't be made or dropped now", "again_in", pause.String(),
				"error", l.sink.db.Fail("make partitions ahead and drop old ones", err))
		}
	}
}

// oldest selects the next partition to drop, partitions of batches first. It never selects one with a batch that a slot may have
// to read back. It returns nothing if the caller does not own the slot.
const oldest = `select p.parent, p.name, p.lower, p.upper from kubecdc_log.partitions p
	where p.upper <= (
			select case when count(*) = count(history) then kubecdc_log.clock() - max(history) end from kubecdc_log.clusters)
		and exists (select from kubecdc_log.slots where cluster = $1 and slot = $2 and epoch = $3)
		and not exists (select from kubecdc_log.slots s join kubecdc_log.batches b on (b.cluster, b.slot) = (s.cluster, s.slot)
			where b.epoch >= s.tail_epoch and b.seq > s.checkpointed and b.written >= p.lower and b.written < p.upper)
	order by p.upper, p.parent limit 1`

// dropOne drops a partition and returns its name, or "" if there is none to drop. Only one owner does so at a time. A long read
// of the table prevents it. It then gives up after half a second, because writers wait behind it.
func (l *slotLog) dropOne(ctx context.Context) (name string, err error) {
	err = pgx.BeginFunc(ctx, l.sink.db, func(tx pgx.Tx) error {
		var mine bool
		const alone = `select pg_try_advisory_xact_lock(hashtextextended('kubecdc_log.drop', 0)),
			set_config('lock_timeout', '500ms', true)`
		if err := tx.QueryRow(ctx, alone).Scan(&mine, nil); err != nil || !mine {
			return err
		}
		var parent string
		var lower, upper time.Time
		err := tx.QueryRow(ctx, oldest, l.sink.cluster, l.slot, l.epoch).Scan(&parent, &name, &lower, &upper)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err == nil && parent == "batches" {
			_, err = tx.Exec(ctx, keepPositions, lower, upper)
		}
		if err == nil {
			_, err = tx.Exec(ctx, "drop table "+pgx.Identifier{schema, name}.Sanitize())
		}
		return err
	})
	return name, err
}

// keepPositions stores the positions that are only in the batches of a partition that is about to be dropped.
const keepPositions = `insert into kubecdc_log.positions as k (cluster, stream, version, moved, ended, written)
	select distinct on (cluster, stream) cluster, stream, version, moved, ended, since from (` + moves + `) m
	where written >= $1 and written < $2 order by cluster, stream,` + latestFirst + `
	on conflict (cluster, stream) do update set version = excluded.version, moved = excluded.moved, ended = excluded.ended,
		written = excluded.written where excluded.written >= k.written`

// interval returns the history as a parameter. Null means for ever.
func interval(history time.Duration) *time.Duration {
	if history == sinks.Forever {
		return nil
	}
	return &history
}
