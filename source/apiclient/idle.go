package apiclient

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrIdle reports a half-open connection: no byte came for the idle timeout, and the connection did not end.
var ErrIdle = errors.New("the connection is half open: no byte came, and it did not end")

// idleBody ends a read of a body when no byte comes for the idle timeout. The timer runs only while the reader waits for the
// server, not while the reader is busy.
type idleBody struct {
	body   io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	idle   time.Duration

	contact *contact
}

func (b *idleBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.idle)
	n, err := b.body.Read(p)
	b.timer.Stop()
	if n > 0 {
		b.contact.record()
	}
	if err != nil && errors.Is(context.Cause(b.ctx), ErrIdle) {
		err = ErrIdle
	}
	return n, err
}

func (b *idleBody) Close() error {
	b.cancel(nil)
	return b.body.Close()
}
