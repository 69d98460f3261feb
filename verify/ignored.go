package verify

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/sinks"
	"kubecdc/source/discovery"
)

// Ignored is what the settings leave out of a resource's log. An object in the log may be older than the API server's for this
// reason.
type Ignored struct {
	Updates  bool                                // all updates
	Relevant func(object []byte) ([]byte, error) // returns the part that is not ignored; nil: ignore nothing
}

// Bodies visits the objects that the API server had at a resourceVersion, in the form in which they are exported. An empty
// version means now.
type Bodies func(ctx context.Context, version change.ResourceVersion,
	visit func(key string, version change.ResourceVersion, body []byte)) error

// RemoveFrom removes the differences from a result that only ignored updates made, and counts them.
func (f *Ignored) RemoveFrom(ctx context.Context, r *Result, s *change.Stream, log sinks.Reader, live Bodies) (err error) {
	older := map[string]Difference{}
	for _, d := range r.Differences {
		if d.Kind == Stale && d.Held.UID == d.Live.UID && d.Held.Version.Compare(d.Live.Version) < 0 {
			older[d.Key] = d
		}
	}
	switch {
	case len(older) == 0 || !f.Updates && f.Relevant == nil:
		return nil
	case !f.Updates:
		if err = f.keepEqual(ctx, older, s, r.ResourceVersion, log, live); err != nil {
			return fmt.Errorf("compare what is not ignored of %s: %w", s.ID(), err)
		}
	}
	r.Ignored = len(older)
	r.Differences = slices.DeleteFunc(r.Differences, func(d Difference) bool {
		_, ignored := older[d.Key]
		return ignored
	})
	return nil
}

// keepEqual removes from older each object whose relevant part in the log differs from the API server's.
func (f *Ignored) keepEqual(ctx context.Context, older map[string]Difference, s *change.Stream, version change.ResourceVersion,
	log sinks.Reader, live Bodies) error {
	logged, seed := map[string]uint64{}, maphash.MakeSeed()
	q := sinks.Query{Resources: []string{s.Resource.ID()}, Wanted: func(l *sinks.Logged) bool {
		_, asked := older[l.Change.Key()]
		return asked && l.ResourceVersion.Compare(version) <= 0
	}}
	err := log.Changes(ctx, q, func(l *sinks.Logged) error {
		key := l.Change.Key()
		delete(logged, key)
		held := older[key].Held
		if l.UID != held.UID || l.Op == change.Delete || l.ResourceVersion.Compare(held.Version) > 0 {
			return nil
		}
		if counts, err := f.Relevant(l.After); err == nil {
			logged[key] = rawjson.Sum(seed, counts)
		}
		return nil
	})
	if err != nil {
		return err
	}
	equal := map[string]bool{}
	visit := func(key string, version change.ResourceVersion, body []byte) {
		d, asked := older[key]
		hash, known := logged[key]
		if asked && known && version == d.Live.Version {
			counts, err := f.Relevant(body)
			equal[key] = err == nil && rawjson.Sum(seed, counts) == hash
		}
	}
	if err = live(ctx, version, visit); errors.Is(err, discovery.ErrCompacted) {
		err = live(ctx, "", visit)
	}
	for key := range older {
		if !equal[key] {
			delete(older, key)
		}
	}
	return err
}
