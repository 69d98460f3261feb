// Package verify compares what a log, a table or a checkpoint has of each object with the API server. It changes nothing, and knows
// neither Kafka nor SQL.
//
// A copy and the API server are compared at one resourceVersion: the position P that the log had when the comparison began. The
// server is read as it was at P, and of the log what was written later is left out. So an exporter may run meanwhile. Bodies are
// compared by hashes of their content.
package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/sinks"
	"kubecdc/source/discovery"
)

// Object is one version of one object.
type Object struct {
	UID     string                 `json:"uid"`
	Version change.ResourceVersion `json:"resourceVersion"`

	sum   uint64 // of its content; 0: not known
	apart bool   // it is on several partitions
	other bool   // its last record is of another stream
}

// equal reports whether two are the same version of the same object, with the same content as far as that is known.
func (o *Object) equal(other *Object) bool {
	return o.identical(other) && (o.sum == 0 || other.sum == 0 || o.sum == other.sum)
}

func (o *Object) identical(other *Object) bool {
	return o == other || o != nil && other != nil && o.UID == other.UID && o.Version == other.Version
}

// Hash makes the hashes of one run comparable.
type Hash struct{ seed maphash.Seed }

// NewHash returns hashes that differ from those of another run.
func NewHash() *Hash { return &Hash{maphash.MakeSeed()} }

// Object returns the version of an object that a body is. What the log has as another API version, or only a stub of, is not compared
// by content; nor is anything if h is nil.
func (h *Hash) Object(uid string, version change.ResourceVersion, body []byte, r *change.Resource) Object {
	o := Object{UID: uid, Version: version}
	if h == nil || body == nil || change.IsStub(body) {
		return o
	}
	if api, ok := rawjson.Text(rawjson.Member(body, "apiVersion")); ok && api == r.APIVersion() {
		o.sum = rawjson.Sum(h.seed, body)
	}
	return o
}

// Kind is how an object differs.
type Kind string

const (
	Missing Kind = "missing" // the API server has it, the copy does not
	Stale   Kind = "stale"   // the copy has another version of it, or another object under its key
	Extra   Kind = "extra"   // the copy has it, the API server does not
	Changed Kind = "changed" // the copy has this version of it with another content
	Apart   Kind = "apart"   // the topic has records of its key on several partitions, so their order is not known
)

// Difference is an object that differs.
type Difference struct {
	Key  string  `json:"key"`
	Kind Kind    `json:"kind"`
	Live *Object `json:"live,omitempty"` // of the API server
	Held *Object `json:"held,omitempty"` // of the copy
}

// same reports whether two looks found the same difference. An object that comes or goes between them makes others.
func (d *Difference) same(other *Difference) bool {
	return d.Kind == other.Kind && d.Live.identical(other.Live) && d.Held.identical(other.Held)
}

// Result is what came of the comparison of one copy of a stream.
type Result struct {
	Stream          change.StreamID        `json:"stream"`
	In              string                 `json:"in"` // the copy: topic, table, changes or inventory
	ResourceVersion change.ResourceVersion `json:"resourceVersion,omitempty"`
	Confirmed       time.Time              `json:"confirmed,omitzero"` // when the copy was last known to be complete
	Objects         int                    `json:"objects"`            // of the API server
	Pending         int                    `json:"pending,omitempty"`  // changed after ResourceVersion: not judged
	Ignored         int                    `json:"ignored,omitempty"`  // older in the copy, by updates that the settings leave out
	Differences     []Difference           `json:"differences"`
	Problem         string                 `json:"problem,omitempty"` // why nothing was compared

	ahead map[string]Difference // what would differ, and is newer than ResourceVersion
}

func (r *Result) Count(kind Kind) (n int) {
	for _, d := range r.Differences {
		if d.Kind == kind {
			n++
		}
	}
	return n
}

// Position is up to where a copy is complete.
type Position struct {
	change.Position
	point
}

// point is where the batch of a position is in the log.
type point struct {
	batches map[int]uint64 // the last one of each slot up to there
	logged  time.Time
}

// has reports whether a change was logged up to there. Its time tells that only for a slot that had no batch for a while.
func (p *point) has(l *sinks.Logged) bool {
	if last, known := p.batches[l.Slot]; known {
		return l.Batch <= last
	}
	return !l.Logged.After(p.logged)
}

// Copy is something that should have the objects of the API server.
type Copy struct {
	Name string
	// Position is read at a time or later; ok is false if none is known.
	Position func(ctx context.Context, stream change.StreamID, since time.Time) (at Position, ok bool, err error)
	// Objects visits the objects that the copy had at a position, or has now: these may be newer.
	Objects func(ctx context.Context, s *change.Stream, at *Position, visit func(key string, o Object)) error
}

// Live visits the objects that the API server had at a resourceVersion; empty: now.
type Live func(ctx context.Context, s *change.Stream, at change.ResourceVersion, visit func(key string, o Object)) error

// Stream compares a copy of a stream with the API server. A copy that only has its present state may be ahead of its position, so
// what differs is looked at a second time, at a position that is read after the first look, and only what differs twice in the same
// way is reported. What is newer than that position then, and was there at the first look, is a version that the API server never gave.
func Stream(ctx context.Context, live Live, copied Copy, s *change.Stream) (*Result, error) {
	first, err := whole(ctx, live, copied, s, time.Now().Add(-positionsFresh))
	if err != nil || len(first.Differences)+len(first.ahead) == 0 {
		return first, err
	}
	again, err := whole(ctx, live, copied, s, time.Now())
	if err != nil {
		return again, err
	}
	again.Differences = slices.DeleteFunc(again.Differences, func(d Difference) bool {
		i, before := slices.BinarySearchFunc(first.Differences, d, byKey)
		return !before || !d.same(&first.Differences[i])
	})
	for key, d := range again.ahead {
		if before, found := first.ahead[key]; found && d.Held.identical(before.Held) {
			again.Differences = append(again.Differences, d)
			again.Pending--
		}
	}
	slices.SortFunc(again.Differences, byKey)
	return again, nil
}

// listTries is how often a list begins again that expires between two pages.
const listTries = 3

func whole(ctx context.Context, live Live, copied Copy, s *change.Stream, since time.Time) (r *Result, err error) {
	for range listTries {
		if r, err = once(ctx, live, copied, s, since); !errors.Is(err, discovery.ErrCompacted) {
			break
		}
	}
	return r, err
}

func byKey(a, b Difference) int {
	return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(string(a.Kind), string(b.Kind)))
}

// comparison is one comparison of a stream. Only the copy's objects are held in memory.
type comparison struct {
	*Result
	held map[string]Object
	then bool // the API server could be read as it was at the position
}

func once(ctx context.Context, live Live, copied Copy, s *change.Stream, since time.Time) (*Result, error) {
	c := &comparison{Result: &Result{Stream: s.ID(), In: copied.Name, Differences: []Difference{}, ahead: map[string]Difference{}},
		held: map[string]Object{}, then: true}
	position, ok, err := copied.Position(ctx, s.ID(), since)
	if err != nil {
		return c.Result, err
	}
	if !ok {
		c.Problem = "no position of the stream is known: its first snapshot has not ended"
		return c.Result, nil
	}
	at := position.ResourceVersion
	c.ResourceVersion, c.Confirmed = at, position.Time
	if err := copied.Objects(ctx, s, &position, func(key string, o Object) { c.held[key] = o }); err != nil {
		return c.Result, fmt.Errorf("read what the %s has of %s: %w", copied.Name, s.ID(), err)
	}
	err = live(ctx, s, at, c.see)
	if errors.Is(err, discovery.ErrCompacted) && c.Objects == 0 {
		c.then = false
		err = live(ctx, s, "", c.see)
	}
	if err != nil {
		return c.Result, err
	}
	for key, o := range c.held {
		switch d := (Difference{Key: key, Kind: Extra, Held: &o}); {
		case o.other:
		case !c.then:
			c.Pending++
		case o.Version.Compare(at) > 0:
			c.Pending++
			c.ahead[key] = d
		default:
			c.Differences = append(c.Differences, d)
		}
	}
	slices.SortFunc(c.Differences, byKey)
	return c.Result, nil
}

func (c *comparison) see(key string, o Object) {
	c.Objects++
	held, found := c.held[key]
	delete(c.held, key)
	d := Difference{Key: key, Kind: Missing, Live: &o}
	if found {
		d.Kind, d.Held = Stale, &held
	}
	if held.apart {
		c.Differences = append(c.Differences, Difference{key, Apart, &o, &held})
	}
	switch {
	case found && held.equal(&o):
	case o.Version.Compare(c.ResourceVersion) > 0:
		c.Pending++
	case held.Version.Compare(c.ResourceVersion) > 0:
		c.Pending++
		c.ahead[key] = d
	case found && held.identical(&o):
		d.Kind = Changed
		c.Differences = append(c.Differences, d)
	default:
		c.Differences = append(c.Differences, d)
	}
}
