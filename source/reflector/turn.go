package reflector

import (
	"context"
	"time"

	"kubecdc/internal/wait"
)

// take waits until it may use the stream's data, which ends with release.
func (r *Reflector) take(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Reflector) release() { <-r.turn }

// turnPause is the time between two checks whether the stream is in the state that a caller waits for.
const turnPause = 200 * time.Millisecond

// borrow calls do while the watch of the stream waits. Before the stream runs it has none.
func (r *Reflector) borrow(ctx context.Context, do func() error) error {
	return r.borrowOnce(ctx, r.watches, do)
}

// borrowAtPosition calls do while the watch of the stream waits and the known objects are the objects of the stream's position.
func (r *Reflector) borrowAtPosition(ctx context.Context, do func() error) error {
	return r.borrowOnce(ctx, r.settled, do)
}

func (r *Reflector) borrowOnce(ctx context.Context, ready func() bool, do func() error) error {
	for {
		if err := r.take(ctx); err != nil {
			return err
		}
		if ready() {
			defer r.release()
			return do()
		}
		r.release()
		if err := wait.For(ctx, turnPause); err != nil {
			return err
		}
	}
}

func (r *Reflector) watches() bool {
	_, watches := r.state.(*watching)
	return watches
}

// settled reports whether the known objects are the objects of the stream's position.
func (r *Reflector) settled() bool {
	w, watches := r.state.(*watching)
	return watches && w.catchUp == nil && r.heldBack == ""
}
