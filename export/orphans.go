package export

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/export/dependency"
	"kubecdc/export/ownership"
	"kubecdc/source/discovery"
	"kubecdc/source/reflector"
)

// Orphans are streams that the checkpoint has and the selection does not: their resource was removed while no session ran, or in the
// middle of a session that was killed; or the settings do not select them any more. The first ends as if the removal had
// been seen, the second with a record that says so, once: its position and objects are kept. Where it can't be told which
// of the two it is, nothing is done until it can.

// settle looks at each orphan until it is known what became of it.
func (x *streams) settle(ctx context.Context, selection discovery.Selection, wanted map[change.StreamID]bool) error {
	if x.orphans == nil {
		if err := x.loadOrphans(ctx); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(x.orphans)) {
		if x.slot.refusals.of(change.ResourceOf(id)) != nil {
			continue // its end could not be told
		}
		if wanted[id] || x.running[id] != nil {
			delete(x.orphans, id) // apply has said what there is to say of it
			continue
		}
		if err := x.settleOne(ctx, selection, x.orphans[id]); err != nil {
			return err
		}
	}
	return nil
}

// loadOrphans reads this slot's streams. Those that are selected are taken out by settle.
func (x *streams) loadOrphans(ctx context.Context) error {
	all, err := x.reads.Streams(ctx)
	if err != nil {
		return err
	}
	x.orphans = map[change.StreamID]change.Position{}
	for _, p := range all {
		if ownership.SlotOf(p.Stream, x.slot.config.Slots) == x.slot.number {
			x.orphans[p.Stream] = p
		}
	}
	return nil
}

func (x *streams) settleOne(ctx context.Context, selection discovery.Selection, p change.Position) error {
	s := change.ParseStream(p.Stream)
	fate, err := discovery.FateDeselected, error(nil)
	if p.Ended == "" || selection.MayHave(s.Resource) { // else the log has its end already
		fate, err = selection.Fate(ctx, s.Resource)
	}
	switch {
	case fate == discovery.FateUnsure && ctx.Err() != nil:
		return nil
	case fate == discovery.FateUnsure:
		x.doubt(p.Stream, err)
		return nil
	case fate == discovery.FateRemoved:
		err = x.endRemoved(ctx, s)
	case p.Ended == "":
		err = x.endDeselected(ctx, p)
	}
	if err == nil {
		delete(x.orphans, p.Stream)
		x.doubt(p.Stream, nil)
	}
	return err
}

// endDeselected ends a stream that is not selected any more.
func (x *streams) endDeselected(ctx context.Context, p change.Position) error {
	cause := "no longer selected: " + x.slot.config.selects()
	x.slot.log.Warn("a stream has ended; what the checkpoint has of it is kept until it is selected again, or forgotten (exporter forget)",
		"stream", p.Stream, "reason", cause)
	p.Ended = change.EndedDeselected
	if p.Time.IsZero() {
		p.Time = time.Now()
	}
	return x.queue.Send(ctx, reflector.Item{Stream: p.Stream, Position: &p,
		Control: &change.Control{Type: change.ControlStreamEnd, Stream: p.Stream, ResourceVersion: p.ResourceVersion, Cause: cause}})
}

// endRemoved runs a stream whose resource is not there: it sends the deletion of each object that the inventory has, and ends.
func (x *streams) endRemoved(ctx context.Context, s *change.Stream) error {
	r, err := x.asRead(ctx, s)
	if err != nil {
		return err
	}
	running := x.add(s.As(r))
	running.SetResource(nil)
	x.work(ctx, running)
	return nil
}

// asRead is the resource as it was read: a stream's id tells neither version nor kind, but the objects do.
func (x *streams) asRead(ctx context.Context, s *change.Stream) (change.Resource, error) {
	r, first, enough := s.Resource, "", errors.New("one is enough")
	err := x.reads.Objects(ctx, s.ID(), func(key, _ string, _ change.ResourceVersion) error {
		first = key
		return enough
	})
	if err != nil && !errors.Is(err, enough) {
		return r, dependency.Tag(dependency.Checkpoint, err)
	}
	r.Namespaced = strings.Contains(first, "/")
	bodies, err := x.reads.Bodies(ctx, s.ID(), []string{first})
	if err != nil {
		return r, dependency.Tag(dependency.Checkpoint, err)
	}
	var object struct{ APIVersion, Kind string }
	if body := bodies[first]; body == nil || json.Unmarshal(body, &object) != nil {
		return r, nil
	}
	if group, version, ok := strings.Cut(object.APIVersion, "/"); ok && group == r.Group {
		r.Version, r.Kind = version, object.Kind
	} else if !ok && r.Group == "" {
		r.Version, r.Kind = object.APIVersion, object.Kind
	}
	return r, nil
}

// doubt says, once, what is not known of a stream; nil when it is.
func (x *streams) doubt(id change.StreamID, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if x.doubts[id] == text {
		return
	}
	x.doubts[id] = text
	x.slot.parts.Observer.StreamDoubt(id, err)
	if err != nil {
		x.slot.log.Warn("not known whether a stream has ended", "stream", id, "reason", err)
	}
}

// selects says in the words of the settings what is selected.
func (c *Config) selects() string {
	var patterns []string
	for _, p := range c.Resources {
		patterns = append(patterns, p.String())
	}
	text := "KUBECDC_RESOURCES is " + strings.Join(patterns, ",")
	for _, s := range []struct{ name, value string }{{"KUBECDC_NAMESPACES", strings.Join(c.Namespaces, ",")},
		{"KUBECDC_LABEL_SELECTOR", c.LabelSelector}, {"KUBECDC_FIELD_SELECTOR", c.FieldSelector}} {
		if s.value != "" {
			text += ", " + s.name + " is " + s.value
		}
	}
	return text
}
