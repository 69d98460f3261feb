// Package query answers questions about the past from the log alone: a state at a moment, an object's history, and a tail.
//
// Each answer says from where to where it is complete, and what it lacks. That may be pruned or compacted changes, gaps that were
// not recovered, or the time before the first list. The control records show this (timeline). The package reads through
// sinks.Reader. It knows no sink, no checkpoint and no API server.
package query

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/klauspost/compress/s2"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/query/timeline"
	"kubecdc/query/who"
	"kubecdc/sinks"
)

// Question asks for the state of resources, or of a part of them.
type Question struct {
	sinks.Objects
	Progress func(read, total int64)
}

// State is the state of resources at a moment.
type State struct {
	Moment   timeline.Target
	Coverage []timeline.Coverage
	Missing  []string // what the answer may lack; empty: it is complete
	objects  map[string]*object
	labelled *sinks.Labelled // which objects the question selects
}

// Object is one object of a state.
type Object struct {
	Resource        string
	Namespace, Name string
	UID             string
	ResourceVersion change.ResourceVersion
	Logged          time.Time // when its record was logged
	Body            []byte    // the API server's own bytes
}

// ReadStates reads the records of the resources once, and returns their state at each moment. If an object's last record by a
// moment is pruned, its state is the before-image of the next record.
func ReadStates(ctx context.Context, r sinks.Reader, q Question, moments ...timeline.Target) ([]*State, error) {
	return ReadStatesBy(ctx, r, timeline.ReadsAll(r), q, moments...)
}

// ReadStatesBy is ReadStates with a source.
func ReadStatesBy(ctx context.Context, r sinks.Reader, all timeline.Source, q Question,
	moments ...timeline.Target) ([]*State, error) {
	var states []*State
	var readers []*stateReader
	labelled, err := q.Labelled()
	if err != nil {
		return nil, err
	}
	for _, moment := range moments {
		f, state, err := readCertain(ctx, r, all, q, moment)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", moment, err)
		}
		state.labelled = labelled
		states, readers = append(states, state), append(readers, f)
	}
	changes := q.Query()
	changes.Progress = q.Progress
	if err := fill(ctx, r, changes, readers...); err != nil {
		return nil, err
	}
	for i, f := range readers {
		f.addDoubts(states[i], q.Namespace)
	}
	return states, nil
}

// Objects visits the objects by resource, namespace and name. An object is valid until visit returns.
func (s *State) Objects(visit func(*Object) error) error {
	return Differences(&State{labelled: s.labelled}, s, func(_, o *Object) error { return visit(o) })
}

// has reports whether an object exists and the question selects it.
func (s *State) has(o *Object) bool { return o != nil && s.labelled.Has(o.Body) }

// Differences visits the objects that differ between two states, by resource, namespace and name. If the object exists in one
// state only, the other argument is nil. If the uids differ, it visits the old object, then the new one. Arguments are valid
// until visit returns.
func Differences(a, b *State, visit func(before, after *Object) error) error {
	keys := map[string]*object{}
	maps.Copy(keys, a.objects)
	maps.Copy(keys, b.objects)
	var buffers [2][]byte
	for key := range orderedKeys(keys) {
		before, after := a.objects[key].live(), b.objects[key].live()
		if before == nil && after == nil ||
			before != nil && after != nil && before.version == after.version && before.uid == after.uid && before.sameAs(after) {
			continue
		}
		x, err := before.unpack(&buffers[0])
		if err != nil {
			return err
		}
		y, err := after.unpack(&buffers[1])
		if err != nil {
			return err
		}
		if !a.has(x) && !b.has(y) {
			continue
		}
		if x != nil && y != nil && x.UID != y.UID {
			if err := visit(x, nil); err != nil {
				return err
			}
			x = nil
		}
		if err := visit(x, y); err != nil {
			return err
		}
	}
	return nil
}

// UsersBetween returns the users whose requests are known to have made a version of an object after one state, up to another. If
// before is nil, it begins at the creation. If after is nil, it ends with the object.
func UsersBetween(q *who.Requests, before, after *Object) []string {
	var from, to change.ResourceVersion
	o := after
	if before != nil {
		o, from = before, before.ResourceVersion
	}
	if after != nil {
		to = after.ResourceVersion
	}
	uid, _ := rawjson.Text(rawjson.Member(rawjson.Member(o.Body, "metadata"), "uid"))
	return q.UsersBetween(o.Resource, o.Namespace, o.Name, uid, from, to)
}

// orderedKeys returns the keys by resource, namespace and name.
func orderedKeys(objects map[string]*object) iter.Seq[string] {
	return slices.Values(slices.SortedFunc(maps.Keys(objects),
		func(a, b string) int { return compareObjects(objects[a], objects[b]) }))
}

// live returns the object if it existed, else nil.
func (o *object) live() *object {
	if o == nil || o.body == nil {
		return nil
	}
	return o
}

// sameAs reports whether two states of one version are the same. After a restore of etcd they may not be.
func (o *object) sameAs(other *object) bool {
	return o.logged.Equal(other.logged) || bytes.Equal(o.body, other.body)
}

func (o *object) unpack(buffer *[]byte) (*Object, error) {
	if o == nil {
		return nil, nil
	}
	var err error
	if *buffer, err = s2.Decode((*buffer)[:cap(*buffer)], o.body); err != nil {
		return nil, fmt.Errorf("unpack %s: %w", o.name, err)
	}
	return &Object{o.resource, o.namespace, o.name, o.uid, o.version, o.logged, *buffer}, nil
}

func compareObjects(a, b *object) int {
	return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}
