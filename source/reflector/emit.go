package reflector

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/source/apiclient"
	"kubecdc/source/known"
)

// outputError is an error of the output. It ends the stream, as no error of the API server does.
type outputError struct{ err error }

func (e *outputError) Error() string { return e.err.Error() }
func (e *outputError) Unwrap() error { return e.err }

// prompt is the longest time between an event and its reading that counts as no delay. Clocks may differ by a second, so a caller
// who asks for a time accepts that difference.
const prompt = time.Second

// emit sends an item to the output and then moves the stream.
func (r *Reflector) emit(ctx context.Context, item change.Item, m move) error {
	item.Stream = r.ID()
	if item.Change != nil {
		item.Time = item.Change.Time
	} else {
		item.Time = time.Now()
	}
	if item.Version = m.position; !r.since.IsZero() && item.Time.Sub(r.since) > prompt {
		item.Behind = r.since
	}
	if following := r.following; following > 0 && m.position != "" && m.position != change.UnknownVersion {
		item.Durable = func(ctx context.Context) error { return r.options.Restores.Followed(ctx, r.ID(), following) }
	}
	if err := r.out.Send(ctx, item); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return &outputError{err}
	}
	if r.apply(m, item.Change); item.Durable != nil {
		r.following = 0
	}
	return nil
}

// confirm takes a bookmark. A bookmark that does not move the position is emitted too, since it says that the stream is complete
// at a later time.
func (r *Reflector) confirm(ctx context.Context, m move) error {
	if m.cursor.Compare(r.cursor) < 0 {
		return nil
	}
	return r.emit(ctx, change.Item{}, m)
}

func (r *Reflector) advance(ctx context.Context, m move) error {
	if m.cursor.Compare(r.cursor) <= 0 {
		return nil
	}
	return r.emit(ctx, change.Item{}, m)
}

// newChange fills r.current and returns it. The result is valid until it is sent.
func (r *Reflector) newChange(op change.Op, o *apiclient.Object) *change.Change {
	r.current = change.Change{Stream: r.stream, Op: op, Namespace: o.Namespace, Name: o.Name, UID: o.UID,
		ResourceVersion: o.Version, Time: time.Now(), Slab: o.Slab}
	r.current.SetKey(o.Key())
	if op != change.Delete {
		if r.ownVersions {
			r.recent.add(&r.stream.Resource, o.Key(), o.Version, o.Raw)
		}
		r.current.After = o.Raw
	}
	return &r.current
}

// send emits r.current, which is c, and records it among the known objects. It clears r.current, so that a quiet stream does not
// hold the bytes of its last object.
func (r *Reflector) send(ctx context.Context, c *change.Change, m move) error {
	defer func() { r.current = change.Change{} }()
	if err := r.emit(ctx, change.Item{Change: c}, m); err != nil {
		return err
	}
	if c.Op == change.Delete {
		r.known.Remove(c.Key())
	} else {
		r.known.Put(c.Key(), c.UID, c.ResourceVersion)
	}
	if c.Op != change.Update {
		r.objects.Store(int64(r.known.Len()))
	}
	return nil
}

// sendDelete emits the deletion of a known object whose revision is not known, so the record has the object's last known version.
// gap names the gap in which the object was found missing, or is empty.
func (r *Reflector) sendDelete(ctx context.Context, key, gap string, m move) error {
	old, ok := r.known.Get(key)
	if !ok {
		return nil
	}
	namespace, name := change.SplitKey(key)
	c := r.newChange(change.Delete, &apiclient.Object{Namespace: namespace, Name: name, UID: old.UID, Version: old.Version})
	c.Inferred, c.Gap = true, gap
	return r.send(ctx, c, m)
}

type missed struct{ created, updated, deleted int }

func (m *missed) all() int { return m.created + m.updated + m.deleted }

// sendMissed emits how an object differs from the log: a creation, an update, or another object under a known key.
func (r *Reflector) sendMissed(ctx context.Context, o *apiclient.Object, d known.Difference, gap string, n *missed) error {
	if d.Replaces() {
		if err := r.sendDelete(ctx, o.Key(), gap, move{}); err != nil {
			return err
		}
		n.deleted++
	}
	op, count := change.Create, &n.created
	if d.Known() {
		op, count = change.Update, &n.updated
	}
	c := r.newChange(op, o)
	c.Inferred, c.Gap = true, gap
	if err := r.send(ctx, c, move{}); err != nil {
		return err
	}
	*count++
	return nil
}

// sendMalformed emits an event that can't be read, as it came. If objects are redacted only its size and hash are emitted,
// since what can't be read can't be redacted.
func (r *Reflector) sendMalformed(ctx context.Context, raw []byte, reason error) error {
	r.unread = true
	bytes := append([]byte(nil), raw...)
	if redactor := r.options.Redactor; redactor.Hides() {
		bytes = []byte(redactor.Describe(raw))
		if !fault.Is[*apiclient.TooLargeError](reason) {
			reason = errWithheld
		}
	}
	r.log.Error("an event can't be read; it goes to the dead letter", "error", reason, "bytes", len(raw))
	return r.emit(ctx, change.Item{Raw: &change.Malformed{Stream: r.ID(), Bytes: bytes, Reason: reason.Error()}}, move{})
}

// sendUnloggable emits a recovered state of an object whose name no record takes, or its deletion, as a watch would have
// delivered it.
func (r *Reflector) sendUnloggable(ctx context.Context, o *apiclient.Object, reason error) error {
	raw := o.Raw
	if raw == nil {
		identity := map[string]string{"namespace": o.Namespace, "name": o.Name, "uid": o.UID,
			"resourceVersion": string(o.Version)}
		// it has texts alone
		raw, _ = json.Marshal(map[string]any{"type": "DELETED", "object": map[string]any{"metadata": identity}})
	}
	return r.sendMalformed(ctx, raw, reason)
}

var errWithheld = errors.New("it can't be read, and is withheld since objects of this stream are redacted")

// sendControl emits a control record that moves nothing.
func (r *Reflector) sendControl(ctx context.Context, c change.Control) error {
	return r.emit(ctx, change.Item{Control: &c}, move{})
}
