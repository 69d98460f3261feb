package sqlite

import (
	"context"
	"fmt"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// AddSignal stores a request.
func (s *Store) AddSignal(ctx context.Context, signal checkpoint.Signal) (id int64, err error) {
	err = s.inTx(ctx, func(t *transaction) (err error) {
		id, err = t.addSignal(signal, signal.Stream)
		return err
	})
	return id, s.fail(fmt.Sprintf("store signal %s of stream %s", signal.Kind, signal.Stream), err)
}

// AddSignals stores a request for several streams.
func (s *Store) AddSignals(ctx context.Context, signal checkpoint.Signal, streams []change.StreamID) (id int64, err error) {
	const look = `select coalesce(max(id), 0) from signals where cluster = ? and kind = ? and stream = ? and` + isOpen
	err = s.inTx(ctx, func(t *transaction) error {
		err := t.QueryRowContext(ctx, look, t.cluster, signal.Kind, streams[0]).Scan(&id)
		if id > 0 {
			return err
		}
		for i := len(streams) - 1; i >= 0 && err == nil; i-- {
			id, err = t.addSignal(signal, streams[i])
		}
		return err
	})
	return id, s.fail(fmt.Sprintf("store signal %s of %d streams", signal.Kind, len(streams)), err)
}

func (t *transaction) addSignal(signal checkpoint.Signal, stream change.StreamID) (id int64, err error) {
	const add = `insert into signals (cluster, kind, stream, params, requested, answered) values (?1, ?2, ?3, ?4, ?5, ?5) returning id`
	params := any(nil)
	if signal.Params != nil {
		params = string(signal.Params)
	}
	err = t.QueryRowContext(t.ctx, add, t.cluster, signal.Kind, stream, params, time.Now().UnixMicro()).Scan(&id)
	return id, err
}

// isOpen is the condition of the index signals_open.
const isOpen = ` (state not in ('completed', 'failed', 'aborted'))`

// Signals gives the signals of the cluster.
func (s *Store) Signals(ctx context.Context, open bool) ([]checkpoint.Signal, error) {
	query := `select id, kind, stream, params, requested, abort, state, last_key, done, total, reason, answered
		from signals where cluster = ?`
	if open {
		query += ` and` + isOpen
	}
	signals, err := s.signals(ctx, query+` order by id`)
	return signals, s.fail("read the signals", err)
}

func (s *Store) signals(ctx context.Context, query string) (all []checkpoint.Signal, err error) {
	if err := s.bound(); err != nil {
		return nil, err
	}
	rows, err := s.db.QueryContext(ctx, query, s.cluster.Load())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var g checkpoint.Signal
		var params *string
		var requested, answered int64
		if err := rows.Scan(&g.ID, &g.Kind, &g.Stream, &params, &requested, &g.Abort, &g.State, &g.LastKey, &g.Done, &g.Total,
			&g.Reason, &answered); err != nil {
			return nil, err
		}
		if params != nil {
			g.Params = []byte(*params)
		}
		g.Requested, g.Answered = time.UnixMicro(requested).UTC(), time.UnixMicro(answered).UTC()
		all = append(all, g)
	}
	return all, rows.Err()
}

// AnswerSignal notes how far the owner of a slot is with a signal.
func (s *Store) AnswerSignal(ctx context.Context, slot int, epoch, id int64, a checkpoint.SignalAnswer) error {
	err := s.owned(ctx, slot, epoch, func(t *transaction) error {
		const answer = `update signals set state = ?, last_key = ?, done = ?, total = ?, reason = ?, answered = ?
			where cluster = ? and id = ? and` + isOpen
		return openSignal(t.exec(answer, a.State, a.LastKey, a.Done, a.Total, a.Reason, time.Now().UnixMicro(), t.cluster, id))
	})
	return s.fail(fmt.Sprintf("answer signal %d", id), err)
}

// AbortSignal asks the owner to stop.
func (s *Store) AbortSignal(ctx context.Context, id int64) error {
	err := s.inTx(ctx, func(t *transaction) error {
		const abort = `update signals set abort = true, answered = ?,
			state = case state when 'requested' then 'aborted' else state end where cluster = ? and id = ? and` + isOpen
		return openSignal(t.exec(abort, time.Now().UnixMicro(), t.cluster, id))
	})
	return s.fail(fmt.Sprintf("abort signal %d", id), err)
}

// openSignal gives checkpoint.ErrSignalEnded where a statement changed no row.
func openSignal(changed bool, err error) error {
	if err == nil && !changed {
		return checkpoint.ErrSignalEnded
	}
	return err
}
