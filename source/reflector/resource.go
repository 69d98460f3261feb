package reflector

import (
	"context"
	"errors"
	"time"

	"kubecdc/change"
)

// This file handles a resource that the API server serves under another version, or does not serve any more.

var (
	errResourceChanged = errors.New("the API server serves the resource under another version, or does not serve it")
	errRestored        = errors.New("another stream has found that etcd was restored from a backup")
)

// SetResource sets the resource as discovery has it now: under another version, or nil if the API server does not serve it
// any more.
func (r *Reflector) SetResource(resource *change.Resource) {
	r.mu.Lock()
	same := r.want == resource || r.want != nil && resource != nil && *r.want == *resource
	r.want = resource
	r.mu.Unlock()
	if !same {
		r.interruptStep(errResourceChanged)
	}
}

func (r *Reflector) interruptible(parent context.Context) (ctx context.Context, cancel context.CancelCauseFunc) {
	ctx, cancel = context.WithCancelCause(parent)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.interrupt = cancel
	return ctx, cancel
}

// interruptStep ends the step that runs, or the pause after it.
func (r *Reflector) interruptStep(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.emitting:
		r.deferred = cause
	case r.interrupt != nil:
		r.interrupt(cause)
	}
}

// uninterrupted emits items that belong together: a record and the changes that it counts. The step is interrupted after them.
func (r *Reflector) uninterrupted(emit func() error) error {
	r.mu.Lock()
	r.emitting = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.emitting = false
		if r.deferred != nil {
			r.interrupt(r.deferred)
			r.deferred = nil
		}
	}()
	return emit()
}

// wanted returns what SetResource has set.
func (r *Reflector) wanted() *change.Resource {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.want
}

// applyResource applies what SetResource has set.
func (r *Reflector) applyResource(ctx context.Context) error {
	want := r.wanted()
	if r.state.name() == change.StateLoading {
		return nil
	}
	switch {
	case want == nil && r.state.name() != change.StateAbsent:
		return r.endRemoved(ctx)
	case want != nil && r.state.name() == change.StateAbsent:
		r.stream = r.stream.As(*want)
		r.state = r.enter(r.list(nil), "the resource is served again")
	case want != nil && r.stream.Resource != *want:
		r.log.Info("reading another version", "from", r.stream.Resource.APIVersion(), "to", want.APIVersion())
		r.stream = r.stream.As(*want)
	}
	return nil
}

// endRemoved ends the stream of a resource that was removed from the API: its objects were deleted with it. After a crash
// the next owner finds the remaining objects in the inventory, and deletes those.
func (r *Reflector) endRemoved(ctx context.Context) error {
	r.known.StartPass()
	for _, key := range r.known.Unseen() {
		if err := r.sendDelete(ctx, key, "", move{}); err != nil {
			return err
		}
	}
	const cause = "the resource was removed from the API"
	end := change.Position{Stream: r.ID(), Time: time.Now(), Ended: change.EndedRemoved}
	if err := r.sendEnd(ctx, change.StreamEndControl(end, cause), end); err != nil {
		return err
	}
	r.progress, r.refusal = progress{inferred: r.inferred}, nil
	r.state = r.enter(&absent{r}, cause)
	r.log.Info("the resource was removed from the API; its objects are recorded as deleted")
	return nil
}

// absent waits until the API server serves the resource again (applyResource).
type absent struct{ *Reflector }

func (a *absent) name() change.StreamState { return change.StateAbsent }

func (a *absent) step(ctx context.Context) (state, error) {
	<-ctx.Done()
	return a, nil
}

// sendEnd emits the control record of a stream's end, or of its return, with its position.
func (r *Reflector) sendEnd(ctx context.Context, c change.Control, position change.Position) error {
	return r.emit(ctx, change.Item{Control: &c, Position: &position}, move{})
}
