// Package verify compares what a log, a table or a checkpoint has of each object with the API server, and a log with the proofs in
// it. It changes nothing, and knows neither Kafka nor SQL.
//
// A copy and the API server are compared at one resourceVersion: the position P that the log had when the comparison began. The
// server is read as it was at P, and of the log what is newer is left out. So an exporter may run meanwhile.
package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kubecdc/change"
	"kubecdc/source/discovery"
)

// Object is one version of one object.
type Object struct {
	UID     string                 `json:"uid"`
	Version change.ResourceVersion `json:"resourceVersion"`
}

// Kind is how an object differs.
type Kind string

const (
	Missing Kind = "missing" // the API server has it, the copy does not
	Stale   Kind = "stale"   // the copy has another version of it, or another object under its key
	Extra   Kind = "extra"   // the copy has it, the API server does not
)

// Difference is an object that differs.
type Difference struct {
	Key  string  `json:"key"`
	Kind Kind    `json:"kind"`
	Live *Object `json:"live,omitempty"` // of the API server
	Held *Object `json:"held,omitempty"` // of the copy
}

// Result is what came of the comparison of one copy of a stream.
type Result struct {
	Stream          change.StreamID        `json:"stream"`
	In              string                 `json:"in"` // the copy: topic, table or inventory
	ResourceVersion change.ResourceVersion `json:"resourceVersion,omitempty"`
	Objects         int                    `json:"objects"`           // of the API server
	Pending         int                    `json:"pending,omitempty"` // changed after ResourceVersion: not judged
	Ignored         int                    `json:"ignored,omitempty"` // older in the copy, by updates that the settings leave out
	Differences     []Difference           `json:"differences"`
	Problem         string                 `json:"problem,omitempty"` // why nothing was compared
}

// Count returns how many objects differ in one way.
func (r *Result) Count(kind Kind) (n int) {
	for _, d := range r.Differences {
		if d.Kind == kind {
			n++
		}
	}
	return n
}

// Copy is something that should have the objects of the API server.
type Copy struct {
	Name string
	// Position is a resourceVersion up to which the copy is complete; ok is false if none is known.
	Position func(ctx context.Context, stream change.StreamID) (at change.ResourceVersion, ok bool, err error)
	// Objects visits the objects that the copy had at a resourceVersion, or has now: these may be newer.
	Objects func(ctx context.Context, s *change.Stream, at change.ResourceVersion, visit func(key string, o Object)) error
}

// Live visits the objects that the API server had at a resourceVersion; empty: now. It returns the resourceVersion.
type Live func(ctx context.Context, s *change.Stream, at change.ResourceVersion,
	visit func(key, uid string, version change.ResourceVersion)) (change.ResourceVersion, error)

// Stream compares a copy of a stream with the API server. A copy that only has its present state may run ahead of the API server's,
// so what differs is looked at a second time, at a later position, and only what differs twice is reported.
func Stream(ctx context.Context, live Live, copied Copy, s *change.Stream) (*Result, error) {
	first, err := whole(ctx, live, copied, s)
	if err != nil || len(first.Differences) == 0 {
		return first, err
	}
	again, err := whole(ctx, live, copied, s)
	if err != nil {
		return again, err
	}
	again.Differences = slices.DeleteFunc(again.Differences, func(d Difference) bool {
		_, before := slices.BinarySearchFunc(first.Differences, d, byKey)
		return !before
	})
	return again, nil
}

// listTries is how often a list begins again that expires between two pages.
const listTries = 3

func whole(ctx context.Context, live Live, copied Copy, s *change.Stream) (r *Result, err error) {
	for range listTries {
		if r, err = once(ctx, live, copied, s); !errors.Is(err, discovery.ErrCompacted) {
			break
		}
	}
	return r, err
}

func byKey(a, b Difference) int { return strings.Compare(a.Key, b.Key) }

// comparison is one comparison of a stream. Only the copy's objects are held in memory.
type comparison struct {
	*Result
	held map[string]Object
	then bool // the API server could be read as it was at the position
}

func once(ctx context.Context, live Live, copied Copy, s *change.Stream) (*Result, error) {
	c := &comparison{Result: &Result{Stream: s.ID(), In: copied.Name, Differences: []Difference{}}, held: map[string]Object{}, then: true}
	at, ok, err := copied.Position(ctx, s.ID())
	if err != nil {
		return c.Result, err
	}
	if !ok {
		c.Problem = "no position of the stream is known: its first snapshot has not ended"
		return c.Result, nil
	}
	c.ResourceVersion = at
	if err := copied.Objects(ctx, s, at, func(key string, o Object) { c.held[key] = o }); err != nil {
		return c.Result, fmt.Errorf("read what the %s has of %s: %w", copied.Name, s.ID(), err)
	}
	visit := func(key, uid string, version change.ResourceVersion) { c.see(key, Object{uid, version}) }
	_, err = live(ctx, s, at, visit)
	if errors.Is(err, discovery.ErrCompacted) && c.Objects == 0 {
		c.then = false
		_, err = live(ctx, s, "", visit)
	}
	if err != nil {
		return c.Result, err
	}
	for key, o := range c.held {
		if !c.then || o.Version.Compare(at) > 0 {
			c.Pending++
			continue
		}
		c.Differences = append(c.Differences, Difference{Key: key, Kind: Extra, Held: &o})
	}
	slices.SortFunc(c.Differences, byKey)
	return c.Result, nil
}

// see compares an object of the API server.
func (c *comparison) see(key string, o Object) {
	c.Objects++
	held, found := c.held[key]
	delete(c.held, key)
	d := Difference{Key: key, Kind: Missing, Live: &o}
	if found {
		d.Kind, d.Held = Stale, &held
	}
	switch {
	case held == o:
	case held.Version.Compare(c.ResourceVersion) > 0 || o.Version.Compare(c.ResourceVersion) > 0:
		c.Pending++
	default:
		c.Differences = append(c.Differences, d)
	}
}
