package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/internal/pgdb"
	"kubecdc/sinks"
)

type scan struct {
	sinks.Query
	reader   *Reader
	images   string // the images of a change that are read
	visit    func(*sinks.Logged) error
	streams  streams
	lastRead map[int]storedBatch // each slot's last batch that was read
	since    time.Time           // when the history began when what is left of earlier times was read
	read     int64
	total    int64
}

// These are the images of a change that may be read.
const bothImages, lastImage = "c.before, c.after", "null::json, c.after"

func (r *Reader) scan(q sinks.Query, visit func(*sinks.Logged) error) *scan {
	return &scan{Query: q, reader: r, images: bothImages, visit: visit, streams: streams{}, lastRead: map[int]storedBatch{}}
}

// groupChanges is about how many changes one statement reads. So no cursor is open for long.
const groupChanges = 5000

// batches reads the next batches in groups, up to a cut.
func (s *scan) batches(ctx context.Context, to *sinks.Cut) error {
	first := len(s.lastRead) == 0
	all, err := s.pending(ctx, to)
	if err == nil && first {
		err = s.still(ctx, s.After)
	}
	if err != nil {
		return err
	}
	s.total = s.read
	for _, b := range all {
		s.total += int64(b.changes)
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
		if err := s.has(ctx, slices.MinFunc(all[:n],
			func(a, b storedBatch) int { return a.written.Compare(b.written) })); err != nil {
			return err
		}
		if s.read += int64(changes); s.Progress != nil {
			s.Progress(s.read, s.total)
		}
		all = all[n:]
	}
	return ctx.Err()
}

// group reads batches by their keys. The lower and upper limit of the column "written" let Postgres exclude other partitions when
// it plans.
func (s *scan) group(ctx context.Context, batches []storedBatch) error {
	const from = ` from unnest($2::int[], $3::bigint[], $4::bigint[], $5::timestamptz[]) with ordinality
			as g (slot, epoch, seq, written, n)
		join kubecdc_log.changes c on (c.slot, c.epoch, c.batch, c.written) = (g.slot, g.epoch, g.seq, g.written)
		where c.cluster = $1 and c.written >= $6 and c.written <= $7`
	slots, epochs, seqs, written := []int{}, []int64{}, []int64{}, []time.Time{}
	first, last := batches[0].written, batches[0].written
	for _, b := range batches {
		slots, epochs, seqs = append(slots, b.slot), append(epochs, b.epoch), append(seqs, int64(b.seq))
		written = append(written, b.written)
		if b.written.Before(first) {
			first = b.written
		}
		if b.written.After(last) {
			last = b.written
		}
	}
	return s.rows(ctx, from, " order by g.n, c.n", []any{s.reader.cluster, slots, epochs, seqs, written, first, last}, nil)
}

// errDropped says that changes were dropped before they were read.
var errDropped = fmt.Errorf("old changes were dropped before they were read: ask again: %w", sinks.ErrNotRetained)

// has returns an error if a batch was dropped. Then its changes are dropped too, maybe later, and so are all batches before it.
func (s *scan) has(ctx context.Context, b storedBatch) error {
	const query = `select exists (select from kubecdc_log.batches
		where (cluster, slot, epoch, seq, written) = ($1, $2, $3, $4, $5))`
	return s.holds(ctx, query, s.reader.cluster, b.slot, b.epoch, int64(b.seq), b.written)
}

// still returns an error if batches after a cut were dropped. If the cut is nil, it returns an error if batches were dropped
// after the remaining ones were read.
func (s *scan) still(ctx context.Context, cut *sinks.Cut) error {
	if cut == nil {
		since, err := s.reader.retainedSince(ctx)
		if err == nil && !since.Equal(s.since) {
			err = errDropped
		}
		return err
	}
	const query = `select not exists (select from kubecdc_log.slots s join unnest($2::int[], $3::bigint[]) as a (slot, seq) on a.slot = s.slot
		where s.cluster = $1 and s.seq > a.seq and a.seq > 0
			and not exists (select from kubecdc_log.batches where cluster = $1 and slot = a.slot and seq <= a.seq + 1))`
	slots, seqs := []int{}, []int64{}
	for slot, seq := range cut.Batches {
		slots, seqs = append(slots, slot), append(seqs, int64(seq))
	}
	return s.holds(ctx, query, s.reader.cluster, slots, seqs)
}

func (s *scan) holds(ctx context.Context, query string, args ...any) error {
	var holds bool
	err := pgdb.Querier{DB: s.reader.db}.Row(ctx, query, args, &holds)
	if err == nil && !holds {
		return errDropped
	}
	return s.reader.db.Fail("verify that the changes were not dropped", err)
}

// object reads the changes of one object by the index of objects.
func (s *scan) object(ctx context.Context) error {
	err := s.rows(ctx, ` from kubecdc_log.changes c where c.cluster = $1`, " order by c.written, c.slot, c.epoch, c.batch, c.n",
		[]any{s.reader.cluster}, s.Spans)
	if err != nil {
		return err
	}
	return s.still(ctx, s.After)
}

// unchanged visits the objects all of whose changes were dropped, from their rows in the table objects.
func (s *scan) unchanged(ctx context.Context) error {
	since, err := s.reader.retainedSince(ctx)
	s.since = since
	if err != nil || since.IsZero() {
		return err
	}
	return s.objects(ctx, ` and not exists (select from kubecdc_log.changes h
		where (h.cluster, h.resource, h.namespace, h.name, h.api_group) = (c.cluster, c.resource, c.namespace, c.name, c.api_group))`)
}

// These are the columns of a change, and of a row of the table objects, except the images.
const (
	ofChange = `select c.slot, c.epoch, c.batch, c.written, c.time, c.op, c.namespace, c.name, c.uid, c.resource_version,
		c.inferred, coalesce(c.gap, ''), c.stream,
		case when c.happened_from <> 'exporter' then c.happened end, c.happened_from, c.managers, c.fields_changed, `
	ofObject = `select 0, 0, 0, c.time, c.time, 'r', c.namespace, c.name, c.uid, c.resource_version, false, '', c.stream,
		null::timestamptz, 'exporter', null, null, null::json, `
)

// objects visits the rows of the table objects that satisfy a condition.
func (s *scan) objects(ctx context.Context, condition string, args ...any) error {
	return s.query(ctx, "read the objects", ofObject, "c.body", ` from kubecdc_log.objects c where c.cluster = $1`+condition, "",
		append([]any{s.reader.cluster}, args...), nil)
}

// rows visits a statement's changes that the query selects and that satisfy within.
func (s *scan) rows(ctx context.Context, from, order string, args []any, within func(*sinks.Logged) bool) error {
	return s.query(ctx, "read the changes of the log", ofChange, s.images, from, order, args, within)
}

func (s *scan) query(
	ctx context.Context, what, head, images, from, order string, args []any, within func(*sinks.Logged) bool,
) error {
	if s.NoBodies {
		images = strings.Repeat("null::json, ", strings.Count(images, ",")) + "null::json"
	}
	where, args := s.conditions(args)
	var l sinks.Logged
	var op, source, managers, fields string
	var stream change.StreamID
	var happened time.Time
	into := []any{&l.Slot, &l.Epoch, &l.Batch, &l.Logged, &l.Time, &op, &l.Namespace, &l.Name, &l.UID, &l.ResourceVersion,
		&l.Inferred, &l.Gap, &stream, &happened, &source, &managers, &fields, &l.Before, &l.After}
	return s.reader.db.Each(ctx, what, head+images+from+where+order, args, into, func() error {
		l.Op, l.Stream, l.Provenance = change.Op(op[0]), s.streams.parse(stream), change.Provenance{}
		if !happened.IsZero() {
			l.Provenance.Time, l.Provenance.Source = happened, change.TimeSource(source)
		}
		if managers != "" {
			l.Provenance.Managers = []byte(managers)
		}
		if fields != "" {
			l.Provenance.Fields = []byte(fields)
		}
		if within != nil && !within(&l) || s.Wanted != nil && !s.Wanted(&l) {
			return nil
		}
		return s.visit(&l)
	})
}

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
	if s.Namespace != "" {
		add("c.namespace = $%d", s.Namespace)
	}
	if s.Name != "" {
		add("c.name = $%d", s.Name)
	}
	return where, args
}

// streams caches parsed stream ids.
type streams map[change.StreamID]*change.Stream

func (s streams) parse(id change.StreamID) *change.Stream {
	if s[id] == nil {
		s[id] = change.ParseStream(id)
	}
	return s[id]
}
