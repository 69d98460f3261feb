package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"kubecdc/internal/wait"
	"kubecdc/sinks"
)

const (
	followEvery     = 200 * time.Millisecond // how often new batches are polled for
	followersAtOnce = 4                      // pages of changes that followers read at once
)

// scan answers one query.
type scan struct {
	sinks.Query
	reader *Reader
	visit  func(*sinks.Logged) error
	slots  map[int64]int // the numbers of the cluster's slots
	maker
	read int64
	from int64 // the changes after this id are still to be read
}

// Changes implements sinks.Reader.
func (r *Reader) Changes(ctx context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	var failed error // the error of visit
	s := &scan{reader: r, Query: q, maker: newMaker(r.db)}
	s.visit = func(l *sinks.Logged) error {
		failed = visit(l)
		return failed
	}
	err := s.answer(ctx)
	if ctx.Err() != nil {
		return err
	}
	if lost := s.verifyRetained(ctx); lost != nil || failed == nil {
		err = r.fail("read the changes of the log", cmp.Or(lost, err))
	}
	return err
}

func (s *scan) answer(ctx context.Context) error {
	after, _, err := s.reader.retained(ctx)
	if err != nil {
		return err
	}
	s.from = after
	switch s.Each {
	case sinks.Last:
		return s.last(ctx, after)
	case sinks.Rest:
		return s.rest(ctx, after)
	case sinks.Table:
		return s.table(ctx)
	default:
		return s.all(ctx, after)
	}
}

// verifyRetained returns an error if changes that are still to be read may have been removed. A removal is stored before it
// begins.
func (s *scan) verifyRetained(ctx context.Context) error {
	after, _, err := s.reader.retained(ctx)
	if err == nil && after > s.from {
		err = fmt.Errorf("old changes were removed before they were read: ask again: %w", sinks.ErrNotRetained)
	}
	return err
}

// all first visits the state where the history begins, if that is asked for. A query for one name, or in the order of keys, reads
// the changes of each object. Any other reads the changes of all in their order.
func (s *scan) all(ctx context.Context, after int64) (err error) {
	number := after
	if s.After != nil {
		if number, err = s.start(ctx, after); err != nil {
			return err
		}
	}
	if s.Follow {
		s.made.most = followerBytes
	}
	if (s.Name != "" || s.Keys != nil) && !s.Follow {
		return s.byObject(ctx, number, after)
	}
	if s.After == nil {
		err = s.unchanged(ctx, after)
	}
	for err == nil {
		var end int64
		if end, err = s.round(ctx); err != nil {
			return err
		}
		if number, err = s.changes(ctx, number, end); err != nil || !s.Follow {
			return err
		}
		for now := end; err == nil && now == end; {
			if err = wait.For(ctx, followEvery); err == nil {
				now, err = s.reader.end(ctx)
			}
		}
	}
	return err
}

// round finds which slots there are now, and where the log or the query's range ends.
func (s *scan) round(ctx context.Context) (end int64, err error) {
	if s.slots, _, err = s.reader.slots(ctx); err != nil || len(s.slots) == 0 {
		return 0, err // no changes of other clusters are read
	}
	if s.To == nil {
		err = s.reader.file.DB().QueryRowContext(ctx, `select end from (`+lastBatch+`)`).Scan(&end)
		return end, err
	}
	for id, slot := range s.slots {
		last, err := s.reader.lastUpTo(ctx, id, s.To.Batches[slot])
		if err != nil {
			return 0, err
		}
		if len(last) > 0 {
			end = max(end, last[0].id+last[0].changes)
		}
	}
	return end, nil
}

// start returns the id after which the changes after a cut begin. It returns ErrNotRetained if some of them are gone.
func (s *scan) start(ctx context.Context, after int64) (int64, error) {
	numbers, ends, err := s.reader.slots(ctx)
	if err != nil {
		return 0, err
	}
	var start int64 = 1 << 62
	for id, slot := range numbers {
		cut := s.After.Batches[slot]
		last, err := s.reader.lastUpTo(ctx, id, cut)
		if err != nil {
			return 0, err
		}
		next, err := batches(ctx, s.reader.db, `where slot = ? and id > ? order by id limit 1`, id, after)
		if err != nil {
			return 0, err
		}
		oldest := ends.Batches[slot] + 1 // the first batch in the history
		if len(next) > 0 {
			oldest = next[0].seq
		}
		switch {
		case after > 0 && cut < oldest-1:
			return 0, sinks.ErrNotRetained
		case len(last) > 0:
			start = min(start, last[0].id+last[0].changes)
		default:
			start = after
		}
	}
	s.from = max(start, after)
	return s.from, nil
}

// byObject reads the changes of each object, after its state where the history begins.
func (s *scan) byObject(ctx context.Context, number, after int64) error {
	end, err := s.round(ctx)
	if err != nil || len(s.slots) == 0 {
		return err
	}
	return s.inSpans(ctx, livesAfter, number, func(ids []int64) error {
		for i, id := range ids {
			if s.After == nil && after > 0 {
				if err := s.states(ctx, ids[i:i+1], after, after); err != nil {
					return err
				}
			}
			if _, err := s.pages(ctx, `where c.object = ? and c.id > ? and c.id <= ? order by c.id`, number, end,
				id); err != nil {
				return err
			}
		}
		return nil
	})
}

// changes reads all changes after one id, up to another.
func (s *scan) changes(ctx context.Context, from, end int64) (int64, error) {
	if from >= end {
		return from, nil
	}
	where := `where c.id > ? and c.id <= ? order by c.id`
	if s.Resources == nil {
		return s.pages(ctx, where, from, end)
	}
	streams, err := s.reader.streamsOf(ctx, s.Resources)
	if err != nil {
		return from, err
	}
	return s.pages(ctx, `where c.stream in (select value from json_each(?)) and c.id > ? and c.id <= ? order by c.id`, from, end,
		list(streams))
}

// pages visits the records that satisfy a condition. The last two parameters of the condition are the ids. It returns the end.
func (s *scan) pages(ctx context.Context, where string, from, end int64, first ...any) (int64, error) {
	query := columns(imagesIf(!s.NoBodies, bothImages), itsBatch) + byChange + where
	for more := true; more; {
		var all []record
		var err error
		if all, more, err = s.page(ctx, query, append(first[:len(first):len(first)], from, end)...); err != nil {
			return from, err
		}
		s.from = from
		if err := s.verifyRetained(ctx); err != nil {
			return from, err
		}
		for i := range all {
			from = all[i].id
			if _, err := s.one(ctx, &all[i]); err != nil {
				return from, err
			}
		}
		if s.read += int64(len(all)); s.Progress != nil {
			s.Progress(s.read, max(s.read, end))
		}
	}
	s.from = end
	return end, ctx.Err()
}

// page reads a page. A follower reads a small page, and waits while many others read. Otherwise hundreds of new followers would
// delay all other questions.
func (s *scan) page(ctx context.Context, query string, args ...any) ([]record, bool, error) {
	if !s.Follow {
		return page(ctx, s.reader.db, query, args...)
	}
	select {
	case s.reader.pages <- struct{}{}:
		defer func() { <-s.reader.pages }()
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	return pageOf(ctx, s.reader.db, followerBytes, query, args...)
}

// one visits a record if the query selects it, and reports whether it is wanted.
func (s *scan) one(ctx context.Context, r *record) (wanted bool, err error) {
	l, inRange, err := s.logged(ctx, r)
	if wanted = !inRange || s.Selects(&l); err != nil || !inRange || !wanted {
		s.made.skip(r)
		return wanted, err
	}
	if !s.NoBodies {
		if err := s.made.set(ctx, r, &l); err != nil {
			return true, err
		}
	}
	return true, s.visit(&l)
}

// logged converts a record, and reports whether it is of this cluster and between the cuts.
func (s *scan) logged(ctx context.Context, r *record) (l sinks.Logged, inRange bool, err error) {
	l, err = s.bare(ctx, r)
	return l, s.placed(r, &l) && s.Spans(&l), err
}

// placed sets the batch of a record, and reports whether it is of this cluster.
func (s *scan) placed(r *record, l *sinks.Logged) (ours bool) {
	l.Slot, ours = s.slots[r.slot]
	l.Epoch, l.Batch, l.Logged = r.epoch, r.batch, time.UnixMilli(r.written).UTC()
	return ours
}
