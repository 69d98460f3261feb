package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/pgdb"
)

// AddSignal stores a request.
func (s *Store) AddSignal(ctx context.Context, signal checkpoint.Signal) (id int64, err error) {
	const add = `insert into kubecdc.signals (cluster, kind, stream, params) values ($1, $2, $3, $4) returning id`
	if err = s.bound(); err == nil {
		err = s.db.QueryRow(ctx, add, s.cluster.Load(), signal.Kind, signal.Stream, signal.Params).Scan(&id)
	}
	return id, s.db.Fail(fmt.Sprintf("store signal %s of stream %s", signal.Kind, signal.Stream), err)
}

// AddSignals stores a request for several streams. Two callers take turns, so that one of them finds what the other has stored.
func (s *Store) AddSignals(ctx context.Context, signal checkpoint.Signal, streams []change.StreamID) (id int64, err error) {
	const turn = `select pg_advisory_xact_lock(hashtextextended('kubecdc.signals', $1))`
	const look = `select coalesce(max(id), 0) from kubecdc.signals where cluster = $1 and kind = $2 and stream = $3 and` + isOpen
	const add = `insert into kubecdc.signals (cluster, kind, stream, params) select $1, $2, unnest($3::text[]), $4`
	if err = s.bound(); err == nil {
		err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
			cluster := s.cluster.Load()
			if _, err := tx.Exec(ctx, turn, cluster); err != nil {
				return err
			}
			err := tx.QueryRow(ctx, look, cluster, signal.Kind, streams[0]).Scan(&id)
			if err != nil || id > 0 {
				return err
			}
			if _, err = tx.Exec(ctx, add, cluster, signal.Kind, streams, signal.Params); err != nil {
				return err
			}
			return tx.QueryRow(ctx, look, cluster, signal.Kind, streams[0]).Scan(&id)
		})
	}
	return id, s.db.Fail(fmt.Sprintf("store signal %s of %d streams", signal.Kind, len(streams)), err)
}

// isOpen is the condition of the index signals_open.
const isOpen = ` (state not in ('completed', 'failed', 'aborted'))`

// Signals gives the signals of the cluster.
func (s *Store) Signals(ctx context.Context, open bool) ([]checkpoint.Signal, error) {
	query := `select id, kind, stream, params, requested, abort, state, last_key, done, total, reason, answered
		from kubecdc.signals where cluster = $1`
	if open {
		query += ` and` + isOpen
	}
	signals, err := s.signals(ctx, query+` order by id`)
	return signals, s.db.Fail("read the signals", err)
}

func (s *Store) signals(ctx context.Context, query string) ([]checkpoint.Signal, error) {
	if err := s.bound(); err != nil {
		return nil, err
	}
	rows, err := s.db.Query(ctx, query, s.cluster.Load())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (g checkpoint.Signal, err error) {
		err = row.Scan(&g.ID, &g.Kind, &g.Stream, &g.Params, &g.Requested, &g.Abort, &g.State, pgdb.Unescaped(&g.LastKey), &g.Done, &g.Total,
			pgdb.Unescaped(&g.Reason), &g.Answered)
		g.Requested, g.Answered = g.Requested.UTC(), g.Answered.UTC()
		return g, err
	})
}

// AnswerSignal notes how far the owner of a slot is with a signal.
func (s *Store) AnswerSignal(ctx context.Context, slot int, epoch, id int64, a checkpoint.SignalAnswer) error {
	err := s.owned(ctx, slot, epoch, func(tx pgx.Tx) error {
		const answer = `update kubecdc.signals set state = $3, last_key = $4, done = $5, total = $6, reason = $7,
			answered = clock_timestamp() where cluster = $1 and id = $2 and` + isOpen
		tag, err := tx.Exec(ctx, answer, s.cluster.Load(), id, a.State, pgdb.Escape(a.LastKey), a.Done, a.Total, pgdb.Escape(a.Reason))
		if err == nil && tag.RowsAffected() == 0 {
			err = checkpoint.ErrSignalEnded
		}
		return err
	})
	return s.db.Fail(fmt.Sprintf("answer signal %d", id), err)
}

// AbortSignal asks the owner to stop.
func (s *Store) AbortSignal(ctx context.Context, id int64) error {
	const abort = `update kubecdc.signals set abort = true, answered = clock_timestamp(),
		state = case state when 'requested' then 'aborted' else state end where cluster = $1 and id = $2 and` + isOpen
	err := s.bound()
	if err == nil {
		tag, failed := s.db.Exec(ctx, abort, s.cluster.Load(), id)
		if err = failed; err == nil && tag.RowsAffected() == 0 {
			err = checkpoint.ErrSignalEnded
		}
	}
	return s.db.Fail(fmt.Sprintf("abort signal %d", id), err)
}
