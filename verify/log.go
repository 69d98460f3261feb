package verify

import (
	"cmp"
	"context"
	"maps"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/sinks"
)

// Log returns the copies of the objects in a log. found are the ways in which the log finds the live objects. If there are none,
// the copy is the result of folding the log's changes. A copy has the last state of each key, from any stream. hash is nil if
// contents are not compared.
func Log(r sinks.Reader, found []sinks.Each, streams []*change.Stream, hash *Hash) (copies []Copy) {
	p := &positions{reader: r, streams: streams}
	for _, each := range found {
		name := map[sinks.Each]string{sinks.Table: "table", sinks.Last: "changes"}[each]
		copies = append(copies, Copy{name, p.position,
			func(ctx context.Context, s *change.Stream, _ *Position, visit func(string, Object)) error {
				q := sinks.Query{Each: each, Resources: []string{s.Resource.ID()}, NoBodies: hash == nil}
				return r.Changes(ctx, q, func(l *sinks.Logged) error {
					if l.Op != change.Delete {
						visit(l.Change.Key(), objectOf(l, s, hash))
					}
					return nil
				})
			}})
	}
	if len(copies) > 0 {
		return copies
	}
	return []Copy{{"topic", p.position, func(ctx context.Context, s *change.Stream, position *Position,
		visit func(string, Object)) error {
		state, err := fold(ctx, r, s, hash, position.After.Has)
		for key, o := range state {
			visit(key, o)
		}
		return err
	}}}
}

// WithHole returns *sinks.Hole if the log lacks something in its middle that no record explains, whatever error a comparison had.
// Otherwise it returns that error.
func WithHole(ctx context.Context, r sinks.Reader, compared error) error {
	finder, ok := r.(sinks.HoleFinder)
	if !ok || ctx.Err() != nil {
		return compared
	}
	hole, err := finder.Hole(ctx)
	if hole != nil {
		return hole
	}
	return cmp.Or(compared, err)
}

// fold returns the last state of each key after the wanted changes. It folds each partition separately, since partitions have no
// order among them. A key that is alive on several partitions is scattered.
func fold(
	ctx context.Context, r sinks.Reader, s *change.Stream, hash *Hash, wanted func(*sinks.Logged) bool,
) (map[string]Object, error) {
	partitions := map[int]map[string]Object{}
	q := sinks.Query{Resources: []string{s.Resource.ID()}, NoBodies: hash == nil, Wanted: wanted}
	err := r.Changes(ctx, q, func(l *sinks.Logged) error {
		state, key := partitions[l.Partition], l.Change.Key()
		switch {
		case l.Op == change.Delete:
			delete(state, key)
			return nil
		case state == nil:
			state = map[string]Object{}
			partitions[l.Partition] = state
		}
		state[strings.Clone(key)] = objectOf(l, s, hash)
		return nil
	})
	all := map[string]Object{}
	for _, state := range partitions {
		for key, o := range state {
			if other, found := all[key]; found {
				if other.Version.Compare(o.Version) > 0 {
					o = other
				}
				o.isScattered = true
			}
			all[key] = o
		}
		clear(state)
	}
	return all, err
}

// objectOf returns the object after a change.
func objectOf(l *sinks.Logged, s *change.Stream, hash *Hash) Object {
	body := hash.allowed(&s.Resource, l.Change.Key(), l.After)
	o := hash.Object(strings.Clone(l.UID), change.ResourceVersion(strings.Clone(string(l.ResourceVersion))), body, &s.Resource)
	o.isOthers = l.Stream.ID() != s.ID()
	return o
}

// InventoryName is the name of the checkpoint's copy.
const InventoryName = "inventory"

// Inventory returns the copy in the checkpoint's inventory.
func Inventory(store checkpoint.Reader) Copy {
	return Copy{Name: InventoryName,
		Position: func(ctx context.Context, stream change.StreamID, _ time.Time) (Position, bool, error) {
			p, ok, err := store.Position(ctx, stream)
			return Position{Position: p}, ok && known(p), err
		},
		Objects: func(ctx context.Context, s *change.Stream, _ *Position, visit func(string, Object)) error {
			return store.Inventory(ctx, s.ID(), func(o checkpoint.Object) error {
				visit(o.Key, Object{UID: o.UID, Version: o.ResourceVersion})
				return nil
			})
		}}
}

func known(p change.Position) bool {
	return p.Ended == "" && p.ResourceVersion != "" && p.ResourceVersion != change.UnknownVersion
}

// positions are the streams' last positions in a log.
type positions struct {
	reader  sinks.Reader
	streams []*change.Stream
	read    time.Time
	last    map[change.StreamID]Position
}

// positionsFresh is how long positions are used before they are read again. An API server retains at least five minutes of
// history.
const positionsFresh = 20 * time.Second

func (p *positions) position(ctx context.Context, stream change.StreamID, since time.Time) (Position, bool, error) {
	if p.read.Before(since) {
		if err := p.find(ctx); err != nil {
			return Position{}, false, err
		}
	}
	position, ok := p.last[stream]
	return position, ok && known(position.Position), nil
}

// find reads the newest control records, and older ones until all streams have a position.
func (p *positions) find(ctx context.Context) error {
	for _, since := range []time.Time{time.Now().Add(-10 * time.Minute), time.Now().Add(-24 * time.Hour), {}} {
		p.last, p.read = map[change.StreamID]Position{}, time.Now()
		read := sinks.Place{}
		err := p.reader.Controls(ctx, since, nil, func(c *change.Control) error {
			if c.Type != change.ControlBatch {
				return nil
			}
			read[c.Slot] = c.Batch
			after := sinks.Point{Place: maps.Clone(read), Logged: time.UnixMilli(c.TimeMs).Add(time.Millisecond)}
			for _, position := range c.Positions {
				p.last[position.Stream] = Position{position, after}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if p.hasAll() {
			break
		}
	}
	return nil
}

func (p *positions) hasAll() bool {
	for _, s := range p.streams {
		if _, ok := p.last[s.ID()]; !ok {
			return false
		}
	}
	return true
}
