package verify

import (
	"context"
	"maps"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/sinks"
)

// Log returns the copies that a log is: what it finds of the objects that live now, in one way or more; or what folding its changes gives. A
// copy has the last state of each key, whichever stream that is of. hash is nil if contents are not compared.
func Log(r sinks.Reader, found []sinks.Each, streams []*change.Stream, hash *Hash) (copies []Copy) {
	p := &positions{reader: r, streams: streams}
	for _, each := range found {
		name := map[sinks.Each]string{sinks.Table: "table", sinks.Last: "changes"}[each]
		copies = append(copies, Copy{name, p.of, func(ctx context.Context, s *change.Stream, _ *Position, visit func(string, Object)) error {
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
	return []Copy{{"topic", p.of, func(ctx context.Context, s *change.Stream, at *Position, visit func(string, Object)) error {
		state, err := fold(ctx, r, s, hash, at.has)
		for key, o := range state {
			visit(key, o)
		}
		return err
	}}}
}

// fold returns the last state of each key, by those changes that are wanted. Partitions have no order among them, so each is folded
// for itself; a key that is alive on several is apart.
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
			if other, apart := all[key]; apart {
				if other.Version.Compare(o.Version) > 0 {
					o = other
				}
				o.apart = true
			}
			all[key] = o
		}
		clear(state)
	}
	return all, err
}

// objectOf is an object as a change left it.
func objectOf(l *sinks.Logged, s *change.Stream, hash *Hash) Object {
	o := hash.Object(strings.Clone(l.UID), change.ResourceVersion(strings.Clone(string(l.ResourceVersion))), l.After, &s.Resource)
	o.other = l.Stream.ID() != s.ID()
	return o
}

// InventoryName is the name of the copy that the checkpoint has.
const InventoryName = "inventory"

// Inventory returns the copy that the checkpoint's inventory is.
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

// positionsFresh is how long positions may be used: an API server keeps the history of the last five minutes at least.
const positionsFresh = 20 * time.Second

func (p *positions) of(ctx context.Context, stream change.StreamID, since time.Time) (Position, bool, error) {
	if p.read.Before(since) {
		if err := p.find(ctx); err != nil {
			return Position{}, false, err
		}
	}
	at, ok := p.last[stream]
	return at, ok && known(at.Position), nil
}

// find reads the newest control records, and older ones if they do not have all streams.
func (p *positions) find(ctx context.Context) error {
	for _, since := range []time.Time{time.Now().Add(-10 * time.Minute), time.Now().Add(-24 * time.Hour), {}} {
		p.last, p.read = map[change.StreamID]Position{}, time.Now()
		batches := map[int]uint64{}
		err := p.reader.Controls(ctx, since, nil, func(c *change.Control) error {
			if c.Type != change.ControlBatch {
				return nil
			}
			batches[c.Slot] = c.Batch
			at := point{maps.Clone(batches), time.UnixMilli(c.TimeMs)}
			for _, position := range c.Positions {
				p.last[position.Stream] = Position{position, at}
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
