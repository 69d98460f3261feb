package tables

import (
	"context"
	"fmt"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// IsOpen is the condition of the index signals_open.
const IsOpen = ` (state not in ('completed', 'failed', 'aborted'))`

func (s *Store) AddSignal(ctx context.Context, signal checkpoint.Signal) (id int64, err error) {
	err = s.InTx(ctx, func(t *Tx) (err error) {
		id, err = t.addSignal(signal, signal.Stream)
		return err
	})
	return id, s.db.Fail(fmt.Sprintf("store signal %s of stream %s", signal.Kind, signal.Stream), err)
}

// AddSignals stores a request for several streams. Two callers take turns, so that the second finds what the first has stored.
func (s *Store) AddSignals(ctx context.Context, signal checkpoint.Signal, streams []change.StreamID) (id int64, err error) {
	const turn = `select 1 from kubecdc.clusters where id = $1 for no key update`
	const query = `select coalesce(max(id), 0) from kubecdc.signals where cluster = $1 and kind = $2 and stream = $3 and` + IsOpen
	err = s.InTx(ctx, func(t *Tx) error {
		err := t.Row(ctx, turn, []any{t.Cluster}, new(int))
		if err == nil {
			err = t.Row(ctx, query, []any{t.Cluster, signal.Kind, streams[0]}, &id)
		}
		if id > 0 {
			return err
		}
		for i := len(streams) - 1; i >= 0 && err == nil; i-- {
			id, err = t.addSignal(signal, streams[i])
		}
		return err
	})
	return id, s.db.Fail(fmt.Sprintf("store signal %s of %d streams", signal.Kind, len(streams)), err)
}

func (t *Tx) addSignal(signal checkpoint.Signal, stream change.StreamID) (id int64, err error) {
	const add = `insert into kubecdc.signals (cluster, kind, stream, params, requested, answered)
		values ($1, $2, $3, $4, clock_timestamp(), clock_timestamp()) returning id`
	return id, t.Row(t.Ctx, add, []any{t.Cluster, signal.Kind, stream, signal.Params}, &id)
}

func (s *Store) Signals(ctx context.Context, open bool) (all []checkpoint.Signal, err error) {
	query := `select id, kind, stream, params, requested, abort, state, last_key, done, total, reason, answered
		from kubecdc.signals where cluster = $1`
	if open {
		query += ` and` + IsOpen
	}
	var g checkpoint.Signal
	var params []byte
	into := []any{&g.ID, &g.Kind, &g.Stream, &params, &g.Requested, &g.Abort, &g.State, &g.LastKey, &g.Done, &g.Total, &g.Reason,
		&g.Answered}
	err = s.rows(ctx, query+` order by id`, []any{s.Cluster()}, into, func() error {
		g.Params = params
		all = append(all, g)
		return nil
	})
	return all, s.db.Fail("read the signals", err)
}

func (s *Store) AnswerSignal(ctx context.Context, slot int, epoch, id int64, a checkpoint.SignalAnswer) error {
	err := s.Owned(ctx, slot, epoch, func(t *Tx) error {
		const answer = `update kubecdc.signals set state = $3, last_key = $4, done = $5, total = $6, reason = $7,
			answered = clock_timestamp() where cluster = $1 and id = $2 and` + IsOpen
		return openSignal(t.Do(answer, t.Cluster, id, a.State, a.LastKey, a.Done, a.Total, a.Reason))
	})
	return s.db.Fail(fmt.Sprintf("answer signal %d", id), err)
}

func (s *Store) AbortSignal(ctx context.Context, id int64) error {
	err := s.InTx(ctx, func(t *Tx) error {
		const abort = `update kubecdc.signals set abort = true, answered = clock_timestamp(),
			state = case state when 'requested' then 'aborted' else state end where cluster = $1 and id = $2 and` + IsOpen
		return openSignal(t.Do(abort, t.Cluster, id))
	})
	return s.db.Fail(fmt.Sprintf("abort signal %d", id), err)
}

// openSignal returns checkpoint.ErrSignalEnded if a statement changed no row.
func openSignal(changed bool, err error) error {
	if err == nil && !changed {
		return checkpoint.ErrSignalEnded
	}
	return err
}
