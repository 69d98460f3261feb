package postgres

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/sinks"
)

// scan answers one query.
type scan struct {
	sinks.Query
	reader  *Reader
	visit   func(*sinks.Logged) error
	streams map[change.StreamID]*change.Stream
	at      map[int]storedBatch // the last batch of each slot that was read
	read    int64
	of      int64
}

// groupChanges is about how many changes one statement reads. No cursor stays open for long.
const groupChanges = 5000

// batches reads the batches that follow, up to a cut, in groups.
func (s *scan) batches(ctx context.Context, to *sinks.Cut) error {
	all, err := s.pending(ctx, to)
	if err != nil {
		return s.reader.db.Fail("list the batches of the log", err)
	}
	s.of = s.read
	for _, b := range all {
		s.of += int64(b.changes)
	}
	for len(all) > 0 {
		n, changes := 0, 0
		for n < len(all) && (n == 0 || changes+all[n].changes <= groupChanges) {
			changes += all[n].changes
			n++
		}
		if err := s.group(ctx, all[:n]); err != nil {
			return err
		}
		if s.read += int64(changes); s.Progress != nil {
			s.Progress(s.read, s.of)
		}
		all = all[n:]
	}
	return ctx.Err()
}

// group reads batches by their keys. The bounds of written let Postgres leave out other partitions when it plans.
func (s *scan) group(ctx context.Context, batches []row) error {
	const from = ` from unnest($2::int[], $3::bigint[], $4::bigint[], $5::timestamptz[]) with ordinality
			as g (slot, epoch, seq, written, n)
		join kubecdc_log.changes c on (c.slot, c.epoch, c.batch, c.written) = (g.slot, g.epoch, g.seq, g.written)
		where c.cluster = $1 and c.written >= $6 and c.written <= $7`
	slots, epochs, seqs, written := []int{}, []int64{}, []int64{}, []time.Time{}
	first, last := batches[0].written, batches[0].written
	for _, b := range batches {
		slots, epochs, seqs, written = append(slots, b.slot), append(epochs, b.epoch), append(seqs, int64(b.seq)), append(written, b.written)
		if b.written.Before(first) {
			first = b.written
		}
		if b.written.After(last) {
			last = b.written
		}
	}
	return s.rows(ctx, from, " order by g.n, c.n", []any{s.reader.cluster, slots, epochs, seqs, written, first, last}, nil)
}

// object reads the changes of one object by the index for that.
func (s *scan) object(ctx context.Context) error {
	return s.rows(ctx, ` from kubecdc_log.changes c where c.cluster = $1`, " order by c.written, c.slot, c.epoch, c.batch, c.n",
		[]any{s.reader.cluster}, func(l *sinks.Logged) bool {
			return (s.To == nil || l.Batch <= s.To.Batches[l.Slot]) && (s.After == nil || l.Batch > s.After.Batches[l.Slot])
		})
}

// rows visits the changes of a statement that the query selects and within holds for.
func (s *scan) rows(ctx context.Context, from, order string, args []any, within func(*sinks.Logged) bool) error {
	images := "c.before, c.after"
	if s.NoBodies {
		images = "null::json, null::json"
	}
	where, args := s.conditions(args)
	rows, err := s.reader.db.Query(ctx, `select c.slot, c.epoch, c.batch, c.written, c.time, c.op, c.namespace, c.name, c.uid, c.resource_version, c.inferred, coalesce(c.gap, ''), c.stream, `+
		images+from+where+order, args...)
	if err != nil {
		return s.reader.db.Fail("read the changes of the log", err)
	}
	var l sinks.Logged
	var op string
	var stream change.StreamID
	var failed error
	into := []any{&l.Slot, &l.Epoch, &l.Batch, &l.Logged, &l.Time, &op, &l.Namespace, &l.Name,
		&l.UID, &l.ResourceVersion, &l.Inferred, &l.Gap, &stream, (*body)(&l.Before), (*body)(&l.After)}
	_, err = pgx.ForEachRow(rows, into, func() error {
		l.Op, l.Stream = change.Op(op[0]), s.stream(stream)
		if within != nil && !within(&l) || s.Wanted != nil && !s.Wanted(&l) {
			return nil
		}
		failed = s.visit(&l)
		return failed
	})
	return cmp.Or(failed, s.reader.db.Fail("read the changes of the log", err))
}

// conditions appends what the query selects.
func (s *scan) conditions(args []any) (where string, _ []any) {
	add := func(condition string, value any) {
		args = append(args, value)
		where += fmt.Sprintf(" and "+condition, len(args))
	}
	if len(s.Resources) > 0 {
		plurals := []string{}
		for _, id := range s.Resources {
			plural, _, _ := strings.Cut(id, ".")
			plurals = append(plurals, plural)
		}
		add("c.resource = any($%d)", plurals)
		add(resourceID+" = any($%d)", s.Resources)
	}
	if s.Namespace != "" || s.Name != "" {
		add("c.namespace = $%d", s.Namespace)
	}
	if s.Name != "" {
		add("c.name = $%d", s.Name)
	}
	return where, args
}

func (s *scan) stream(id change.StreamID) *change.Stream {
	if s.streams[id] == nil {
		s.streams[id] = change.ParseStream(id)
	}
	return s.streams[id]
}
