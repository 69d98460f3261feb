package reflector

import (
	"context"
	"errors"
	"time"

	"kubecdc/change"
	"kubecdc/source/apiclient"
	"kubecdc/source/known"
)

// outputError tells an error of the log apart from one of the API server: the stream ends on it.
type outputError struct{ err error }

func (e *outputError) Error() string { return e.err.Error() }
func (e *outputError) Unwrap() error { return e.err }

// progress says how far an item moves the stream.
type progress struct {
	position change.ResourceVersion // up to which everything was emitted; the log goes on from here. Empty: it stays
	cursor   change.ResourceVersion // from which the watch goes on. Empty: it stays
}

// stays is the progress of an item that moves nothing.
var stays = progress{}

// to is the progress of an item that completes a version.
func to(version change.ResourceVersion) progress { return progress{position: version, cursor: version} }

// emit hands an item on and then moves the stream.
func (s *Reflector) emit(ctx context.Context, item Item, p progress) error {
	item.Stream = s.ID()
	if item.Change != nil {
		item.Time = item.Change.Time
	} else {
		item.Time = time.Now()
	}
	item.Version = p.position
	if err := s.out.Send(ctx, item); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return &outputError{err}
	}
	if p.cursor != "" {
		s.cursor = p.cursor
		if s.held.Compare(p.cursor) <= 0 {
			s.held = ""
		}
	}
	if p.position != "" {
		s.position = p.position
	}
	return nil
}

// change overwrites s.current with a change of the object. It is valid until the next call.
func (s *Reflector) change(op change.Op, o *apiclient.Object) *change.Change {
	s.current = change.Change{Stream: s.stream, Op: op, Namespace: o.Namespace, Name: o.Name, UID: o.UID,
		ResourceVersion: o.Version, Time: time.Now()}
	s.current.SetKey(o.Key())
	if op != change.Delete {
		s.current.After = o.Raw
	}
	return &s.current
}

// send emits a change and records it among the known objects.
func (s *Reflector) send(ctx context.Context, c *change.Change, p progress) error {
	if err := s.emit(ctx, Item{Change: c}, p); err != nil {
		return err
	}
	if c.Op == change.Delete {
		s.known.Remove(c.Key())
	} else {
		s.known.Put(c.Key(), c.UID, c.ResourceVersion)
	}
	return nil
}

// sendObject emits what an event of a live object means: the object was created or updated. If the log still has another
// object under the key, that one's deletion comes first.
func (s *watching) sendObject(ctx context.Context, o *apiclient.Object, d known.Difference, p progress) error {
	op := change.Update
	if d == known.Absent {
		op = change.Create
	} else if d == known.Successor {
		op = change.Create
		if err := s.sendDelete(ctx, o.Key(), s.catchUp.gapID()); err != nil {
			return err
		}
	}
	return s.send(ctx, s.change(op, o), p)
}

// sendDelete emits the deletion of a known object. The deletion's revision is not known, so the record carries the last known
// one of the object. gap names the gap in which it was found missing; empty: none.
func (s *Reflector) sendDelete(ctx context.Context, key, gap string) error {
	old, ok := s.known.Get(key)
	if !ok {
		return nil
	}
	namespace, name := change.SplitKey(key)
	c := s.change(change.Delete, &apiclient.Object{Namespace: namespace, Name: name, UID: old.UID, Version: old.Recorded()})
	c.Inferred, c.Gap = true, gap
	return s.send(ctx, c, stays)
}

// sendMalformed emits an event that can't be read, as it came. If objects are redacted it only says that there was one, since
// what can't be read can't be redacted.
func (s *Reflector) sendMalformed(ctx context.Context, raw []byte, reason error) error {
	bytes := append([]byte(nil), raw...)
	if r := s.options.Redactor; r != nil {
		bytes, reason = []byte(r.Describe(raw)), errWithheld
	}
	s.log.Error("an event can't be read; it goes to the dead letter", "error", reason, "bytes", len(raw))
	return s.emit(ctx, Item{Raw: &change.Malformed{Stream: s.ID(), Bytes: bytes, Reason: reason.Error()}}, stays)
}

var errWithheld = errors.New("it can't be read, and is withheld since objects of this stream are redacted")

// sendControl emits a control record that moves nothing.
func (s *Reflector) sendControl(ctx context.Context, c change.Control) error {
	c.Stream = s.ID()
	return s.emit(ctx, Item{Control: &c}, stays)
}
