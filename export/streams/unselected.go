package streams

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/commit"
	"kubecdc/internal/dependency"
	"kubecdc/internal/fault"
	"kubecdc/source/discovery"
)

// Unselected streams are in the checkpoint and not in the selection. One reason is that their resource was removed, while no
// session was running or during one that was killed. The stream then ends as if the removal had been observed. The other reason
// is that the settings do not select them any more. Then one record says that the stream has ended, and its position and objects
// are retained. As long as it is unknown which reason applies, nothing is done.

func (st *Streams) endIfKnown(ctx context.Context, selection discovery.Selection, p change.Position) error {
	s := change.ParseStream(p.Stream)
	fate, err := discovery.FateDeselected, error(nil)
	if p.Ended == "" || selection.MayHave(s.Resource) { // otherwise the log already has the stream's end
		fate, err = selection.Fate(ctx, s)
	}
	switch {
	case fate == discovery.FateUnsure && ctx.Err() != nil:
		return nil
	case fate == discovery.FateUnsure:
		st.setRemovalUnknown(p.Stream, err)
		return nil
	case fate == discovery.FateRemoved:
		return st.endRemoved(ctx, s)
	case p.Ended == "":
		err = st.endDeselected(ctx, p)
	}
	if err == nil {
		st.setRemovalUnknown(p.Stream, nil)
		delete(st.all, p.Stream)
	}
	return err
}

func (st *Streams) endDeselected(ctx context.Context, p change.Position) error {
	cause := "no longer selected: " + st.slot.Config.Selectors()
	st.slot.Logger.Warn("a stream has ended; the checkpoint keeps its position and objects until it is selected again, "+
		"or until \"exporter forget\"", "stream", p.Stream, "reason", cause)
	p.Ended = change.EndedDeselected
	if p.Time.IsZero() {
		p.Time = time.Now()
	}
	c := change.StreamEndControl(p, cause)
	return st.queue.Send(ctx, change.Item{Stream: p.Stream, Position: &p, Control: &c})
}

// endRemoved runs a stream whose resource was removed: it emits the deletion of each object in the inventory, and ends.
func (st *Streams) endRemoved(ctx context.Context, s *change.Stream) error {
	r, err := st.resourceAsStored(ctx, s)
	if err == nil {
		st.start(ctx, s.As(r), false)
		st.setRemovalUnknown(s.ID(), nil)
	}
	return err
}

// resourceAsStored completes a stream's resource from one of its stored objects: a stream id has neither version nor kind.
func (st *Streams) resourceAsStored(ctx context.Context, s *change.Stream) (change.Resource, error) {
	r, first, stop := s.Resource, "", errors.New("stop after the first object")
	err := st.memory.Objects(ctx, s.ID(), func(key, _ string, _ change.ResourceVersion) error {
		first = key
		return stop
	})
	if err != nil && !errors.Is(err, stop) {
		return r, err
	}
	namespace, _ := change.SplitKey(first)
	r.Namespaced = namespace != ""
	var object struct{ APIVersion, Kind string }
	err = st.memory.Bodies(ctx, s.ID(), []string{first}, func(_ string, body []byte) error {
		_ = json.Unmarshal(body, &object) // remains empty if the object has no body
		return nil
	})
	if err != nil {
		return r, err
	}
	if group, version, ok := strings.Cut(object.APIVersion, "/"); ok && group == r.Group {
		r.Version, r.Kind = version, object.Kind
	} else if !ok && r.Group == "" {
		r.Version, r.Kind = object.APIVersion, object.Kind
	}
	return r, nil
}

// forgetBySignal does what export.Forget does, in the session that owns the slot.
func (st *Streams) forgetBySignal(ctx context.Context, g checkpoint.Signal) (begun bool, err error) {
	if st.newest == nil {
		return false, nil
	}
	if st.reading(g.Stream) == nil {
		err = st.memory.Forget(ctx, st.epoch, g.Stream)
	} else {
		err = &checkpoint.NotEndedError{Stream: g.Stream}
	}
	switch {
	case fault.Is[commit.HeldBackError](err):
		return false, nil
	case fault.Is[*checkpoint.NotEndedError](err):
		return true, st.newJob(g).end(ctx, change.SignalFailed, checkpoint.SignalAnswer{Reason: err.Error()})
	case err != nil:
		return false, dependency.Tag(dependency.Checkpoint, err)
	}
	delete(st.all, g.Stream)
	return true, st.newJob(g).end(ctx, change.SignalCompleted, checkpoint.SignalAnswer{Reason: "forgotten"})
}

// setRemovalUnknown reports why it is unknown whether a stream's resource was removed, or nil when it is known.
func (st *Streams) setRemovalUnknown(id change.StreamID, err error) {
	if st.slot.Parts.State.RemovalUnknown(st.slot.Number, id, err) && err != nil {
		st.slot.Logger.Warn("can't tell whether a stream's resource was removed", "stream", id, "reason", err)
	}
}
