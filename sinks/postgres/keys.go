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

// place is a cut, as statements need it.
type place struct {
	batches []int64   // the last batch of each slot, or -1 if all are after the cut
	last    time.Time // no batch before the cut was written later
	next    time.Time // no batch after the cut was written earlier
}

// placeOf finds between which times a cut is. A nil cut is the start of the log.
func (r *Reader) placeOf(ctx context.Context, cut *sinks.Cut) (p place, err error) {
	const query = `select max(b.written), min(coalesce(n.written, s.written)) from kubecdc_log.slots s
		cross join lateral (select coalesce(($2::bigint[])[s.slot + 1], -1) as seq) k
		left join lateral (select written from kubecdc_log.batches where cluster = s.cluster and slot = s.slot and seq <= k.seq
			order by epoch desc, seq desc limit 1) b on true
		left join lateral (select written from kubecdc_log.batches where cluster = s.cluster and slot = s.slot and seq > k.seq
			order by epoch, seq limit 1) n on true
		where s.cluster = $1`
	if cut == nil {
		return p, nil
	}
	for slot, seq := range cut.Batches {
		for len(p.batches) <= slot {
			p.batches = append(p.batches, -1)
		}
		p.batches[slot] = int64(seq)
	}
	err = pgdb.Querier{DB: r.db}.Row(ctx, query, []any{r.cluster, p.batches}, &p.last, &p.next)
	return p, r.db.Fail("find the batches of a cut", err)
}

// These select changes c of an object o that are before a place p, or after it.
const (
	ofName    = ` where c.cluster = $1 and c.resource = $2 and c.api_group = $3 and c.namespace = o.namespace and c.name = o.name`
	beforeCut = ` and c.written <= p.last and c.batch <= p.batches[c.slot + 1]`
	afterCut  = ` and c.written >= p.next and coalesce(c.batch > p.batches[c.slot + 1], true)`
)

// These select rows for each object o. A row is the object's last change before a cut, or its first one after it. If all of its
// changes were dropped, it is the object's row in the table objects. The index has the order of written. Without the inner
// selection Postgres may read and sort all changes of the object.
const (
	lastChange = `(select 1 as rank, c.* from kubecdc_log.changes c` + ofName + beforeCut + ` and c.written = (
		select c.written from kubecdc_log.changes c` + ofName + beforeCut + ` order by c.written desc limit 1) order by c.epoch desc, c.batch desc, c.n desc limit 1)`
	firstChange = `(select 2 as rank, c.* from kubecdc_log.changes c` + ofName + afterCut + ` and c.written = (
		select c.written from kubecdc_log.changes c` + ofName + afterCut + ` order by c.written limit 1) order by c.epoch, c.batch, c.n limit 1)`
	neverSince = `(select 3 as rank, c.cluster, 0, 0, 0, 0, c.time, 'r', c.api_version, c.api_group, c.kind, c.resource, c.namespace, c.name, c.uid,
		c.resource_version, false, null, c.stream, null::json, c.body, c.time, 'exporter', null, null, c.time from kubecdc_log.objects c` + ofName + `
		and not exists (select from kubecdc_log.changes c` + ofName + `))`
)

// ofObjects joins a selection c for each of some objects.
func ofObjects(selection string) string {
	return ` from (select $6::bigint[] as batches, $7::timestamptz as last, $8::timestamptz as next) p
		cross join unnest($4::text[], $5::text[]) with ordinality as o (namespace, name, i) cross join lateral (` + selection + `) c where true`
}

const (
	lastKey      = "\U0010ffff" // sorts after any key
	namesAtOnce  = 256
	changesAhead = 4 // how many changes of a name are read at first
)

// byObject visits the changes of one object after another, in the order of their keys.
func (s *scan) byObject(ctx context.Context) (err error) {
	resources := s.Resources
	if len(resources) == 0 {
		if resources, err = s.reader.Resources(ctx); err != nil {
			return err
		}
	}
	if s.since, err = s.reader.retainedSince(ctx); err != nil {
		return err
	}
	cut, visit := s.After, s.allOf
	switch s.Each {
	case sinks.Last:
		cut, visit = s.To, s.lastOf
	case sinks.Rest:
		visit = s.restOf
	}
	p, err := s.reader.placeOf(ctx, cut)
	if err != nil {
		return err
	}
	for _, id := range resources {
		if err = s.inOrder(ctx, id, p, visit); err != nil {
			return err
		}
	}
	if err = s.still(ctx, cut); err != nil || cut == nil {
		return err
	}
	return s.still(ctx, nil)
}

// names are some objects of a resource, as parameters of a statement.
type names struct {
	place
	plural, group   string
	cluster         string
	namespaces, all []string
}

func (n *names) args() []any {
	return []any{n.cluster, n.plural, n.group, pgdb.EscapeAll(n.namespaces), pgdb.EscapeAll(n.all), n.batches, n.last, n.next}
}

// inOrder finds the objects of a resource that lived at a place or after it, some at a time.
func (s *scan) inOrder(ctx context.Context, resource string, p place, visit func(context.Context, *names) error) error {
	const key = `((cluster || '/' || resource || '/' || namespace || '/' || name) collate "C")`
	const within = ` where cluster = $1 and resource = $2 and api_group = $3 and ` + key + ` > $4 and ` + key +
		` <= $5 and ($6 = '' or name = $6)`
	const query = `(select ` + key + ` as key, namespace, name from kubecdc_log.objects` + within + ` order by key limit $7)
		union (select distinct on (` + key + `) ` + key + `, namespace, name from kubecdc_log.changes` + within + ` and op = 'd' and written >= $8
			order by ` + key + ` limit $7)
		union (select distinct on (` + key + `) ` + key + `, namespace, name from kubecdc_log.changes` + within + ` and op = 'd'
			and (inferred or gap is not null) order by ` + key + ` limit $7)
		order by key limit $7`
	plural, group, _ := strings.Cut(resource, ".")
	low, high := s.span(s.reader.cluster + "/" + plural + "/")
	for more := true; more && low < high; {
		n := &names{place: p, cluster: s.reader.cluster, plural: plural, group: group}
		if s.Name != "" && s.Namespace != "" {
			n.namespaces, n.all = []string{s.Namespace}, []string{s.Name}
		} else {
			var namespace, name string
			args := []any{s.reader.cluster, plural, group, low, high, s.Name, namesAtOnce, p.next}
			err := s.reader.db.Each(ctx, "find objects in order", query, args, []any{&low, &namespace, &name}, func() error {
				n.namespaces, n.all = append(n.namespaces, namespace), append(n.all, name)
				return nil
			})
			if err != nil {
				return err
			}
		}
		if more = len(n.all) == namesAtOnce; len(n.all) > 0 {
			if err := visit(ctx, n); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// span returns the keys between which a query selects objects: after the first one, and up to the last one. The keys of a
// resource begin with a prefix. If an object has no namespace, its key then has a slash.
func (s *scan) span(prefix string) (low, high string) {
	low, high = prefix, prefix+lastKey
	stored := func(key string) string {
		if !strings.Contains(key, "/") {
			return prefix + "/" + key
		}
		return prefix + key
	}
	if s.Keys != nil && s.Keys.After != "" {
		low = stored(s.Keys.After)
	}
	if s.Keys != nil && s.Keys.UpTo != "" {
		high = stored(s.Keys.UpTo)
	}
	switch only := prefix + s.Namespace + "/" + s.Name; {
	case s.Namespace == "":
	case s.Name == "":
		low, high = max(low, only), min(high, only+lastKey)
	case only <= low || only > high:
		return high, high
	}
	return low, high
}

// lastOf visits each object's last change before the cut. If the object's last change was dropped with its partition, the first
// change after the cut has the state before it. If there is none, no change has that state.
func (s *scan) lastOf(ctx context.Context, n *names) error {
	selection := lastChange
	if !s.since.IsZero() {
		selection = `select * from (` + lastChange + ` union all ` + firstChange + ` union all ` + neverSince +
			`) ranked order by rank limit 1`
	}
	s.images = `case c.rank when 2 then c.before end, c.after`
	return s.rows(ctx, ofObjects(selection), " order by o.i", n.args(), func(l *sinks.Logged) bool {
		if s.To.Has(l) {
			return l.Op != change.Delete || l.Inferred || l.Gap != ""
		}
		return l.Op != change.Create && l.Op != change.Read
	})
}

// allOf visits all changes of each object.
func (s *scan) allOf(ctx context.Context, n *names) error {
	selection := `select 0 as rank, c.* from kubecdc_log.changes c` + ofName + ` and c.written >= p.next`
	if s.After == nil && !s.since.IsZero() {
		selection += ` union all ` + neverSince
	}
	return s.rows(ctx, ofObjects(selection), " order by o.i, c.written, c.epoch, c.batch, c.n", n.args(), s.Spans)
}

// restOf visits the changes of each object after the cut, up to the first one that is not wanted. Most objects have none that is
// wanted.
func (s *scan) restOf(ctx context.Context, n *names) error {
	first := *s
	var wanted []string
	first.NoBodies = true
	first.visit = func(l *sinks.Logged) error {
		wanted = append(wanted, l.Namespace, l.Name)
		return nil
	}
	err := first.rows(ctx, ofObjects(firstChange), " order by o.i", n.args(), nil)
	for name := range slices.Chunk(wanted, 2) {
		if err == nil {
			n.namespaces, n.all = name[:1], name[1:]
			err = s.restOfName(ctx, n)
		}
	}
	return err
}

func (s *scan) restOfName(ctx context.Context, n *names) error {
	ended := false
	for skipped, more := 0, changesAhead; !ended; skipped, more = skipped+more, 2*more {
		read := 0
		selection := `select c.* from kubecdc_log.changes c` + ofName + afterCut + ` order by c.written, c.epoch, c.batch, c.n` +
			fmt.Sprintf(" limit %d offset %d", more, skipped)
		page := *s
		page.Wanted = nil
		page.visit = func(l *sinks.Logged) error {
			read++
			if ended = ended || !s.Selects(l); ended {
				return nil
			}
			return s.visit(l)
		}
		if err := page.rows(ctx, ofObjects(selection), " order by c.written, c.epoch, c.batch, c.n", n.args(), nil); err != nil {
			return err
		}
		ended = ended || read < more
	}
	return nil
}
