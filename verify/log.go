package verify

import (
	"context"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/sinks"
)

// Log returns the copy that a log is: what folding it gives, or the table of objects of a sink that has one.
func Log(name string, r sinks.Reader, streams []*change.Stream) Copy {
	p := &positions{reader: r, streams: streams}
	c := Copy{Name: name, Position: p.of}
	if t, ok := r.(sinks.TableReader); ok {
		c.Objects = func(ctx context.Context, s *change.Stream, _ change.ResourceVersion, visit func(string, Object)) error {
			return t.Objects(ctx, s, func(key, uid string, version change.ResourceVersion) { visit(key, Object{uid, version}) })
		}
		return c
	}
	c.Objects = func(ctx context.Context, s *change.Stream, at change.ResourceVersion, visit func(string, Object)) error {
		state, err := fold(ctx, r, s, func(l *sinks.Logged) bool { return l.ResourceVersion.Compare(at) <= 0 })
		for key, o := range state {
			visit(key, o)
		}
		return err
	}
	return c
}

// fold returns the last state of each object, by those changes that are wanted.
func fold(ctx context.Context, r sinks.Reader, s *change.Stream, wanted func(*sinks.Logged) bool) (map[string]Object, error) {
	state := map[string]Object{}
	q := sinks.Query{Resources: []string{s.Resource.ID()}, NoBodies: true, Wanted: func(l *sinks.Logged) bool {
		return l.Stream.ID() == s.ID() && wanted(l)
	}}
	return state, r.Changes(ctx, q, func(l *sinks.Logged) error {
		if key := l.Change.Key(); l.Op == change.Delete {
			delete(state, key)
		} else {
			state[strings.Clone(key)] = Object{strings.Clone(l.UID), change.ResourceVersion(strings.Clone(string(l.ResourceVersion)))}
		}
		return nil
	})
}

// Inventory returns the copy that the checkpoint's inventory is.
func Inventory(name string, store checkpoint.Reader) Copy {
	return Copy{Name: name,
		Position: func(ctx context.Context, stream change.StreamID) (change.ResourceVersion, bool, error) {
			p, ok, err := store.Position(ctx, stream)
			return p.ResourceVersion, ok && known(p), err
		},
		Objects: func(ctx context.Context, s *change.Stream, _ change.ResourceVersion, visit func(string, Object)) error {
			return store.Inventory(ctx, s.ID(), func(o checkpoint.Object) error {
				if !o.Lost {
					visit(o.Key, Object{o.UID, o.ResourceVersion})
				}
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
	last    map[change.StreamID]change.Position
}

// positionsFresh is how long positions may be used: an API server keeps the history of the last five minutes at least.
const positionsFresh = 20 * time.Second

func (p *positions) of(ctx context.Context, stream change.StreamID) (change.ResourceVersion, bool, error) {
	if time.Since(p.read) > positionsFresh {
		if err := p.find(ctx); err != nil {
			return "", false, err
		}
	}
	at, ok := p.last[stream]
	return at.ResourceVersion, ok && known(at), nil
}

// find reads the newest control records, and older ones if they do not have all streams.
func (p *positions) find(ctx context.Context) error {
	for _, since := range []time.Time{time.Now().Add(-10 * time.Minute), time.Now().Add(-24 * time.Hour), {}} {
		p.last = map[change.StreamID]change.Position{}
		err := p.reader.Controls(ctx, since, func(c *change.Control) error {
			for _, position := range c.Positions {
				p.last[position.Stream] = position
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
	p.read = time.Now()
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
