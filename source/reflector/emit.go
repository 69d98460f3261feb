package reflector

import (
	"context"
	"errors"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/source/apiclient"
	"kubecdc/source/known"
)

// outputError tells an error of the log apart from one of the API server: the stream ends on it.
type outputError struct{ err error }

func (e *outputError) Error() string { return e.err.Error() }
func (e *outputError) Unwrap() error { return e.err }

// emit hands an item on and then moves the position.
func (s *Reflector) emit(ctx context.Context, item Item) error {
	item.Stream = s.ID()
	if item.Change != nil {
		item.Time = item.Change.Time
	} else {
		item.Time = time.Now()
	}
	version := item.Version
	if s.listing != nil {
		item.Version = "" // the list is not complete: the log must not go on from here
	}
	if err := s.out.Send(ctx, item); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return &outputError{err}
	}
	s.moved(version)
	return nil
}

func (s *Reflector) moved(version string) {
	if version == "" {
		return
	}
	s.cursor = version
	if change.CompareVersions(s.held, version) <= 0 {
		s.held = ""
	}
	if s.listing == nil {
		s.position = version
	}
}

// change makes a change of an object, in the place of the one before, which was sent.
func (s *Reflector) change(op change.Op, o *apiclient.Object) *change.Change {
	s.current = change.Change{Stream: s.stream, Op: op, Namespace: o.Namespace, Name: o.Name, UID: o.UID,
		ResourceVersion: o.Version, Time: time.Now()}
	s.current.SetKey(o.Key())
	if op != change.Delete {
		s.current.After = o.Raw
	}
	return &s.current
}

// send hands a change on, and notes it in the index. position is empty while a list is running.
func (s *Reflector) send(ctx context.Context, c *change.Change, position string) error {
	if err := s.emit(ctx, Item{Change: c, Version: position}); err != nil {
		return err
	}
	if c.Op == change.Delete {
		s.known.Remove(c.Key())
	} else {
		s.known.Put(c.Key(), c.UID, c.ResourceVersion)
	}
	return nil
}

// sendObject sends what a live object means: created, updated, or another object under a name that the log still
// shows as taken (then the old one's end comes first).
func (s *Reflector) sendObject(ctx context.Context, o *apiclient.Object, d known.Difference, position string) error {
	op := change.Update
	if d == known.Absent {
		op = change.Create
	} else if d == known.Successor {
		op = change.Create
		if err := s.sendDelete(ctx, o.Key(), true); err != nil {
			return err
		}
	}
	return s.send(ctx, s.change(op, o), position)
}

// sendDelete sends the end of an object that the index knows. Its revision is not known, so the record carries the
// last one that is.
func (s *Reflector) sendDelete(ctx context.Context, key string, inferred bool) error {
	old, ok := s.known.Get(key)
	if !ok {
		return nil
	}
	namespace, name := change.SplitKey(key)
	c := s.change(change.Delete, &apiclient.Object{Namespace: namespace, Name: name, UID: old.UID, Version: strings.TrimPrefix(old.Version, known.LostMark)})
	c.Inferred = inferred
	if s.gap != nil {
		c.Gap = s.gap.ID
	}
	return s.send(ctx, c, "")
}

// sendMalformed hands on an event that can't be read, as it came. Where objects are redacted it only says that there was
// one: what can't be read can't be redacted.
func (s *Reflector) sendMalformed(ctx context.Context, raw []byte, reason error) error {
	bytes := append([]byte(nil), raw...)
	if r := s.options.Redactor; r != nil {
		bytes, reason = []byte(r.Describe(raw)), errWithheld
	}
	s.log.Error("an event can't be read; it goes to the dead letter", "error", reason, "bytes", len(raw))
	return s.emit(ctx, Item{Raw: &change.Malformed{Stream: s.ID(), Bytes: bytes, Reason: reason.Error()}})
}

var errWithheld = errors.New("it can't be read, and is withheld since objects of this stream are redacted")

// sendControl hands on a control record, and a position with it.
func (s *Reflector) sendControl(ctx context.Context, c change.Control, position string) error {
	c.Stream = s.ID()
	return s.emit(ctx, Item{Control: &c, Version: position})
}
