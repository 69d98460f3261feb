// Package verify compares what a log, a table or a checkpoint has of each object with the API server. It changes nothing, and
// knows neither Kafka nor SQL.
//
// A copy and the API server are compared at one resourceVersion: the position P of the log when the comparison began. The API
// server is read at P, and what the log got later is left out. So an exporter may run meanwhile. Bodies are compared by hashes of
// their content.
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

	sum         uint64 // hash of its content; 0: not known
	isScattered bool   // alive on several partitions
	isOthers    bool   // its last record is another stream's
}

// equal reports whether both are the same version of the same object, with the same content if both contents are known.
func (o *Object) equal(other *Object) bool {
	return o.identical(other) && (o.sum == 0 || other.sum == 0 || o.sum == other.sum)
}

func (o *Object) identical(other *Object) bool {
	return o == other || o != nil && other != nil && o.UID == other.UID && o.Version == other.Version
}

// Hash makes the hashes of one run comparable.
type Hash struct {
	seed  maphash.Seed
	rules Rules // the present ones, or nil if nothing is redacted
}

// NewHash returns a Hash with a new seed.
func NewHash() *Hash { return &Hash{seed: maphash.MakeSeed()} }

// allowed returns what the present rules leave of a body in the log, which earlier rules may have let through. It returns nil if
// the body can't be compared.
func (h *Hash) allowed(r *change.Resource, key string, body []byte) []byte {
	if h == nil || h.rules == nil || body == nil || change.IsStub(body) {
		return body
	}
	left, err := h.rules.Redactor(*r).Again(key, body)
	if err != nil {
		return nil
	}
	return left
}

// Object returns the version of an object that a body is. Contents are not compared if h is nil, if the body has another API
// version, or if it is a stub.
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
	Missing   Kind = "missing" // the copy lacks it
	Stale     Kind = "stale"   // the copy has another version of it, or another object with its key
	Extra     Kind = "extra"   // only the copy has it
	Changed   Kind = "changed" // the copy has this version with other content
	Scattered Kind = "apart"   // the topic has its key on several partitions, so the order of its records is unknown
)

// Difference is an object that differs.
type Difference struct {
	Key  string  `json:"key"`
	Kind Kind    `json:"kind"`
	Live *Object `json:"live,omitempty"` // in the API server
	Held *Object `json:"held,omitempty"` // in the copy
}

// same reports whether two comparisons found the same difference. An object that is created or deleted between them leads to
// different ones.
func (d *Difference) same(other *Difference) bool {
	return d.Kind == other.Kind && d.Live.identical(other.Live) && d.Held.identical(other.Held)
}

// Result is the result of comparing one copy of a stream.
type Result struct {
	Stream          change.StreamID        `json:"stream"`
	In              string                 `json:"in"` // the copy: topic, table, changes or inventory
	ResourceVersion change.ResourceVersion `json:"resourceVersion,omitempty"`
	Confirmed       time.Time              `json:"confirmed,omitzero"` // when the copy was last known to be complete
	Objects         int                    `json:"objects"`            // in the API server
	Pending         int                    `json:"pending,omitempty"`  // changed after ResourceVersion, so not compared
	// older in the copy because of updates that the settings ignore
	Ignored     int          `json:"ignored,omitempty"`
	Differences []Difference `json:"differences"`
	Problem     string       `json:"problem,omitempty"` // why nothing was compared

	ahead map[string]Difference // differences that are newer than ResourceVersion
}

func (r *Result) Count(kind Kind) (n int) {
	for _, d := range r.Differences {
		if d.Kind == kind {
			n++
		}
	}
	return n
}

// Position is the position up to which a copy is complete, and its place in the log.
type Position struct {
	change.Position
	After sinks.Point // the point after its batch
}

// Copy is something that should have the objects of the API server.
type Copy struct {
	Name string
	// Position returns a position that was read at since or later. It returns false if none is known.
	Position func(ctx context.Context, stream change.StreamID, since time.Time) (p Position, ok bool, err error)
	// Objects visits the objects of the copy at a position. A copy without history visits its present objects, which may be
	// newer.
	Objects func(ctx context.Context, s *change.Stream, p *Position, visit func(key string, o Object)) error
}

// Live visits the objects that the API server had at a resourceVersion. An empty version means now.
type Live func(ctx context.Context, s *change.Stream, version change.ResourceVersion, visit func(key string, o Object)) error

// Stream compares a copy of a stream with the API server. A copy without history may be ahead of its position. So if there are
// differences, a second comparison follows at a newer position. Only differences in both comparisons are reported. An object that
// is newer than the second position, and was there in the first comparison, has a version that the API server never had.
func Stream(ctx context.Context, live Live, copied Copy, s *change.Stream) (*Result, error) {
	first, err := compareAgain(ctx, live, copied, s, time.Now().Add(-positionsFresh))
	if err != nil || len(first.Differences)+len(first.ahead) == 0 {
		return first, err
	}
	again, err := compareAgain(ctx, live, copied, s, time.Now())
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

// listTries is how often a list is tried at most, if it expires between two pages.
const listTries = 3

func compareAgain(ctx context.Context, live Live, copied Copy, s *change.Stream, since time.Time) (r *Result, err error) {
	for range listTries {
		if r, err = compareOnce(ctx, live, copied, s, since); !errors.Is(err, discovery.ErrCompacted) {
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
	held   map[string]Object
	isPast bool // the API server could be read at the position
}

func compareOnce(ctx context.Context, live Live, copied Copy, s *change.Stream, since time.Time) (*Result, error) {
	c := &comparison{Result: &Result{Stream: s.ID(), In: copied.Name, Differences: []Difference{},
		ahead: map[string]Difference{}},
		held: map[string]Object{}, isPast: true}
	position, ok, err := copied.Position(ctx, s.ID(), since)
	if err != nil {
		return c.Result, err
	}
	if !ok {
		c.Problem = "no position of the stream is known: its first snapshot has not ended"
		return c.Result, nil
	}
	version := position.ResourceVersion
	c.ResourceVersion, c.Confirmed = version, position.Time
	if err := copied.Objects(ctx, s, &position, func(key string, o Object) { c.held[key] = o }); err != nil {
		return c.Result, fmt.Errorf("read what the %s has of %s: %w", copied.Name, s.ID(), err)
	}
	err = live(ctx, s, version, c.see)
	if errors.Is(err, discovery.ErrCompacted) && c.Objects == 0 {
		c.isPast = false
		err = live(ctx, s, "", c.see)
	}
	if err != nil {
		return c.Result, err
	}
	for key, o := range c.held {
		switch d := (Difference{Key: key, Kind: Extra, Held: &o}); {
		case o.isOthers:
		case !c.isPast:
			c.Pending++
		case o.Version.Compare(version) > 0:
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
	if held.isScattered {
		c.Differences = append(c.Differences, Difference{key, Scattered, &o, &held})
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
